"""Intervals of groups: which are surely bad, and which only have few samples."""

import pytest
import torch
from torch import Tensor

from lightning_evalkit import BinaryEvaluation, Counts, MulticlassEvaluation, Slices
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.intervals import holm, intervals
from lightning_evalkit.intervals.comparison import unpaired


def sliced(rights: list[tuple[int, int]], **declared: object) -> Slices:
    """Groups of positives, of each so many right of so many."""
    slices = Slices(BinaryEvaluation("labels", statistics=["recall", "false_negative_rate"]), len(rights), **declared)
    for group, (right, size) in enumerate(rights):
        slices.update((torch.arange(size) < right).long(), torch.ones(size).long(), torch.full((size,), group))
    return slices


RIGHTS = [(1, 2), (60, 100), (90, 100), (950, 1000)]


def test_groups_have_the_intervals_of_their_counts():
    slices = sliced(RIGHTS, group_names=["a", "b", "c", "d"])
    for found, (right, size) in zip(slices.intervals(level=0.9)["recall"], RIGHTS, strict=True):
        counts = Counts(tp=right, fp=0, fn=size - right, tn=0)
        assert (found.size, found.interval) == (size, intervals(counts, "recall", level=0.9)["recall"])
    assert [each.name for each in slices.intervals()["recall"]] == ["a", "b", "c", "d"]


def test_each_group_is_compared_with_all_others():
    found = sliced(RIGHTS).intervals()["recall"]
    all_right, everyone = sum(right for right, _ in RIGHTS), sum(size for _, size in RIGHTS)
    for each, (right, size) in zip(found, RIGHTS, strict=True):
        others = Counts(tp=all_right - right, fp=0, fn=everyone - size - all_right + right, tn=0)
        one = Counts(tp=right, fp=0, fn=size - right, tn=0)
        exact = [intervals(counts, "recall", method="clopper-pearson")["recall"] for counts in (others, one)]
        assert each.p_value == pytest.approx(unpaired(*exact).p_value)
    adjusted = sliced(RIGHTS).intervals(adjust="holm")["recall"]
    assert [each.p_value for each in adjusted] == pytest.approx(holm([each.p_value for each in found]))


def test_two_samples_are_no_evidence():
    """1 of 2 right is nothing unusual where 19 of 20 are: it happens to one such group in ten."""
    tiny, bad, *_ = sliced(RIGHTS).intervals()["recall"]
    assert tiny.p_value > 0.05
    assert bad.p_value < 1e-6


def test_of_equal_groups_holm_finds_none():
    """Without an adjustment one of 200 equal groups is almost always found to differ."""
    generator = torch.Generator().manual_seed(0)
    slices, target = Slices(BinaryEvaluation("labels", statistics=["accuracy"]), 200), torch.ones(20_000).long()
    predicted = (torch.rand(20_000, generator=generator) < 0.8).long()
    slices.update(predicted, target, torch.arange(20_000) % 200)
    alone, together = (slices.intervals(adjust=adjust)["accuracy"] for adjust in (None, "holm"))
    assert sum(each.p_value < 0.05 for each in alone) > 2
    assert sum(each.p_value < 0.05 for each in together) == 0


def test_tiny_groups_are_not_the_worst_by_noise():
    slices = sliced(RIGHTS)
    assert [group.name for group in slices.worst("recall", 2)] == ["0", "1"]
    assert [group.name for group in slices.worst("recall", 2, by="high")] == ["1", "0"]
    assert slices.worst("recall", 1, by="high")[0][1:] == (100, 0.6)
    assert [group.name for group in slices.worst("false_negative_rate", 2, by="low")] == ["1", "0"]
    with pytest.raises(InputError, match="expected by='value' or by='high' for 'recall', of which more is better"):
        slices.worst("recall", by="low")
    with pytest.raises(DeclarationError, match="expected adjust to be 'holm' or None, got 'bonferroni'"):
        slices.intervals(adjust="bonferroni")


def test_small_groups_and_weights():
    slices = sliced(RIGHTS, minimum=10)
    assert [each.size for each in slices.intervals()["recall"]] == [100, 100, 1000]
    weighted = Slices(BinaryEvaluation("labels", statistics=["recall"], weighted=True), 2)
    weighted.update(torch.tensor([1, 0]), torch.tensor([1, 1]), torch.tensor([0, 1]), torch.tensor([0.5, 2.0]))
    found = weighted.intervals()["recall"]
    assert "the number of samples" in found[0].interval.reason
    assert found[0].p_value != found[0].p_value


def test_averages_over_classes_of_groups():
    generator = torch.Generator().manual_seed(1)
    target = torch.randint(3, (900,), generator=generator)
    predicted = torch.where(torch.rand(900, generator=generator) < 0.8, target, (target + 1) % 3)
    template = MulticlassEvaluation("labels", 3, statistics=["f1/macro", "mcc"], confusion_matrix=True)
    slices, groups = Slices(template, 3), torch.arange(900) % 3
    slices.update(predicted, target, groups)
    for place, found in enumerate(slices.intervals()["f1/macro"]):
        assert found.interval == _alone(predicted[groups == place], target[groups == place]).interval("f1/macro")


def _alone(predicted: Tensor, target: Tensor) -> MulticlassEvaluation:
    evaluation = MulticlassEvaluation("labels", 3, statistics=["f1/macro"], confusion_matrix=True)
    evaluation.update(predicted, target)
    return evaluation
