"""Laws of intervals over the whole table of statistics, and references from statsmodels."""

import itertools
from fractions import Fraction
from math import inf, isfinite, nan

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from lightning_evalkit import BinaryEvaluation, Counts
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.intervals import Interval, intervals
from lightning_evalkit.intervals.binomial import BINOMIAL
from lightning_evalkit.intervals.shares import share_of
from lightning_evalkit.statistics import STATISTICS, Statistic, find, ratio, root
from lightning_evalkit.statistics.quantity import Quantity

NAMES = list(STATISTICS)
SHARES = [name for name in NAMES if share_of(STATISTICS[name])]
OTHERS = [name for name in NAMES if name not in SHARES]
cell = st.integers(0, 60)
tables = st.builds(Counts, tp=cell, fp=cell, fn=cell, tn=cell)
levels = st.sampled_from([0.5, 0.8, 0.95, 0.99])


def one(counts: Counts, name: str, **asked: object) -> Interval:
    return intervals(counts, name, **asked)[name]


def times(counts: Counts, number: int) -> Counts:
    return Counts(*(number * each for each in counts.cells))


# ---- the kind of a statistic is read from its definition


def test_kinds_are_those_of_the_definitions():
    declared = {name for name in NAMES if STATISTICS[name].proportion}
    assert {*SHARES} == declared | {"f1", "jaccard"}
    assert share_of(find("f1")).inside == 2 * share_of(find("f1")).outside


def made(definition: object) -> Statistic:
    return Statistic("made", definition, symbol="", formula="")


def test_a_new_statistic_has_its_kind_without_being_listed():
    assert share_of(made(lambda c: ratio(c.tp + c.fp, c.tp + c.fp + c.fn))).inside == 1
    assert share_of(made(lambda c: ratio(3 * c.tn, 3 * c.tn + 2 * c.fn + 2 * c.fp))).inside == Fraction(3)
    for definition in (
        lambda c: ratio(2 * c.tp + c.fp, 2 * c.tp + c.fp + c.fn),  # two weights inside
        lambda c: ratio(c.tp, c.tp + c.fp + 2 * c.fn),  # two weights outside
        lambda c: ratio(c.tp * c.tn, c.tp * c.tn + c.fp * c.fn),
        lambda c: ratio(c.tp * c.tp, c.tp * (c.tp + c.fp)),
        lambda c: ratio(c.tp, c.tn),
        lambda c: root(c.tp, c.tp + c.fp),
        lambda c: ratio(c.tp, c.tp + c.fp) / 2,
        lambda c: Quantity(ratio(c.tp, c.tp + c.fp).terms * 2),
    ):
        assert share_of(made(definition)) is None


# ---- law 1: around the value, inside the range, never empty


@pytest.mark.parametrize("name", NAMES)
@given(counts=tables, level=levels)
def test_the_value_is_inside_and_the_ends_are_in_range(name: str, counts: Counts, level: float):
    found, value = one(counts, name, level=level), float(find(name)(counts).value())
    low, high = find(name).bounds
    if value != value:
        assert (found.known, found.method) == (False, "none")
        assert "0/0" in found.reason
        assert found.low != found.low
        return
    assert found.value == value
    assert low <= found.low <= value <= found.high <= high
    assert found.low < found.high
    assert found.n >= 1


@pytest.mark.parametrize("method", BINOMIAL)
@given(n=st.integers(1, 10_000), share=st.floats(0, 1), level=levels)
def test_every_share_has_an_interval(method: str, n: int, share: float, level: float):
    for k in (0, round(share * n), n):
        low, high = BINOMIAL[method](k, n, level)
        assert 0 <= low <= k / n <= high <= 1
        assert low < high
        assert (low == 0) == (k == 0) or method == "anytime"
        assert (high == 1) == (k == n) or method == "anytime"


# ---- law 2: references


@given(n=st.integers(1, 5_000), share=st.floats(0, 1), level=levels)
def test_shares_equal_statsmodels(n: int, share: float, level: float):
    k = round(share * n)
    for ours, theirs in (("wilson", "wilson"), ("clopper-pearson", "beta")):
        expected = proportion_confint(k, n, alpha=1 - level, method=theirs)
        assert BINOMIAL[ours](k, n, level) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    if 0 < k < n:
        expected = proportion_confint(k, n, alpha=1 - level, method="jeffreys")
        assert BINOMIAL["jeffreys"](k, n, level) == pytest.approx(expected, rel=1e-9)


# ---- law 3: F1 is an image of Jaccard


@pytest.mark.parametrize("method", BINOMIAL)
@given(counts=tables, more=cell)
def test_f1_is_the_image_of_jaccard(method: str, counts: Counts, more: int):
    f1, jaccard = one(counts, "f1", method=method), one(counts, "jaccard", method=method)
    if not f1.known:
        return
    for end in ("low", "value", "high"):
        share = getattr(jaccard, end)
        assert getattr(f1, end) == pytest.approx(2 * share / (1 + share), abs=1e-12)
    swapped = Counts(tp=counts.tp, fp=counts.fn, fn=counts.fp, tn=counts.tn + more)
    assert one(swapped, "f1", method=method) == f1


# ---- law 5: same counts, same bits


@pytest.mark.parametrize("name", ["f1", "mcc", "balanced_accuracy"])
@pytest.mark.parametrize("method", ["auto", "bootstrap", "bca"])
def test_same_counts_same_bits(name: str, method: str):
    numbers = (41, 7, 12, 90)
    plain, tensors = Counts(*numbers), Counts(*torch.tensor(numbers))
    torch.manual_seed(1), np.random.seed(1)
    assert one(plain, name, method=method) == one(tensors, name, method=method) == one(plain, name, method=method)


# ---- law 9: looking often


@given(n=st.integers(1, 3_000), share=st.floats(0, 1), level=st.sampled_from([0.5, 0.95, 0.999, 0.9999999]))
def test_anytime_contains_wilson(n: int, share: float, level: float):
    k = round(share * n)
    wilson, anytime = BINOMIAL["wilson"](k, n, level), BINOMIAL["anytime"](k, n, level)
    assert anytime[0] <= wilson[0]
    assert wilson[1] <= anytime[1]


@pytest.mark.parametrize("truth", [0.1, 0.5, 0.95])
def test_a_hundred_looks_exclude_the_truth_rarely(truth: float):
    """Wilson, for contrast, excludes it at some look in about a third of the runs."""
    looks, runs = np.arange(50, 5_001, 50), 200
    hits = np.random.default_rng(5).random((runs, looks[-1])) < truth
    found = hits.cumsum(1)[:, looks - 1]

    def excluded(method: str) -> float:
        interval = BINOMIAL[method]
        out = [any(not low <= truth <= high for low, high in _looked(interval, row, looks)) for row in found.tolist()]
        return sum(out) / runs

    assert excluded("anytime") <= 0.05
    assert excluded("wilson") > 0.2


def _looked(interval: object, row: list[int], looks: np.ndarray) -> list[tuple[float, float]]:
    return [interval(k, int(n), 0.95) for k, n in zip(row, looks, strict=True)]


# ---- law 10: more data, higher level


@pytest.mark.parametrize("name", NAMES)
@given(counts=tables, more=st.integers(2, 4), higher=st.sampled_from([(0.5, 0.8), (0.8, 0.95), (0.95, 0.999)]))
def test_more_data_never_widens_and_a_higher_level_never_narrows(
    name: str, counts: Counts, more: int, higher: tuple[float, float]
):
    """Of what is drawn at random (10,000 tables) a width is known to about 1 %, so that twice the data is narrower for
    certain, and a hundredth more need not be."""
    found, wider = (one(counts, name, level=level) for level in higher)
    if not found.known or not isfinite(found.value):
        return
    assert one(times(counts, more), name, level=higher[0]).width <= found.width
    assert wider.low <= found.low
    assert found.high <= wider.high


@pytest.mark.parametrize("method", ["clopper-pearson", "jeffreys", "anytime", "dirichlet", "bootstrap"])
def test_a_higher_level_never_narrows_whatever_the_method(method: str):
    counts = Counts(tp=30, fp=4, fn=9, tn=60)
    ends = [one(counts, "f1", level=level, method=method) for level in (0.5, 0.8, 0.9, 0.95, 0.99)]
    assert all(b.low <= a.low and a.high <= b.high for a, b in itertools.pairwise(ends))


# ---- resampling


@pytest.mark.parametrize("name", ["f1", "mcc", "recall"])
def test_resamples_of_counts_are_resamples_of_samples(name: str):
    counts, rng = Counts(tp=60, fp=25, fn=30, tn=85), np.random.default_rng(0)
    samples = np.repeat(np.arange(4), counts.cells)
    drawn = [np.bincount(rng.choice(samples, len(samples)), minlength=4) for _ in range(4_000)]
    values = find(name)(Counts(*torch.from_numpy(np.array(drawn).T))).value().numpy()
    found = one(counts, name, method="bootstrap")
    assert (found.low, found.high) == pytest.approx(np.quantile(values, [0.025, 0.975]), abs=0.012)


def test_bca_corrects_towards_the_exact_interval():
    """Of a rate near 1, the percentiles are too high, and the exact interval reaches further down."""
    counts = Counts(tp=38, fp=0, fn=2, tn=40)
    exact, percentile, bca = (one(counts, "recall", method=each) for each in ("clopper-pearson", "bootstrap", "bca"))
    assert exact.low < bca.low < percentile.low


def test_at_another_prevalence_both_rates_are_uncertain():
    counts = Counts(tp=45, fp=20, fn=5, tn=180)
    found = intervals(counts, "precision", "recall", "prevalence", prevalence=0.01)
    recall = one(counts, "recall", method="jeffreys")
    assert (found["recall"].low, found["recall"].high) == pytest.approx((recall.low, recall.high), abs=0.01)
    assert found["prevalence"].low == pytest.approx(0.01) == found["prevalence"].high
    expected = Fraction(9, 10) * 1 / (Fraction(9, 10) * 1 + Fraction(1, 10) * 99)
    assert found["precision"].value == pytest.approx(float(expected))
    assert found["precision"].low < float(expected) < found["precision"].high


@pytest.mark.parametrize("method", ["dirichlet", "bootstrap", "bca"])
def test_levels_that_so_few_draws_cannot_tell_are_refused(method: str):
    """Beyond 0.999 the ends would be the farthest of 10,000 tables, whatever the level."""
    counts = Counts(tp=40, fp=10, fn=10, tn=40)
    assert one(counts, "mcc", level=0.999, method=method).known
    with pytest.raises(DeclarationError, match=r"a level of at most 0\.999 for a method that draws at random, got 0.9"):
        one(counts, "mcc", level=0.9995, method=method)
    assert one(counts, "f1", level=0.999999).width > one(counts, "f1", level=0.999).width


# ---- refusals


def test_wilson_of_mcc_is_refused_with_the_reason():
    with pytest.raises(DeclarationError, match=r"'wilson' does not hold for mcc, which is not a share of samples: use"):
        one(Counts(tp=1, fp=1, fn=1, tn=1), "mcc", method="wilson")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"method": "wald"}, r"expected method to be one of auto, wilson, .*, got 'wald'"),
        ({"level": 95}, r"expected level to be a number between 0 and 1, such as 0.95, got 95"),
        ({"level": nan}, r"expected level to be a number between 0 and 1"),
        ({"level": 1 - 2**-53}, r"expected level to be a number between 0 and 1"),
        ({"method": "delong"}, r"'delong' does not hold for recall, which is not the area under a ROC curve"),
        ({"method": "smoothed"}, r"'smoothed' does not hold for recall, which is not an average over classes"),
        ({"method": "buckets"}, r"'buckets' does not hold for recall, whose samples are not counted in buckets"),
    ],
)
def test_wrong_questions(asked: dict[str, object], message: str):
    with pytest.raises(DeclarationError, match=message):
        one(Counts(tp=1, fp=1, fn=1, tn=1), "recall", **asked)


def test_weights_are_refused():
    with pytest.raises(InputError, match="sums of weights do not give the number of samples"):
        one(Counts(tp=1.5, fp=1, fn=1, tn=1), "recall")


def test_counts_answer_themselves():
    counts = Counts(tp=40, fp=10, fn=10, tn=40)
    assert counts.intervals("f1", "mcc", level=0.9) == intervals(counts, "f1", "mcc", level=0.9)
    assert counts.intervals("f1", prevalence=0.1) == intervals(counts, "f1", prevalence=0.1)
    assert [*counts.intervals()] == [*BinaryEvaluation("labels").keys()]
    assert one(Counts(tp=5, fp=0, fn=0, tn=5), "diagnostic_odds_ratio").high == inf
