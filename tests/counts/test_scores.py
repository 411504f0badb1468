"""Scores in bins: an order that no rounding breaks, counts that add up, bounds that hold, no wait, one collective."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from score_batches import INF, READINGS, _assert_same_results, _updated, assert_same_counts, scores_in
from sklearn.metrics import brier_score_loss, log_loss
from torch import Tensor
from versions import since

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.counts import CountsAndScores, MulticlassCounter, MultilabelCounter, ScoreCounter
from lightning_evalkit.counts.bins import BFloat16Bins, CutBins, FineBins
from lightning_evalkit.counts.numpy_path import BLOCK
from lightning_evalkit.counts.searched import Searched
from lightning_evalkit.inputs import Multiclass, Multilabel, binning_of
from lightning_evalkit.metrics import (
    BinaryCalibrationError,
    BinaryROC,
    MulticlassROC,
    MultilabelROC,
)

if TYPE_CHECKING:
    from collections.abc import Callable


# ---- the order of scores


CUTS = {
    "two": (0.0, 1.0),
    "some": (0.1, 0.4, 0.4, 0.9),
    "two_hundred": tuple(torch.linspace(0, 1, 200).tolist()),
    "a_thousand": tuple(torch.linspace(0, 1, 1000).tolist()),
    "neighbours": tuple(np.nextafter(np.float32(0.3), np.float32([0, 0.3, 1])).tolist()),
}
BINS: dict[str, Callable[[str], Any]] = {
    "fine": lambda reading: FineBins(65_536, reading),
    "fewer": lambda reading: FineBins(4_096, reading),
    "eight": lambda reading: FineBins(8, reading),
    "nine": lambda reading: FineBins(9, reading),
    "bfloat16": BFloat16Bins,
    **{name: lambda reading, cuts=cuts: CutBins(cuts, reading) for name, cuts in CUTS.items()},
}


def deferred_ways(bins: Any, scores: Tensor) -> list[Tensor]:
    """The bins as in a graph, and as on an accelerator where these are searched for."""
    return [bins.deferred(scores), *([bins.searched(scores)] if isinstance(bins, Searched) else [])]


every_bins = pytest.mark.parametrize("bins", BINS.values(), ids=BINS)
every_reading = pytest.mark.parametrize("reading", READINGS)
fine_bins = pytest.mark.parametrize("number", [8, 9, 64, 4_096, 65_536])


def placed(order: np.ndarray) -> np.ndarray:
    """The single-precision numbers in their order: 0 is zero, 1 the smallest above it, -1 the largest below it."""
    bits = np.abs(order).astype(np.int64) | np.where(order < 0, 1 << 31, 0)
    return bits.astype(np.uint32).view(np.float32)


LAST = int(np.float32(np.inf).view(np.int32))
ONE, HALF = (int(np.float32(number).view(np.int32)) for number in (1, 0.5))

RUN = 2_048


def neighbours(reading: str) -> np.ndarray:
    """Runs of neighbours that begin in every exponent, at both ends and around zero and one half."""
    low, high = (-LAST, LAST) if reading == "logits" else (0, ONE)
    rng = np.random.default_rng(0)
    exponents = np.arange(low, high, 2**23)
    anywhere = exponents + rng.integers(0, 2**23, len(exponents))
    around = [low, 0, -RUN // 2, HALF - RUN // 2, high]
    starts = np.concatenate([anywhere, around, rng.integers(low, high, 200)]).clip(low, high - RUN)
    return placed(starts[:, None] + np.arange(RUN + 1))


NEIGHBOURS = {reading: neighbours(reading) for reading in READINGS}


def test_the_runs_are_neighbours_in_every_exponent() -> None:
    for reading, expected in (("logits", 2 * 255), ("probabilities", 127)):
        runs = NEIGHBOURS[reading]
        with np.errstate(all="ignore"):
            assert (np.nextafter(runs[:, :-1], np.float32(np.inf)) == runs[:, 1:]).all()
        assert len(np.unique(runs.view(np.uint32) >> 23)) >= expected
    assert sum(runs.size for runs in NEIGHBOURS.values()) > 2_000_000


@every_bins
@every_reading
def test_no_score_is_below_its_lower_neighbour(bins: Callable[[str], Any], reading: str) -> None:
    runs = NEIGHBOURS[reading]
    kept = bins(reading)
    places = kept.at_once(runs.copy())
    assert (np.diff(places) >= 0).all()
    assert places.min() >= 0
    assert places.max() < kept.number
    for found in deferred_ways(kept, torch.from_numpy(runs)):
        assert torch.equal(found, torch.from_numpy(places).long())


@every_bins
@every_reading
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16], ids=str)
def test_every_score_of_low_precision_is_in_order(bins: Callable[[str], Any], reading: str, kind: torch.dtype) -> None:
    """All of them: there are 65,536 at most."""
    scores = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(kind)
    scores = scores[~scores.isnan()]
    scores = scores[scores.float().argsort()]
    if reading == "probabilities":
        scores = scores[(scores >= 0) & (scores <= 1)]
    kept = bins(reading)
    array = (scores.float() if kind == torch.bfloat16 else scores).numpy()
    for places in deferred_ways(kept, scores):
        assert (places.diff() >= 0).all()
        assert places.tolist() == kept.at_once(array).tolist()


@every_bins
@every_reading
def test_every_score_of_double_precision_is_in_order(bins: Callable[[str], Any], reading: str) -> None:
    """Ladders of neighbours around single-precision numbers and around the ends."""
    middles = NEIGHBOURS[reading][:, :8].astype(np.float64).ravel()
    ends = [0.0, 1.0, 0.5, 1e-300, 1 - 1e-12, 1 - 1e-16] if reading == "probabilities" else [0.0, -0.0, 17, -17, 700]
    middles = np.concatenate([middles[np.isfinite(middles)], ends])
    scores = [middles]
    for direction in (-np.inf, np.inf):
        for _ in range(3):
            scores.append(np.nextafter(scores[-1] if len(scores) % 4 != 0 else middles, direction))
    if reading == "probabilities":
        scores = [np.clip(each, 0, 1) for each in scores]
    ladder = np.sort(np.concatenate(scores))
    kept = bins(reading)
    places = kept.at_once(ladder)
    assert (np.diff(places) >= 0).all()
    for found in deferred_ways(kept, torch.from_numpy(ladder)):
        assert found.tolist() == places.tolist()


@fine_bins
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_certainty_has_bins_of_its_own(number: int, kind: torch.dtype) -> None:
    """The neighbours of 0, 1 and ±infinity are not in their bins."""
    below_one = 1 - torch.finfo(kind).eps / 2
    tiny = torch.finfo(kind).tiny * torch.finfo(kind).eps
    for reading, scores in (
        ("probabilities", [0.0, tiny, 0.5, below_one, 1.0]),
        ("logits", [-INF, -torch.finfo(kind).max, 0.0, torch.finfo(kind).max, INF]),
    ):
        bins = FineBins(number, reading)
        tensor = torch.tensor(scores, dtype=torch.float64).to(kind)
        assert len(tensor.unique()) == 5
        for places in (*deferred_ways(bins, tensor), bins.at_once(_array(tensor))):
            first, low, _, high, last = places.tolist()
            assert (first, last) == (0, number - 1)
            assert 0 < low < high < number - 1
        assert bins.alone().nonzero().flatten().tolist() == [0, number - 1]


def _array(scores: Tensor) -> np.ndarray:
    return (scores.float() if scores.dtype == torch.bfloat16 else scores).numpy().copy()


@fine_bins
@every_reading
def test_the_lowest_score_of_a_bin_is_the_smallest_in_it(number: int, reading: str) -> None:
    """Found again by halving one bin after the other."""
    bins = FineBins(number, reading)
    low, high = (-LAST, LAST) if reading == "logits" else (0, ONE)
    lowest = bins.lowest()
    assert lowest.dtype == torch.float64
    wanted = range(number) if number < 100 else np.random.default_rng(1).integers(0, number, 40)
    for place in wanted:
        first, last = low, high
        while first < last:
            middle = (first + last) // 2
            found = int(bins.at_once(placed(np.array([middle])))[0])
            first, last = (middle + 1, last) if found < place else (first, middle)
        score = float(placed(np.array([first]))[0])
        expected = score if reading == "probabilities" else torch.tensor(score, dtype=torch.float64).sigmoid().item()
        assert lowest[place].item() == pytest.approx(expected, rel=1e-14, abs=0)


def test_the_bins_of_bfloat16_are_its_values() -> None:
    scores = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    scores = scores[~scores.isnan()]
    for reading in READINGS:
        kept = scores if reading == "logits" else scores[(scores >= 0) & (scores <= 1)]
        bins = BFloat16Bins(reading)
        values = kept.double().sigmoid() if reading == "logits" else kept.double()
        assert torch.equal(bins.lowest()[bins.deferred(kept)], values)
        assert len(bins.deferred(kept).unique()) == len(kept.float().unique())  # two zeros are one value


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@every_reading
def test_a_score_at_a_cut_is_above_it(cuts: tuple[float, ...], reading: str) -> None:
    bins = CutBins(cuts, reading)
    edges = bins.cuts.numpy()
    below = np.nextafter(edges, np.float32(-np.inf))
    scores = np.concatenate([edges, below, np.float32([-np.inf, np.inf] if reading == "logits" else [0, 1])])
    expected = [int((edges <= score).sum()) for score in scores]
    assert bins.at_once(scores.copy()).tolist() == expected
    assert bins.at_once(scores.astype(np.float64)).tolist() == expected
    assert bins.deferred(torch.from_numpy(scores)).tolist() == expected


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("way", ["at_once", "deferred"])
def test_infinite_logits_stay_in_the_last_bin(kind: torch.dtype, way: str) -> None:
    """No threshold that was given is infinite in logits here, so the table of cuts ends below infinity."""
    for target in ([1, 1, 0, 0], [0, 0, 1, 1]):
        metric = BinaryROC(thresholds=[0.2, 0.5], inputs="logits")
        batch = torch.tensor([INF, 3.0, -3.0, -INF], dtype=kind), torch.tensor(target)
        _updated(metric, batch, way)
        table = scores_in(metric)[0]
        ones, zeros = [[0, 0, 2]], [[2, 0, 0]]
        assert table.yes.tolist() == (ones if target[0] else zeros)
        assert table.no.tolist() == (zeros if target[0] else ones)


# ---- how much is kept


@pytest.mark.parametrize("classes", [2, 10, 63, 64, 65, 100, 128, 1000, 1024, 5000, 21_841])
def test_many_classes_get_fewer_bins_so_that_the_state_stays_below_64_megabytes(classes: int) -> None:
    scores = binning_of("fine", classes, sums=True)
    of_classes = Multiclass("logits", num_classes=classes, binning=scores)
    of_labels = Multilabel("logits", num_labels=classes, binning=scores)
    for counts in (MulticlassCounter(of_classes), MultilabelCounter(of_labels)):
        counter = CountsAndScores(counts, ScoreCounter(counts.task))
        size, largest = 8 * counter.layout.size, 64 * 2**20
        assert size <= largest
        assert scores.bins <= 65_536
        assert scores.bins == 65_536 or size > 4 * 2**20  # not fewer than needed
        assert scores.bins >= 128


def test_a_binary_problem_has_65_536_bins() -> None:
    evaluation = BinaryEvaluation("logits", curves=True)
    assert scores_in(evaluation)[0].yes.shape == (1, 65_536)


def test_the_state_does_not_grow_with_the_samples() -> None:
    evaluation = BinaryEvaluation("logits", curves=True, resolution=64)
    sizes = set()
    for size in (0, 1, 1000, 70_000):
        evaluation.update(torch.randn(size), torch.randint(0, 2, (size,)))
        sizes.add(len(pickle.dumps(list(evaluation.tally.totals))))
    assert len(sizes) == 1


BLOCKWISE = {
    "binary": lambda **kwargs: BinaryROC(ignore_index=-1, **kwargs),
    "multiclass": lambda **kwargs: MulticlassROC(3, ignore_index=-1, **kwargs),
    "multilabel": lambda **kwargs: MultilabelROC(3, ignore_index=-1, **kwargs),
}


@pytest.mark.parametrize("thresholds", [5, 200, 40_000])
@pytest.mark.parametrize("task", BLOCKWISE)
def test_a_batch_of_many_blocks_counts_as_its_parts(task: str, thresholds: int) -> None:
    size, columns = 2 * BLOCK + 17, () if task == "binary" else (3,)
    scores = torch.rand(size, *columns)
    target = torch.randint(-1, 3 if task == "multiclass" else 2, (size,) if task == "multiclass" else scores.shape)
    whole, parts = (BLOCKWISE[task](thresholds=thresholds, inputs="probabilities") for _ in range(2))
    whole.update(scores, target)
    for part in zip(scores.split(1_000), target.split(1_000), strict=True):
        parts.update(*part)
    updates = whole.counter.layout.integers.begins["updates"]
    one, other = (torch.cat((t[:updates], t[updates + 1 :])) for t in (whole.totals.integers, parts.totals.integers))
    assert one.tolist() == other.tolist()


# ---- sums over probabilities


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("reading", READINGS)
def test_brier_score_and_log_loss_are_those_of_scikit_learn(reading: str, weighted: bool) -> None:
    target, logits = torch.randint(0, 2, (300,)), torch.randn(300) * 4
    preds = logits if reading == "logits" else logits.sigmoid()
    weight = torch.rand(300, dtype=torch.float64)
    evaluation = BinaryEvaluation(reading, curves=True, resolution=8, weighted=weighted)  # type: ignore[arg-type]
    evaluation.update(preds, target, *([weight] if weighted else []))
    values, sample_weight = evaluation.compute(), weight if weighted else None
    exact = (preds.double().sigmoid() if reading == "logits" else preds.double()).numpy()
    assert float(values["brier"]) == pytest.approx(brier_score_loss(target, exact, sample_weight=sample_weight))
    assert float(values["log_loss"]) == pytest.approx(log_loss(target, exact, sample_weight=sample_weight))


@since("scikit-learn", "1.7", "its Brier score is of two classes before")
@pytest.mark.parametrize("reading", READINGS)
def test_brier_score_and_log_loss_of_classes_are_those_of_scikit_learn(reading: str) -> None:
    logits, target = torch.randn(300, 4) * 3, torch.randint(0, 4, (300,))
    exact = logits.double().softmax(1)
    evaluation = MulticlassEvaluation(reading, 4, curves=True, resolution=8)  # type: ignore[arg-type]
    evaluation.update(logits if reading == "logits" else exact, target)
    values = evaluation.compute()
    assert float(values["log_loss"]) == pytest.approx(log_loss(target, exact.numpy()))
    assert float(values["brier"]) == pytest.approx(brier_score_loss(target, exact.numpy(), scale_by_half=False))


@pytest.mark.parametrize("reading", READINGS)
def test_brier_score_and_log_loss_of_labels_are_those_of_scikit_learn(reading: str) -> None:
    logits, target = torch.randn(300, 4) * 3, torch.randint(0, 2, (300, 4))
    exact = logits.double().sigmoid()
    evaluation = MultilabelEvaluation(reading, 4, curves=True, per_label=True, resolution=8)  # type: ignore[arg-type]
    evaluation.update(logits if reading == "logits" else exact, target)
    values = evaluation.compute()
    for name, reference in (("brier", brier_score_loss), ("log_loss", log_loss)):
        expected = [reference(target[:, k], exact[:, k].numpy()) for k in range(4)]
        assert [float(values[f"{name}/{k}"]) for k in range(4)] == pytest.approx(expected)
        assert float(values[f"{name}/macro"]) == pytest.approx(np.mean(expected))


def test_logits_have_a_log_loss_where_probabilities_round_to_certainty() -> None:
    batches = {"logits": torch.tensor([200.0, -200.0]), "probabilities": torch.tensor([1.0, 0.5])}
    for inputs, expected in (("logits", 100), ("probabilities", INF)):
        evaluation = BinaryEvaluation(inputs, curves=True, resolution=8, statistics=["log_loss"])  # type: ignore[arg-type]
        evaluation.update(batches[inputs], torch.tensor([0, 0]))
        assert evaluation.compute()["log_loss"] == expected


def calibration_of(confidence: Tensor, hit: Tensor, bins: int, weight: Tensor | None = None) -> float:
    """Bin by bin; every bin is closed below and open above, the last one closed."""
    weight = torch.ones(len(hit), dtype=torch.float64) if weight is None else weight
    edges, error = torch.linspace(0, 1, bins + 1, dtype=confidence.dtype), 0.0
    for low, high in pairwise(edges):
        inside = (confidence >= low) & ((confidence < high) | (high == 1))
        error += float((weight[inside] * (confidence[inside].double() - hit[inside].double())).sum().abs())
    return error / float(weight.sum())


@pytest.mark.parametrize("way", ["at_once", "deferred"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_the_calibration_error_is_its_definition(way: str, weighted: bool) -> None:
    """Scores on the edges of bins, and a confidence of exactly 1."""
    scores, target = torch.cat((torch.arange(16) / 15, torch.rand(200), torch.ones(9))), torch.randint(0, 2, (225,))
    weight = [torch.rand(225, dtype=torch.float64)] if weighted else []
    evaluation = BinaryEvaluation("probabilities", curves=True, resolution=8, weighted=weighted)
    _updated(evaluation, (scores, target, *weight), way)
    expected = calibration_of(scores, target, 15, *weight)
    assert float(evaluation.compute()["calibration_error"]) == pytest.approx(expected, rel=1e-5)
    assert int(evaluation.reliability().samples.count_nonzero()) == 15


@pytest.mark.parametrize("bins", [1, 2, 10, 15, 100])
@pytest.mark.parametrize("way", ["at_once", "deferred"])
def test_probabilities_on_the_edges_are_in_the_bin_above(bins: int, way: str) -> None:
    """Also where they are guessed to be probabilities: one bin more must not depend on the device."""
    scores = torch.linspace(0, 1, bins + 1)
    metric = _updated(BinaryCalibrationError(bins), (scores, torch.ones(bins + 1)), way)
    assert metric.counter.by_bin(metric.totals).weights.tolist() == [1] * (bins - 1) + [2]
    assert float(metric.compute()) == pytest.approx(calibration_of(scores, torch.ones(bins + 1), bins), rel=1e-5)


@pytest.mark.parametrize("way", ["at_once", "deferred"])
def test_a_low_default_precision_moves_no_edge_and_no_threshold(way: str) -> None:
    """Lightning makes bfloat16 the default inside a step with precision="bf16-true"."""
    scores, target = torch.linspace(0, 1, 16), torch.randint(0, 2, (16,))
    kinds: list[Callable[[], Any]] = [BinaryCalibrationError, lambda: BinaryROC(16), BinaryROC]
    expected = [_updated(kind(), (scores, target), way) for kind in kinds]
    torch.set_default_dtype(torch.bfloat16)
    try:
        low = [_updated(kind(), (scores, target), way) for kind in kinds]
        results = [metric.compute() for metric in low]
    finally:
        torch.set_default_dtype(torch.float32)
    for metric, other, value in zip(expected, low, results, strict=True):
        assert_same_counts(metric, other)
        _assert_same_results(value, metric.compute())


def test_a_confidence_of_one_is_in_the_last_bin() -> None:
    """FACTS: torchmetrics reports .525 for these because its last bin is open."""
    scores = torch.tensor([1.0, 1.0, 0.95, 0.95])
    metric = BinaryCalibrationError(10)
    metric.update(scores, torch.tensor([1, 0, 1, 0]))
    assert float(metric.compute()) == pytest.approx(abs(3.9 / 4 - 0.5))
    assert metric.counter.by_bin(metric.totals).weights.tolist() == [0] * 9 + [4]


def test_the_confidence_of_classes_is_the_highest_probability() -> None:
    logits, target = torch.randn(400, 5) * 2, torch.randint(0, 5, (400,))
    confidence, label = logits.softmax(1).max(1)
    expected = calibration_of(confidence, label == target, 15)
    for inputs, preds in (("logits", logits), ("probabilities", logits.softmax(1))):
        evaluation = MulticlassEvaluation(inputs, 5, curves=True, resolution=8)  # type: ignore[arg-type]
        evaluation.update(preds, target)
        assert float(evaluation.compute()["calibration_error"]) == pytest.approx(expected, rel=1e-5)
