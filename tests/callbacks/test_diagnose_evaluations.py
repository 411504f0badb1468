"""Diagnose finds the misuses of evaluations too, with the true number of the entry that is furthest from it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import misused
import misused_evaluations
import pytest
import torch
from misused import loader, module
from misused_evaluations import HARMLESS, MISUSES
from torchmetrics.functional import classification as functional

from lightning_evalkit import BinaryEvaluation
from lightning_evalkit.callbacks import Diagnose
from lightning_evalkit.errors import DeclarationError

if TYPE_CHECKING:
    from pathlib import Path

    from lightning_evalkit.diagnosis.finding import Finding

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*"),  # Lightning's own use of torch
    pytest.mark.filterwarnings("ignore:.*does not have many workers.*"),
    pytest.mark.filterwarnings("ignore:.*number of training batches.*"),
    pytest.mark.filterwarnings("ignore:.*is NaN, because it is 0/0.*"),
]
PACKAGES = ("lightning.pytorch", "pytorch_lightning")
OF_RUNS = {"EK218"}
"""A rule on numbers that says of evaluations with curves what EK115 and EK117 say of single metrics."""


def run(steps: type, package: str = PACKAGES[0], *callbacks: Any, **options: Any) -> tuple[Diagnose, Any, Any]:
    """Two epochs of training; the callback, the trainer and the module."""
    lightning = importlib.import_module(package)
    diagnose = Diagnose(hints=True)
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    settings = {"max_epochs": 2, "accelerator": "cpu", "logger": False, "callbacks": [diagnose, *callbacks]}
    trainer, made = lightning.Trainer(**(quiet | settings | options)), module(lightning, steps)
    val = [loader(50, seed=1), loader(40, seed=2)] if hasattr(made, "f1s") else loader(seed=1)
    trainer.fit(made, loader(), val)
    return diagnose, trainer, made


def found(diagnose: Diagnose) -> list[Finding]:
    return [each for each in diagnose.diagnosis.findings if each.code < "EK200" or each.code in OF_RUNS]


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("name", MISUSES)
def test_a_misuse_is_found_and_its_twin_is_silent(name: str, package: str) -> None:
    code, misuse, twin = MISUSES[name]
    assert {each.code for each in found(run(misuse, package)[0])} == {code}
    assert found(run(twin, package)[0]) == []


TRUTHS: dict[str, Any] = {
    "accuracy": functional.binary_accuracy,
    "precision": functional.binary_precision,
    "recall": functional.binary_recall,
    "specificity": functional.binary_specificity,
    "f1": functional.binary_f1_score,
    "mcc": functional.binary_matthews_corrcoef,
    "balanced_accuracy": lambda p, y: (functional.binary_recall(p, y) + functional.binary_specificity(p, y)) / 2,
}


def truth(made: Any, name: str, data: Any) -> float:
    x, y = data.dataset.tensors
    return float(TRUTHS[name](made.network(x).squeeze(-1).sigmoid().detach(), y))


@pytest.mark.parametrize("steps", [misused.OwnForBoth, misused.OwnNotReset])
def test_the_entry_furthest_from_its_true_number_is_told(steps: type) -> None:
    diagnose, trainer, made = run(steps)
    [finding] = found(diagnose)
    reported = {name: float(value) for name, value in trainer.callback_metrics.items() if name.startswith("val/")}
    distances = {name: abs(value - truth(made, name[4:], loader(seed=1))) for name, value in reported.items()}
    name = max(distances, key=lambda name: distances[name])
    assert len(distances) == len(TRUTHS)
    assert finding.evidence["name"] == name
    assert finding.evidence["reported"] == pytest.approx(reported[name])
    assert finding.evidence["truth"] == pytest.approx(truth(made, name[4:], loader(seed=1)), abs=1e-6)
    assert distances[name] > 1e-3
    assert f"{name} = {reported[name]:.4f} is reported" in finding.headline


def test_each_value_that_was_averaged_over_batches_has_its_true_number() -> None:
    diagnose, trainer, made = run(misused_evaluations.ValuesLogged)
    findings = {finding.subject: finding for finding in found(diagnose)}
    assert findings.keys() == {f"val/{name}" for name in TRUTHS if name != "accuracy"}  # whose mean is right
    for name, finding in findings.items():
        assert finding.evidence["truth"] == pytest.approx(truth(made, name[4:], loader(seed=1)), abs=1e-6)
        assert finding.evidence["reported"] == pytest.approx(float(trainer.callback_metrics[name]))


def test_the_true_number_of_the_last_dataloader() -> None:
    diagnose, trainer, made = run(misused_evaluations.OneForLoaders)
    [finding] = found(diagnose)
    name = finding.evidence["name"]
    entry, _, place = name.partition("/dataloader_idx_")
    assert place == "1"
    assert finding.evidence["truth"] == pytest.approx(truth(made, entry, loader(40, seed=2)), abs=1e-6)
    assert finding.evidence["reported"] == pytest.approx(float(trainer.callback_metrics[name]))
    assert abs(finding.evidence["truth"] - finding.evidence["reported"]) > 1e-3


@pytest.mark.parametrize("steps", HARMLESS, ids=lambda steps: steps.__name__)
def test_what_an_evaluation_does_right_is_left_alone(steps: type) -> None:
    diagnose, trainer, made = run(steps)
    assert found(diagnose) == []
    x, y = loader(seed=1).dataset.tensors
    logits = [made.network(part).squeeze(-1).detach() for part in x.split(16)]
    if steps is misused_evaluations.Absent:
        labels = [(part > 0).long() for part in logits]
        for part in labels:
            part[:2] = 5
        recalls = [float((torch.cat(labels)[y == label] == label).float().mean()) for label in (0, 1)]
        assert float(trainer.callback_metrics["recall/macro"]) == pytest.approx(sum(recalls) / 2)
    elif steps is misused_evaluations.Cast:
        for name in TRUTHS:
            value = float(trainer.callback_metrics[f"val/{name}"])
            assert value == pytest.approx(truth(made, name, loader(seed=1)), abs=1e-6)
    else:  # of the last epoch, whose first batch is no longer special
        for cut in (0.1, 0.5, 0.9):
            expected = float(functional.binary_precision(torch.cat(logits).sigmoid(), y, threshold=cut))
            assert float(trainer.callback_metrics[f"precision@{cut}"]) == pytest.approx(expected)


def test_an_evaluation_does_not_guess() -> None:
    """EK109 cannot happen."""
    with pytest.raises(DeclarationError, match="an evaluation does not guess: declare inputs='logits'"):
        BinaryEvaluation("auto")


@pytest.mark.parametrize("steps", [misused.Own, misused.OwnByHand])
def test_a_wrong_mode_is_found(steps: type, tmp_path: Path) -> None:
    """Whether the entry itself was logged, or the value that it computed."""
    callbacks = importlib.import_module(f"{PACKAGES[0]}.callbacks")
    for mode, expected in (("min", ["EK114"]), ("max", [])):
        saving = callbacks.ModelCheckpoint(tmp_path / mode, monitor="val/f1", mode=mode)
        diagnose, _, _ = run(steps, PACKAGES[0], saving, enable_checkpointing=True)
        assert [finding.code for finding in found(diagnose)] == expected


class ResetAtTheStart(misused.Own):
    """Resets at the start of an epoch instead of its end, and logs the value of every batch."""

    def val_with(self, logits: torch.Tensor, target: torch.Tensor, loader: int) -> None:
        self.log_dict(self.numbers(logits, target))

    def on_validation_epoch_start(self) -> None:
        self.numbers.reset()


class StockResetAtTheStart(misused.ValueLogged):
    def on_validation_epoch_start(self) -> None:
        self.f1.reset()


@pytest.mark.parametrize("steps", [ResetAtTheStart, StockResetAtTheStart])
def test_a_state_that_the_epoch_resets_first_has_its_true_number(steps: type) -> None:
    diagnose, _, made = run(steps)
    [finding] = [each for each in found(diagnose) if each.subject == "val/f1"]
    assert finding.evidence["truth"] == pytest.approx(truth(made, "f1", loader(seed=1)))
