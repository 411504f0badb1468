"""Batches, modules and trainers for tests of the classifiers, and what an epoch is expected to report."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import quiet
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from sklearn import metrics as sklearn
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from lightning_evalkit.metrics import MeanLoss
from lightning_evalkit.modules import BinaryClassifier, MulticlassClassifier, MultilabelClassifier

if TYPE_CHECKING:
    from collections.abc import Callable

    from lightning_evalkit.modules.classifier import Classifier


ROWS, FEATURES = 71, 5

STILL = 1e-12
"""A learning rate that moves nothing, so that an epoch of training has one loss."""
QUIET = {**quiet.QUIET, "num_sanity_val_steps": 0}


@dataclass(frozen=True)
class Case:
    """A classifier, the loss of all its rows at once, and the statistics of scikit-learn."""

    task: str
    loss: Callable[[Tensor, Tensor, Tensor], Tensor]
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def weighted(self) -> bool:
        return bool(self.options.get("weighted", False))

    def build(self, **options: Any) -> Classifier:
        torch.manual_seed(3)
        made = {"learning_rate": STILL, **self.options, **options}
        if "network" not in made:
            made["num_features"] = FEATURES
        if self.task == "binary":
            return BinaryClassifier(**made).double()
        if self.task == "multiclass":
            return MulticlassClassifier(num_classes=4, **made).double()
        return MultilabelClassifier(num_labels=3, **made).double()

    def rows(self, seed: int, number: int = ROWS) -> tuple[Tensor, ...]:
        """Features, target and, where declared, weights, of which some are 0."""
        generator = torch.Generator().manual_seed(seed)
        shape = {"binary": (number,), "multiclass": (number,), "multilabel": (number, 3)}[self.task]
        x = torch.randn(number, FEATURES, generator=generator, dtype=torch.float64)
        target = torch.randint(0, 4 if self.task == "multiclass" else 2, shape, generator=generator)
        weight = torch.randint(0, 5, (number,), generator=generator).double() / 2
        weight[0] = 0.5  # a single row weighs something
        return (x, target, weight) if self.weighted else (x, target)

    def logits(self, module: Classifier, x: Tensor) -> Tensor:
        with torch.no_grad():
            logits = module.network(x)
        return logits.reshape(-1) if self.task == "binary" else logits

    def expected_loss(self, module: Classifier, rows: tuple[Tensor, ...]) -> float:
        x, target, *weight = rows
        return float(self.loss(self.logits(module, x), target, weight[0] if weight else torch.ones(len(x)).double()))

    def decided(self, module: Classifier, x: Tensor) -> np.ndarray[Any, Any]:
        logits = self.logits(module, x)
        return (logits.argmax(1) if self.task == "multiclass" else (logits > 0).long()).numpy()

    def expected_statistics(self, module: Classifier, rows: tuple[Tensor, ...]) -> dict[str, float]:
        x, target, *weight = rows
        given = {"sample_weight": weight[0].numpy()} if weight else {}
        decided = self.decided(module, x)
        return {name: float(statistic(target.numpy(), decided, **given)) for name, statistic in SKLEARN[self.task]}

    def expected_cells(self, module: Classifier, rows: tuple[Tensor, ...]) -> list[Any]:
        """True and false positives, false and true negatives; of every class or label where there are several."""
        x, target, *weight = rows
        truth, said = target.numpy(), self.decided(module, x)
        if self.task == "multiclass":
            truth, said = (np.eye(4, dtype=int)[labels] for labels in (truth, said))
        share = weight[0].numpy() if weight else np.ones(len(x), dtype=int)
        share = share if truth.ndim == 1 else share[:, None]
        masks = (truth & said, (1 - truth) & said, truth & (1 - said), (1 - truth) & (1 - said))
        return [(mask * share).sum(0).tolist() for mask in masks]


def yes_no(z: Tensor, y: Tensor, w: Tensor, pos_weight: Any = None) -> Tensor:
    """Torch's own; its mean over labels first, then over samples by their weights."""
    positive = None if pos_weight is None else torch.tensor(pos_weight).double()
    if bool((w == 1).all()):
        return binary_cross_entropy_with_logits(z, y.double(), pos_weight=positive)
    w = w if z.ndim == 1 else w.unsqueeze(1).expand(z.shape)
    total = binary_cross_entropy_with_logits(z, y.double(), weight=w, pos_weight=positive, reduction="sum")
    return total / w.sum()


def one_of_many(z: Tensor, y: Tensor, w: Tensor, weight: list[float] | None = None) -> Tensor:
    """Torch's own; with sample weights the class weights are multiplied by them."""
    classes = None if weight is None else torch.tensor(weight).double()
    if bool((w == 1).all()):
        return cross_entropy(z, y, weight=classes)
    share = w if classes is None else w * classes[y]
    return (cross_entropy(z, y, reduction="none") * share).sum() / share.sum()


def focal(z: Tensor, y: Tensor, w: Tensor, gamma: float = 2.0, pos_weight: float = 1.0) -> Tensor:
    """-(1 - p)^gamma log p of the probability p of what is true."""
    p = torch.where(y == 1, z.sigmoid(), 1 - z.sigmoid())
    values = -((1 - p) ** gamma) * p.log() * torch.where(y == 1, pos_weight, 1.0)
    values = values if values.ndim == 1 else values.mean(1)
    return (values * w).sum() / w.sum()


def focal_of_many(z: Tensor, y: Tensor, w: Tensor, gamma: float, weight: list[float]) -> Tensor:
    p = z.softmax(1).gather(1, y.unsqueeze(1)).squeeze(1)
    share = w * torch.tensor(weight).double()[y]
    return (-((1 - p) ** gamma) * p.log() * share).sum() / share.sum()


def samples_jaccard(truth: Any, said: Any, sample_weight: Any = None) -> float:
    """By its definition, because scikit-learn's cannot leave out the samples where it is 0/0."""
    both, either = (truth & said).sum(1), (truth | said).sum(1)
    weight = (np.ones(len(truth)) if sample_weight is None else sample_weight)[either > 0]
    return float((both[either > 0] / either[either > 0] * weight).sum() / weight.sum())


SKLEARN: dict[str, list[tuple[str, Callable[..., float]]]] = {
    "binary": [
        ("accuracy", sklearn.accuracy_score),
        ("balanced_accuracy", sklearn.balanced_accuracy_score),
        ("precision", sklearn.precision_score),
        ("recall", sklearn.recall_score),
        ("specificity", partial(sklearn.recall_score, pos_label=0)),
        ("f1", sklearn.f1_score),
        ("mcc", sklearn.matthews_corrcoef),
    ],
    "multiclass": [
        ("accuracy", sklearn.accuracy_score),
        ("balanced_accuracy", sklearn.balanced_accuracy_score),
        ("precision/macro", partial(sklearn.precision_score, average="macro")),
        ("recall/macro", partial(sklearn.recall_score, average="macro")),
        ("f1/macro", partial(sklearn.f1_score, average="macro")),
        ("mcc", sklearn.matthews_corrcoef),
    ],
    "multilabel": [
        ("exact_match", sklearn.accuracy_score),
        ("hamming_accuracy", lambda *both, **given: 1 - sklearn.hamming_loss(*both, **given)),
        ("f1/micro", partial(sklearn.f1_score, average="micro")),
        ("f1/macro", partial(sklearn.f1_score, average="macro")),
        ("f1/samples", partial(sklearn.f1_score, average="samples", zero_division=np.nan)),
        ("jaccard/samples", samples_jaccard),
    ],
}
CLASSES, LABELS = [0.25, 1.0, 3.5, 8.0], [0.5, 1.0, 6.25]
CASES = {
    "binary": Case("binary", yes_no),
    "binary_pos_weight": Case("binary", partial(yes_no, pos_weight=3.5), {"pos_weight": 3.5}),
    "binary_focal": Case("binary", focal, {"loss": "focal"}),
    "binary_focal_pos_weight": Case(
        "binary",
        partial(focal, gamma=0.5, pos_weight=3.5),
        {"loss": "focal", "focal_gamma": 0.5, "pos_weight": 3.5},
    ),
    "binary_weighted": Case("binary", partial(yes_no, pos_weight=0.25), {"weighted": True, "pos_weight": 0.25}),
    "multiclass": Case("multiclass", one_of_many),
    "multiclass_class_weights": Case("multiclass", partial(one_of_many, weight=CLASSES), {"class_weights": CLASSES}),
    "multiclass_focal": Case(
        "multiclass",
        partial(focal_of_many, gamma=1.5, weight=CLASSES),
        {"loss": "focal", "focal_gamma": 1.5, "class_weights": CLASSES, "weighted": True},
    ),
    "multiclass_weighted": Case("multiclass", one_of_many, {"weighted": True}),
    "multiclass_weighted_class_weights": Case(
        "multiclass", partial(one_of_many, weight=CLASSES), {"class_weights": CLASSES, "weighted": True}
    ),
    "multilabel": Case("multilabel", yes_no),
    "multilabel_pos_weight": Case("multilabel", partial(yes_no, pos_weight=2.5), {"pos_weight": 2.5}),
    "multilabel_pos_weights": Case("multilabel", partial(yes_no, pos_weight=LABELS), {"pos_weight": LABELS}),
    "multilabel_focal": Case("multilabel", focal, {"loss": "focal", "weighted": True}),
    "multilabel_weighted": Case(
        "multilabel", partial(yes_no, pos_weight=LABELS), {"pos_weight": LABELS, "weighted": True}
    ),
}
TASKS = ["binary", "multiclass", "multilabel"]

every_task = pytest.mark.parametrize("case", [CASES[task] for task in TASKS], ids=TASKS)


def loader(rows: tuple[Tensor, ...], size: int = 16) -> DataLoader[Any]:
    return DataLoader(TensorDataset(*rows), batch_size=size)


def trainer(**options: Any) -> Trainer:
    return Trainer(**{**QUIET, "max_epochs": 1, **options})


def exact_loss(module: Classifier, stage: str, place: int = 0) -> float:
    """The mean before it is given in single precision."""
    kept = getattr(module, f"{stage}_evaluations")[place]
    reals = next(each for each in kept.modules() if type(each) is MeanLoss).global_totals.reals
    return float(reals[0] / reals[1])


def values(running: Trainer, stage: str) -> dict[str, float]:
    found = {name: value.item() for name, value in running.callback_metrics.items() if name.startswith(f"{stage}/")}
    return {name.removeprefix(f"{stage}/"): value for name, value in found.items()}


def near(number: Any) -> Any:
    return pytest.approx(number, rel=1e-6, abs=1e-6, nan_ok=True)


class Witness(Callback):
    """What each evaluation had counted when an epoch ends, and for validation what was reported."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, list[int], dict[str, float]]] = []

    def on_train_epoch_end(self, running: Trainer, module: LightningModule) -> None:
        self._note("train", running, module)

    def on_validation_end(self, running: Trainer, module: LightningModule) -> None:
        self._note("sanity" if running.sanity_checking else "val", running, module)

    def _note(self, stage: str, running: Trainer, module: Any) -> None:
        self.seen.append((stage, samples(module, "val" if stage == "sanity" else stage), values(running, stage)))


def samples(module: Classifier, stage: str) -> list[int]:
    """How many samples every evaluation of a stage has counted."""
    evaluations = [kept.evaluation for kept in getattr(module, f"{stage}_evaluations")]
    return [int(sum(cell.sum() for cell in each.counts.cells)) if counted(each) else 0 for each in evaluations]


def counted(evaluation: Any) -> bool:
    return bool(evaluation.tally.update_called)


class Flat(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(FEATURES, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).squeeze(1)
