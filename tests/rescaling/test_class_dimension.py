"""Classes and labels are the second dimension of logits, (N, C, ...): corrections work element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightning.pytorch import LightningModule, Trainer
from quiet import quiet_trainer
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from lightning_evalkit import MultilabelEvaluation
from lightning_evalkit.callbacks import LossReport, ThresholdTuning
from lightning_evalkit.callbacks import PriorCorrection as PriorCallback
from lightning_evalkit.callbacks import TemperatureScaling as ScalingCallback
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.metrics import LossProfile
from lightning_evalkit.rescaling import PriorCorrection, TemperatureScaling, VectorScaling

pytestmark = [
    pytest.mark.filterwarnings("ignore::lightning_evalkit.errors.UndefinedWarning"),
    pytest.mark.filterwarnings("ignore:.*is at the end of what is looked at:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*a larger scale would always have a lower loss:UserWarning"),
]

CLASSES = 3
SHAPES = [(), (1,), (3,), (5, 3), (4, 4), (2, 1, 3)]
"""Behind (N, C): as wide as the classes, too."""
KINDS = {"classes": "num_classes", "labels": "num_labels"}
every_kind = pytest.mark.parametrize("kind", KINDS)
every_shape = pytest.mark.parametrize("shape", SHAPES)


def batch(kind: str, shape: tuple[int, ...], rows: int = 12, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    true = torch.randn((rows, CLASSES, *shape), generator=generator) * torch.tensor([0.5, 1.0, 2.0]).view(
        -1, *[1] * len(shape)
    )
    if kind == "labels":
        return true * 2, (torch.rand(true.shape, generator=generator) < true.sigmoid()).long()
    chances = by_element(true).softmax(1)
    return true * 2, torch.multinomial(chances, 1, generator=generator).view(rows, *shape)


def by_element(values: Tensor) -> Tensor:
    """A row for each element, by hand: one index of the last dimensions after the other."""
    rows = [sample.reshape(len(sample), -1)[:, place] for sample in values for place in range(sample[0].numel())]
    return torch.stack(rows)


def flat(kind: str, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    return by_element(logits), by_element(target) if kind == "labels" else target.flatten()


CORRECTIONS: dict[str, Any] = {
    "weights": lambda _: PriorCorrection(class_weights=[1.0, 2.0, 8.0]),
    "shares": lambda _: PriorCorrection(trained_at=[0.2, 0.3, 0.5], deployed_at=[0.6, 0.3, 0.1]),
    "single": lambda _: PriorCorrection(pos_weight=8.0),
    "vector": lambda kind: VectorScaling(**{KINDS[kind]: CLASSES}).fit(*batch(kind, ())),
    "temperature": lambda kind: TemperatureScaling(**{KINDS[kind]: CLASSES}).fit(*batch(kind, ())),
}


@every_kind
@every_shape
@pytest.mark.parametrize("name", CORRECTIONS)
def test_a_correction_is_one_of_every_element(kind: str, shape: tuple[int, ...], name: str) -> None:
    correction, (logits, _) = CORRECTIONS[name](kind), batch(kind, shape)
    corrected = correction(logits)
    assert corrected.shape == logits.shape
    torch.testing.assert_close(by_element(corrected), correction(by_element(logits)))
    assert correction(logits.bfloat16()).dtype == torch.bfloat16


def test_a_prior_moves_every_class_by_its_own_weight() -> None:
    logits = torch.zeros(2, CLASSES, 5, CLASSES)
    corrected = PriorCorrection(class_weights=[1.0, 2.0, 8.0])(logits)
    for place, weight in enumerate((1.0, 2.0, 8.0)):
        expected = -torch.tensor(weight).log()
        torch.testing.assert_close(corrected[:, place], expected.expand(2, 5, CLASSES))


@every_kind
@given(shape=st.sampled_from(SHAPES), seed=st.integers(0, 1_000))
def test_what_is_fitted_is_what_elements_alone_give(kind: str, shape: tuple[int, ...], seed: int) -> None:
    logits, target = batch(kind, shape, seed=seed)
    for scaling in (TemperatureScaling, VectorScaling):
        one, other = (
            scaling(**{KINDS[kind]: CLASSES}).fit(*each) for each in ((logits, target), flat(kind, logits, target))
        )
        for name, value in one.named_buffers(recurse=False):
            torch.testing.assert_close(getattr(other, name), value)
    one, other = (LossProfile(**{KINDS[kind]: CLASSES}) for _ in range(2))
    one.update(logits, target)
    other.update(*flat(kind, logits, target))
    for name, value in one.compute().items():
        torch.testing.assert_close(other.compute()[name], value, equal_nan=True)
    assert [each.loss for each in other.hardest()] == pytest.approx([each.loss for each in one.hardest()])
    assert [each.group for each in other.hardest()] == [each.group for each in one.hardest()]
    samples, elements = [each.sample for each in one.hardest()], [each.sample for each in other.hardest()]
    assert samples == [each // max(target[0].numel() // (CLASSES if kind == "labels" else 1), 1) for each in elements]


@pytest.mark.parametrize("name", ["weights", "shares", "vector", "temperature"])
@pytest.mark.parametrize("shape", [(10, 4), (10, 4, 3), (3,), (10, 2, 3, 3)])
def test_another_number_of_classes_is_refused(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(DeclarationError) as refused:
        CORRECTIONS[name]("classes")(torch.zeros(shape))
    expected = f"expected logits of 3 classes in the second dimension, (N, 3, ...), got {shape}."
    assert str(refused.value) == expected


# ---- in a run


class Pixels(LightningModule):
    """Features are the logits of every pixel."""

    def forward(self, features: Tensor) -> Tensor:
        return features

    def validation_step(self, batch: Any, batch_idx: int) -> dict[str, Tensor]:
        features, target = batch
        return {"logits": self(features), "target": target}

    test_step = validation_step

    def predict_step(self, batch: Any, batch_idx: int) -> Tensor:
        return self(batch[0])


def trained(callbacks: list[Any]) -> Trainer:
    return quiet_trainer(*callbacks)


def loaded(tensors: tuple[Tensor, Tensor]) -> DataLoader[Any]:
    return DataLoader(TensorDataset(*tensors), batch_size=5)


@every_kind
@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3)])
def test_callbacks_learn_from_pixels_what_they_learn_from_rows(kind: str, vector: bool, shape: tuple[int, ...]) -> None:
    data, number = batch(kind, shape), {KINDS[kind]: CLASSES}
    found, fitted = [], []
    for each in (data, flat(kind, *data)):
        scaling = ScalingCallback(**number, vector=vector)
        prior = PriorCallback(class_weights=[1.0, 2.0, 8.0])
        trainer = trained([scaling, prior, LossReport(**number)])
        found.append(trainer.validate(Pixels(), loaded(each), verbose=False)[0])
        predicted = trainer.predict(Pixels(), loaded(each))
        assert predicted is not None
        fitted.append(torch.cat([part if part.ndim == 2 else by_element(part) for part in predicted]))
    assert found[0] == pytest.approx(found[1], rel=1e-5)
    torch.testing.assert_close(fitted[0], fitted[1])
    expected = data[0] - torch.tensor([1.0, 2.0, 8.0]).log().view(-1, 1, 1)
    torch.testing.assert_close(fitted[0], by_element(scaling.correction(expected)))


@pytest.mark.parametrize("shape", [(4, 4), (5, 3)])
def test_thresholds_of_labels_decide_pixels_as_rows(shape: tuple[int, ...]) -> None:
    data, labels = batch("labels", shape), []
    for each in (data, flat("labels", *data)):
        tuning = ThresholdTuning(MultilabelEvaluation("logits", CLASSES), predicts="logits")
        trainer = trained([tuning, ScalingCallback(num_labels=CLASSES, vector=True)])
        trainer.validate(Pixels(), loaded(each), verbose=False)
        predicted = trainer.predict(Pixels(), loaded(each))
        assert predicted is not None
        labels.append(
            torch.cat(
                [part["labels"] if part["labels"].ndim == 2 else by_element(part["labels"]) for part in predicted]
            )
        )
    assert torch.equal(*labels)


@pytest.mark.parametrize("kind", [torch.tensor, np.array, pd.Series], ids=["tensor", "array", "series"])
def test_shares_and_weights_are_arrays_and_columns_too(kind: Any) -> None:
    before, after, logits = [0.5, 0.3, 0.2], [0.1, 0.1, 0.8], torch.randn(4, 3)
    shares = PriorCorrection(trained_at=kind(before), deployed_at=kind(after))
    weights = PriorCorrection(class_weights=kind([1.0, 2.0, 4.0]))
    expected = logits - (torch.tensor(before, dtype=torch.double) / torch.tensor(after, dtype=torch.double)).log()
    assert torch.allclose(shares(logits), expected.float(), atol=1e-5)
    assert torch.allclose(weights(logits), logits - torch.tensor([1.0, 2.0, 4.0]).log(), atol=1e-6)
    with pytest.raises(DeclarationError, match="class_weights of two classes or more"):
        PriorCorrection(class_weights=kind([1.0]))
