"""Entries of an evaluation: their names, undefined values, many of them, and what can be asked."""

from __future__ import annotations

import pytest
import torch
from states import ONE_OF_EACH, VARIANTS, counted, filled, snapshot, values

from lightning_evalkit import BinaryEvaluation
from lightning_evalkit.counts import Counts
from lightning_evalkit.errors import DeclarationError, InputError, UndefinedWarning

# ---- entries and names


def test_entries_refuse_to_count() -> None:
    evaluation = filled(VARIANTS["evaluation"], 1)
    before = snapshot(evaluation)
    for refused in (evaluation["f1"].update, evaluation["f1"]):
        with pytest.raises(InputError, match=r"'f1' is one entry of an evaluation.*call update"):
            refused(*VARIANTS["evaluation"].batch(2))
    assert snapshot(evaluation) == before


@pytest.mark.parametrize("name", ["recal", "val/recal"])
def test_an_unknown_entry_names_the_nearest(name: str) -> None:
    with pytest.raises(DeclarationError, match=f"there is no entry '{name}': did you mean 'recall'"):
        BinaryEvaluation("logits", prefix="val/")[name]


def test_an_unknown_statistic_names_the_nearest() -> None:
    with pytest.raises(DeclarationError, match=r"there is no statistic 'acuracy': did you mean.*'accuracy'"):
        BinaryEvaluation("logits", statistics=["acuracy"])
    with pytest.raises(DeclarationError, match="'sensitivity' is called 'recall' here"):
        BinaryEvaluation("logits", statistics=["sensitivity"])
    with pytest.raises(DeclarationError, match=r"list of names, got .*: write \['f1'\]"):
        BinaryEvaluation("logits", statistics="f1")
    with pytest.raises(DeclarationError, match="got 'f1' twice"):
        BinaryEvaluation("logits", statistics=["f1", "recall", "f1"])


def test_several_thresholds_are_part_of_the_names() -> None:
    evaluation = BinaryEvaluation("probabilities", threshold=[0.5, 0.9], statistics=["precision", "f0.5"], postfix="!")
    evaluation.update(torch.tensor([0.95, 0.8, 0.6]), torch.tensor([1, 0, 1]))
    computed = evaluation.compute()
    assert list(computed) == ["precision@0.5!", "f0.5@0.5!", "precision@0.9!", "f0.5@0.9!"] == list(evaluation.keys())
    assert computed["precision@0.5!"].item() == pytest.approx(2 / 3)
    assert computed["precision@0.9!"].item() == 1
    assert evaluation["precision@0.9"].compute().item() == 1
    assert all(value.ndim == 0 and value.dtype == torch.float32 for value in computed.values())


# ---- undefined values


def test_the_first_undefined_value_warns_with_statistic_and_reason() -> None:
    evaluation = BinaryEvaluation("labels", statistics=["accuracy", "recall", "precision", "f1"])
    evaluation.update(torch.zeros(4), torch.zeros(4))
    with pytest.warns(UndefinedWarning) as caught:
        computed = evaluation.compute()
    assert len(caught) == 1
    message = str(caught[0].message)
    assert message.startswith("recall is NaN")
    for part in ("tp / (tp + fn)", "there are no positive targets", "EarlyStopping", "zero_division=0.0"):
        assert part in message
    assert {name for name, value in computed.items() if value.isnan()} == {"recall", "precision", "f1"}


def test_undefined_values_warn_once_per_evaluation() -> None:
    evaluation = BinaryEvaluation("labels")
    evaluation.update(torch.zeros(4), torch.zeros(4))
    with pytest.warns(UndefinedWarning):
        evaluation["recall"].compute()
    evaluation.compute()
    evaluation.reset()
    evaluation.update(torch.zeros(2), torch.zeros(2))
    evaluation.compute()


def test_zero_division_is_the_value_of_nothing_of_nothing() -> None:
    for number in (0.0, 1.0):
        evaluation = BinaryEvaluation("labels", statistics=["recall", "precision"], zero_division=number)
        evaluation.update(torch.zeros(4), torch.zeros(4))
        assert values(evaluation.compute()) == {"recall": number, "precision": number}


def test_compute_without_samples_says_so() -> None:
    evaluation = BinaryEvaluation("labels", zero_division=0.0)
    with pytest.warns(UserWarning, match="was called before any ``update``"):
        evaluation.compute()


# ---- many entries


def _many(thresholds: int) -> BinaryEvaluation:
    return BinaryEvaluation("probabilities", threshold=[(k + 1) / 64 for k in range(thresholds)])


def _logged(evaluation: BinaryEvaluation, epochs: int) -> None:
    for _ in range(epochs):
        for _ in range(10):
            evaluation.items()
        evaluation.reset()


def test_logging_many_entries_in_every_step_warns_once() -> None:
    words = r"an evaluation with 56 entries is logged in every step.*once per epoch"
    with pytest.warns(UserWarning, match=words) as caught:
        _logged(_many(8), epochs=3)
    assert len(caught) == 1


def test_few_entries_or_one_look_do_not_warn() -> None:
    _logged(_many(7), epochs=3)
    many = _many(8)
    for _ in range(10):
        many.items()
        many.reset()


# ---- asking an evaluation


def test_counts_are_named_scalars() -> None:
    variant = VARIANTS["evaluation"]
    evaluation = filled(variant, 1)
    tp, fp, fn, tn = map(int, variant.expected(variant.batch(1))[0][0])
    assert evaluation.counts == Counts(tp=tp, fp=fp, fn=fn, tn=tn)
    assert evaluation.counts.tp.ndim == 0
    evaluation.update(*variant.batch(2))
    assert int(evaluation.counts.total) == 80


def test_counts_have_one_column_per_threshold() -> None:
    variant = VARIANTS["evaluation_cuts"]
    counts = filled(variant, 1).counts
    assert torch.stack(counts.cells, -1).tolist() == variant.expected(variant.batch(1))[0]


def test_what_is_read_does_not_change_the_state() -> None:
    evaluation = filled(VARIANTS["evaluation"], 1)
    evaluation.counts.tp.add_(100)
    evaluation.tally.global_totals.integers.zero_()
    before = counted(evaluation)
    assert before == VARIANTS["evaluation"].expected(VARIANTS["evaluation"].batch(1))
    evaluation.update(*VARIANTS["evaluation"].batch(2))
    assert evaluation.counts.exact().total == 80


@pytest.mark.parametrize("prevalence", [0.01, 0.5, 0.9])
def test_at_prevalence_keeps_recall_and_specificity(prevalence: float) -> None:
    variant = VARIANTS["evaluation"]
    evaluation = filled(variant, 1)
    tp, fp, fn, tn = variant.expected(variant.batch(1))[0][0]
    recall, specificity = tp / (tp + fn), tn / (tn + fp)
    projected = values(evaluation.at_prevalence(prevalence))
    positive, negative = prevalence, 1 - prevalence
    assert projected["val/recall"] == pytest.approx(recall)
    assert projected["val/specificity"] == pytest.approx(specificity)
    assert projected["val/accuracy"] == pytest.approx(positive * recall + negative * specificity)
    f1 = 2 * positive * recall / (positive * recall + positive + negative * (1 - specificity))
    assert projected["val/f1"] == pytest.approx(f1)
    assert counted(evaluation) == variant.expected(variant.batch(1))


def test_explain_reads_the_evaluation() -> None:
    evaluation = BinaryEvaluation("probabilities")
    evaluation.update(*ONE_OF_EACH)
    finding = evaluation.explain()
    assert finding.headline == "accuracy and f1 are equal: both are 0.5."
    assert finding.evidence["counts"] == {"tp": 1, "fp": 1, "fn": 1, "tn": 1}
    assert "recall" in evaluation.explain("precision", "recall").headline


def test_explain_compares_at_one_threshold() -> None:
    evaluation = BinaryEvaluation("probabilities", threshold=[0.5, 0.85])
    evaluation.update(*ONE_OF_EACH)
    assert evaluation.explain("accuracy@0.85", "f1@0.85").evidence["counts"] == {"tp": 1, "fp": 0, "fn": 1, "tn": 2}
    with pytest.raises(InputError, match="two entries at one threshold"):
        evaluation.explain("accuracy@0.5", "f1@0.85")
    with pytest.raises(DeclarationError, match="there is no entry 'accuracy'"):
        evaluation.explain()
