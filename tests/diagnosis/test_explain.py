"""Why two numbers are equal: every finding is checked against statistics and projections written as fractions."""

import json
import math
import re
from fractions import Fraction

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

from lightning_evalkit import BinaryEvaluation, Counts
from lightning_evalkit.diagnosis import Finding, Table, explain
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.intervals import at_prevalence

Cells = tuple[int, int, int, int]
HUGE = 10**18
SHARES = {"0.5": Fraction(1, 2), "0.1": Fraction(1, 10), "0.01": Fraction(1, 100)}

# Small cells make zeros and ties frequent, large ones make floats round.
small_tables = st.tuples(*[st.integers(0, 4)] * 4)
large_tables = st.tuples(*[st.integers(0, HUGE)] * 4)
tables = st.one_of(small_tables, large_tables)
tied_tables = st.builds(lambda correct, fp, fn: (correct, fp, fn, correct), *[st.integers(0, HUGE)] * 3)
two_class_tables = tables.filter(lambda cells: cells[0] + cells[2] and cells[1] + cells[3])


def share(part: Fraction | int, whole: Fraction | int) -> Fraction | None:
    return Fraction(part) / Fraction(whole) if whole else None


def accuracy(tp: Fraction, fp: Fraction, fn: Fraction, tn: Fraction) -> Fraction | None:
    return share(tp + tn, tp + fp + fn + tn)


def f1(tp: Fraction, fp: Fraction, fn: Fraction, tn: Fraction) -> Fraction | None:
    return share(2 * tp, 2 * tp + fp + fn)


def precision(tp: Fraction, fp: Fraction, fn: Fraction, tn: Fraction) -> Fraction | None:
    return share(tp, tp + fp)


def recall(tp: Fraction, fp: Fraction, fn: Fraction, tn: Fraction) -> Fraction | None:
    return share(tp, tp + fn)


def specificity(tp: Fraction, fp: Fraction, fn: Fraction, tn: Fraction) -> Fraction | None:
    return share(tn, tn + fp)


def projected(cells: Cells, prevalence: Fraction) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    """One sample's worth of the same recall and specificity at another share of positives."""
    r, s = recall(*cells), specificity(*cells)
    return prevalence * r, (1 - prevalence) * (1 - s), prevalence * (1 - r), (1 - prevalence) * s


def last_number(finding: Finding, start: str) -> float:
    """The number with which the written-out identity ends."""
    [reason] = [reason for reason in finding.reasons if start in reason]
    return float(re.findall(r"= (-?\d[\d.]*(?:e[+-]?\d+)?)(?=[.:](?:\s|$))", reason)[-1])


def loaded(finding: Finding) -> dict:
    """The finding's JSON, refusing what Python writes but JSON does not know."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(finding.json(), parse_constant=refuse)


# ---- accuracy and F1


@given(st.one_of(tables, tied_tables))
@example((HUGE, HUGE, HUGE + 1, HUGE + 1))
@example((0, 0, 0, 5))
@example((0, 0, 0, 0))
def test_equal_exactly_when_the_fractions_are(cells: Cells):
    finding = explain(Counts(*cells))
    a, b = accuracy(*cells), f1(*cells)
    equal = None if a is None or b is None else a == b
    assert finding.evidence["equal"] is equal
    assert ("are equal" in finding.headline) is bool(equal)
    assert ("differ" in finding.headline) is (equal is False)
    assert ("cannot be compared" in finding.headline) is (equal is None)


@given(st.one_of(tables, tied_tables))
@example((5, 0, 0, 7))
@example((0, 3, 4, 0))
@example((0, 0, 0, 5))
@example((0, 0, 0, 0))
def test_code_says_which_case_it_is(cells: Cells):
    _, fp, fn, _ = cells
    a, b = accuracy(*cells), f1(*cells)
    if a is None or b is None:
        expected = "undefined"
    elif fp == fn == 0:
        expected = "accuracy-f1-no-errors"
    elif a == b:
        expected = "accuracy-f1-tp-equals-tn"
    else:
        expected = "accuracy-f1-accuracy-larger" if a > b else "accuracy-f1-f1-larger"
    assert explain(Counts(*cells)).code == expected


@given(small_tables.filter(lambda cells: sum(cells[:3]) > 0))
def test_gap_of_the_identity_is_the_difference(cells: Cells):
    tp, fp, fn, tn = cells
    gap = accuracy(*cells) - f1(*cells)
    assert gap == Fraction((tn - tp) * (fp + fn), sum(cells) * (2 * tp + fp + fn))
    finding = explain(Counts(*cells))
    assert finding.evidence["gap"] == pytest.approx(float(gap), abs=1e-15)
    assert last_number(finding, "accuracy − F1") == pytest.approx(float(gap), rel=1e-5, abs=1e-9)


def test_gap_is_written_with_the_numbers_of_the_table():
    finding = explain(Counts(tp=10, fp=20, fn=30, tn=1_040))
    assert "(1,040 − 10)·50 / (1,100·(2·10 + 50))" in finding.text()
    assert finding.evidence["values"] == {"accuracy": 1050 / 1100, "f1": 20 / 70}


@pytest.mark.parametrize("more", ["tp", "tn"])
def test_big_counts_are_not_rounded_together(more: str):
    cells = {"tp": HUGE, "fp": HUGE, "fn": HUGE, "tn": HUGE}
    cells[more] += 1
    gap = accuracy(**cells) - f1(**cells)
    assert float(accuracy(**cells)) == float(f1(**cells)), "the floats are meant to be equal here"
    finding = explain(Counts(**cells))
    assert finding.evidence["equal"] is False
    assert finding.code == f"accuracy-f1-{'f1' if more == 'tp' else 'accuracy'}-larger"
    assert last_number(finding, "accuracy − F1") == pytest.approx(float(gap), rel=1e-5)


def test_big_counts_differ_by_their_exact_gap():
    cells = (HUGE, HUGE, HUGE, HUGE + 1)
    gap = float(accuracy(*cells) - f1(*cells))
    finding = explain(Counts(*cells))
    assert gap > 0
    assert finding.evidence["gap"] == pytest.approx(gap, rel=1e-9, abs=0)
    assert f"differ by {gap:.6g}" in finding.headline


def test_order_of_the_names_turns_the_sign_only():
    counts = Counts(tp=10, fp=20, fn=30, tn=40)
    one, other = explain(counts, "accuracy", "f1"), explain(counts, "f1", "accuracy")
    assert one.code == other.code
    assert one.evidence["gap"] == -other.evidence["gap"] != 0
    assert other.headline.startswith("f1 and accuracy differ")


# ---- other shares of positives


@given(two_class_tables)
@example((45, 30, 5, 20))
def test_crossing_is_where_both_are_equal_and_nowhere_else(cells: Cells):
    tp, fp, fn, tn = cells
    crossing = explain(Counts(*cells)).evidence["crossing_prevalence"]
    if not (tp and tn and fp + fn):
        assert crossing is None
        return
    there = projected(cells, Fraction(crossing))
    assert float(accuracy(*there) - f1(*there)) == pytest.approx(0, abs=1e-12)
    for prevalence in (Fraction(crossing) / 2, (1 + Fraction(crossing)) / 2):
        elsewhere = projected(cells, prevalence)
        assert (accuracy(*elsewhere) > f1(*elsewhere)) is (prevalence < crossing)
        assert accuracy(*elsewhere) != f1(*elsewhere)


@given(two_class_tables)
def test_values_at_other_shares_of_positives(cells: Cells):
    finding = explain(Counts(*cells))
    assert finding.evidence["at_prevalence"].keys() == SHARES.keys()
    for name, prevalence in SHARES.items():
        there = projected(cells, prevalence)
        expected = {"accuracy": float(accuracy(*there)), "f1": float(f1(*there))}
        assert finding.evidence["at_prevalence"][name] == pytest.approx(expected, rel=1e-12)


def test_table_has_the_values_here_and_at_other_shares():
    cells = (45, 30, 5, 20)
    rows = [("here", accuracy(*cells), f1(*cells))]
    for name, prevalence in (("50%", SHARES["0.5"]), ("10%", SHARES["0.1"]), ("1%", SHARES["0.01"])):
        there = projected(cells, prevalence)
        rows.append((name, accuracy(*there), f1(*there)))
    table = explain(Counts(*cells)).table
    assert table.headings == ("positives", "accuracy", "f1")
    assert table.rows == tuple((name, f"{float(a):.6g}", f"{float(b):.6g}") for name, a, b in rows)


def test_crossing_is_written_out():
    # r = 45/50 and s = 20/50, so s/(r + s) = 4/13
    text = explain(Counts(tp=45, fp=30, fn=5, tn=20)).text()
    assert "r = 0.9 and specificity s = 0.4" in text
    assert "s/(r + s) = 0.3077 (here it is 0.5)" in text
    assert "(the share here)" in explain(Counts(tp=40, fp=10, fn=10, tn=40)).text()


@pytest.mark.parametrize("cells", [(3, 0, 2, 0), (0, 2, 0, 3), (0, 0, 0, 4)])
def test_without_both_classes_nothing_is_projected(cells: Cells):
    finding = explain(Counts(*cells))
    assert finding.table is None
    assert finding.evidence["at_prevalence"] == {}
    assert finding.evidence["crossing_prevalence"] is None


# ---- undefined


@pytest.mark.parametrize(
    ("cells", "pair", "words"),
    [
        ((0, 0, 0, 5), ("accuracy", "f1"), ["f1 is 0/0", "no positive targets and nothing was predicted positive"]),
        ((0, 0, 0, 0), ("accuracy", "f1"), ["accuracy is 0/0", "f1 is 0/0", "no samples were counted"]),
        ((0, 0, 5, 5), ("precision", "recall"), ["precision is 0/0", "nothing was predicted positive"]),
        ((0, 5, 0, 5), ("precision", "recall"), ["recall is 0/0", "no positive targets"]),
        ((5, 0, 5, 0), ("accuracy", "balanced_accuracy"), ["balanced_accuracy is 0/0", "no negative targets"]),
    ],
)
def test_undefined_says_why(cells: Cells, pair: tuple[str, str], words: list[str]):
    finding = explain(Counts(*cells), *pair)
    assert finding.code == "undefined"
    assert finding.evidence["equal"] is None
    assert finding.evidence["gap"] is None
    assert None in finding.evidence["values"].values()
    assert all(word in finding.text() for word in words)


@pytest.mark.parametrize("cells", [(0, 0, 5, 5), (0, 5, 0, 5), (0, 0, 0, 5), (0, 0, 0, 0)])
@pytest.mark.parametrize("pair", [("accuracy", "f1"), ("precision", "recall"), ("accuracy", "balanced_accuracy")])
def test_nothing_undefined_is_called_equal(cells: Cells, pair: tuple[str, str]):
    finding = explain(Counts(*cells), *pair)
    if finding.code == "undefined":
        assert "Equal because" not in finding.text()


# ---- other pairs


@given(st.one_of(tables, st.builds(lambda tp, wrong, tn: (tp, wrong, wrong, tn), *[st.integers(0, HUGE)] * 3)))
def test_precision_and_recall(cells: Cells):
    finding = explain(Counts(*cells), "precision", "recall")
    p, r = precision(*cells), recall(*cells)
    if p is None or r is None:
        assert (finding.code, finding.evidence["equal"]) == ("undefined", None)
        return
    assert finding.evidence["equal"] is (p == r)
    assert finding.code == ("precision-recall-equal" if p == r else "precision-recall-differ")
    assert ("precision is larger" in finding.text()) is (p > r)
    assert ("recall is larger" in finding.text()) is (r > p)


def test_equal_precision_and_recall_are_f1_too():
    cells = (7, 3, 3, 11)
    assert precision(*cells) == recall(*cells) == f1(*cells)
    finding = explain(Counts(*cells), "precision", "recall")
    assert "FP = FN = 3" in finding.text()
    assert "F1, their harmonic mean, then has the same value" in finding.text()


@given(two_class_tables)
@example((2, 1, 2, 3))
@example((2, 2, 4, 4))
def test_accuracy_and_balanced_accuracy(cells: Cells):
    r, s, a = recall(*cells), specificity(*cells), accuracy(*cells)
    prevalence = Fraction(cells[0] + cells[2], sum(cells))
    gap = a - (r + s) / 2
    assert gap == (prevalence - Fraction(1, 2)) * (r - s)
    finding = explain(Counts(*cells), "accuracy", "balanced_accuracy")
    assert finding.code == "accuracy-balanced-accuracy"
    assert finding.evidence["equal"] is (prevalence == Fraction(1, 2) or r == s)
    assert finding.evidence["gap"] == pytest.approx(float(gap), abs=1e-15)
    assert last_number(finding, "(π − ½)·(r − s)") == pytest.approx(float(gap), rel=1e-5, abs=1e-12)


def test_pairs_without_an_identity_are_compared_as_they_are():
    # MCC is the root of informedness times markedness; all three are 0.6 here, and MCC is a root.
    equal = explain(Counts(tp=40, fp=10, fn=10, tn=40), "mcc", "informedness")
    assert (equal.code, equal.evidence["equal"]) == ("no-identity", True)
    assert equal.headline == "mcc and informedness are equal: both are 0.6."
    differ = explain(Counts(tp=45, fp=30, fn=5, tn=20), "mcc", "informedness")
    assert differ.evidence["equal"] is False
    assert "No identity is known" in differ.text()


# ---- what counts may be


tenths = st.integers(0, 30).map(lambda number: number / 10)


@given(st.one_of(st.tuples(*[tenths] * 4), st.builds(lambda c, fp, fn: (c, fp, fn, c), tenths, tenths, tenths)))
@example((0.1, 0.2, 0.7, 0.1))
def test_weighted_counts_are_decided_exactly_too(cells: tuple[float, float, float, float]):
    """Sums of tenths round: the same floats taken as fractions do not."""
    exact = tuple(map(Fraction, cells))
    a, b = accuracy(*exact), f1(*exact)
    finding = explain(Counts(*cells))
    if a is None or b is None:
        assert finding.code == "undefined"
        return
    assert finding.evidence["equal"] is (a == b)
    assert ("are equal" in finding.headline) is (a == b)
    assert (finding.code in ("accuracy-f1-no-errors", "accuracy-f1-tp-equals-tn")) is (a == b)
    assert finding.evidence["gap"] == pytest.approx(float(a - b), abs=1e-15)


def test_weighted_evaluation_explains_itself():
    evaluation = BinaryEvaluation(inputs="labels", weighted=True)
    weights = torch.tensor([0.5, 2.0, 1.0, 0.5])
    evaluation.update(torch.tensor([1, 0, 1, 0]), torch.tensor([1, 1, 0, 0]), weights)
    finding = evaluation.explain("accuracy", "f1")
    assert finding.evidence["counts"] == {"tp": 0.5, "fp": 1.0, "fn": 2.0, "tn": 0.5}
    assert finding.code == "accuracy-f1-tp-equals-tn"
    assert finding.evidence["equal"] is True
    assert loaded(finding)["evidence"]["values"] == {"accuracy": 0.25, "f1": 0.25}


def test_tensors_give_the_finding_of_their_numbers():
    cells = (3, 2**40, 5, 2**62)
    finding = explain(Counts(*map(torch.tensor, cells)))
    assert finding == explain(Counts(*cells))
    assert all(type(count) is int for count in finding.evidence["counts"].values())


def test_fractions_are_counts_too():
    finding = explain(at_prevalence(Counts(tp=45, fp=30, fn=5, tn=20), Fraction(4, 13)))
    assert finding.code == "accuracy-f1-tp-equals-tn"
    assert loaded(finding)["evidence"]["equal"] is True


def test_evaluation_explains_its_counts():
    evaluation = BinaryEvaluation(inputs="logits", threshold=[0.5, 0.9], statistics=["accuracy", "f1"])
    evaluation.update(torch.tensor([3.0, 1.0, -1.0, 1.0]), torch.tensor([1, 1, 0, 0]))
    # At 0.9 the logit 1.0 (probability 0.73) is negative: TP, FP, FN, TN are 1, 0, 1, 2 instead of 2, 1, 0, 1.
    assert evaluation.explain("accuracy@0.5", "f1@0.5") == explain(Counts(tp=2, fp=1, fn=0, tn=1))
    assert evaluation.explain("accuracy@0.9", "f1@0.9") == explain(Counts(tp=1, fp=0, fn=1, tn=2))
    with pytest.raises(InputError, match=r"two entries at one threshold, got 'accuracy@0\.5' and 'f1@0\.9'"):
        evaluation.explain("accuracy@0.5", "f1@0.9")


# ---- wrong use


@pytest.mark.parametrize(
    ("counts", "pair", "error", "words"),
    [
        (Counts(1, 1, 1, 1), ("f1", "f1"), InputError, "two different statistics, got 'f1' twice"),
        (Counts(1, 1, 1, 1), ("f1", "f1.0"), InputError, "two different statistics"),
        (Counts(1, -2, 1, 1), ("accuracy", "f1"), InputError, r"not negative.*got Counts\(tp=1, fp=-2"),
        (Counts.empty(3), ("accuracy", "f1"), InputError, "counts of one table, got several: choose one threshold"),
        (Counts(1, 1, 1, 1), ("acuracy", "f1"), DeclarationError, "did you mean 'accuracy'"),
        (Counts(1, 1, 1, 1), ("accuracy", "dice"), DeclarationError, "'dice' is called 'f1' here"),
        (Counts(math.nan, 1.0, 1.0, 1.0), ("accuracy", "f1"), InputError, "expected counts"),
        (Counts(math.inf, 1.0, 1.0, 1.0), ("accuracy", "f1"), InputError, "expected counts"),
    ],
)
def test_wrong_use_is_explained(counts: Counts, pair: tuple[str, str], error: type[Exception], words: str):
    with pytest.raises(error, match=words):
        explain(counts, *pair)


# ---- forms


def test_text_has_a_line_per_reason_and_aligned_columns():
    table = Table(("positives", "f1"), (("here", "0.25"), ("50%", "1")))
    finding = Finding("code", "Headline.", ("first", "second"), table)
    expected = "Headline.\n- first\n- second\n\npositives    f1\n     here  0.25\n      50%     1"
    assert finding.text() == str(finding) == expected


def test_markdown_is_bold_bullets_and_a_table():
    table = Table(("positives", "f1"), (("here", "0.25"),))
    finding = Finding("code", "Headline.", ("first",), table)
    expected = "**Headline.**\n\n- first\n\n| positives | f1 |\n| ---: | ---: |\n| here | 0.25 |"
    assert finding.markdown() == finding._repr_markdown_() == expected


def test_a_headline_alone_is_a_finding():
    finding = Finding("code", "Headline.")
    assert finding.text() == "Headline."
    assert finding.markdown().strip() == "**Headline.**"
    assert loaded(finding) == {"code": "code", "headline": "Headline.", "reasons": [], "table": None, "evidence": {}}


@given(st.one_of(tables, tied_tables))
def test_json_is_json_and_says_the_same(cells: Cells):
    finding = explain(Counts(*cells))
    read = loaded(finding)
    assert read == finding.to_dict()
    assert tuple(read["reasons"]) == finding.reasons
    assert tuple(read["evidence"]["counts"].values()) == cells
    rows = [] if finding.table is None else [tuple(row.values()) for row in read["table"]]
    assert rows == ([] if finding.table is None else list(finding.table.rows))


@pytest.mark.parametrize(
    "pair", [("positive_likelihood_ratio", "lift"), ("positive_likelihood_ratio", "diagnostic_odds_ratio")]
)
def test_infinite_values_are_json_too(pair: tuple[str, str]):
    """No false positives make likelihood and odds ratios infinite: something of nothing."""
    finding = explain(Counts(tp=40, fp=0, fn=10, tn=40), *pair)
    assert loaded(finding)["headline"] == finding.headline
    assert "nan" not in finding.headline


# ---- the facts the project comes from


TARGETS = [0] * 9 + [1]
PREDICTIONS = {"all negative": [0] * 10, "one more wrong": [1] + [0] * 9}
REFERENCES = {
    "accuracy": sklearn_metrics.accuracy_score,
    "recall": sklearn_metrics.recall_score,
    "f1": sklearn_metrics.f1_score,
    "balanced_accuracy": sklearn_metrics.balanced_accuracy_score,
    "mcc": sklearn_metrics.matthews_corrcoef,
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("all negative", {"accuracy": 0.9, "recall": 0, "f1": 0, "balanced_accuracy": 0.5, "mcc": 0}),
        (
            "one more wrong",
            {"accuracy": 0.8, "recall": 0, "f1": 0, "balanced_accuracy": 4 / 9, "mcc": -1 / 9},
        ),
    ],
)
def test_nine_negatives_and_one_positive(name: str, expected: dict[str, float]):
    """Both classifiers miss the only positive; the second is worse or equal on every measure."""
    predictions = PREDICTIONS[name]
    assert {key: reference(TARGETS, predictions) for key, reference in REFERENCES.items()} == pytest.approx(expected)
    evaluation = BinaryEvaluation(inputs="labels", statistics=list(expected), zero_division=0.0)
    evaluation.update(torch.tensor(predictions), torch.tensor(TARGETS))
    values = {key: value.item() for key, value in evaluation.compute().items()}
    assert values == pytest.approx(expected, abs=1e-7)
    finding = evaluation.explain("accuracy", "f1")
    assert finding.code == "accuracy-f1-accuracy-larger"
    assert finding.evidence["gap"] == pytest.approx(expected["accuracy"])


def test_matthews_of_a_constant_prediction_is_undefined_and_says_so():
    finding = explain(Counts(tp=0, fp=0, fn=1, tn=9), "accuracy", "mcc")
    assert finding.evidence["values"] == {"accuracy": 0.9, "mcc": None}
    assert "nothing was predicted positive" in finding.text()


def test_balance_is_not_sufficient():
    """Always "positive" on balanced data: accuracy 1/2, F1 2/3."""
    finding = explain(Counts(tp=50, fp=50, fn=0, tn=0))
    assert finding.evidence["values"] == pytest.approx({"accuracy": 1 / 2, "f1": 2 / 3})
    assert finding.code == "accuracy-f1-f1-larger"


def test_balance_is_not_necessary():
    """75 positives and 25 negatives, 20 of each found: 40/100 and 2·20/(2·20 + 60)."""
    counts = Counts(tp=20, fp=5, fn=55, tn=20)
    assert counts.prevalence == 0.75
    finding = explain(counts)
    assert finding.evidence["values"] == {"accuracy": 0.4, "f1": 0.4}
    assert finding.code == "accuracy-f1-tp-equals-tn"


@given(st.integers(1, HUGE), st.integers(0, HUGE), st.integers(0, HUGE))
def test_balanced_data_need_as_many_false_positives_as_false_negatives(size: int, tp: int, tn: int):
    tp, tn = min(tp, size), min(tn, size)
    finding = explain(Counts(tp=tp, fp=size - tn, fn=size - tp, tn=tn))
    assert finding.evidence["equal"] is (tp == tn)
