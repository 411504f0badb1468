"""What one number says: its baselines, what it ignores, and the first sentence about a classifier of one class."""

from __future__ import annotations

import multiprocessing
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightning.pytorch import LightningModule, Trainer
from rich.console import Console
from sklearn import metrics as sklearn
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lightning_evalkit import BinaryEvaluation, Counts, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.diagnosis import explain
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.statistics import STATISTICS, find

Cells = tuple[int, int, int, int]
tables = st.tuples(*[st.integers(0, 30)] * 4)


@pytest.mark.parametrize(
    ("cells", "headline"),
    [
        ((0, 0, 10, 90), "Nothing was predicted positive: always saying no gives accuracy 0.9 here."),
        ((10, 90, 0, 0), "Nothing was predicted negative: always saying yes gives accuracy 0.1 here."),
        ((8, 30, 2, 60), "accuracy is 0.68: 68 of 100."),
    ],
)
def test_a_classifier_of_one_class_is_told_so_first(cells: Cells, headline: str):
    assert explain(Counts(*cells), "accuracy").headline == headline


@given(tables.filter(lambda cells: sum(cells) > 0), st.sampled_from(sorted(STATISTICS)))
def test_baselines_are_those_of_predictions_without_a_look(cells: Cells, name: str):
    """Scikit-learn's own accuracy of constant predictions, and the product of the margins for random ones."""
    tp, fp, fn, tn = cells
    evidence = explain(Counts(*cells), name, zero_division=0.25).evidence["baselines"]
    truth = [1] * (tp + fn) + [0] * (fp + tn)
    for words, said in evidence.items():
        if words.startswith("always saying"):
            answer = int("yes" in words)
            matrix = sklearn.confusion_matrix(truth, [answer] * len(truth), labels=[0, 1])
            (rtn, rfp), (rfn, rtp) = matrix.tolist()
            expected = Counts(rtp, rfp, rfn, rtn)
        else:
            q = Fraction(tp + fp, sum(cells))
            expected = Counts((tp + fn) * q, (fp + tn) * q, (tp + fn) * (1 - q), (fp + tn) * (1 - q))
        value = float(find(name)(expected).value(0.25))
        assert said == pytest.approx(value, nan_ok=True) if said is not None else value in (float("inf"),)
    majority = [words for words in evidence if "majority" in words]
    assert majority == (
        [] if tp + fn == fp + tn else [f"always saying {'yes' if tp + fn > fp + tn else 'no'} (the majority)"]
    )
    assert any("random" in words for words in evidence) is bool((tp + fp) and (fn + tn))


@given(tables, st.sampled_from(sorted(STATISTICS)), st.integers(1, 9))
def test_what_is_said_to_be_ignored_changes_nothing(cells: Cells, name: str, more: int):
    text, words = explain(Counts(*cells), name).text(), ("true positives", "false positives", "false negatives")
    names = dict(zip(("tp", "fp", "fn", "tn"), (*words, "true negatives"), strict=True))
    for cell, word in names.items():
        if f"ignores {word}" in text or f" and {word} (" in text:
            changed = dict(zip(names, cells, strict=True))
            changed[cell] += more
            one, other = (find(name)(Counts(*each)).exact() for each in (cells, changed.values()))
            assert one == other
    if "alike" in text:
        tp, fp, fn, tn = cells
        swapped = find(name)(Counts(tp, fn, fp, tn)).value(0.0)
        assert float(find(name)(Counts(*cells)).value(0.0)) == pytest.approx(float(swapped), nan_ok=True)


def test_a_number_is_set_beside_the_best_of_them():
    text = explain(Counts(8, 30, 2, 60), "accuracy").text()
    assert "no better than always saying no (the majority), which ignores the inputs and gives 0.9" in text
    assert "0.1105 better than always saying yes" in explain(Counts(8, 30, 2, 60), "precision").text()  # 8/38 − 0.1


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        (Counts(tp=0, fp=0, fn=10, tn=90), "Nothing was predicted positive: always saying no gives the same numbers."),
        (Counts(tp=10, fp=90, fn=0, tn=0), "Nothing was predicted negative: always saying yes gives the same numbers."),
    ],
)
def test_two_numbers_of_one_class_are_told_so_before_their_identity(counts: Counts, said: str):
    assert explain(counts).reasons[0] == said
    assert "gives the same numbers" not in explain(Counts(tp=1, fp=0, fn=9, tn=90)).text()


def test_accuracy_of_labels_is_asked_which_one():
    labels = MultilabelEvaluation("labels", 2)
    labels.update(torch.tensor([[1, 0]]), torch.tensor([[1, 1]]))
    with pytest.raises(DeclarationError, match=r"say 'exact_match' .* 'hamming_accuracy' .* or 'accuracy/<label>'"):
        labels.explain("accuracy")


def test_an_undefined_number_says_why():
    finding = explain(Counts(0, 0, 2, 60), "precision")
    assert finding.headline == "precision has no value here, as it is 0/0: nothing was predicted positive."
    assert finding.code == "undefined"


# ---- evaluations


def test_an_evaluation_explains_one_number_at_a_threshold():
    evaluation = BinaryEvaluation("probabilities", threshold=[0.5, 0.95], statistics=["accuracy", "f1"])
    evaluation.update(torch.tensor([0.9, 0.8, 0.2, 0.1]), torch.tensor([1, 0, 0, 0]))
    assert evaluation.explain("accuracy@0.5").headline == "accuracy@0.5 is 0.75: 3 of 4."
    said = evaluation.explain("accuracy@0.95").headline
    assert said == "Nothing was predicted positive: always saying no gives accuracy@0.95 0.75 here."


def test_a_number_of_scores_is_explained_without_baselines():
    evaluation = BinaryEvaluation("probabilities", curves=True)
    evaluation.update(torch.tensor([0.9, 0.8, 0.2, 0.1]), torch.tensor([1, 0, 1, 0]))
    finding = evaluation.explain("auroc")
    assert finding.headline == "auroc is 0.75."
    assert finding.table is None
    assert evaluation.explain("loss").code == evaluation.explain("loss", "accuracy").code


def test_many_classes_have_the_majority_beside_them():
    evaluation = MulticlassEvaluation("labels", 3, ["cat", "dog", "fox"])
    truth, said = torch.tensor([0, 0, 0, 1, 1, 2]), torch.tensor([0, 0, 1, 1, 2, 2])
    evaluation.update(said, truth)
    for name, score in (("accuracy", sklearn.accuracy_score), ("balanced_accuracy", sklearn.balanced_accuracy_score)):
        baselines = evaluation.explain(name).evidence["baselines"]
        assert baselines["always saying cat (the majority)"] == pytest.approx(score(truth, torch.zeros(6)))
    # Random, as often as here: Σ n_k p_k / N² = (3·2 + 2·2 + 1·2) / 36.
    assert evaluation.explain("accuracy").evidence["baselines"][
        "each class at random, as often as here"
    ] == pytest.approx(12 / 36)


def test_a_model_of_one_class_is_told_so_first():
    evaluation = MulticlassEvaluation("labels", 3, ["cat", "dog", "fox"])
    evaluation.update(torch.zeros(4, dtype=torch.int64), torch.tensor([0, 0, 0, 1]))
    assert (
        evaluation.explain("accuracy").headline == "Only cat was predicted: always saying cat gives accuracy 0.75 here."
    )


def test_labels_have_their_majorities_beside_them():
    evaluation = MultilabelEvaluation("labels", 2, ["x", "y"])
    truth = torch.tensor([[1, 0], [1, 0], [1, 1], [0, 0]])
    evaluation.update(torch.tensor([[1, 1], [1, 0], [0, 1], [0, 0]]), truth)
    found = evaluation.explain("hamming_accuracy").evidence["baselines"]
    assert found["always saying of each label what is more frequent"] == pytest.approx(6 / 8)
    assert evaluation.explain("exact_match").headline == "exact_match is 0.5."
    assert "all their labels right" in evaluation.explain("exact_match").text()


def of_classes(*names: str, statistics: tuple[str, ...] = ("accuracy",)) -> MulticlassEvaluation:
    evaluation = MulticlassEvaluation("logits", len(names), names, statistics=statistics)
    evaluation.update(torch.eye(len(names))[[0, 0, 1, -1]], torch.tensor([0, 1, 1, len(names) - 1]))
    return evaluation


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("accuracy", "Correct predictions of all."),
        ("mcc", "Matthews correlation (Gorodkin): covariance of target and prediction over the root of"),
        ("kappa", "Agreement beyond chance (Cohen)."),
        ("top_2_accuracy", "Samples whose class has one of the 2 largest scores, of all samples."),
    ],
)
def test_a_number_of_the_whole_matrix_has_no_formula_of_one_table(name: str, formula: str):
    """Four classes: (tp + tn) / N of one against the rest would be another number."""
    evaluation = of_classes("a", "b", "c", "d", statistics=(name,))
    assert evaluation.explain(name).reasons[0].startswith(formula)


@pytest.mark.parametrize("name", ["precision/micro", "recall/micro", "f1/micro"])
def test_a_micro_average_is_said_to_be_the_accuracy(name: str):
    assert "It is the accuracy: with one target" in of_classes("a", "b", "c").explain(name).text()
    assert "that of the positive class" not in of_classes("a", "b", "c").explain(name).text()
    usual = f"the usual one is {name.removesuffix('micro')}yes, that of the positive class."
    assert usual in of_classes("no", "yes").explain(name).text()
    labels = MultilabelEvaluation("labels", 2, statistics=(name,))
    labels.update(torch.tensor([[1, 0]]), torch.tensor([[1, 1]]))
    assert "It is the accuracy" not in labels.explain(name).text()


def test_f1_of_two_classes_is_offered_the_positive_class_first():
    with pytest.raises(DeclarationError, match=r"say 'f1/yes' for the positive class, or 'f1/micro' or"):
        of_classes("no", "yes").explain("f1")
    with pytest.raises(DeclarationError, match="average: say 'f1/micro' or"):
        of_classes("a", "b", "c").explain("f1")


# ---- nothing counted

RESET = (
    "Nothing is counted: Lightning resets a logged evaluation at the end of the epoch; ask in "
    "on_validation_epoch_end, or use Evaluate."
)


class Logged(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.evaluation = nn.Linear(1, 1), BinaryEvaluation("logits")

    def validation_step(self, batch: list[Tensor], _: int) -> None:
        self.evaluation.update(self.layer(batch[0])[:, 0], batch[1])
        self.log_dict(self.evaluation)


@pytest.mark.filterwarnings("ignore:The '[a-z_]+_dataloader' does not have many workers")
@pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec.. is deprecated:FutureWarning")
@pytest.mark.filterwarnings("ignore:(precision|recall|f1|mcc|balanced_accuracy|specificity) is NaN")
def test_a_reset_by_lightning_is_said_and_nothing_of_0():
    module = Logged()
    data = TensorDataset(torch.randn(8, 1), torch.tensor([0, 1] * 4))
    trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.validate(module, DataLoader(data, 4), verbose=False)
    for names in ((), ("accuracy",), ("precision", "recall")):
        finding = module.evaluation.explain(*names)
        assert finding.text() == RESET
        assert "0/0" not in finding.text()
    with pytest.warns(UserWarning, match="was called before any ``update``"):
        (found,) = (each for each in module.evaluation.diagnose().findings if each.code == "EK209")
    assert RESET in found.headline
    assert "ask before a reset" in found.remedy


def counted_there(evaluation: BinaryEvaluation) -> None:
    evaluation.update(torch.tensor([1]), torch.tensor([1]))


@pytest.mark.slow
def test_counts_of_another_process_are_said_to_be_there():
    evaluation = BinaryEvaluation("labels")
    process = multiprocessing.get_context("spawn").Process(target=counted_there, args=(evaluation,))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert "counted in other processes" in evaluation.explain().headline


@pytest.mark.parametrize("ask", [(), ("accuracy",), ("loss", "accuracy")])
def test_an_evaluation_that_never_counted_says_what_to_do(ask: tuple[str, ...]):
    for evaluation in (BinaryEvaluation("logits", curves=True), MulticlassEvaluation("logits", 3, curves=True)):
        assert evaluation.explain(*ask).headline == "Nothing is counted: call update first, or ask before reset."


def test_a_class_is_measured_against_always_and_never_saying_it():
    """Always saying b has the recall 1 of b, and never saying it the specificity 1."""
    evaluation = of_classes("a", "b", "c")
    recall, specificity = (evaluation.explain(name) for name in ("recall/b", "specificity/b"))
    assert recall.evidence["baselines"]["always saying b (the majority)"] == 1
    assert (
        "It is no better than always saying b (the majority), which ignores the inputs and gives 1." in recall.reasons
    )
    assert specificity.evidence["baselines"]["always saying a"] == 1
    labels = MultilabelEvaluation("labels", 2)
    labels.update(torch.tensor([[1, 0], [0, 0]]), torch.tensor([[1, 1], [1, 0]]))
    assert labels.explain("recall/0").evidence["baselines"]["always saying yes"] == 1
    assert labels.explain("specificity/1").evidence["baselines"]["always saying no"] == 1


@pytest.mark.parametrize(
    ("name", "parts"), [("accuracy", "3 of 4"), ("recall/b", "1 of 2"), ("f1/micro", ""), ("recall/micro", "3 of 4")]
)
def test_shares_of_classes_have_their_parts(name: str, parts: str):
    headline = of_classes("a", "b", "c").explain(name).headline
    assert headline.endswith(f": {parts}." if parts else "0.75.")


def test_labels_and_classes_that_are_never_predicted_are_told_first():
    labels = MultilabelEvaluation("labels", 3, ["red", "green", "blue"])
    labels.update(torch.tensor([[0, 1, 0], [0, 1, 0]]), torch.tensor([[1, 1, 0], [0, 1, 0]]))
    for names in ((), ("exact_match",), ("recall/red",)):
        assert labels.explain(*names).reasons[0] == "red, blue were never predicted."
    classes = MulticlassEvaluation("labels", 3)
    classes.update(torch.zeros(4).long(), torch.tensor([0, 0, 1, 2]))
    assert classes.explain().reasons[0] == "Only 0 was predicted: always saying 0 gives the same numbers."


def test_any_number_of_a_label_can_be_explained_without_being_reported():
    labels = MultilabelEvaluation("labels", 2, ["red", "green"])
    labels.update(torch.tensor([[0, 1], [1, 1]]), torch.tensor([[1, 1], [1, 1]]))
    assert labels.explain("accuracy/red").headline == "accuracy/red is 0.5: 1 of 2."
    assert labels.explain("recall/red", "recall/green").headline.startswith("recall/red and recall/green differ")
    with pytest.raises(DeclarationError, match="curves=True"):
        labels.explain("auroc/red")
    with pytest.raises(DeclarationError, match="there is no entry 'recall/blue'"):
        labels.explain("recall/blue")


def test_exact_match_says_what_it_hides():
    labels = MultilabelEvaluation("labels", 2)
    labels.update(torch.tensor([[0, 1]]), torch.tensor([[1, 1]]))
    text = labels.explain("exact_match").text()
    assert "A sample with one wrong label counts like one with all labels wrong" in text
    assert "depends on which labels occur together" in text


def test_of_as_many_yes_as_no_there_is_no_majority():
    assert "majority" not in explain(Counts(tp=1, fp=1, fn=1, tn=1), "accuracy").text()
    assert "always saying no (the majority)" in explain(Counts(tp=1, fp=1, fn=0, tn=2), "accuracy").text()


def test_a_finding_is_one_line_at_a_prompt_and_whole_in_rich():
    found = explain(Counts(tp=1, fp=1, fn=1, tn=1), "accuracy")
    assert repr(found) == "<one-number: accuracy is 0.5: 2 of 4.>"
    with (console := Console(width=200)).capture() as captured:
        console.print(found)
    assert captured.get().splitlines() == [line.rstrip() for line in found.text().splitlines()]
    assert "[0.1500, 0.8500]" in captured.get()
