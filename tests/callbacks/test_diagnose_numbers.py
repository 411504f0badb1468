"""Diagnose asks the rules on numbers of what a run's evaluations computed, and adds no collective for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import healthy
import misused
import numpy as np
import pytest
import torch
from lightning import pytorch as lightning
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.strategies import DDPStrategy
from misused import loader
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import classification as stock

from lightning_evalkit import BinaryEvaluation, Counts, MulticlassEvaluation, diagnose, metrics
from lightning_evalkit.callbacks import Diagnose, Evaluate
from lightning_evalkit.diagnosis.rules.selection import expected_maximum
from lightning_evalkit.errors import DeclarationError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*"),  # Lightning's own use of torch
    pytest.mark.filterwarnings("ignore:.*does not have many workers.*"),
    pytest.mark.filterwarnings("ignore:.*number of training batches.*"),
    pytest.mark.filterwarnings("ignore:.*was called before the.*"),
]
QUIET: dict[str, Any] = {
    "accelerator": "cpu",
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "enable_checkpointing": False,
}


class Overconfident(misused.Steps, LightningModule):
    """Logits ten times too large; counted as whoever derives from it does."""

    def make(self) -> None:
        self.numbers = BinaryEvaluation("logits", curves=True, prefix="val/")

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.numbers.update(self.scores(logits), target)

    def scores(self, logits: Tensor) -> Tensor:
        return 20 * logits

    def end(self) -> None:
        self.log_dict(self.numbers.compute())
        self.numbers.reset()


class LoggedInTheStep(Overconfident):
    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        super().val_with(logits, target, loader)
        self.log_dict(self.numbers)

    def end(self) -> None: ...


class ReturnsLogits(Overconfident):
    """For the callback Evaluate, which resets when an epoch begins."""

    def make(self) -> None: ...

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> dict[str, Tensor]:
        return {"logits": 20 * self.network(batch[0]).squeeze(-1), "target": batch[1]}

    def end(self) -> None: ...


class SeveralThresholds(Overconfident):
    def make(self) -> None:
        self.numbers = BinaryEvaluation("logits", threshold=[0.5, 0.9999999], zero_division=0.0)

    def scores(self, logits: Tensor) -> Tensor:
        return logits


def run(made: Any, *callbacks: Any, val: Any = None, epochs: int = 2, **options: Any) -> tuple[Diagnose, Trainer]:
    diagnose = Diagnose()
    options = {"logger": False, **QUIET, **options}
    trainer = Trainer(max_epochs=epochs, callbacks=[diagnose, *callbacks], **options)
    trainer.fit(made, loader(320), loader(seed=1) if val is None else val)
    return diagnose, trainer


def subjects(found: Diagnose, code: str) -> list[str]:
    return [finding.subject for finding in found.diagnosis.findings if finding.code == code]


@pytest.mark.parametrize("kind", [Overconfident, LoggedInTheStep])
def test_evaluations_of_the_module_are_diagnosed(kind: Any) -> None:
    found, trainer = run(kind())
    assert subjects(found, "EK217") == ["numbers/probabilities"]
    [finding] = [each for each in found.diagnosis.issues if each.code == "EK217"]
    assert finding.headline.startswith("numbers: probabilities are overconfident")
    x, y = loader(seed=1).dataset.tensors
    made = trainer.lightning_module
    again = BinaryEvaluation("logits", curves=True)
    again.update(20 * made.network(x).squeeze(-1).detach(), y)
    [expected] = [each for each in again.diagnose().issues if each.code == "EK217"]
    assert finding.evidence == pytest.approx(expected.evidence)


@pytest.mark.parametrize("loaders", [1, 2])
def test_evaluations_of_evaluate_are_diagnosed(loaders: int) -> None:
    val = [loader(seed=place) for place in range(1, loaders + 1)]
    found, _ = run(ReturnsLogits(), Evaluate(BinaryEvaluation("logits", curves=True), stages=["val"]), val=val)
    assert subjects(found, "EK217") == [f"evaluate_0.val.{place}/probabilities" for place in range(loaders)]


def test_each_of_several_thresholds() -> None:
    found, _ = run(SeveralThresholds())
    assert subjects(found, "EK205") == ["numbers@0.9999999/predictions"]


class FindsMore(misused.Good, LightningModule):
    """At a low threshold most are called positive, which costs accuracy on purpose."""

    threshold = 0.01

    def make(self) -> None:
        super().make()
        self.f1 = stock.BinaryF1Score(threshold=self.threshold)
        self.recall = BinaryEvaluation("logits", threshold=self.threshold, prefix="own/", zero_division=0.0)

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        moved = logits - 2 if self.threshold < 0.5 else logits + 5
        self.f1.update(moved.sigmoid(), target)
        self.log("val/f1", self.f1)
        self.recall.update(moved, target)
        self.log_dict(self.recall)


class CalledMore(FindsMore):
    threshold = 0.5


def test_a_chosen_threshold_is_not_asked_about_the_majority() -> None:
    """Ninety negatives and ten positives, nearly all of them called positive."""
    few = torch.Generator().manual_seed(0)
    x, y = torch.randn(100, 4, generator=few), (torch.arange(100) % 10 == 0).long()
    val = DataLoader(TensorDataset(x, y), 20)
    asked = run(CalledMore(), val=val)[0].diagnosis
    assert {each.subject for each in asked.issues if each.code == "EK204"} == {"f1/accuracy", "recall/accuracy"}
    chosen = run(FindsMore(), val=val)[0].diagnosis
    assert "EK204" in chosen.not_applicable
    assert not [each for each in chosen.findings if each.code in ("EK204", "EK210", "EK220")]


def test_a_finding_is_printed_once_although_numbers_change(capsys: pytest.CaptureFixture[str]) -> None:
    run(Overconfident(), epochs=4)
    assert capsys.readouterr().out.count("EK217") == 1


def test_numbers_within_steps_and_of_training_are_left_alone() -> None:
    class InSteps(Overconfident):
        def train_with(self, logits: Tensor, target: Tensor) -> None:
            self.numbers.update(20 * logits.detach(), target)
            self.numbers.compute()

        def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None: ...

        def on_train_epoch_end(self) -> None:
            self.log_dict(self.numbers.compute())
            self.numbers.reset()

        def end(self) -> None: ...

    assert run(InSteps())[0].diagnosis.findings == ()


GATHERED: list[Tensor] = []


def gathered(state: Tensor, group: Any = None) -> list[Tensor]:
    """What a rank among several would do, were it alone."""
    GATHERED.append(state)
    return [state]


class AmongRanks(Overconfident):
    def make(self) -> None:
        ranks: dict[str, Any] = {"dist_sync_fn": gathered, "distributed_available_fn": lambda: True}
        self.numbers = BinaryEvaluation("logits", curves=True, prefix="val/", **ranks)


def test_nothing_is_asked_of_other_ranks_and_no_number_changes() -> None:
    numbers, joins = [], []
    for callbacks in ([], [Diagnose()]):
        GATHERED.clear()
        trainer = Trainer(max_epochs=2, logger=False, callbacks=callbacks, **QUIET)
        trainer.fit(AmongRanks(), loader(), loader(seed=1))
        numbers.append({name: float(value) for name, value in trainer.callback_metrics.items()})
        joins.append(len(GATHERED))
    assert "EK217" in [each.code for each in callbacks[0].diagnosis.issues]
    assert numbers[0] == pytest.approx(numbers[1], nan_ok=True)
    assert joins == [3, 3]  # the sanity check and two epochs


@pytest.mark.slow
def test_two_processes_diagnose_what_both_counted(tmp_path: Path) -> None:
    strategy: Any = DDPStrategy(start_method="forkserver", process_group_backend="gloo")
    logger = CSVLogger(tmp_path, name="", version="run")
    trainer = Trainer(
        max_epochs=2, devices=2, strategy=strategy, logger=logger, callbacks=[Diagnose(hints=True)], **QUIET
    )
    trainer.fit(Overconfident(), loader(320), loader(96, seed=1))
    found = json.loads((tmp_path / "run" / "diagnosis.json").read_text())
    [finding] = [each for each in found["issues"] if each["code"] == "EK217"]
    assert finding["subject"] == "numbers/probabilities"


class OneAnswer(misused.Good, LightningModule):
    """Calls everything negative, and counts it with a single metric of this package."""

    kit = metrics

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.f1.update(torch.zeros_like(logits), target)
        self.log("val/f1", self.f1)


@pytest.mark.slow
def test_two_processes_diagnose_what_a_single_metric_of_both_counted(tmp_path: Path) -> None:
    strategy: Any = DDPStrategy(start_method="forkserver", process_group_backend="gloo")
    logger = CSVLogger(tmp_path, name="", version="run")
    trainer = Trainer(max_epochs=1, devices=2, strategy=strategy, logger=logger, callbacks=[Diagnose()], **QUIET)
    trainer.fit(OneAnswer(), loader(320), loader(96, seed=1))
    found = json.loads((tmp_path / "run" / "diagnosis.json").read_text())
    [finding] = [each for each in found["issues"] if each["code"] == "EK205"]
    assert finding["headline"] == "f1: all 96 samples were predicted as 'negative'."


# ---- the best of several epochs


def test_the_best_of_several_epochs(tmp_path: Path) -> None:
    for made, name, owner in (
        (healthy.made(healthy.CollectionPerStage, lightning), "val/BinaryF1Score", "val_metrics.BinaryAccuracy/f1"),
        (healthy.made(healthy.OwnEvaluations, lightning), "val/f1", "val_numbers/f1"),
    ):
        saving = ModelCheckpoint(tmp_path / owner, monitor=name, mode="max")
        diagnose = Diagnose()
        options = {**QUIET, "enable_checkpointing": True}
        trainer = Trainer(max_epochs=5, logger=False, callbacks=[diagnose, saving], **options)
        trainer.fit(made, datamodule=healthy.made(healthy.Data, lightning))
        [finding] = [each for each in diagnose.diagnosis.tips if each.code == "EK224"]
        assert finding.subject == owner
        assert finding.evidence["best"] == pytest.approx(float(saving.best_model_score))
        assert finding.evidence["candidates"] == 5
        assert finding.certainty == "hint"
    unmonitored, _ = run(healthy.made(healthy.OwnEvaluations, lightning), epochs=3)
    assert "EK224" in unmonitored.diagnosis.not_applicable


def test_the_size_is_that_of_independent_candidates() -> None:
    """Ten equally good models on 1,000 samples each of their own: the best is better by what the rule says."""
    random, gains, said = np.random.default_rng(0), [], []
    for _ in range(400):
        shares = random.binomial(1_000, 0.8, 10) / 1_000
        right = round(1_000 * shares.max())
        counts = Counts(
            tp=right // 2, fp=(1_000 - right) // 2, fn=1_000 - right - (1_000 - right) // 2, tn=right - right // 2
        )
        found = diagnose(counts, candidates={"accuracy": shares.tolist()}).findings
        gains.append(shares.max() - 0.8)
        said.append(sum(each.evidence["most"] for each in found if each.code == "EK224"))
    assert np.mean(said) == pytest.approx(np.mean(gains), rel=0.1)


def test_candidates_that_make_the_same_errors_gain_less() -> None:
    """Half of the error is common to all: the rule's size is a bound, not an estimate."""
    random = np.random.default_rng(1)
    common, own = random.normal(0, np.sqrt(0.5), (4_000, 1)), random.normal(0, np.sqrt(0.5), (4_000, 10))
    assert (common + own).max(1).mean() < expected_maximum(10)
    for number in (2, 3, 4, 10, 100):
        assert random.normal(0, 1, (20_000, number)).max(1).mean() == pytest.approx(expected_maximum(number), rel=0.03)


def test_candidates_of_all_tasks_and_directions() -> None:
    several = MulticlassEvaluation("labels", 3)
    target = torch.arange(300) % 3
    several.update(torch.where(torch.arange(300) % 5 == 0, (target + 1) % 3, target), target)
    found = several.diagnose(candidates={"accuracy": [0.79, 0.8, float("nan"), 0.5]})
    [finding] = [each for each in found.findings if each.code == "EK224"]
    # The standard error of 0.8 from 300 samples is about sqrt(0.8 · 0.2 / 300) = 0.0231.
    assert finding.evidence["standard_error"] == pytest.approx(0.0231, rel=0.03)
    assert (finding.evidence["candidates"], finding.evidence["near"]) == (3, 2)
    lower = diagnose(Counts(tp=40, fp=10, fn=10, tn=40), candidates={"false_positive_rate": [0.2, 0.21, 0.9]})
    [finding] = [each for each in lower.findings if each.code == "EK224"]
    assert finding.evidence["best"] == 0.2
    with pytest.raises(DeclarationError, match="nonsense"):
        several.diagnose(candidates={"nonsense": [0.1]})
