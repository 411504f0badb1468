"""The interval of the share of positives at which accuracy and F1 are equal."""

from __future__ import annotations

import pytest
from scipy.stats import binom

from lightning_evalkit import Counts
from lightning_evalkit.errors import InputError
from lightning_evalkit.intervals import crossing_interval, crossing_prevalence


@pytest.mark.parametrize(
    ("recall", "specificity", "positives", "negatives"),
    [(0.9, 0.7, 30, 30), (0.5, 0.5, 20, 40), (0.95, 0.6, 40, 15), (0.8, 0.99, 30, 30), (0.3, 0.9, 25, 25)],
)
def test_it_contains_the_truth_as_often_as_it_says(recall: float, specificity: float, positives: int, negatives: int):
    """Over all tables that as many samples can give, by their probability; those without a crossing say nothing."""
    truth, inside, all_of_them = specificity / (recall + specificity), 0.0, 0.0
    for tp in range(1, positives + 1):
        for tn in range(1, negatives + 1):
            counts = Counts(tp=tp, fp=negatives - tn, fn=positives - tp, tn=tn)
            if (found := crossing_interval(counts)) is not None:
                chance = float(binom.pmf(tp, positives, recall) * binom.pmf(tn, negatives, specificity))
                all_of_them += chance
                inside += chance * (truth in found)
    assert all_of_them > 0.99
    assert 0.94 <= inside / all_of_them <= 0.97


def test_its_value_is_the_crossing_and_the_classes_may_be_exchanged():
    counts = Counts(tp=45, fp=30, fn=5, tn=20)
    found, other = crossing_interval(counts, 0.9), crossing_interval(Counts(tp=20, fp=5, fn=30, tn=45), 0.9)
    assert found is not None
    assert other is not None
    assert found.value == float(crossing_prevalence(counts) or 0)
    assert (found.low, found.high) == pytest.approx((1 - other.high, 1 - other.low))
    assert (found.n, found.level, found.method) == (100, 0.9, "square-and-add")
    wide, narrow = crossing_interval(counts, 0.99), crossing_interval(Counts(tp=450, fp=300, fn=50, tn=200), 0.9)
    assert wide.low < found.low < narrow.low < narrow.high < found.high < wide.high  # type: ignore[union-attr]


def test_there_is_none_without_a_crossing_or_of_weights():
    for counts in (Counts(5, 0, 0, 5), Counts(0, 1, 5, 5), Counts(5, 5, 1, 0)):
        assert crossing_interval(counts) is None
    with pytest.raises(InputError, match="expected whole numbers of samples"):
        crossing_interval(Counts(tp=4.5, fp=1, fn=1, tn=3))
