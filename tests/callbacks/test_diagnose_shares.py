"""Diagnose compares the shares of classes in training and validation, if metrics of both stages count them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import misused
import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.strategies import DDPStrategy
from misused import KITS
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MetricCollection

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation
from lightning_evalkit.callbacks import Diagnose, Evaluate

if TYPE_CHECKING:
    from pathlib import Path

    from lightning_evalkit.diagnosis.finding import Finding

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*"),  # Lightning's own use of torch
    pytest.mark.filterwarnings("ignore:.*does not have many workers.*"),
    pytest.mark.filterwarnings("ignore:.*number of training batches.*"),
    pytest.mark.filterwarnings("ignore:.*is NaN, because it is 0/0.*"),
]
QUIET: dict[str, Any] = {
    "accelerator": "cpu",
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "enable_checkpointing": False,
}


def rows(positives: int, total: int = 200) -> DataLoader[Any]:
    """So many positives, spread evenly."""
    target = (torch.arange(total) * positives % total < positives).long()
    assert int(target.sum()) == positives
    x = torch.randn(total, 4, generator=torch.Generator().manual_seed(positives))
    return DataLoader(TensorDataset(x + target.unsqueeze(1), target), 20)


def run(made: Any, train: int, val: int, *callbacks: Any, epochs: int = 1, **options: Any) -> list[Finding]:
    diagnose = Diagnose()
    trainer = Trainer(max_epochs=epochs, logger=False, callbacks=[diagnose, *callbacks], **QUIET, **options)
    trainer.fit(made, rows(train), rows(val))
    return [finding for finding in diagnose.diagnosis.issues if finding.code == "EK223"]


class Single(misused.Good, LightningModule): ...


class OwnSingle(Single):
    kit = KITS["own"]


class Collections(misused.Steps, LightningModule):
    """Of a group of metrics only one counts, and the others get its state when they are computed."""

    def make(self) -> None:
        both = MetricCollection([self.kit.BinaryAccuracy(), self.kit.BinaryF1Score()])
        self.train_metrics, self.val_metrics = both.clone(prefix="train/"), both.clone(prefix="val/")

    def train_with(self, logits: Tensor, target: Tensor) -> None:
        self.train_metrics.update(logits.sigmoid(), target)

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.val_metrics.update(logits.sigmoid(), target)

    def on_train_epoch_end(self) -> None:
        self.log_dict(self.train_metrics.compute())
        self.train_metrics.reset()

    def end(self) -> None:
        self.log_dict(self.val_metrics.compute())
        self.val_metrics.reset()


class OwnCollections(Collections):
    kit = KITS["own"]


class Evaluations(misused.Own, LightningModule): ...


class SeveralThresholds(Evaluations):
    def make(self) -> None:
        self.train_numbers, self.numbers = (
            BinaryEvaluation("logits", [0.3, 0.5], prefix=prefix) for prefix in ("train/", "val/")
        )


class Classes(Evaluations):
    def make(self) -> None:
        self.train_numbers, self.numbers = (
            MulticlassEvaluation("labels", 2, ["cat", "dog"], prefix=prefix) for prefix in ("train/", "val/")
        )

    def train_with(self, logits: Tensor, target: Tensor) -> None:
        super().train_with((logits > 0).long(), target)

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        super().val_with((logits > 0).long(), target, loader)


class ForEvaluate(misused.Steps, LightningModule):
    """Returns what the callback Evaluate counts."""

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        logits = self.network(batch[0]).squeeze(-1)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, batch[1].float())
        return {"loss": loss, "logits": logits, "target": batch[1]}

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
        return {"logits": self.network(batch[0]).squeeze(-1), "target": batch[1]}


KINDS = [Single, OwnSingle, Collections, OwnCollections, Evaluations, Classes, ForEvaluate]


@pytest.mark.parametrize("kind", KINDS)
def test_other_shares_in_training_are_found(kind: Any) -> None:
    def callbacks() -> list[Any]:
        return [Evaluate(BinaryEvaluation("logits"), ["train", "val"])] if kind is ForEvaluate else []

    found = run(kind(), 100, 30, *callbacks())
    named = {finding.subject.rpartition("/")[2]: finding for finding in found}
    assert named.keys() == ({"cat", "dog"} if kind is Classes else {"positive"})
    if kind is Classes:
        assert (named["cat"].evidence["train"], named["cat"].evidence["here"]) == (0.5, 0.85)
        assert (named["dog"].evidence["train"], named["dog"].evidence["here"]) == (0.5, 0.15)
    else:
        assert (named["positive"].evidence["train"], named["positive"].evidence["here"]) == (0.5, 0.15)
    assert run(kind(), 100, 95, *callbacks()) == []
    assert run(kind(), 100, 30, *callbacks(), epochs=3, num_sanity_val_steps=0)


def test_each_threshold_is_of_the_same_samples() -> None:
    found = run(SeveralThresholds(), 100, 30)
    assert [finding.subject for finding in found] == ["numbers@0.3/positive", "numbers@0.5/positive"]


class TwoHeads(Single):
    """Two questions in validation and one in training: which of the two it is, counts do not tell."""

    def make(self) -> None:
        super().make()
        self.other = self.kit.BinaryF1Score()

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        super().val_with(logits, target, loader)
        self.other.update(logits.sigmoid(), 1 - target)
        self.log("val/other", self.other)


class TwoTrained(Single):
    """Two questions in training and one in validation."""

    def make(self) -> None:
        super().make()
        self.other = self.kit.BinaryF1Score()

    def train_with(self, logits: Tensor, target: Tensor) -> None:
        super().train_with(logits, target)
        self.other.update(logits.sigmoid(), torch.ones_like(target))


class OneForBoth(misused.OneForBoth, LightningModule):
    """A state that mixes both stages says nothing of either."""


class NeverReset(Single):
    """A state of several epochs holds every sample several times."""

    def train_with(self, logits: Tensor, target: Tensor) -> None:
        self.train_f1.update(logits.sigmoid(), target)


def test_what_may_be_another_question_is_not_compared() -> None:
    for kind in (TwoHeads, TwoTrained):
        assert run(kind(), 100, 30) == []
    with pytest.warns(UserWarning, match="was called before"):
        assert run(OneForBoth(), 100, 30) == []
    assert run(NeverReset(), 100, 30) != []
    assert run(NeverReset(), 100, 30, epochs=2) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [OwnSingle, Evaluations, Single])
def test_two_processes(kind: Any, tmp_path: Path) -> None:
    """What all ranks computed in training is known in the next epoch; the states of stock metrics are not joined."""
    strategy: Any = DDPStrategy(start_method="forkserver", process_group_backend="gloo")
    logger = CSVLogger(tmp_path, name="", version="run")
    trainer = Trainer(max_epochs=2, devices=2, strategy=strategy, logger=logger, callbacks=[Diagnose()], **QUIET)
    trainer.fit(kind(), rows(100), rows(30))
    written = tmp_path / "run" / "diagnosis.json"
    found = json.loads(written.read_text())["issues"] if written.exists() else []
    shares = [each["evidence"] for each in found if each["code"] == "EK223"]
    assert [(each["train"], each["here"]) for each in shares] == ([] if kind is Single else [(0.5, 0.15)])


@pytest.mark.parametrize("kind", [Collections, OwnCollections])
def test_a_metric_whose_group_counts_for_it_has_the_numbers_of_the_group(kind: type[Collections]) -> None:
    """Older releases of torchmetrics update it with the first batch only, until it is computed."""

    class OneAnswer(kind):  # type: ignore[misc, valid-type]
        def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
            super().val_with(torch.full_like(logits, -1.0), target, loader)

    diagnose = Diagnose()
    trainer = Trainer(max_epochs=1, logger=False, num_sanity_val_steps=0, callbacks=[diagnose], **QUIET)
    trainer.fit(OneAnswer(), rows(30), rows(30))
    [finding] = [finding for finding in diagnose.diagnosis.issues if finding.code == "EK205"]
    assert finding.headline == "val_metrics.BinaryAccuracy: all 200 samples were predicted as 'negative'."
