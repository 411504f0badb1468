"""The nine examples that the project started from, with the numbers that are true of their data.

Every expected value is computed from the samples by scikit-learn, NumPy or the definition, beside what was claimed.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn import metrics as reference
from torchmetrics.classification import BinaryAccuracy as PeerAccuracy

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.errors import InputError

SAMPLES = 400_000
NEAR = 0.005
"""Five standard errors of accuracy and F1 at this number of samples, or more; of recall, four are twice as much."""


def plain(evaluation: BinaryEvaluation | MulticlassEvaluation | MultilabelEvaluation) -> dict[str, float]:
    return {name: value.item() for name, value in evaluation.compute().items()}


# ---- why does accuracy equal F1?


def chance(share: float, rate: float, seed: int = 0) -> dict[str, float]:
    """Predictions that say yes at a rate, whatever the label is: all that features without information allow."""
    generator = torch.Generator().manual_seed(seed)
    positives = round(share * SAMPLES)
    target = (torch.arange(SAMPLES) < positives).long()
    said = (torch.rand(SAMPLES, generator=generator) < rate).long()
    evaluation = BinaryEvaluation("labels", statistics=["accuracy", "f1", "recall", "specificity"])
    evaluation.update(said, target)
    return plain(evaluation)


def expected_f1(share: float, rate: float) -> float:
    """2πq / (π + q), from the expected counts TP = πqN, FP = (1 - π)qN, FN = π(1 - q)N."""
    return 2 * share * rate / (share + rate)


@pytest.mark.parametrize("example", ["balanced", "poor features"])
def test_balanced_labels_that_features_do_not_tell(example: str) -> None:
    """Examples 1 and 3: accuracy and F1 are near 0.5, and not equal."""
    values = chance(share=0.5, rate=0.5, seed=["balanced", "poor features"].index(example))
    assert values["accuracy"] == pytest.approx(0.5, abs=NEAR)
    assert values["f1"] == pytest.approx(0.5, abs=NEAR)
    assert values["accuracy"] != values["f1"]


def test_imbalanced_labels_that_features_do_not_tell() -> None:
    """Example 2, 45 negatives and 5 positives: accuracy stays near 0.5, F1 falls to 2πq/(π + q) = 1/6."""
    values = chance(share=5 / 50, rate=0.5)
    assert values["accuracy"] == pytest.approx(0.5, abs=NEAR)
    assert expected_f1(0.1, 0.5) == pytest.approx(1 / 6)
    assert values["f1"] == pytest.approx(1 / 6, abs=NEAR)


@pytest.mark.parametrize("share", [0.5, 0.1])
@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.8, 1.0])
def test_guessing_at_any_rate(share: float, rate: float) -> None:
    values = chance(share, rate)
    assert values["f1"] == pytest.approx(expected_f1(share, rate), abs=NEAR)
    assert values["accuracy"] == pytest.approx(share * rate + (1 - share) * (1 - rate), abs=NEAR)
    assert values["recall"] == pytest.approx(rate, abs=2 * NEAR)


def test_always_yes_on_balanced_data_is_not_equal() -> None:
    """Balance is not sufficient: 0.5 against 2/3."""
    values = chance(share=0.5, rate=1.0)
    assert values["accuracy"] == 0.5
    assert values["f1"] == pytest.approx(2 / 3)


def test_balance_is_not_necessary() -> None:
    """Nine positives and three negatives, and as many true positives as true negatives: both are 1/2."""
    target = torch.tensor([1] * 9 + [0] * 3)
    said = torch.tensor([1] * 3 + [0] * 6 + [0] * 3)
    evaluation = BinaryEvaluation("labels", statistics=["accuracy", "f1"])
    evaluation.update(said, target)
    assert plain(evaluation) == {"accuracy": 0.5, "f1": 0.5}
    assert evaluation.explain().code == "accuracy-f1-tp-equals-tn"


def test_the_code_as_printed_raises() -> None:
    """A linear layer with one output gives (N, 1), beside targets of (N,)."""
    scores, target = torch.sigmoid(torch.nn.Linear(10, 1)(torch.randn(50, 10))), torch.randint(0, 2, (50,))
    with pytest.raises(RuntimeError, match="same shape"):
        PeerAccuracy().update(scores, target)
    with pytest.raises(InputError, match=r"got \(50, 1\) and \(50,\): call preds.squeeze\(-1\)"):
        BinaryEvaluation("probabilities").update(scores, target)


# ---- why are accuracy and loss unexpected?

RARE = np.array([0, 0, 0, 0, 0, 0, 0, 0, 0, 1])
NEVER = np.zeros(10, dtype=int)
ONCE = np.array([0, 0, 0, 0, 0, 0, 0, 0, 1, 0])
BINARY = {
    "accuracy": reference.accuracy_score,
    "balanced_accuracy": reference.balanced_accuracy_score,
    "recall": reference.recall_score,
    "f1": reference.f1_score,
    "mcc": reference.matthews_corrcoef,
}


def reported(said: np.ndarray) -> dict[str, float]:
    evaluation = BinaryEvaluation("labels", statistics=list(BINARY), zero_division=0.0)
    evaluation.update(torch.tensor(said), torch.tensor(RARE))
    return plain(evaluation)


def test_the_second_model_is_worse_or_equal_on_every_measure() -> None:
    """The claim was that it is more useful, though it finds nothing either."""
    first, second = reported(NEVER), reported(ONCE)
    for values, said in ((first, NEVER), (second, ONCE)):
        assert values == pytest.approx({name: score(RARE, said) for name, score in BINARY.items()})
    assert first == pytest.approx({"accuracy": 0.9, "balanced_accuracy": 0.5, "recall": 0, "f1": 0, "mcc": 0})
    assert second == pytest.approx(
        {"accuracy": 0.8, "balanced_accuracy": 4 / 9, "recall": 0, "f1": 0, "mcc": -1 / 9}, abs=1e-6
    )
    assert all(second[name] <= first[name] for name in BINARY)


LABELS = np.array([1.0, 0.0, 1.0])
PROBABILITIES = {
    "good": ([0.9, 0.1, 0.8], 0.1446, 1.0),
    "bad": ([0.1, 0.9, 0.1], 2.3026, 0.0),
    "mixed": ([0.9, 0.9, 0.9], 0.8378, 2 / 3),
}


@pytest.mark.parametrize("kind", PROBABILITIES)
def test_losses_and_accuracies_of_three_models(kind: str) -> None:
    chances, loss, accuracy = PROBABILITIES[kind]
    assert reference.log_loss(LABELS, chances) == pytest.approx(loss, abs=5e-5)
    evaluation = BinaryEvaluation("probabilities", statistics=["accuracy"])
    evaluation.update(torch.tensor(chances), torch.tensor(LABELS))
    assert plain(evaluation)["accuracy"] == pytest.approx(accuracy)


def test_one_sample_carries_the_mean_loss() -> None:
    """91.6 % of it: the loss of an outlier says little about the other two."""
    chances = np.array(PROBABILITIES["mixed"][0])
    losses = -(LABELS * np.log(chances) + (1 - LABELS) * np.log(1 - chances))
    assert losses.max() / losses.sum() == pytest.approx(0.916, abs=5e-4)


TRUTH = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 0])
SAID = np.array([0, 1, 0, 0, 1, 2, 0, 0, 2, 0])


def test_per_class_accuracy_has_two_meanings_and_neither_is_six_tenths() -> None:
    evaluation = MulticlassEvaluation(
        "labels", 3, per_class=True, statistics=["accuracy", "balanced_accuracy", "one_vs_rest_accuracy/macro"]
    )
    evaluation.update(torch.tensor(SAID), torch.tensor(TRUTH))
    values = plain(evaluation)
    rest = [reference.accuracy_score(np.equal(TRUTH, place), np.equal(SAID, place)) for place in range(3)]
    recalls = reference.recall_score(TRUTH, SAID, average=None)
    assert [values[f"one_vs_rest_accuracy/{place}"] for place in range(3)] == pytest.approx(rest)
    assert [values[f"recall/{place}"] for place in range(3)] == pytest.approx(recalls)
    assert rest == pytest.approx([0.8, 0.9, 0.9])
    assert list(recalls) == pytest.approx([1, 2 / 3, 2 / 3])
    assert values["accuracy"] == pytest.approx(0.8) == reference.accuracy_score(TRUTH, SAID)
    assert values["balanced_accuracy"] == pytest.approx(recalls.mean())
    assert values["one_vs_rest_accuracy/macro"] == pytest.approx(1 - 2 * 0.2 / 3)
    assert all(abs(value - 0.6) > 0.05 for value in values.values())


# ---- what is accuracy with many labels?

PREDICTED = np.array([[0, 1, 1], [1, 0, 0]])
TRUE = np.array([[0, 1, 0], [1, 1, 0]])
WANTED = np.array([[0, 1, 0], [1, 0, 1], [0, 0, 1], [1, 1, 0]])


def side_by_side(inputs: str, scores: np.ndarray, target: np.ndarray) -> dict[str, float]:
    evaluation = MultilabelEvaluation(
        inputs,  # type: ignore[arg-type]
        3,
        per_label=True,
        statistics=["exact_match", "hamming_accuracy"],
    )
    evaluation.update(torch.tensor(scores), torch.tensor(target))
    return plain(evaluation)


def test_the_mean_accuracy_of_labels_is_not_the_accuracy_of_samples() -> None:
    """scikit-learn's accuracy of label indicators is exact match: 0 here, where the mean over labels is 2/3."""
    values = side_by_side("labels", PREDICTED, TRUE)
    per_label = [reference.accuracy_score(TRUE[:, place], PREDICTED[:, place]) for place in range(3)]
    assert per_label == [1.0, 0.5, 0.5]
    assert [values[f"accuracy/{place}"] for place in range(3)] == per_label
    assert values["hamming_accuracy"] == pytest.approx(np.mean(per_label))
    assert values["hamming_accuracy"] == pytest.approx(1 - reference.hamming_loss(TRUE, PREDICTED))
    assert values["exact_match"] == reference.accuracy_score(TRUE, PREDICTED) == 0


@pytest.mark.parametrize("seed", range(5))
def test_what_a_trainer_is_given_to_compute_is_exact_match(seed: int) -> None:
    """The function thresholds logits at 0 and hands indicators to accuracy_score: no label is averaged anywhere."""
    generator = np.random.default_rng(seed)
    logits = (2 * WANTED - 1) * generator.uniform(0.1, 3, WANTED.shape)
    logits[0, 0] *= -1  # one wrong label, in one sample of four
    logits[3] *= -1  # three wrong labels, in another
    returned = reference.accuracy_score(WANTED, (logits > 0).astype(int))
    values = side_by_side("logits", logits, WANTED)
    assert values["exact_match"] == returned == 0.5
    assert values["hamming_accuracy"] == pytest.approx(((logits > 0) == WANTED).mean()) == pytest.approx(2 / 3)


SCORES = np.array([[[0.2, 0.8, 0.1], [0.9, 0.3, 0.2]], [[0.1, 0.6, 0.7], [0.3, 0.2, 0.9]]])
INDICATORS = np.array([[[0, 1, 0], [1, 0, 0]], [[0, 1, 1], [0, 0, 1]]])


@pytest.mark.parametrize(
    ("inputs", "cut", "expected"), [("probabilities", 0.5, [1, 1, 1]), ("logits", 0.0, [0.25, 0.5, 0.5])]
)
def test_what_scores_mean_must_be_declared(inputs: str, cut: float, expected: list[float]) -> None:
    """Called logits and cut at 0.5, which is right for probabilities; as logits they would be cut at 0."""
    scores, target = SCORES.reshape(-1, 3), INDICATORS.reshape(-1, 3)
    per_label = ((scores > cut) == target).mean(0)
    values = side_by_side(inputs, scores, target)
    assert list(per_label) == expected
    assert [values[f"accuracy/{place}"] for place in range(3)] == expected
    assert values["hamming_accuracy"] == pytest.approx(np.mean(expected))
    assert values["exact_match"] == ((scores > cut) == target).all(1).mean()
    assert math.isclose(values["exact_match"], 1.0) == (inputs == "probabilities")
