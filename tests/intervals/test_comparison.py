"""Two numbers compared, McNemar's test, Holm's p-values, and how many samples it takes."""

from math import erfc, sqrt

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar as reference
from statsmodels.stats.proportion import confint_proportions_2indep

from lightning_evalkit import BinaryEvaluation, Counts, compare, required
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.intervals import holm, intervals, mcnemar
from lightning_evalkit.statistics import find

cell = st.integers(0, 60)
tables = st.builds(Counts, tp=cell, fp=cell, fn=cell, tn=cell)
full = st.builds(Counts, tp=cell.map(lambda n: n + 1), fp=cell, fn=cell, tn=cell)


def evaluated(right: float, samples: int = 400, seed: int = 0) -> BinaryEvaluation:
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(2, (samples,), generator=generator)
    wrong = torch.rand(samples, generator=generator) > right
    evaluation = BinaryEvaluation("labels")
    evaluation.update(target ^ wrong, target)
    return evaluation


# ---- differences


@given(one=full, other=full)
def test_differences_of_shares_are_newcombes(one: Counts, other: Counts):
    found = compare(one, other, ["recall"])["recall"]
    shares = (other.tp, other.positives, one.tp, one.positives)
    expected = confint_proportions_2indep(*shares, method="newcomb", compare="diff")
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-9)
    assert (found.paired, found.n) == (False, one.positives + other.positives)


@given(one=full, other=full)
def test_swapping_negates_and_the_same_is_no_different(one: Counts, other: Counts):
    there, back = compare(one, other, ["f1", "mcc"]), compare(other, one, ["f1", "mcc"])
    for name in ("f1", "mcc"):
        if there[name].difference == there[name].difference:
            turned = (-back[name].difference, -back[name].high, -back[name].low, back[name].p_value)
            ours = (there[name].difference, there[name].low, there[name].high, there[name].p_value)
            assert ours == pytest.approx(turned)
    same = compare(one, one, ["f1"])["f1"]
    assert (same.difference, same.p_value, same.verdict) == (0, 1, "undecided")


@given(one=full, other=full, level=st.sampled_from([0.8, 0.95]))
def test_p_is_small_just_where_0_is_outside(one: Counts, other: Counts, level: float):
    found = compare(one, other, ["f1"], level=level)["f1"]
    assert (found.p_value < 1 - level) == (not found.low <= 0 <= found.high)


def test_unpaired_tests_reject_as_often_as_they_say():
    rng, rejected = np.random.default_rng(0), 0
    for _ in range(400):
        one, other = (Counts(*map(int, rng.multinomial(150, [0.3, 0.1, 0.05, 0.55]))) for _ in range(2))
        rejected += compare(one, other, ["f1"])["f1"].p_value < 0.05
    assert 0.02 <= rejected / 400 <= 0.08


def test_verdicts():
    poor, good, near = Counts(tp=60, fp=40, fn=40, tn=60), Counts(tp=90, fp=10, fn=10, tn=90), evaluated(0.9, 40_000)
    assert compare(poor, good, ["f1"])["f1"].verdict == "better"
    assert compare(good, poor, ["f1"])["f1"].verdict == "worse"
    assert compare(poor, good, ["false_positive_rate"])["false_positive_rate"].verdict == "better"
    assert compare(poor, Counts(tp=150, fp=10, fn=10, tn=30), ["prevalence"])["prevalence"].verdict == "higher"
    assert compare(good, good, ["f1"], margin=0.1)["f1"].verdict == "tied"
    assert compare(near, evaluated(0.9, 40_000, seed=1), margin=0.02)["accuracy"].verdict == "tied"
    assert compare(good, good, ["f1"], margin=0.01)["f1"].verdict == "undecided"


def test_evaluations_are_compared_by_all_entries_they_share():
    one, other = evaluated(0.8), evaluated(0.9, seed=1)
    found = compare(one, other)
    assert [*found] == [*one.keys(keep_base=True)]
    difference = other.compute()["f1"] - one.compute()["f1"]
    assert found["f1"].difference == pytest.approx(float(difference), abs=1e-6)
    assert "not counted by their ids" in found["f1"].reason
    alone = compare(one, other, ["f1"])["f1"]
    assert alone.p_value < found["f1"].p_value <= 7 * alone.p_value
    assert "better" in str(alone)


def test_the_detectable_difference_is_detected_in_four_of_five_cases():
    rng, base = np.random.default_rng(1), 0.7
    table = Counts(tp=140, fp=0, fn=60, tn=0)
    step = compare(table, table, ["recall"])["recall"].minimum_detectable
    found = 0
    for _ in range(400):
        one, other = rng.binomial(200, base), rng.binomial(200, base + step)
        pair = (Counts(tp=int(k), fp=0, fn=200 - int(k), tn=0) for k in (one, other))
        found += compare(*pair, ["recall"])["recall"].p_value < 0.05
    assert 0.74 <= found / 400 <= 0.9


def test_what_is_undefined_is_undecided():
    found = compare(Counts(tp=0, fp=0, fn=0, tn=5), Counts(tp=5, fp=0, fn=0, tn=5), ["recall", "accuracy"])
    assert found["recall"].verdict == "undecided"
    assert found["recall"].p_value != found["recall"].p_value
    assert found["accuracy"].p_value == 1


def test_wrong_questions_to_compare():
    table = Counts(tp=1, fp=1, fn=1, tn=1)
    with pytest.raises(DeclarationError, match="expected margin to be 0 or a difference too small to matter"):
        compare(table, table, margin=-1)
    with pytest.raises(InputError, match="expected two evaluations or two Counts, got int"):
        compare(table, 3, ["f1"])
    assert compare(table, table, "f1") == compare(table, table, ["f1"])


# ---- McNemar and Holm


@given(first=st.integers(0, 200), second=st.integers(0, 200))
def test_mcnemar_equals_statsmodels(first: int, second: int):
    found, table = mcnemar(first, second), [[10, first], [second, 10]]
    assert found.exact == pytest.approx(reference(table, exact=True).pvalue if first + second else 1)
    assert found.mid_p <= found.exact
    assert mcnemar(second, first)[2:] == found[2:]


def test_mid_p_is_the_exact_value_less_half_of_what_was_seen():
    """1 of 6: 2 (1 + 6) / 64, less 6 / 64."""
    assert mcnemar(1, 5)[2:] == pytest.approx((14 / 64, 8 / 64))
    for wrong in (-1, 1.5, "3"):
        with pytest.raises(InputError, match=f"expected a whole number of samples, got {wrong!r}"):
            mcnemar(wrong, 5)
    assert mcnemar(torch.tensor(1), np.int64(5)) == mcnemar(1, 5)


@pytest.mark.parametrize("apart", [0, 10**5, 10**6])
def test_mcnemar_of_billions(apart: int):
    """Where numbers are so large, the test is that of the normal distribution."""
    first, second = 2**31, 2**31 + apart
    expected = erfc(apart / sqrt(first + second) / sqrt(2))
    assert mcnemar(first, second).exact == pytest.approx(expected, rel=1e-3)
    assert mcnemar(first, second).mid_p == pytest.approx(expected, rel=1e-3)


@given(values=st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_lies_between_each_alone_and_bonferroni(values: list[float]):
    adjusted = holm(values)
    assert all(p <= q <= min(1, len(values) * p) for p, q in zip(values, adjusted, strict=True))
    order = sorted(range(len(values)), key=values.__getitem__)
    assert [adjusted[place] for place in order] == sorted(adjusted)
    assert min(adjusted) == min(1, len(values) * min(values))


def test_holm_steps_down():
    """The second smallest of four counts three times, the largest at least as much as those before it."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


# ---- how many samples


@pytest.mark.parametrize("name", ["recall", "specificity", "accuracy", "precision", "f1", "false_positive_rate"])
@pytest.mark.parametrize("prevalence", [0.1, 0.5])
def test_so_many_samples_have_so_narrow_an_interval(name: str, prevalence: float):
    at = 0.15 if name == "false_positive_rate" else 0.8
    needed = required(name, half_width=0.03, at=at, prevalence=prevalence)
    assert needed.positives == round(needed.samples * prevalence)
    for samples, enough in ((needed.samples, True), (int(needed.samples * 0.97), False)):
        found = intervals(_expected(name, at, prevalence, samples), name)[name]
        assert (found.width <= 0.06 * 1.01) == enough


@pytest.mark.parametrize("name", ["mcc", "balanced_accuracy", "f2"])
def test_other_statistics_too(name: str):
    needed = required(name, half_width=0.02, at=0.8, prevalence=0.2)
    found = intervals(_expected(name, 0.8, 0.2, needed.samples), name)[name]
    assert found.width == pytest.approx(0.04, rel=0.06)


def _expected(name: str, at: float, prevalence: float, samples: int) -> Counts:
    """The table of so many samples in which recall and specificity are equal and the statistic is nearest to ``at``."""
    positives = round(samples * prevalence)

    def table(rate: float) -> Counts:
        tp, tn = round(rate * positives), round(rate * (samples - positives))
        return Counts(tp=tp, fp=samples - positives - tn, fn=positives - tp, tn=tn)

    return min(map(table, np.linspace(0.001, 1, 4_000)), key=lambda c: abs(float(find(name)(c).value(0.0)) - at))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"half_width": 0}, "expected half_width to be between 0 and 1, got 0"),
        ({"prevalence": 0.0}, "expected prevalence to be between 0 and 1, got 0.0"),
        ({"at": 1.2}, "expected at to be a recall between 0 and 1"),
        ({"statistic": "lift", "at": 1.5}, "got lift, which has no largest value"),
        ({"half_width": 1e-9}, "got one too small"),
        ({"statistic": 0.02}, "expected the name of a statistic, got 0.02"),
    ],
)
def test_what_no_number_of_samples_reaches(asked: dict[str, object], message: str):
    with pytest.raises(DeclarationError, match=message):
        required(**{"statistic": "recall", "half_width": 0.02, "at": 0.9, "prevalence": 0.3, **asked})
