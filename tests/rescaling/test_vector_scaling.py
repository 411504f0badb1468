"""Vector scaling: the least loss at any size and mean of the logits, and a word where there is none."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from lightning_evalkit.errors import InputError
from lightning_evalkit.rescaling import VectorScaling

WIDTH = 3
TASKS: dict[str, dict[str, int]] = {"binary": {}, "classes": {"num_classes": WIDTH}, "labels": {"num_labels": WIDTH}}
every_task = pytest.mark.parametrize("task", TASKS)
UNBOUNDED = "a larger scale would always have a lower loss"


def batch(task: str, seed: int = 0, rows: int = 200) -> tuple[Tensor, Tensor]:
    """Logits in double precision that are three times too large, and targets drawn from what they would be else."""
    generator = torch.Generator().manual_seed(seed)
    shape = (rows,) if task == "binary" else (rows, WIDTH)
    true = torch.randn(shape, generator=generator, dtype=torch.float64)
    if task == "classes":
        return true * 3, torch.multinomial(true.softmax(1), 1, generator=generator).squeeze(1)
    return true * 3, (torch.rand(shape, generator=generator) < true.sigmoid()).long()


def loss(task: str, logits: Tensor, target: Tensor) -> Tensor:
    if task == "classes":
        return cross_entropy(logits, target)
    return binary_cross_entropy_with_logits(logits, target.double())


def slope(task: str, scaling: VectorScaling, logits: Tensor, target: Tensor) -> float:
    """How the loss changes with scale, in units of the logits, and with shift: 0 where it is least."""
    scale, shift = (part.clone().requires_grad_() for part in (scaling.scale, scaling.shift))
    loss(task, logits * scale + shift, target).backward()
    assert scale.grad is not None
    assert shift.grad is not None
    centred = scale.grad - shift.grad * logits.mean(0)
    return max(float((centred / logits.std(0)).abs().max()), float(shift.grad.abs().max()))


@every_task
@given(
    seed=st.integers(0, 1_000),
    size=st.sampled_from([1e-30, 1e-6, 1.0, 1e3, 1e12]),
    mean=st.sampled_from([0.0, -7.0, 500.0, 1e5]),
)
def test_neither_size_nor_mean_of_the_logits_matters(task: str, seed: int, size: float, mean: float) -> None:
    logits, target = batch(task, seed)
    moved = (logits + mean) * size
    one, other = (VectorScaling(**TASKS[task]).fit(each, target) for each in (logits, moved))
    torch.testing.assert_close(other.scale * size, one.scale, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(loss(task, other(moved), target), loss(task, one(logits), target), rtol=1e-7, atol=0)
    assert slope(task, other, moved, target) < 1e-7


@every_task
@pytest.mark.parametrize(("size", "mean"), [(1.0, 500.0), (1e-6, 0.0)])
def test_logits_in_single_precision_are_fitted_as_well_as_they_can_be(task: str, size: float, mean: float) -> None:
    logits, target = batch(task)
    moved = (logits * size + mean).float()
    scaling = VectorScaling(**TASKS[task]).fit(moved, target)
    least = loss(task, VectorScaling(**TASKS[task]).fit(logits, target)(logits), target)
    found = loss(task, scaling(moved).double(), target)
    assert float(found) == pytest.approx(float(least), rel=1e-4)
    assert found < 0.9 * loss(task, logits, target), "the logits are three times too large"


@every_task
def test_a_fit_does_not_depend_on_the_last_one(task: str) -> None:
    logits, target = batch(task)
    scaling = VectorScaling(**TASKS[task]).fit(logits * 100, target.flip(0))
    scaling.fit(logits, target)
    fresh = VectorScaling(**TASKS[task]).fit(logits, target)
    assert torch.equal(scaling.scale, fresh.scale)
    assert torch.equal(scaling.shift, fresh.shift)


def separated(task: str) -> tuple[Tensor, Tensor]:
    logits, _ = batch(task)
    return logits, logits.argmax(1) if task == "classes" else (logits > 0.2).long()


def own_logit(task: str) -> tuple[Tensor, Tensor]:
    """One class or label is separated by its own logit, the others are not."""
    logits, target = batch(task)
    if task == "classes":
        logits[:, 0] = torch.where(target == 0, 5 + logits[:, 0].abs(), -5 - logits[:, 0].abs())
    elif task == "labels":
        target[:, 0] = (logits[:, 0] > 0.2).long()
    else:
        target = (logits > 0.2).long()
    return logits, target


def touching(task: str) -> tuple[Tensor, Tensor]:
    """Separated but for one value, at which both classes are."""
    logits, target = own_logit("binary")
    logits, target = (
        torch.cat((part, part.new_tensor(more))) for part, more in ((logits, [0.2, 0.2]), (target, [0, 1]))
    )
    if task == "binary":
        return logits, target
    if task == "labels":
        return torch.stack([logits] * WIDTH, 1), torch.stack([target] * WIDTH, 1)
    return torch.stack((logits, torch.zeros_like(logits), -9 + logits), 1), 1 - target


def missing(task: str) -> tuple[Tensor, Tensor]:
    logits, target = batch(task)
    return logits, target.clamp(max=WIDTH - 2) if task == "classes" else target * 0


@every_task
@pytest.mark.parametrize("make", [separated, own_logit, touching, missing])
def test_where_no_scaling_is_best_it_is_said_and_the_fit_is_finite(task: str, make: Any) -> None:
    logits, target = make(task)
    scaling = VectorScaling(**TASKS[task])
    with pytest.warns(UserWarning, match=UNBOUNDED):
        scaling.fit(logits, target)
    found = scaling(logits)
    assert bool(found.isfinite().all())
    assert float(found.abs().max()) < 50, "no certainty that few samples cannot give"
    assert loss(task, found, target) < loss(task, torch.zeros_like(logits), target)


def test_platts_targets_are_those_of_one_more_sample_of_every_class() -> None:
    """Of 2 and 2 separated samples: 3/4 and 1/4; a line through two values meets both exactly."""
    logits, target = torch.tensor([-1.0, -1.0, 3.0, 3.0]), torch.tensor([0, 0, 1, 1])
    with pytest.warns(UserWarning, match=UNBOUNDED):
        scaling = VectorScaling().fit(logits, target)
    assert scaling(logits).sigmoid().tolist() == pytest.approx([0.25, 0.25, 0.75, 0.75])


def test_only_labels_without_a_best_scaling_are_named() -> None:
    logits, target = batch("labels")
    target[:, 1] = (logits[:, 1] > 0).long()
    scaling = VectorScaling(num_labels=WIDTH)
    with pytest.warns(UserWarning, match=f"the logits of label 1 tell classes apart without an error.*{UNBOUNDED}"):
        scaling.fit(logits, target)
    alone = VectorScaling().fit(logits[:, 0], target[:, 0])
    assert float(scaling.scale[0]) == pytest.approx(float(alone.scale))


@every_task
def test_one_value_alone_says_nothing_of_a_scale(task: str) -> None:
    logits, target = batch(task)
    if task == "binary":
        logits = torch.full_like(logits, 2.0)
    else:
        logits[:, 1] = 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaling = VectorScaling(**TASKS[task]).fit(logits, target)
    assert float(scaling.scale[-1 if task == "binary" else 1]) == 1.0
    assert loss(task, scaling(logits), target) <= loss(task, logits, target)


def test_outliers_do_not_keep_a_line_from_the_others() -> None:
    logits, target = batch("binary", rows=500)
    plain = VectorScaling().fit(logits, target)
    logits[0], target[0] = 1e6, 1
    assert float(VectorScaling().fit(logits, target).scale) == pytest.approx(float(plain.scale), rel=0.05)


def test_infinite_logits_have_no_line() -> None:
    with pytest.raises(InputError, match="expected finite logits to fit a line to, got infinite ones"):
        VectorScaling().fit(torch.tensor([torch.inf, 1.0, -1.0]), torch.tensor([1, 0, 1]))
