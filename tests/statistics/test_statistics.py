"""Every statistic of the table obeys the laws of its kind and equals an independent reference, and none is forgotten.

The laws themselves are tested: deliberately wrong statistics must fail them.
"""

from __future__ import annotations

import copy
import math
import pickle
import re
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn

from lightning_evalkit import Counts
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.registry import Registry
from lightning_evalkit.statistics import STATISTICS, Statistic, f_beta, find, ratio

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    Array = np.ndarray[Any, np.dtype[Any]]
    Law = Callable[[Statistic, Counts], None]

NAMES = tuple(STATISTICS)
CELLS = ("tp", "fp", "fn", "tn")
# Nothing is kept between runs: a wrong statistic would leave its failures behind, and every run should be the same.
QUICK = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
)
# Zeros are frequent, because 0/0 and empty marginals are where statistics go wrong.
cells = st.one_of(st.just(0), st.integers(0, 60))
tables = st.builds(Counts, cells, cells, cells, cells)
full_tables = st.builds(Counts, *[st.integers(1, 9)] * 4)


def multiplied(counts: Counts, factor: Any) -> Counts:
    return Counts(*(cell * factor for cell in counts.cells))


def as_tensors(counts: Counts, dtype: torch.dtype = torch.int64) -> Counts:
    return Counts(*(torch.tensor(cell, dtype=dtype) for cell in counts.cells))


def stacked(*counts: Counts) -> Counts:
    return Counts(*(torch.tensor(cell) for cell in zip(*(c.cells for c in counts), strict=True)))


def number(statistic: Statistic, counts: Counts, **options: float) -> float:
    return float(statistic(counts).value(**options))


def same(one: float, other: float) -> bool:
    """Equal to rounding, NaN and infinity included; a correlation of nothing may round to 1e-16."""
    return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)


# ---- laws: what holds for every statistic and every table


def within_bounds(statistic: Statistic, counts: Counts) -> None:
    low, high = statistic.bounds
    value = number(statistic, counts)
    assert math.isnan(value) or low - 1e-12 <= value <= high + 1e-12, "bounds"


def exact_as_float(statistic: Statistic, counts: Counts) -> None:
    quantity = statistic(counts)
    exact, value = quantity.exact(), float(quantity.value())
    if exact is None:
        assert not math.isfinite(value) or any(term.root for term in quantity.terms), "exact"
    else:
        assert isinstance(exact, Fraction), "exact"
        assert same(float(exact), value), "exact"


def the_same_in_tensors(statistic: Statistic, counts: Counts) -> None:
    value = number(statistic, counts)
    for dtype in (torch.int64, torch.uint8, torch.float32):
        result = statistic(as_tensors(counts, dtype)).value()
        assert result.shape == (), "tensors"
        assert same(float(result), value), "tensors"


def the_same_in_every_shape(statistic: Statistic, counts: Counts) -> None:
    many = (counts, counts.swapped(), Counts(1, 2, 3, 4), Counts(0, 0, 0, 0))
    values = [number(statistic, one) for one in many]
    for shape in ((4,), (2, 2), (1, 4, 1)):
        quantity = statistic(Counts(*(cell.reshape(shape) for cell in stacked(*many).cells)))
        assert quantity.value().shape == quantity.undefined().shape == shape, "shapes"
        assert all(map(same, quantity.value().flatten().tolist(), values)), "shapes"


def nothing_is_neutral(statistic: Statistic, counts: Counts) -> None:
    value = number(statistic, counts)
    assert same(number(statistic, counts + Counts.empty()), value), "neutral"
    assert same(float(statistic(Counts.empty() + as_tensors(counts)).value()), value), "neutral"


def unmoved_by_duplication(statistic: Statistic, counts: Counts) -> None:
    quantity = statistic(counts)
    for times in (2, 7):
        assert same(number(statistic, multiplied(counts, times)), float(quantity.value())), "duplication"
    # An odd number beyond 2**53: one step through a float on the way would show in the exact value.
    assert statistic(multiplied(counts, 3**50)).exact() == quantity.exact(), "exact duplication"


def unmoved_by_scale(statistic: Statistic, counts: Counts) -> None:
    value = number(statistic, counts)
    for weight in (0.1, 3.7):
        scaled = multiplied(counts, weight)
        assert same(number(statistic, scaled), value), "scale"
        assert same(float(statistic(as_tensors(scaled, torch.float64)).value()), value), "scale"


def blind_to_what_it_ignores(statistic: Statistic, counts: Counts) -> None:
    for cell in statistic.ignores:
        changed = replace(counts, **{cell: getattr(counts, cell) + 5})
        assert same(number(statistic, changed), number(statistic, counts)), f"ignores {cell}"


def nan_exactly_where_undefined(statistic: Statistic, counts: Counts) -> None:
    quantity = statistic(counts)
    assert bool(quantity.undefined()) is math.isnan(quantity.value()), "undefined"
    for chosen in (0.0, 0.25, 1.0):
        value = float(quantity.value(zero_division=chosen))
        assert not math.isnan(value), "zero_division"
        if not quantity.undefined():
            assert same(value, float(quantity.value())), "zero_division"
        elif len(quantity.terms) == 1:
            assert value == chosen, "zero_division"


LAWS: tuple[Law, ...] = (
    within_bounds,
    exact_as_float,
    the_same_in_tensors,
    the_same_in_every_shape,
    nothing_is_neutral,
    unmoved_by_duplication,
    unmoved_by_scale,
    blind_to_what_it_ignores,
    nan_exactly_where_undefined,
)


def check(statistic: Statistic, *laws: Law) -> None:
    @QUICK
    @given(counts=tables)
    def every_law_holds(counts: Counts) -> None:
        for law in laws:
            law(statistic, counts)

    every_law_holds()


def check_looks_at_the_rest(statistic: Statistic) -> None:
    """Each cell that is not ignored changes the value of some small table."""
    grid = stacked(*(Counts(*row) for row in product(range(4), repeat=4)))
    before = statistic(grid).value(zero_division=0.5)
    for cell in set(CELLS) - set(statistic.ignores):
        after = statistic(replace(grid, **{cell: getattr(grid, cell) + 1})).value(zero_division=0.5)
        assert (before != after).any(), f"looks at {cell}"


def check_laws(statistic: Statistic) -> None:
    check(statistic, *LAWS)
    check_looks_at_the_rest(statistic)


@pytest.mark.parametrize("name", NAMES)
def test_laws(name: str) -> None:
    check_laws(STATISTICS[name])


@pytest.mark.parametrize("beta", [3, 0.1, 1.7, 1 / 3])
def test_laws_for_any_beta(beta: float) -> None:
    check_laws(f_beta(beta))


PRECISION = STATISTICS["precision"]
WRONG = {
    "duplication": replace(PRECISION, definition=lambda c: ratio(c.tp + 1, c.tp + c.fp + 1)),
    "exact duplication": replace(PRECISION, definition=lambda c: ratio(c.tp * 1.1, (c.tp + c.fp) * 1.1)),
    "scale": replace(PRECISION, definition=lambda c: ratio(c.tp // 1, c.tp + c.fp)),
    "ignores tn": replace(PRECISION, definition=lambda c: ratio(c.tp, c.tp + c.fp + c.tn)),
    "looks at fn": replace(PRECISION, ignores=("tn",)),
    "bounds": replace(STATISTICS["mcc"], bounds=(0.0, 1.0)),
    "tensors": replace(PRECISION, definition=lambda c: ratio(c.tp, c.tp + c.fp + isinstance(c.tp, torch.Tensor))),
    "shapes": replace(PRECISION, definition=lambda c: ratio(c.tp, _total(c.tp + c.fp))),
}


def _total(number: Any) -> Any:
    return number.sum() if isinstance(number, torch.Tensor) else number


@pytest.mark.parametrize("complaint", WRONG)
def test_a_wrong_statistic_fails_the_laws(complaint: str) -> None:
    with pytest.raises(AssertionError, match=f"^{complaint}"):
        check_laws(WRONG[complaint])


def test_the_example_of_a_wrong_statistic_in_the_obvious_form() -> None:
    with pytest.raises(AssertionError):
        check_laws(replace(PRECISION, definition=lambda c: ratio(c.tp + 1, c.tp + c.fp)))


def test_nan_without_a_reason_fails_its_law() -> None:
    wrong = replace(PRECISION, definition=lambda c: ratio(c.tp * math.nan, c.tp + c.fp))
    with pytest.raises(AssertionError, match=r"^undefined"):
        check(wrong, nan_exactly_where_undefined)


# ---- one reference row per statistic: a function of samples, and the groups of cells without which it is 0/0


def share(among: Array, of: Array) -> float:
    """The share of one group that also belongs to another."""
    return float(of[among.astype(bool)].mean())


def odds(chance: float) -> float:
    return chance / (1 - chance)


ALL = "tp fp fn tn"
POSITIVES, NEGATIVES, PREDICTED_POSITIVES, PREDICTED_NEGATIVES = "tp fn", "fp tn", "tp fp", "fn tn"
MARGINALS = (POSITIVES, NEGATIVES, PREDICTED_POSITIVES, PREDICTED_NEGATIVES)
NOT_TN, NOT_TP = "tp fp fn", "fp fn tn"
Reference = tuple["Callable[[Array, Array], float]", tuple[str, ...]]

REFERENCES: dict[str, Reference] = {
    "accuracy": (sklearn.accuracy_score, (ALL,)),
    "precision": (sklearn.precision_score, (PREDICTED_POSITIVES,)),
    "recall": (sklearn.recall_score, (POSITIVES,)),
    "specificity": (partial(sklearn.recall_score, pos_label=0), (NEGATIVES,)),
    "negative_predictive_value": (partial(sklearn.precision_score, pos_label=0), (PREDICTED_NEGATIVES,)),
    "false_positive_rate": (lambda truth, said: share(1 - truth, said), (NEGATIVES,)),
    "false_negative_rate": (lambda truth, said: share(truth, 1 - said), (POSITIVES,)),
    "false_discovery_rate": (lambda truth, said: share(said, 1 - truth), (PREDICTED_POSITIVES,)),
    "false_omission_rate": (lambda truth, said: share(1 - said, truth), (PREDICTED_NEGATIVES,)),
    "f1": (sklearn.f1_score, (NOT_TN,)),
    "f2": (partial(sklearn.fbeta_score, beta=2), (NOT_TN,)),
    "f0.5": (partial(sklearn.fbeta_score, beta=0.5), (NOT_TN,)),
    "jaccard": (sklearn.jaccard_score, (NOT_TN,)),
    "balanced_accuracy": (sklearn.balanced_accuracy_score, (POSITIVES, NEGATIVES)),
    "informedness": (partial(sklearn.balanced_accuracy_score, adjusted=True), (POSITIVES, NEGATIVES)),
    # Markedness is informedness with truth and prediction in each other's place.
    "markedness": (
        lambda truth, said: sklearn.balanced_accuracy_score(said, truth, adjusted=True),
        (PREDICTED_POSITIVES, PREDICTED_NEGATIVES),
    ),
    "mcc": (sklearn.matthews_corrcoef, MARGINALS),
    "kappa": (sklearn.cohen_kappa_score, (NOT_TN, NOT_TP)),
    "geometric_mean": (
        lambda truth, said: math.sqrt(share(truth, said) * share(1 - truth, 1 - said)),
        (POSITIVES, NEGATIVES),
    ),
    # Of two sets of samples: the cosine between their indicator vectors (scikit-learn's score of this name compares
    # pairs of samples in two clusterings, which is something else).
    "fowlkes_mallows": (
        lambda truth, said: truth @ said / math.sqrt((truth @ truth) * (said @ said)),
        (POSITIVES, PREDICTED_POSITIVES),
    ),
    "prevalence": (lambda truth, said: truth.mean(), (ALL,)),
    "predicted_prevalence": (lambda truth, said: said.mean(), (ALL,)),
    "positive_likelihood_ratio": (
        lambda truth, said: sklearn.class_likelihood_ratios(truth, said)[0],
        (POSITIVES, NEGATIVES, PREDICTED_POSITIVES),
    ),
    "negative_likelihood_ratio": (
        lambda truth, said: sklearn.class_likelihood_ratios(truth, said)[1],
        (POSITIVES, NEGATIVES, PREDICTED_NEGATIVES),
    ),
    "diagnostic_odds_ratio": (
        lambda truth, said: odds(share(truth, said)) / odds(share(1 - truth, said)),
        MARGINALS,
    ),
    "lift": (lambda truth, said: share(said, truth) / truth.mean(), (POSITIVES, PREDICTED_POSITIVES)),
    "hamming_distance": (sklearn.hamming_loss, (ALL,)),
}


def samples(counts: Counts) -> tuple[Array, Array]:
    """Targets and predictions that are counted so."""
    truth_and_prediction = ((1, 1), (0, 1), (1, 0), (0, 0))
    rows = [pair for pair, times in zip(truth_and_prediction, counts.cells, strict=True) for _ in range(times)]
    return np.array(rows).T[0], np.array(rows).T[1]


def test_every_statistic_has_a_reference() -> None:
    assert REFERENCES.keys() == set(STATISTICS)
    assert len(NAMES) == len(STATISTICS) >= 27


@pytest.mark.parametrize("name", REFERENCES)
@settings(QUICK, max_examples=15)
@given(counts=full_tables)
def test_reference(name: str, counts: Counts) -> None:
    reference, _ = REFERENCES[name]
    assert number(STATISTICS[name], counts) == pytest.approx(reference(*samples(counts)), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", REFERENCES)
def test_undefined_exactly_where_a_group_is_empty(name: str) -> None:
    _, groups = REFERENCES[name]
    for row in product(range(3), repeat=4):
        counts = Counts(*row)
        empty = any(not any(getattr(counts, cell) for cell in group.split()) for group in groups)
        assert bool(STATISTICS[name](counts).undefined()) is empty, counts


@pytest.mark.parametrize("name", NAMES)
def test_every_description_is_complete(name: str) -> None:
    statistic = STATISTICS[name]
    assert statistic.name == name
    assert statistic.symbol
    assert statistic.formula.endswith(".")
    assert statistic.bounds[0] < statistic.bounds[1]
    assert set(statistic.ignores) < set(CELLS)


@pytest.mark.parametrize("name", NAMES)
def test_the_direction_is_the_one_in_which_errors_matter(name: str) -> None:
    statistic, good, bad = STATISTICS[name], Counts(40, 10, 12, 50), Counts(30, 20, 22, 40)
    difference = number(statistic, good) - number(statistic, bad)
    expected = {True: difference > 0, False: difference < 0, None: abs(difference) < 0.1}
    assert expected[statistic.higher_is_better]


@pytest.mark.parametrize("name", [name for name in NAMES if STATISTICS[name].proportion])
def test_a_proportion_is_samples_among_samples(name: str) -> None:
    (term,) = STATISTICS[name](Counts(2, 3, 5, 7)).terms
    sums = {sum(chosen) for chosen in product((0, 2), (0, 3), (0, 5), (0, 7))}
    assert term.part in sums
    assert term.whole in sums
    assert not term.root


# ---- relations between statistics


def exactly(name: str, counts: Counts) -> Fraction | float | None:
    """The exact value, or the float where there is none."""
    quantity = STATISTICS[name](counts)
    exact = quantity.exact()
    return float(quantity.value(zero_division=-7.0)) if exact is None else exact


SWAPPED = {
    "recall": "specificity",
    "precision": "negative_predictive_value",
    "false_positive_rate": "false_negative_rate",
    "false_discovery_rate": "false_omission_rate",
}
UNMOVED_BY_SWAP = (
    "mcc",
    "kappa",
    "accuracy",
    "balanced_accuracy",
    "informedness",
    "markedness",
    "geometric_mean",
    "diagnostic_odds_ratio",
    "hamming_distance",
)


@pytest.mark.parametrize(("name", "other"), [*SWAPPED.items(), *zip(UNMOVED_BY_SWAP, UNMOVED_BY_SWAP, strict=True)])
@QUICK
@given(counts=tables)
def test_calling_the_other_class_positive(name: str, other: str, counts: Counts) -> None:
    assert exactly(name, counts.swapped()) == exactly(other, counts)
    assert exactly(other, counts.swapped()) == exactly(name, counts)


TRANSPOSED = {
    "precision": "recall",
    "negative_predictive_value": "specificity",
    "false_discovery_rate": "false_negative_rate",
    "false_omission_rate": "false_positive_rate",
    "informedness": "markedness",
    "prevalence": "predicted_prevalence",
    "f2": "f0.5",
    **{name: name for name in ("accuracy", "f1", "jaccard", "mcc", "kappa", "fowlkes_mallows", "lift")},
}


@pytest.mark.parametrize(("name", "other"), TRANSPOSED.items())
@QUICK
@given(counts=tables)
def test_truth_and_prediction_in_each_others_place(name: str, other: str, counts: Counts) -> None:
    transposed = replace(counts, fp=counts.fn, fn=counts.fp)
    assert exactly(name, transposed) == exactly(other, counts)


COMPLEMENTS = {
    "recall": "false_negative_rate",
    "specificity": "false_positive_rate",
    "precision": "false_discovery_rate",
    "negative_predictive_value": "false_omission_rate",
    "accuracy": "hamming_distance",
}


@pytest.mark.parametrize(("name", "other"), COMPLEMENTS.items())
@QUICK
@given(counts=tables)
def test_complements_add_up_to_one(name: str, other: str, counts: Counts) -> None:
    one, rest = STATISTICS[name](counts).exact(), STATISTICS[other](counts).exact()
    assert one is rest is None or one + rest == 1


# ---- large numbers


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("factor", [2**31 + 1, 2**40, 2**57], ids=["2**31", "2**40", "2**57"])
def test_tensors_beyond_the_range_of_their_products(name: str, factor: int) -> None:
    """Products of two of these counts exceed int64, and single ones exceed what float64 tells apart."""
    counts = Counts(tp=37, fp=5, fn=11, tn=53)
    large = as_tensors(multiplied(counts, factor))
    assert large.tp.dtype == torch.int64
    assert number(STATISTICS[name], large) == pytest.approx(number(STATISTICS[name], counts), rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_python_integers_of_any_size(name: str) -> None:
    counts = Counts(tp=37, fp=5, fn=11, tn=53)
    quantity = STATISTICS[name](multiplied(counts, 10**40 + 1))
    assert quantity.exact() == STATISTICS[name](counts).exact()
    assert float(quantity.value()) == pytest.approx(number(STATISTICS[name], counts), rel=1e-12)


def test_neighbours_beyond_floats_are_told_apart() -> None:
    one, other = Counts(2**60, 2**60, 0, 0), Counts(2**60 + 1, 2**60, 0, 0)
    assert number(PRECISION, one) == number(PRECISION, other)
    assert PRECISION(one).exact() < PRECISION(other).exact() == Fraction(2**60 + 1, 2**61 + 1)


def test_something_of_nothing_is_infinite_not_undefined() -> None:
    quantity = STATISTICS["diagnostic_odds_ratio"](Counts(tp=3, fp=0, fn=1, tn=2))
    assert float(quantity.value()) == math.inf
    assert not quantity.undefined()
    assert quantity.exact() is None


def test_each_term_of_a_sum_is_decided_alone() -> None:
    """Without positives balanced accuracy has no recall; specificity stays what it is."""
    quantity = STATISTICS["balanced_accuracy"](Counts(tp=0, fp=1, fn=0, tn=3))
    assert quantity.undefined()
    assert [float(quantity.value(chosen)) for chosen in (0.0, 1.0)] == [0.375, 0.875]


def test_counts_are_divided_in_float64() -> None:
    value: Tensor = STATISTICS["accuracy"](as_tensors(Counts(1, 1, 1, 0))).value()
    assert value.dtype == torch.float64
    assert value.item() == 1 / 3


# ---- the table


def test_a_name_is_given_once() -> None:
    colours = Registry[int]("colour")
    colours.add("red", 1, also=["scarlet"])
    with pytest.raises(DeclarationError, match="the colour 'red' exists already; choose another name"):
        colours.add("red", 2)
    assert (colours["red"], list(colours), len(colours), "red" in colours) == (1, ["red"], 1, True)


def test_the_table_refuses_a_second_statistic_of_a_name() -> None:
    before = STATISTICS["recall"]
    with pytest.raises(DeclarationError, match="the statistic 'recall' exists already"):
        STATISTICS.add("recall", PRECISION)
    assert STATISTICS["recall"] is before


def test_the_nearest_name_is_offered() -> None:
    with pytest.raises(DeclarationError, match="there is no statistic 'presicion': did you mean 'precision'"):
        find("presicion")
    with pytest.raises(DeclarationError, match=r"no statistic 'zzzz': expected one of accuracy, .*balanced_accuracy, "):
        find("zzzz")


SYNONYMS = {
    "sensitivity": "recall",
    "Sensitivity": "recall",
    "TPR": "recall",
    "true negative rate": "specificity",
    "ppv": "precision",
    "npv": "negative_predictive_value",
    "miss-rate": "false_negative_rate",
    "fall_out": "false_positive_rate",
    "dice": "f1",
    "f05": "f0.5",
    "IoU": "jaccard",
    "Youden": "informedness",
    "matthews_corrcoef": "mcc",
    "cohen_kappa": "kappa",
    "lr+": "positive_likelihood_ratio",
    "lr-": "negative_likelihood_ratio",
    "error rate": "hamming_distance",
}


@pytest.mark.parametrize(("word", "name"), SYNONYMS.items())
def test_a_synonym_leads_to_the_name(word: str, name: str) -> None:
    with pytest.raises(DeclarationError, match=re.escape(f"the statistic {word!r} is called {name!r} here")):
        find(word)


def test_no_name_is_also_a_synonym() -> None:
    assert not set(STATISTICS) & STATISTICS._synonyms.keys()


@pytest.mark.parametrize("beta", [0.25, 1.5, 3, 10])
@settings(QUICK, max_examples=10)
@given(counts=full_tables)
def test_f_exists_for_every_beta(beta: float, counts: Counts) -> None:
    statistic = find(f"f{beta}")
    assert statistic.name == f"f{beta}"
    assert number(statistic, counts) == pytest.approx(sklearn.fbeta_score(*samples(counts), beta=beta))


def test_f_of_a_known_beta_is_the_entry() -> None:
    assert find("f1") is f_beta(1) is f_beta(1.0) is STATISTICS["f1"]
    assert f_beta(0.5) is STATISTICS["f0.5"]


@pytest.mark.parametrize("beta", [0, -1.0, math.inf, math.nan])
def test_beta_is_finite_and_above_zero(beta: float) -> None:
    with pytest.raises(DeclarationError, match="expected beta to be a finite number above 0, got"):
        f_beta(beta)


@pytest.mark.parametrize("name", NAMES)
def test_a_pickled_statistic_is_the_entry_of_the_table(name: str) -> None:
    assert pickle.loads(pickle.dumps(STATISTICS[name])) is STATISTICS[name]
    assert copy.deepcopy(STATISTICS[name]) is STATISTICS[name]


@pytest.mark.parametrize("beta", [3, 0.1, 1e-7, 1e20])
def test_a_pickled_f_of_any_beta_is_the_same(beta: float) -> None:
    statistic, counts = f_beta(beta), Counts(3, 1, 4, 1)
    restored = pickle.loads(pickle.dumps(statistic))
    assert restored == statistic
    assert restored(counts).exact() == statistic(counts).exact()
