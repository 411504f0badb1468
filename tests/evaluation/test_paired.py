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
from lightning_evalkit.evaluation.differences import difference_of
from lightning_evalkit.evaluation.intervals import Source
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
    with pytest.raises(DeclarationError, match="expected an evaluation that declares what to compare, got 3"):
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


MEANS = ("f1/macro", "precision/macro", "recall/macro", "balanced_accuracy")


def of_few(rare: int, **options: object) -> tuple[MulticlassEvaluation, Tensor]:
    """Eleven classes, the first two with so few samples."""
    target = torch.cat((torch.arange(2).repeat_interleave(rare), torch.arange(2, 11).repeat_interleave(40)))
    names = [*MEANS, "f1/weighted", "accuracy", "f1/0"]
    return MulticlassEvaluation("labels", 11, per_class=True, statistics=names, **options), target


@pytest.mark.parametrize(("rare", "told"), [(4, False), (5, True)])
def test_means_over_classes_with_few_samples_are_not_compared(rare: int, told: bool):
    """The rule and the words of their intervals: two of eleven classes are more than one in ten."""
    template, target = of_few(rare)
    paired = PairedComparison(template)
    paired.update(noisy(target, 0.7, 11, 1), noisy(target, 0.95, 11, 2), target)
    found, intervals = paired.comparisons(), paired.models()[0].intervals()
    for name in MEANS:
        assert (found[name].low == found[name].low, intervals[name].known) == (told, told)
        assert found[name].no_interval == intervals[name].reason
        assert found[name].verdict == ("better" if told else "undecided")
        assert found[name].difference > 0.1
        assert ("averages have fewer than 5 buckets with samples" in found[name].no_interval) is not told
    for name in ("f1/weighted", "accuracy", "f1/0"):
        assert found[name].no_interval == ""
        assert found[name].low <= found[name].difference <= found[name].high


@pytest.mark.parametrize(("rare", "told"), [(4, False), (5, True)])
def test_differences_of_means_within_one_evaluation_keep_the_rule(rare: int, told: bool):
    template, target = of_few(rare, buckets=1024)
    template.update(noisy(target, 0.8, 11, 1), target, sample=torch.arange(len(target)))
    mean, weighted, accuracy = (template[name].readout for name in ("f1/macro", "f1/weighted", "accuracy"))
    source = Source(template.tally.compute(), template.zero_division)
    assert difference_of(mean, weighted, source, 0.95).known is told
    assert difference_of(weighted, accuracy, source, 0.95).known


def test_independent_means_say_why_they_are_not_compared():
    template, target = of_few(4)
    other = template.clone()
    template.update(noisy(target, 0.7, 11, 1), target)
    other.update(noisy(target, 0.95, 11, 2), target)
    found = compare(template, other)["f1/macro"]
    assert found.no_interval == template.interval("f1/macro").reason != ""
    assert "not counted by their ids" in found.reason


def test_labels_with_few_positives_are_not_compared():
    target = torch.zeros(400, 2).long()
    target[:4, 0], target[100:300, 1] = 1, 1
    paired = PairedComparison(MultilabelEvaluation("labels", 2, statistics=["recall/macro", "recall/micro"]))
    paired.update(noisy(target, 0.8, 2, 1), noisy(target, 0.9, 2, 2), target)
    found = paired.comparisons()
    assert (
        "1 of the 2 labels that it averages has fewer than 5 buckets with positives"
        in found["recall/macro"].no_interval
    )
    assert found["recall/macro"].no_interval == paired.models()[0].interval("recall/macro").reason
    assert found["recall/micro"].no_interval == ""
