"""Many classes and labels against scikit-learn, and where torchmetrics' number is not the definition."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import sklearn.metrics as reference
import torch
from many_metrics import AVERAGES, CLASSES, IGNORED, KINDS, READINGS, Case, assert_same
from torchmetrics import classification as peer_metrics
from torchmetrics.functional import classification as peer_functions
from versions import UNDEFINED

from lightning_evalkit import MulticlassEvaluation, MultilabelEvaluation, functional, metrics
from lightning_evalkit.errors import DeclarationError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable


pytestmark = pytest.mark.filterwarnings(
    # torchmetrics, of its own matrix when a class is absent.
    "ignore:.* NaN values found in confusion matrix:UserWarning",
)


# ---- where torchmetrics' number is not the definition


def test_an_ignored_class_is_left_out_of_macro_averages() -> None:
    """Its samples are gone, so its recall is 0/0; torchmetrics averages in a 0 as soon as it is predicted.

    Two classes, class 0 ignored. Of the two samples of class 1 that remain one is found: recall 1/2, which is the
    mean over the one class there is; torchmetrics reports (0 + 1/2) / 2.
    """
    preds, target = torch.tensor([0, 1, 0, 1]), torch.tensor([0, 0, 1, 1])
    assert peer_metrics.MulticlassRecall(2, ignore_index=0)(preds, target) == 0.25
    assert metrics.MulticlassRecall(2, ignore_index=0)(preds, target) == 0.5
    assert functional.multiclass_recall(preds, target, 2, ignore_index=0) == 0.5


@pytest.mark.parametrize("average", ["macro", "weighted"])
@pytest.mark.parametrize("seed", range(5))
def test_several_ignored_classes_are_left_out(average: str, seed: int) -> None:
    """scikit-learn, given the samples that remain and the classes that are not ignored."""
    torch.manual_seed(seed)
    preds, target = torch.randint(6, (200,)), torch.randint(6, (200,))
    kept = (target != 1) & (target != 4)
    expected = reference.recall_score(target[kept], preds[kept], labels=[0, 2, 3, 5], average=average)
    metric = metrics.MulticlassRecall(6, average=average, ignore_index=(1, 4, -1))
    assert metric(preds, target).item() == pytest.approx(expected)


def test_the_labels_of_a_sample_are_weighted_by_the_support_of_that_sample() -> None:
    """Two samples of two labels and four places each.

    First sample: label 0 has 3 positives, all found; label 1 has 1, missed. By support 3 and 1 of 4 its true positives
    average (3·3 + 1·0) / 4 = 9/4. torchmetrics divides by the positives of both samples, 4 + 4, and reports 9/8.
    """
    target = torch.tensor([[[1, 1, 1, 0], [1, 0, 0, 0]], [[1, 1, 0, 0], [1, 1, 0, 0]]])
    preds = torch.tensor([[[1, 1, 1, 0], [0, 0, 0, 0]], [[1, 0, 0, 0], [1, 1, 0, 0]]])
    options = {"num_labels": 2, "average": "weighted", "multidim_average": "samplewise"}
    theirs = peer_metrics.MultilabelStatScores(**options)(preds, target)
    ours = metrics.MultilabelStatScores(**options)(preds, target)
    assert theirs[0, 0].item() == pytest.approx(9 / 8)
    assert ours[0, 0].item() == pytest.approx(9 / 4)
    alone = [metrics.MultilabelStatScores(2, average="weighted")(p.T, t.T) for p, t in zip(preds, target, strict=True)]
    assert_same(ours, torch.stack(alone))
    assert_same(functional.multilabel_stat_scores(preds, target, **options), ours)


@pytest.mark.parametrize("seed", range(5))
def test_weighted_stat_scores_of_samples_are_those_of_each_sample(seed: int) -> None:
    """torchmetrics is right where one sample is all there is."""
    torch.manual_seed(seed)
    preds, target = torch.rand(6, 3, 7), torch.randint(2, (6, 3, 7))
    ours = metrics.MultilabelStatScores(3, average="weighted", multidim_average="samplewise")(preds, target)
    single = peer_metrics.MultilabelStatScores(3, average="weighted")
    assert_same(ours, torch.stack([single(p.T, t.T) for p, t in zip(preds, target, strict=True)]))


def test_an_ignored_value_is_no_label_number() -> None:
    """The function of torchmetrics leaves label 0 out of the average when targets of 0 are ignored; its class does not.

    Without the targets of 0 label 0 has one of one found, label 1 one of two: (1 + 1/2) / 2 = 3/4.
    """
    preds, target = torch.tensor([[1, 1], [1, 0], [0, 1]]), torch.tensor([[1, 1], [0, 1], [0, 0]])
    assert peer_functions.multilabel_jaccard_index(preds, target, 2, ignore_index=0) == 0.5
    assert peer_metrics.MultilabelJaccardIndex(2, ignore_index=0)(preds, target) == 0.75
    assert functional.multilabel_jaccard_index(preds, target, 2, ignore_index=0) == 0.75
    assert metrics.MultilabelJaccardIndex(2, ignore_index=0)(preds, target) == 0.75


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("ignore_index", [0, 1])
def test_jaccard_of_labels_with_an_ignored_value_is_that_of_the_class(average: str, ignore_index: int) -> None:
    preds, target = torch.rand(40, 3), torch.randint(2, (40, 3))
    options = {"num_labels": 3, "average": average, "ignore_index": ignore_index}
    expected = peer_metrics.MultilabelJaccardIndex(**options)(preds, target)
    assert_same(metrics.MultilabelJaccardIndex(**options)(preds, target), expected)
    assert_same(functional.multilabel_jaccard_index(preds, target, **options), expected)


def test_top_zero_is_refused() -> None:
    """No target is among the none largest scores; torchmetrics reports 1/3 for predictions that are all right."""
    preds, target = torch.eye(3), torch.tensor([0, 1, 2])
    assert peer_metrics.MulticlassAccuracy(3, top_k=0)(preds, target).item() == pytest.approx(1 / 3)
    for top_k in (0, -1, 1.5, True):
        with pytest.raises(DeclarationError, match="expected top_k to be a whole number of at least 1, got"):
            metrics.MulticlassAccuracy(3, top_k=top_k)  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="expected top_k of at most num_classes=3, got 4"):
        metrics.MulticlassAccuracy(3, top_k=4)


def test_a_label_that_is_no_class_is_refused() -> None:
    """Of three classes, torchmetrics counts label 7 as one more wrong prediction, or as another class."""
    preds, target = torch.tensor([7, 1, 2]), torch.tensor([0, 1, 2])
    assert peer_metrics.MulticlassAccuracy(3, average="micro")(preds, target).item() == pytest.approx(2 / 3)
    metric = metrics.MulticlassAccuracy(3, average="micro")
    for batch in ((preds, target), (target, preds)):
        with pytest.raises(InputError, match="to be a class from 0 to 2, got 7 at position 0"):
            metric.update(*batch)
    assert metric.update_count == 0


def test_negative_predictive_values_use_their_zero_division() -> None:
    """The class of torchmetrics takes the argument and ignores it; its function does not.

    Nothing is predicted negative for class 0, so its value is 0/0; for class 1 it is 0 of 2.
    """
    preds, target = torch.tensor([0, 0]), torch.tensor([0, 1])
    options = {"num_classes": 2, "average": "none", "zero_division": 1}
    expected = peer_functions.multiclass_negative_predictive_value(preds, target, **options)
    assert expected.tolist() == [1.0, 0.5]
    assert functional.multiclass_negative_predictive_value(preds, target, **options).tolist() == [1.0, 0.5]
    assert metrics.MulticlassNegativePredictiveValue(**options)(preds, target).tolist() == [1.0, 0.5]


@pytest.mark.parametrize("ignored", [0, 1])
def test_an_ignored_truth_value_is_left_out(ignored: int) -> None:
    """torchmetrics marks ignored targets with -1, which as a truth value is a yes."""
    preds, target = torch.tensor([0.9, 0.8, 0.2]), torch.tensor([True, False, False])
    expected = peer_functions.binary_stat_scores(preds, target.int(), ignore_index=ignored)
    assert_same(functional.binary_stat_scores(preds, target, ignore_index=ignored), expected)
    assert_same(metrics.BinaryStatScores(ignore_index=ignored)(preds, target), expected)
    assert peer_functions.binary_stat_scores(preds, target, ignore_index=ignored).sum() > expected.sum()


def test_a_sample_whose_labels_are_all_ignored_has_no_ranking() -> None:
    """The true label of the first sample comes second: 1/2. torchmetrics rates the second, without labels, as 1."""
    preds, target = torch.tensor([[0.9, 0.5], [0.9, 0.5]]), torch.tensor([[0, 1], [-1, -1]])
    ours, theirs = (
        module.MultilabelRankingAveragePrecision(2, ignore_index=-1)(preds, target)
        for module in (metrics, peer_metrics)
    )
    assert (ours, theirs) == (0.5, 0.75)


def test_shapes_of_scores_are_checked_and_kept() -> None:
    """torchmetrics' BinaryAUROC takes a column for its samples, and it squeezes thresholds of one sample."""
    column, target = torch.tensor([[0.9], [0.1]]), torch.tensor([1, 0])
    assert peer_metrics.BinaryAUROC()(column, target) == 1
    with pytest.raises(InputError, match=r"call preds\.squeeze\(-1\)"):
        metrics.BinaryAUROC()(column, target)
    one = column[0], target[:1]
    assert not UNDEFINED.is_here() or peer_metrics.BinaryPrecisionRecallCurve()(*one)[2].shape == ()
    assert metrics.BinaryPrecisionRecallCurve(thresholds=None)(*one)[2].shape == (1,)


# ---- evaluations against scikit-learn


def indicators(number: int) -> dict[str, Callable[..., float]]:
    """The names of a multiclass evaluation, by scikit-learn."""
    rows: dict[str, Callable[..., float]] = {
        "accuracy": reference.accuracy_score,
        "balanced_accuracy": reference.balanced_accuracy_score,
        "mcc": reference.matthews_corrcoef,
        "kappa": reference.cohen_kappa_score,
        "hamming_distance": reference.hamming_loss,
    }
    for name, score in AVERAGED.items():
        for average in ("micro", "macro", "weighted"):
            rows[f"{name}/{average}"] = _averaged(score, average, list(range(number)))
    return rows


AVERAGED = {
    "precision": reference.precision_score,
    "recall": reference.recall_score,
    "f1": reference.f1_score,
    "f2": lambda *args, **options: reference.fbeta_score(*args, beta=2, **options),
    "jaccard": reference.jaccard_score,
}


def _averaged(score: Callable[..., float], average: str, labels: list[int] | None) -> Callable[..., float]:
    given = {"zero_division": 0.0, "average": average} | ({} if labels is None else {"labels": labels})
    return lambda *args, **options: score(*args, **given, **options)


def quietly(score: Callable[..., float], *args: Any, **options: Any) -> float:
    """scikit-learn warns of classes that occur only on one side."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(score(*args, **options))


@pytest.mark.parametrize("number", CLASSES)
@pytest.mark.parametrize("ignored", IGNORED)
@pytest.mark.parametrize("kind", KINDS[:4])
def test_a_multiclass_evaluation_is_scikit_learn(number: int, ignored: str, kind: str) -> None:
    """Every second combination is weighted: each number, ignored index and kind with weights and without."""
    weighted = (CLASSES.index(number) + IGNORED.index(ignored) + KINDS.index(kind)) % 2 == 1
    expected = indicators(number)
    case = Case("multiclass", "logits", number, kind, (5,), torch.float32, torch.int64, ignored, {})
    evaluation = MulticlassEvaluation(
        "logits",
        number,
        statistics=list(expected),
        ignore_index=case.ignore_index,
        weighted=weighted,
        zero_division=0.0,
    )
    batches = [case.batch() for _ in range(2)]
    weights = [torch.rand(target.shape) for _, target in batches]
    for batch, weight in zip(batches, weights, strict=True):
        evaluation.update(*batch, *([weight] if weighted else []))
    said = torch.cat([preds.argmax(1).flatten() for preds, _ in batches])
    truth, weight = torch.cat([target.flatten() for _, target in batches]), torch.cat([w.flatten() for w in weights])
    kept = torch.ones_like(truth, dtype=torch.bool) if ignored == "none" else truth != case.ignore_index
    options = {"sample_weight": weight[kept].double().numpy()} if weighted else {}
    if not kept.any():  # scikit-learn refuses
        assert int(evaluation.counts.support.sum()) == 0
        return
    for name, value in evaluation.compute().items():
        if name.endswith("/macro") and ignored in ("first", "last"):
            base = name.partition("/")[0]
            others = [place for place in range(number) if place != case.ignore_index]
            score = _averaged(AVERAGED[base], "macro", others)
        else:
            score = expected[name]
        truth_and_said = truth[kept].numpy(), said[kept].numpy()
        number_there = quietly(score, *truth_and_said, **options)
        # scikit-learn's kappa and Matthews have their own value for 0/0.
        if name in ("mcc", "kappa") and len(np.unique(truth_and_said)) < 2:
            continue
        assert value.item() == pytest.approx(number_there, abs=1e-6), name


@pytest.mark.parametrize("weights", ["linear", "quadratic", None])
@pytest.mark.parametrize("number", CLASSES)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_kappa_of_ordered_classes_is_scikit_learn(weights: str | None, number: int, weighted: bool) -> None:
    preds, target, weight = torch.randint(number, (80,)), torch.randint(number, (80,)), torch.rand(80)
    metric = metrics.MulticlassCohenKappa(number, weights=weights, weighted=weighted)
    metric.update(preds, target, *([weight] if weighted else []))
    options = {"sample_weight": weight.double().numpy()} if weighted else {}
    expected = reference.cohen_kappa_score(target, preds, weights=weights, labels=range(number), **options)
    assert metric.compute().item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("number", [3, 7])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("ignore_index", [None, -1, 1])
def test_top_accuracies_are_scikit_learn(number: int, weighted: bool, ignore_index: int | None) -> None:
    scores, target, weight = torch.randn(60, number), torch.randint(number, (60,)), torch.rand(60)
    if ignore_index == -1:
        target[::5] = -1
    kept = torch.ones_like(target, dtype=torch.bool) if ignore_index is None else target != ignore_index
    names = {f"top_{k}_accuracy": k for k in range(1, number)}
    evaluation = MulticlassEvaluation(
        "logits", number, statistics=["accuracy", *names], weighted=weighted, ignore_index=ignore_index
    )
    evaluation.update(scores, target, *([weight] if weighted else []))
    values = evaluation.compute()
    options = {"sample_weight": weight[kept].double().numpy()} if weighted else {}
    for name, k in names.items():
        arguments = target[kept].numpy(), scores[kept].numpy()
        expected = reference.top_k_accuracy_score(*arguments, k=k, labels=range(number), **options)
        assert values[name].item() == pytest.approx(expected, abs=1e-6)
    assert values["top_1_accuracy"] == values["accuracy"]


@pytest.mark.parametrize("seed", range(3))
def test_per_class_numbers_are_scikit_learn(seed: int) -> None:
    torch.manual_seed(seed)
    preds, target = torch.randint(4, (70,)), torch.randint(4, (70,))
    names = ["precision/macro", "recall/macro", "f1/macro", "jaccard/macro"]
    evaluation = MulticlassEvaluation("labels", 4, list("abcd"), per_class=True, statistics=names)
    evaluation.update(preds, target)
    values = evaluation.compute()
    for base in ("precision", "recall", "f1", "jaccard"):
        expected = AVERAGED[base](target, preds, average=None)
        assert [values[f"{base}/{name}"].item() for name in "abcd"] == pytest.approx(list(expected))
    rest = [reference.accuracy_score(target == place, preds == place) for place in range(4)]
    assert [values[f"one_vs_rest_accuracy/{name}"].item() for name in "abcd"] == pytest.approx(rest)


OVER_SAMPLES = ("micro", "macro", "weighted", "samples")


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("kind", ["mixed", "class without target", "class without prediction", "class absent"])
@pytest.mark.parametrize("reading", READINGS)
def test_a_multilabel_evaluation_is_scikit_learn(weighted: bool, kind: str, reading: str) -> None:
    expected: dict[str, Callable[..., float]] = {
        f"{name}/{average}": _averaged(score, average, None)
        for name, score in AVERAGED.items()
        for average in OVER_SAMPLES
    }
    expected["exact_match"] = reference.accuracy_score
    expected["hamming_distance"] = reference.hamming_loss
    expected["hamming_accuracy"] = lambda *args, **options: 1 - reference.hamming_loss(*args, **options)
    kinds = torch.int64 if reading == "labels" else torch.float32
    case = Case("multilabel", reading, 4, kind, (), kinds, torch.int64, "none", {"threshold": 0.2})
    evaluation = MultilabelEvaluation(
        reading, 4, threshold=0.2, statistics=list(expected), weighted=weighted, zero_division=0.0
    )
    batches = [case.batch() for _ in range(3)]
    weights = [torch.rand(len(target)) for _, target in batches]
    for batch, weight in zip(batches, weights, strict=True):
        evaluation.update(*batch, *([weight] if weighted else []))
    cut = {"labels": 0.5, "probabilities": 0.2, "logits": math.log(0.2 / 0.8)}[reading]
    said, truth = torch.cat([preds > cut for preds, _ in batches]).long(), torch.cat([target for _, target in batches])
    options = {"sample_weight": torch.cat(weights).double().numpy()} if weighted else {}
    for name, value in evaluation.compute().items():
        there = quietly(expected[name], truth.numpy(), said.numpy(), **options)
        assert value.item() == pytest.approx(there, abs=1e-6), name


@pytest.mark.parametrize("seed", range(3))
def test_per_label_numbers_at_per_label_thresholds_are_scikit_learn(seed: int) -> None:
    torch.manual_seed(seed)
    scores, target, cuts = torch.rand(50, 3), torch.randint(2, (50, 3)), (0.2, 0.5, 0.8)
    evaluation = MultilabelEvaluation("probabilities", 3, list("xyz"), cuts, per_label=True, statistics=["f1/macro"])
    evaluation.update(scores, target)
    values = evaluation.compute()
    for place, (name, cut) in enumerate(zip("xyz", cuts, strict=True)):
        said, truth = scores[:, place] > cut, target[:, place]
        assert values[f"f1/{name}"].item() == pytest.approx(reference.f1_score(truth, said))
        assert values[f"accuracy/{name}"].item() == pytest.approx(reference.accuracy_score(truth, said))
    metric = metrics.MultilabelF1Score(3, threshold=cuts, average="none", inputs="probabilities")
    assert_same(metric(scores, target), torch.stack([values[f"f1/{name}"] for name in "xyz"]))


@pytest.mark.parametrize("zero_division", [math.nan, 0.0, 1.0])
def test_zero_division_of_averages_and_samples_is_scikit_learn(zero_division: float) -> None:
    """With NaN, classes, labels and samples without a value are left out of the average, as in scikit-learn."""
    scores = ("precision", "recall", "f1")
    names = [f"{name}/{average}" for name in scores for average in OVER_SAMPLES]
    truth, said = torch.randint(2, (12, 4)), torch.randint(2, (12, 4))
    truth[:4] = 0
    said[2:6] = 0
    truth[:, 3] = said[:, 3] = 0
    evaluation = MultilabelEvaluation("labels", 4, statistics=names, zero_division=zero_division)
    evaluation.update(said, truth)
    for name, value in evaluation.compute().items():
        base, _, average = name.partition("/")
        given = {"average": average, "zero_division": zero_division}
        there = quietly(AVERAGED[base], truth.numpy(), said.numpy(), **given)
        assert value.item() == pytest.approx(there, abs=1e-6, nan_ok=True), name


@pytest.mark.parametrize("zero_division", [math.nan, 0.0, 1.0])
def test_zero_division_of_class_averages_is_scikit_learn(zero_division: float) -> None:
    """Class 3 is never the target and class 4 never predicted; class 5 is neither."""
    names = [f"{name}/{average}" for name in ("precision", "recall", "f1") for average in ("micro", "macro")]
    said, truth = torch.randint(4, (40,)), torch.tensor([0, 1, 2, 4]).repeat(10)
    evaluation = MulticlassEvaluation("labels", 6, statistics=names, zero_division=zero_division)
    evaluation.update(said, truth)
    for name, value in evaluation.compute().items():
        base, _, average = name.partition("/")
        given = {"average": average, "zero_division": zero_division, "labels": range(6)}
        there = quietly(AVERAGED[base], truth.numpy(), said.numpy(), **given)
        assert value.item() == pytest.approx(there, abs=1e-6), name


@UNDEFINED.since()
def test_no_point_of_a_curve_has_a_precision_of_nothing() -> None:
    """No score reaches the thresholds: precision is 0/0 at each, which torchmetrics takes for the best."""
    scores, target = torch.tensor([0.05]), torch.tensor([1])
    ours, theirs = (
        module.BinaryPrecisionAtFixedRecall(min_recall=0.0, thresholds=[0.1, 0.5])(scores, target)
        for module in (metrics, peer_metrics)
    )
    assert float(ours[0]) == 0
    assert math.isnan(ours[1])
    assert math.isnan(theirs[0])


def test_averaged_stat_scores_of_a_single_sample_are_those_of_a_sample() -> None:
    """One of three labels has two of three places right: its mean over labels has five numbers, not three."""
    preds, target = torch.zeros(1, 3, 3).long(), torch.zeros(1, 3, 3).long()
    target[0, 0, 0] = 1
    options: dict[str, Any] = {"average": "macro", "multidim_average": "samplewise"}
    ours = metrics.MultilabelStatScores(3, **options)(preds, target)
    assert ours.tolist() == [pytest.approx([0, 0, 8 / 3, 1 / 3, 1 / 3])]
    assert peer_metrics.MultilabelStatScores(3, **options)(preds, target).shape == (3,)
