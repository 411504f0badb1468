"""Two models in one pass: the numbers of two evaluations, and McNemar's test of the samples."""

import pytest
import torch
from device import Operators, pretend_on_device
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from lightning_evalkit import (
    BinaryEvaluation,
    MulticlassEvaluation,
    MultilabelEvaluation,
    PairedComparison,
    compare,
)
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.evaluation.base import Evaluation
from lightning_evalkit.intervals import mcnemar

SAMPLES = 600


def noisy(target: Tensor, share: float, choices: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    other = torch.randint(choices, target.shape, generator=generator)
    return torch.where(torch.rand(target.shape, generator=generator) < share, target, other)


TASKS: dict[str, tuple[Evaluation, Tensor, int]] = {
    "binary": (BinaryEvaluation("labels"), torch.arange(SAMPLES) % 2, 2),
    "classes": (MulticlassEvaluation("labels", 4, ignore_index=3), torch.arange(SAMPLES) % 4, 4),
    "labels": (MultilabelEvaluation("labels", 3), torch.arange(3 * SAMPLES).view(-1, 3) // 2 % 2, 2),
}


@pytest.mark.parametrize("task", TASKS)
def test_both_models_are_counted_and_paired(task: str):
    template, target, choices = TASKS[task]
    one, other = noisy(target, 0.7, choices, 1), noisy(target, 0.85, choices, 2)
    paired = PairedComparison(template, buckets=512)
    for part in torch.arange(SAMPLES).split(250):
        paired.update(one[part], other[part], target[part])
    twins = [template.replace(buckets=512) for _ in range(2)]
    for twin, predicted in zip(twins, (one, other), strict=True):
        twin.update(predicted, target, sample=torch.arange(SAMPLES))
    assert paired.comparisons() == compare(*twins)
    seen = target != 3 if task == "classes" else torch.ones(SAMPLES, dtype=torch.bool)
    rights = [(predicted == target).view(SAMPLES, -1).all(1) for predicted in (one, other)]
    only = [int((a & ~b & seen).sum()) for a, b in (rights, rights[::-1])]
    assert paired.mcnemar() == mcnemar(*only)
    values, first, second = paired.compute(), twins[0].compute(), twins[1].compute()
    assert values.pop("mcnemar") == pytest.approx(mcnemar(*only).exact)
    assert values == {name: second[name] - value for name, value in first.items()}
    assert template.tally.update_count == 0
    paired.reset()
    with pytest.warns(UserWarning, match="before any ``update``: nothing was counted"):
        assert paired.mcnemar() == mcnemar(0, 0)


def test_a_failed_update_counts_neither():
    paired = PairedComparison(BinaryEvaluation("labels"))
    target = torch.tensor([0, 1, 1])
    paired.update(target, target, target)
    with pytest.raises(InputError):
        paired.update(target, torch.tensor([0, 1, 7]), target)
    with pytest.raises(InputError):
        paired.update(target, target, target, sample=torch.arange(2))
    assert [each.counts.total for each in paired.models()] == [3, 3]
    assert paired.update_count == 1


def test_several_thresholds_are_refused():
    with pytest.raises(DeclarationError, match="expected one threshold"):
        PairedComparison(BinaryEvaluation("logits", threshold=[0.2, 0.5]))
    with pytest.raises(DeclarationError, match="expected an evaluation that says what is compared, got 3"):
        PairedComparison(3)


def test_a_state_of_inference_mode_goes_on_outside_and_survives_copies_and_checkpoints():
    template, target, _ = TASKS["binary"]
    one, other = noisy(target, 0.7, 2, 1), noisy(target, 0.85, 2, 2)
    whole, parts = (PairedComparison(template, buckets=64) for _ in range(2))
    whole.update(one, other, target)
    with torch.inference_mode():
        parts.update(one[:200], other[:200], target[:200])
        parts.compute()
        parts.reset()
        parts.update(one[:200], other[:200], target[:200])
    parts.persistent(True)
    loaded = PairedComparison(template, buckets=64)
    loaded.load_state_dict(parts.state_dict())
    for each in (parts, loaded, parts.clone()):
        each.update(one[200:], other[200:], target[200:])
        assert each.comparisons() == whole.comparisons()
        assert each.mcnemar() == whole.mcnemar()
    with pytest.raises(RuntimeError, match="buckets=64 in the checkpoint, 128 here"):
        PairedComparison(template, buckets=128).load_state_dict(parts.state_dict())
    assert parts(one[:9], other[:9], target[:9]).keys() == parts.compute().keys()  # forward


@pytest.mark.parametrize("task", TASKS)
def test_an_update_on_a_device_waits_for_nothing(task: str):
    template, target, _ = TASKS[task]
    paired = PairedComparison(template.replace(inputs="logits"), buckets=64)
    shape = (SAMPLES, 4) if task == "classes" else target.shape
    with FakeTensorMode():
        pretend_on_device(paired)
        scores = torch.zeros(shape, device="cuda:0")
        with Operators() as operators:
            paired.update(scores, scores, torch.zeros(target.shape, dtype=torch.int64, device="cuda:0"))
    assert operators.names
    assert operators.waiting == []
