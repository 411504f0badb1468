"""Scenes of metrics: those of torchmetrics and of this package, in modules and in callbacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ranks
from exact_trainers import (
    Counted,
    Table,
    data,
    listening,
    loader,
    network,
    trainer,
)
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset
from torchmetrics import CatMetric, MaxMetric, MeanMetric, MetricCollection
from torchmetrics.classification import BinaryAUROC, BinaryF1Score, BinaryRecall, MulticlassPrecision
from torchmetrics.regression import CosineSimilarity, SpearmanCorrCoef
from torchmetrics.retrieval import RetrievalMAP
from torchmetrics.text import ROUGEScore
from torchmetrics.wrappers import ClasswiseWrapper, MultioutputWrapper

from lightning_evalkit import BinaryEvaluation
from lightning_evalkit.callbacks import Evaluate, LossReport, ThresholdTuning
from lightning_evalkit.callbacks.exact_distributed import ExactDistributedEvaluation
from lightning_evalkit.metrics import BinaryAUROC as OwnAUROC
from lightning_evalkit.metrics import BinaryStatScores as OwnStatScores
from lightning_evalkit.modules import BinaryClassifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def texts(batch: Any) -> tuple[list[str], list[str]]:
    return [f"a {y} cat sat" for y in batch[1]], [f"the {y} cat {number}" for y, number in zip(*batch[1:], strict=True)]


def scores(batch: Any) -> tuple[Tensor, Tensor]:
    return batch[0][:, 0].sigmoid(), batch[1]


def pairs(batch: Any) -> tuple[Tensor, Tensor]:
    return batch[0][:, :2].float(), batch[0][:, 1:].float()


METRICS: dict[str, tuple[Callable[[], Any], Callable[[Any], tuple[Any, ...]]]] = {
    "list": (BinaryAUROC, scores),
    "collection": (lambda: MetricCollection([BinaryAUROC(), BinaryF1Score(), BinaryRecall()]), scores),
    "single_list": (CosineSimilarity, pairs),
    "list_per_batch": (lambda: RetrievalMAP(empty_target_action="skip"), lambda batch: (*scores(batch), batch[2] // 3)),
    "list_per_row": (lambda: ROUGEScore(rouge_keys="rouge1"), texts),
    "list_of_numbers": (CatMetric, lambda batch: (batch[0].sum(), )),
    "inside": (lambda: MultioutputWrapper(SpearmanCorrCoef(), 2), pairs),
    "renamed": (lambda: ClasswiseWrapper(MulticlassPrecision(3, average=None)), lambda batch: (batch[0], batch[1])),
    "composed": (lambda: BinaryF1Score() + BinaryAUROC(), scores),
    "largest": (MaxMetric, lambda batch: (batch[0],)),
    "mean": (MeanMetric, lambda batch: (batch[0][:, 0],)),
    "weighed": (MeanMetric, lambda batch: (batch[0].mean(), len(batch[0]))),
    "on_step": (lambda: BinaryAUROC(dist_sync_on_step=True), scores),
    "own": (lambda: BinaryEvaluation("probabilities", zero_division=0.0, curves=True, resolution=64), scores),
    "own_list": (lambda: OwnAUROC(), scores),
    "own_rows": (lambda: OwnStatScores(multidim_average="samplewise"), lambda batch: (batch[0], (batch[0] > 1).long())),
    "own_on_step": (lambda: BinaryEvaluation("probabilities", zero_division=0.0, dist_sync_on_step=True), scores),
    "own_in_stock": (lambda: MetricCollection([OwnAUROC(), BinaryF1Score()]), scores),
}  # fmt: skip
UPDATED = ("composed", "inside")
"""Metrics whose forward does not give the value of a batch, or not of one row."""


class Measured(LightningModule):
    """Metrics of all kinds, updated or called."""

    def __init__(self, called: bool) -> None:
        super().__init__()
        self.called = called
        self.metrics = nn.ModuleDict({name: build() for name, (build, _) in METRICS.items()})

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        for name, metric in self.metrics.items():
            given = METRICS[name][1](batch)
            metric(*given) if self.called and name not in UPDATED else metric.update(*given)

    def on_validation_epoch_end(self) -> None:
        self.values = {name: plain(metric.compute()) for name, metric in self.metrics.items()}


def plain(computed: Any) -> Any:
    """Numbers, those of rows in order."""
    if isinstance(computed, dict):
        return {name: plain(value) for name, value in computed.items()}
    return sorted(computed.tolist()) if computed.ndim else computed.item()


def measured(rank: int, world: int) -> Any:
    found = {}
    for called in (False, True):
        for length, size in ((1, 1), (2 * world + 1, 1), (2 * world + 1, 2)):
            module = Measured(called)
            trainer(world).validate(module, loader(length, size), verbose=False)
            found[called, length, size] = module.values
    return found


class Holding(Callback):
    """Metrics of its own, where Lightning does not look for any."""

    def __init__(self) -> None:
        self.evaluations = {"val": BinaryEvaluation("probabilities", zero_division=0.0)}
        self.rows = [CatMetric()]

    def on_validation_batch_end(self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, *_: Any) -> None:
        self.evaluations["val"].update(*scores(batch))
        self.rows[0].update(batch[2])

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.found = {"counts": ranks.cells(self.evaluations["val"]), "rows": sorted(self.rows[0].compute().tolist())}
        pl_module.log("counted", float(sum(self.found["counts"])), sync_dist=True)


def held(rank: int, world: int) -> Any:
    """Callbacks before and after the one that makes them exact."""
    before, after = Holding(), Holding()
    running = trainer(world, before, ExactDistributedEvaluation(), after, exact=False)
    running.validate(Counted(), loader(2 * world + 1, 1), verbose=False)
    return [before.found, after.found, running.callback_metrics["counted"].item()]


class Pairs(Table):
    """Features and targets alone."""

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        x, y, _ = super().__getitem__(index)
        return x, y


def classified(rank: int, world: int) -> Any:
    """A module of this package, with two loaders that are not."""
    module = BinaryClassifier(network=network(), statistics=["accuracy"], worst=0.5)
    running, loaders = trainer(world), [DataLoader(Pairs(length), batch_size=1) for length in (1, 7)]
    with listening() as said:
        running.validate(module, loaders, verbose=False)
    values = {name: value.item() for name, value in running.callback_metrics.items()}
    return {
        "values": values,
        "counts": [ranks.cells(module.evaluation("val", place)) for place in (0, 1)],
        "said": said,
    }


class Returning(LightningModule):
    """Leaves counting to the callbacks of this package."""

    def validation_step(self, batch: Any, batch_idx: int) -> dict[str, Tensor]:
        return {"logits": batch[0][:, 0], "target": batch[1]}

    def test_step(self, batch: Any, batch_idx: int) -> dict[str, Tensor]:
        return self.validation_step(batch, batch_idx)


def called_back(rank: int, world: int) -> Any:
    """The callbacks that evaluate, choose a threshold and profile the loss."""
    evaluate = Evaluate(BinaryEvaluation("logits", zero_division=0.0, curves=True, resolution=64))
    tuning = ThresholdTuning(BinaryEvaluation("logits", zero_division=0.0, curves=True, resolution=64))
    running, found = trainer(world, evaluate, tuning, LossReport()), {}
    for length, size in ((7, 1), (13, 4)):
        with listening() as said:
            running.validate(Returning(), loader(length, size), verbose=False)
            values = {name: value.item() for name, value in running.callback_metrics.items()}
            running.test(Returning(), loader(length, size), verbose=False)
        values |= {name: value.item() for name, value in running.callback_metrics.items()}
        found[length] = {"values": values, "counts": ranks.cells(evaluate.evaluation("test")), "said": said}
    return found


def padded(rank: int, world: int) -> Any:
    """``Evaluate`` alone, where Lightning repeats rows."""
    found = {}
    for length, options in ((13, {}), (12, {}), (13, {"limit_val_batches": 1})):
        evaluate = Evaluate(BinaryEvaluation("logits", zero_division=0.0), figures=False)
        running = trainer(world, evaluate, exact=False, **options)
        with listening() as said:
            for _ in range(2):
                running.validate(Returning(), loader(length, 4), verbose=False)
        counted = int(evaluate.evaluation("val").counts.total.sum())
        found[length, len(options)] = {"counted": counted, "said": [each for each in said if "Evaluate count" in each]}
    return found


class Rows(IterableDataset[Any]):
    """A stream of rows: all of them, or every second."""

    def __init__(self, length: int, first: int = 0, step: int = 1) -> None:
        self.rows = [tuple(row) for row in zip(*data(length), strict=True)][first::step]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)


def streamed(rank: int, world: int) -> Any:
    """``Evaluate`` of a stream that each rank reads, and of one that they share out; what each said, in this order."""
    found = []
    for rows in (Rows(13), Rows(13, rank, world), Rows(0)):
        evaluate = Evaluate(BinaryEvaluation("logits", zero_division=0.0), figures=False)
        running = trainer(world, evaluate, exact=False)
        with listening() as said:
            for _ in range(2):
                running.validate(Returning(), DataLoader(rows, batch_size=4), verbose=False)
        counted = int(evaluate.evaluation("val").counts.total.sum())
        found.append({"counted": counted, "said": [each for each in said if "Evaluate count" in each]})
    return found
