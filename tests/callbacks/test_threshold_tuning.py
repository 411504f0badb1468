"""ThresholdTuning decides in test and prediction as it chose on validation, whatever precision, scale or correction."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from quiet import QUIET
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from lightning_evalkit import BinaryEvaluation, MultilabelEvaluation, Threshold
from lightning_evalkit.callbacks import PriorCorrection, TemperatureScaling, ThresholdTuning
from lightning_evalkit.callbacks.parts.decisions import Decisions
from lightning_evalkit.modules import BinaryClassifier, MultilabelClassifier

pytestmark = [
    pytest.mark.filterwarnings("ignore::lightning_evalkit.errors.UndefinedWarning"),
    pytest.mark.filterwarnings("ignore:the temperature .* is at the end"),
    pytest.mark.filterwarnings("ignore:best_f1_threshold is"),
]

ROWS, LABELS = 200, 2


class Given(torch.nn.Module):
    """Logits that are the features, in the precision of the run."""

    def __init__(self, scale: float, shift: float, outputs: int) -> None:
        super().__init__()
        self.weight, self.shift, self.outputs = torch.nn.Parameter(torch.eye(outputs) * scale), shift, outputs

    def forward(self, features: Tensor) -> Tensor:
        logits = features @ self.weight + self.shift
        return logits.squeeze(1) if self.outputs == 1 else logits


class Foreign(LightningModule):
    """Somebody's module, which returns logits in its steps and probabilities in prediction."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, features: Tensor) -> Tensor:
        return self.network(features)

    def validation_step(self, batch: Any, batch_idx: int) -> dict[str, Tensor]:
        return {"logits": self(batch[0]), "target": batch[1]}

    def test_step(self, batch: Any, batch_idx: int) -> dict[str, Tensor]:
        return {"logits": self(batch[0]), "target": batch[1]}

    def predict_step(self, batch: Any, batch_idx: int) -> Tensor:
        return self(batch[0]).sigmoid()


def data(labels: int, turned: bool = False) -> DataLoader[Any]:
    generator = torch.Generator().manual_seed(7)
    features = torch.randn(ROWS, labels, generator=generator)
    target = (torch.randn(ROWS, labels, generator=generator) + features > 0).long()
    target = 1 - target if turned else target
    return DataLoader(TensorDataset(features, target if labels > 1 else target.squeeze(1)), batch_size=64)


def module(kind: str, network: Given) -> Any:
    if kind == "foreign":
        return Foreign(network)
    if network.outputs > 1:
        return MultilabelClassifier(num_labels=network.outputs, network=network)
    return BinaryClassifier(network=network)


def f1(labels: Tensor, target: Tensor) -> Tensor:
    tp, wrong = ((labels == 1) & (target == 1)).sum(0), (labels != target).sum(0)
    return 2 * tp / (2 * tp + wrong)


def decided(
    kind: str, labels: int, network: Given, corrections: list[Any], turned: bool = False, precision: Any = "32-true"
) -> tuple[float, float, float]:
    """The criterion as it was chosen by, in test, and of predicted labels, on one and the same data."""
    evaluation = BinaryEvaluation("logits") if labels == 1 else MultilabelEvaluation("logits", labels)
    tuning = ThresholdTuning(evaluation)
    trainer = Trainer(**QUIET, callbacks=[*corrections, tuning], precision=precision)
    model, rows = module(kind, network), data(labels, turned)
    (chosen,) = trainer.validate(model, rows, verbose=False)
    saved = tuning.state_dict()
    assert "Threshold" not in repr(saved), "a checkpoint holds plain values"
    tuning.load_state_dict(saved)
    (tested,) = trainer.test(model, rows, verbose=False)
    predicted: Any = trainer.predict(model, rows)
    found = torch.cat([each["labels"] for each in predicted])
    name = "f1" if labels == 1 else "f1/macro"
    target = rows.dataset.tensors[1]  # type: ignore[attr-defined]
    return chosen[f"val/{name}@tuned"], tested[f"test/{name}@tuned"], float(f1(found, target).mean())


SCALES = {"usual": (1.0, 0.0), "certain": (1.0, 25.0), "uncertain": (1.0, -25.0), "large": (1e3, 0.0)}


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "bf16-true", "64-true"])
@pytest.mark.parametrize("scale", SCALES)
def test_a_chosen_threshold_decides_alike_in_every_precision_and_at_every_scale(precision: Any, scale: str) -> None:
    for kind, labels in (("own", 1), ("foreign", 1), ("own", LABELS)):
        chosen, tested, predicted = decided(kind, labels, Given(*SCALES[scale], labels), [], precision=precision)
        assert chosen == pytest.approx(tested, abs=1e-6), (kind, labels)
        assert chosen == pytest.approx(predicted, abs=1e-6), (kind, labels)
        assert chosen > 0.6


CORRECTIONS: dict[str, Any] = {
    "prior": lambda number: [PriorCorrection(pos_weight=9.0)],
    "temperature": lambda number: [TemperatureScaling(num_labels=number)],
    "vector": lambda number: [TemperatureScaling(num_labels=number, vector=True)],
    "both": lambda number: [TemperatureScaling(num_labels=number, vector=True), PriorCorrection(pos_weight=9.0)],
}


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("name", CORRECTIONS)
@pytest.mark.parametrize("turned", [False, True], ids=["rising", "falling"])
def test_a_chosen_threshold_decides_alike_behind_corrections(precision: Any, name: str, turned: bool) -> None:
    for kind, labels in (("own", 1), ("foreign", 1), ("own", LABELS)):
        corrections = CORRECTIONS[name](labels if labels > 1 else None)
        network = Given(2.0, 1.0, labels)
        chosen, tested, predicted = decided(kind, labels, network, corrections, turned, precision)
        if turned and name in ("vector", "both"):
            assert (corrections[0].correction.scale < 0).all(), "the slope is negative"
        assert chosen == pytest.approx(tested, abs=1e-6), (kind, labels)
        assert chosen == pytest.approx(predicted, abs=1e-6), (kind, labels)


class Rescaled(Foreign):
    """A module whose steps change what comes out of the place where logits are corrected."""

    def test_step(self, batch: Any, batch_idx: int) -> dict[str, Tensor]:
        return {"logits": self(batch[0]).flip(0), "target": batch[1].flip(0)}

    def predict_step(self, batch: Any, batch_idx: int) -> Tensor:
        return self(batch[0]).flip(0).sigmoid()


@pytest.mark.parametrize("turned", [False, True], ids=["rising", "falling"])
def test_where_validated_scores_are_not_known_the_threshold_goes_the_way_of_the_scores(turned: bool) -> None:
    tuning = ThresholdTuning(BinaryEvaluation("logits"))
    trainer = Trainer(**QUIET, callbacks=[TemperatureScaling(vector=True), tuning])
    model, rows = Rescaled(Given(2.0, 1.0, 1)), data(1, turned)
    (chosen,) = trainer.validate(model, rows, verbose=False)
    (tested,) = trainer.test(model, rows, verbose=False)
    assert tested["test/f1@tuned"] == pytest.approx(chosen["val/f1@tuned"], abs=1e-6)
    predicted: Any = trainer.predict(model, rows)
    target = torch.cat([batch[1].flip(0) for batch in rows])
    found = torch.cat([each["labels"] for each in predicted])
    assert float(f1(found, target)) == pytest.approx(chosen["val/f1@tuned"], abs=1e-6)


def test_probabilities_that_cannot_tell_are_not_decided_in_silence() -> None:
    decisions = Decisions([Threshold.from_logit(41.5)], "logits")
    with pytest.warns(UserWarning, match="some predictions are 1, as are logits on both sides of the chosen threshold"):
        decisions.of(torch.tensor([41.0, 42.0]).sigmoid(), "probabilities", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        usual = Decisions([Threshold.from_logit(0.5)], "logits")
        assert usual.of(torch.tensor([0.4, 0.6]).sigmoid(), "probabilities", None).tolist() == [0, 1]
        nothing = Decisions([Threshold.from_logit(float("inf"))], "logits")
        assert nothing.of(torch.ones(2), "probabilities", None).tolist() == [0, 0]


def test_the_logit_of_a_threshold_is_logged_beside_its_probability() -> None:
    tuning = ThresholdTuning(BinaryEvaluation("logits", threshold=0.99999991))
    trainer = Trainer(**QUIET, callbacks=[tuning])
    (found,) = trainer.validate(Foreign(Given(1.0, 45.0, 1)), data(1), verbose=False)
    assert isinstance(tuning.threshold, Threshold)
    assert found["val/threshold"] == 1
    assert found["val/threshold_logit"] == pytest.approx(tuning.threshold.logit)
    assert "val/f1@0.9999999" in found, "and not @1"


def test_a_module_saves_a_threshold_as_plain_values(tmp_path: Any) -> None:
    for threshold in (Threshold.from_logit(41.5), (0.5, Threshold.from_logit(41.5))):
        model = BinaryClassifier(num_features=2, threshold=threshold)
        trainer = Trainer(**QUIET)
        trainer.validate(model, DataLoader(TensorDataset(torch.randn(4, 2), torch.arange(4) % 2)), verbose=False)
        trainer.save_checkpoint(tmp_path / "kept.ckpt", weights_only=True)
        torch.load(tmp_path / "kept.ckpt", weights_only=True)
        loaded = BinaryClassifier.load_from_checkpoint(tmp_path / "kept.ckpt", weights_only=True)
        assert loaded.evaluation("val").threshold == threshold
