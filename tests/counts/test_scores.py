"""Scores in bins: an order that no rounding breaks, counts that add up, bounds that hold, no wait, one collective."""

from __future__ import annotations

import copy
import math
import os
import pickle
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import ranks
import torch
from device import DEVICE, OrderedOperators, deferred, pretend_on_device, tally_of
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, brier_score_loss, log_loss, roc_auc_score
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from versions import since

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.counts import CountsAndScores, MulticlassCounter, MultilabelCounter, ScoreCounter
from lightning_evalkit.counts.bins import BFloat16Bins, CutBins, FineBins
from lightning_evalkit.counts.odds import class_log_odds
from lightning_evalkit.errors import InputError
from lightning_evalkit.inputs import Binary, Multiclass, Multilabel, binning_of
from lightning_evalkit.metrics import (
    BinaryAUROC,
    BinaryCalibrationError,
    BinaryROC,
    MulticlassAUROC,
    MulticlassCalibrationError,
    MultilabelAUROC,
    MultilabelAveragePrecision,
)

if TYPE_CHECKING:
    from collections.abc import Callable

INF, NAN = math.inf, math.nan
Batch = tuple[Tensor, ...]

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
READINGS = ("logits", "probabilities")
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
    assert torch.equal(kept.deferred(torch.from_numpy(runs)), torch.from_numpy(places).long())


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
    places = kept.deferred(scores)
    assert (places.diff() >= 0).all()
    array = (scores.float() if kind == torch.bfloat16 else scores).numpy()
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
    assert kept.deferred(torch.from_numpy(ladder)).tolist() == places.tolist()


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
        for places in (bins.deferred(tensor), bins.at_once(_array(tensor))):
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


def scores_in(counting: Any) -> list[Any]:
    """The histograms of an evaluation or a metric; one for each question where every score is kept."""
    counter, totals = tally_of(counting).counter, tally_of(counting).totals
    return counter.tables(totals) if hasattr(counter, "tables") else [counter.evidence(totals).scores]


def _updated(metric: Any, batch: Batch, way: str = "at_once") -> Any:
    if way == "deferred":
        with deferred():
            metric.update(*batch)
    else:
        metric.update(*batch)
    return metric


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


# ---- what a histogram cannot hold is refused, and nothing is lost


@dataclass(frozen=True)
class Variant:
    """A declaration, and batches for it with ties, certainty and scores beside each other."""

    build: Callable[..., Any]
    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    marked: int | None = None

    @property
    def weighted(self) -> bool:
        return self.options.get("weighted", False)

    def fresh(self, **options: Any) -> Any:
        return self.build(**{**self.options, **options})

    def batch(self, size: int = 24, seed: int = 0, weight: Tensor | None = None) -> Batch:
        generator = torch.Generator().manual_seed(seed)
        shape = {"binary": (size,), "classes": (size, 4), "labels": (size, 3)}[self.kind.split("_")[0]]
        preds = torch.randn(shape, generator=generator).mul(3).round(decimals=1)
        if not self.kind.endswith("logits"):
            preds = preds.softmax(1) if self.kind.startswith("classes") else preds.sigmoid()
        high, where = (4, (size,)) if self.kind.startswith("classes") else (2, shape)
        target = torch.randint(high, where, generator=generator)
        if self.marked is not None:
            target = torch.where(torch.rand(where, generator=generator) < 0.2, self.marked, target)
        if not self.weighted:
            return preds, target
        return preds, target, torch.randint(0, 4, (size,), generator=generator).double() if weight is None else weight


def binary(inputs: str) -> Callable[..., Any]:
    return lambda **options: BinaryEvaluation(inputs, curves=True, zero_division=0.0, **options)  # type: ignore[arg-type]


def classes(inputs: str) -> Callable[..., Any]:
    return lambda **options: MulticlassEvaluation(inputs, 4, curves=True, zero_division=0.0, **options)  # type: ignore[arg-type]


def labels(inputs: str) -> Callable[..., Any]:
    return lambda **options: MultilabelEvaluation(inputs, 3, curves=True, zero_division=0.0, **options)  # type: ignore[arg-type]


FEW: dict[str, Any] = {"resolution": 64}
EVALUATIONS = {
    "binary_logits": Variant(binary("logits"), "binary_logits", FEW),
    "binary": Variant(binary("probabilities"), "binary", FEW),
    "binary_bfloat16": Variant(binary("logits"), "binary_logits", {"resolution": "bfloat16"}),
    "binary_ignoring": Variant(binary("probabilities"), "binary", {**FEW, "ignore_index": -1}, marked=-1),
    "binary_weighted": Variant(binary("logits"), "binary_logits", {**FEW, "weighted": True}),
    "classes_logits": Variant(classes("logits"), "classes_logits", FEW),
    "classes": Variant(classes("probabilities"), "classes", FEW),
    "classes_ignoring": Variant(classes("logits"), "classes_logits", {**FEW, "ignore_index": (1, -5)}, marked=-5),
    "classes_weighted": Variant(classes("probabilities"), "classes", {**FEW, "weighted": True}),
    "labels_logits": Variant(labels("logits"), "labels_logits", FEW),
    "labels": Variant(labels("probabilities"), "labels", FEW),
    "labels_ignoring": Variant(labels("probabilities"), "labels", {**FEW, "ignore_index": -1}, marked=-1),
    "labels_weighted": Variant(
        labels("logits"), "labels_logits", {**FEW, "weighted": True, "ignore_index": -1}, marked=-1
    ),
}


def metric(kind: type, *args: Any) -> Callable[..., Any]:
    return lambda **options: kind(*args, **options)


METRICS = {
    "guessed": Variant(metric(BinaryAUROC), "binary_logits"),
    "given": Variant(metric(BinaryAUROC), "binary", {"thresholds": 7}),
    "given_logits": Variant(metric(BinaryAUROC), "binary_logits", {"thresholds": 7, "inputs": "logits"}),
    "given_weighted": Variant(metric(BinaryAUROC), "binary", {"thresholds": [0.2, 0.6], "weighted": True}),
    "exact": Variant(metric(BinaryAUROC), "binary", {"thresholds": None}),
    "guessed_classes": Variant(metric(MulticlassAUROC, 4), "classes_logits", {"thresholds": 7}),
    "exact_classes": Variant(metric(MulticlassAUROC, 4), "classes", {"thresholds": None, "ignore_index": 2}),
    "guessed_labels": Variant(metric(MultilabelAUROC, 3), "labels_logits", {"thresholds": 7}),
    "exact_labels": Variant(metric(MultilabelAveragePrecision, 3), "labels", {"thresholds": None, "weighted": True}),
    "calibration": Variant(metric(BinaryCalibrationError), "binary_logits"),
    "calibration_classes": Variant(metric(MulticlassCalibrationError, 4), "classes"),
}
VARIANTS = EVALUATIONS | METRICS
SUMMED = {name: variant for name, variant in VARIANTS.items() if not name.startswith("exact")}
every_evaluation = pytest.mark.parametrize("variant", EVALUATIONS.values(), ids=EVALUATIONS)
every_variant = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
every_summed = pytest.mark.parametrize("variant", SUMMED.values(), ids=SUMMED)


def rows(batch: Batch, places: Any) -> Batch:
    return tuple(tensor[places] for tensor in batch)


def without_doubt(counting: Any) -> Tensor:
    """The integers without how many log-odds of classes are near the edge of a bin: counting later says all."""
    return without(counting, "doubtful") if is_computed(counting) else tally_of(counting).totals.integers.clone()


def is_computed(counting: Any) -> bool:
    scores = getattr(tally_of(counting).counter, "_scores", tally_of(counting).counter)
    return getattr(scores, "computed", False) and scores.kind in ("fine", "cuts")


def without(counting: Any, *names: str) -> Tensor:
    """The integers with these cells, of counts and of scores, set to 0."""
    cells, integers = tally_of(counting).counter.layout.integers, tally_of(counting).totals.integers.clone()
    for name in cells.sizes:
        if name.rpartition(".")[2] in names:
            cells.read(integers, name).zero_()
    return integers


def without_updates(counting: Any) -> tuple[list[int], Tensor | None]:
    """The totals without how many updates and guesses they came from."""
    doubt = ("doubtful",) if is_computed(counting) else ()
    return without(counting, "updates", "guessed", *doubt).tolist(), tally_of(counting).totals.reals


def assert_same_counts(one: Any, other: Any) -> None:
    (integers, reals), (others, other_reals) = without_updates(one), without_updates(other)
    assert integers == others
    assert any(integers)
    if reals is not None:
        torch.testing.assert_close(reals, other_reals, rtol=1e-7, atol=1e-9)


@every_summed
def test_order_batches_and_merging_do_not_matter(variant: Variant) -> None:
    batch = variant.batch(60)
    together, shuffled, split, merged, other = (variant.fresh() for _ in range(5))
    together.update(*batch)
    shuffled.update(*rows(batch, torch.randperm(60)))
    for start, end in pairwise((0, 1, 20, 20, 60)):
        split.update(*rows(batch, slice(start, end)))
    merged.update(*rows(batch, slice(25, None)))
    other.update(*rows(batch, slice(25)))
    merged.merge_state(other)
    for counting in (shuffled, split, merged):
        assert_same_counts(counting, together)
        _assert_same_results(counting.compute(), together.compute())


def _assert_same_results(one: Any, other: Any) -> None:
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6, equal_nan=True)


@every_variant
def test_duplicates_change_no_result(variant: Variant) -> None:
    once, twice = variant.fresh(), variant.fresh()
    batch = variant.batch(40)
    once.update(*batch)
    twice.update(*batch)
    twice.update(*(torch.cat((each, each)) for each in batch))
    _assert_same_results(twice.compute(), once.compute())


@pytest.mark.parametrize("name", [name for name, each in VARIANTS.items() if not each.weighted])
def test_whole_weights_are_repetitions_and_no_weight_is_absence(name: str) -> None:
    variant = VARIANTS[name]
    preds, target = variant.batch(40)
    weight = torch.randint(0, 4, (40,))
    weighted, repeated = variant.fresh(weighted=True), variant.fresh()
    weighted.update(preds, target, weight.double())
    places = torch.arange(40).repeat_interleave(weight)
    repeated.update(preds[places], target[places])
    _assert_same_results(weighted.compute(), repeated.compute())
    if name in EVALUATIONS:
        one, other = (scores_in(each)[0] for each in (weighted, repeated))
        assert torch.equal(one.yes, other.yes.double())
        assert torch.equal(one.no, other.no.double())


@every_evaluation
def test_an_ignored_element_is_as_if_it_were_not_there(variant: Variant) -> None:
    """Also where its score is no number."""
    if variant.marked is not None:
        pytest.skip("already ignores")
    preds, target, *weight = variant.batch(40)
    away = torch.rand(target.shape) < 0.3
    ignoring, without = variant.fresh(ignore_index=-7), variant.fresh(ignore_index=-7)
    spoilt = preds.clone()
    spoilt[away] = NAN
    for way in ("at_once", "deferred"):
        _updated(ignoring, (spoilt, torch.where(away, -7, target), *weight), way)
    if target.ndim == 1:
        kept = rows((preds, target, *weight), ~away)
        without.update(*kept)
        without.update(*kept)
        one, other = (scores_in(each)[0] for each in (ignoring, without))
        assert torch.equal(one.yes, other.yes)
        assert torch.equal(one.no, other.no)
    scores = scores_in(ignoring)[0]
    questions = 4 if variant.kind.startswith("classes") else 1
    unit = (weight[0].reshape(-1, *[1] * (target.ndim - 1)) if weight else 1) * torch.ones(target.shape)
    assert float((scores.yes + scores.no).sum()) == 2 * questions * float(unit[~away].sum())
    assert ignoring.tally.counter.ledger(ignoring.tally.totals).ignored == 2 * int((away & (unit != 0)).sum())


@every_variant
def test_an_empty_batch_adds_nothing(variant: Variant) -> None:
    for way in ("at_once", "deferred"):
        full, also = variant.fresh(), variant.fresh()
        full.update(*variant.batch(20))
        _updated(also, rows(variant.batch(20), slice(0, 0)), way)
        also.update(*variant.batch(20))
        _assert_same_results(also.compute(), full.compute())


@every_summed
def test_more_dimensions_are_more_samples(variant: Variant) -> None:
    """Images: one row of pixels after the other."""
    preds, target, *weight = variant.batch(24)
    flat, images = variant.fresh(), variant.fresh()
    flat.update(preds, target, *weight)
    preds = preds.reshape(4, 2, 3, *preds.shape[1:])
    target = target.reshape(4, 2, 3, *target.shape[1:])
    if variant.kind.startswith("classes"):
        preds = preds.movedim(-1, 1)
    elif variant.kind.startswith("labels"):
        preds, target = preds.movedim(-1, 1), target.movedim(-1, 1)
        if weight:
            pytest.skip("whole samples have one weight")
    images.update(preds, target, *(each.reshape(4, 2, 3) for each in weight))
    one, other = (scores_in(each)[0] for each in (flat, images))
    assert torch.equal(one.yes, other.yes)
    assert torch.equal(one.no, other.no)


@every_variant
def test_counting_later_is_counting_at_once(variant: Variant) -> None:
    at_once, later = variant.fresh(), variant.fresh()
    for seed, size in enumerate((40, 1, 7, 0)):
        batch = variant.batch(size, seed)
        at_once.update(*batch)
        _updated(later, batch, "deferred")
    if variant.options.get("thresholds", 0) is not None:
        assert_same_counts(at_once, later)
    _assert_same_results(at_once.compute(), later.compute())


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("truth", [torch.uint8, torch.int32, torch.float32], ids=str)
@pytest.mark.parametrize("name", SUMMED)
def test_counting_later_reads_every_type_as_counting_at_once(name: str, kind: torch.dtype, truth: torch.dtype) -> None:
    """Rounded probabilities fall on thresholds and on the edges of calibration bins."""
    variant = SUMMED[name]
    if truth == torch.float32 and variant.kind.startswith("classes"):
        pytest.skip("class numbers are integers")
    at_once, later = variant.fresh(), variant.fresh()
    preds, target, *weight = variant.batch(64)
    if variant.kind in ("binary", "labels"):
        preds = (preds * 30).round() / 30
    target = target.clamp(min=0) if truth == torch.uint8 else target
    for way, counting in (("at_once", at_once), ("deferred", later)):
        _updated(counting, (preds.to(kind), target.to(truth), *weight), way)
    one, other = (tally_of(each).totals for each in (at_once, later))
    assert without_doubt(at_once).tolist() == without_doubt(later).tolist()
    if one.reals is not None:
        torch.testing.assert_close(one.reals, other.reals, rtol=1e-6, atol=1e-6)


WRONG: dict[str, tuple[Callable[..., Any], Batch, str, int]] = {
    "nan": (binary("logits"), (torch.tensor([1.0, NAN, -1.0]), torch.tensor([1, 1, 0])), "preds to be a number", 1),
    "above": (
        binary("probabilities"),
        (torch.tensor([0.5, 1.5, -0.1]), torch.tensor([1, 1, 0])),
        "preds to be a probability in",
        2,
    ),
    "infinite": (
        binary("probabilities"),
        (torch.tensor([0.5, INF, -INF]), torch.tensor([1, 1, 0])),
        "preds to be a probability in",
        2,
    ),
    "target": (binary("logits"), (torch.tensor([1.0, 2.0]), torch.tensor([0, 3])), "target to be 0 or 1, got 3", 1),
    "soft": (
        metric(BinaryAUROC),
        (torch.tensor([0.2, 0.7, 0.4]), torch.tensor([0.0, 0.5, 0.9])),
        "target to be 0 or 1, got 0.5",
        2,
    ),
    "exact_soft": (
        lambda **options: BinaryAUROC(thresholds=None, **options),
        (torch.tensor([0.2, 0.7]), torch.tensor([0.0, 0.5])),
        "target to be 0 or 1, got 0.5",
        1,
    ),
    "no_target": (
        metric(BinaryAUROC),
        (torch.tensor([0.2, 0.7, 0.4]), torch.tensor([NAN, INF, 1.0])),
        "target to be 0 or 1, got nan",
        2,
    ),
    "infinite_target": (
        metric(BinaryAUROC),
        (torch.tensor([0.2, 0.7, 0.4]), torch.tensor([-INF, INF, 1.0])),
        "target to be 0 or 1, got -inf",
        2,
    ),
    "guessed_nan": (metric(BinaryAUROC), (torch.tensor([0.2, NAN]), torch.tensor([0, 1])), "preds to be a number", 1),
    "class": (
        classes("logits"),
        (torch.zeros(3, 4), torch.tensor([0, 4, -1])),
        "target to be a class from 0 to 3, got 4",
        2,
    ),
    "class_nan": (
        classes("logits"),
        (torch.tensor([[0.0, 1, 2, NAN], [0, 1, 2, 3]]), torch.tensor([0, 1])),
        "preds to be a number",
        1,
    ),
    "class_below": (
        classes("probabilities"),
        (torch.tensor([[-0.5, 0.7, 0.8, 0], [0.1, 0.2, 0.3, 0.4]]), torch.tensor([0, 1])),
        "preds to be a probability in",
        1,
    ),
    "no_softmax": (
        classes("logits"),
        (torch.tensor([[INF, INF, 0, 0], [-INF] * 4, [0, 1, 2, -INF]]), torch.tensor([0, 1, 2])),
        "expected every preds",
        2,
    ),
    "labels": (
        labels("probabilities"),
        (torch.tensor([[0.5, NAN, 2.0]]), torch.tensor([[1, 1, 7]])),
        "target to be 0 or 1, got 7",
        2,
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values_raise_on_the_cpu_and_leave_the_state(name: str) -> None:
    build, bad, words, _ = WRONG[name]
    counting = build()
    good = bad[0].nan_to_num(0.5, 0.5, 0.5).clamp(0, 1), torch.zeros_like(bad[1])
    counting.update(*good)
    before = [total.clone() for total in tally_of(counting).totals if total is not None]
    with pytest.raises(InputError, match=words):
        counting.update(*bad)
    for kept, total in zip(before, tally_of(counting).totals, strict=False):
        assert torch.equal(kept, total)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values_elsewhere_are_counted_as_invalid_and_compute_raises(name: str) -> None:
    build, bad, _, invalid = WRONG[name]
    counting = _updated(build(), bad, "deferred")
    for _ in range(2):
        with pytest.raises(InputError, match=rf"^{invalid} samples counted by \w+ were not what was declared"):
            counting.compute()
    per_sample = 4 if name.startswith(("class", "no_softmax")) else 1
    assert (
        sum(int((table.yes + table.no).sum()) for table in scores_in(counting))
        == (bad[1].numel() - invalid) * per_sample
    )


@pytest.mark.parametrize("thresholds", ["fine", "bfloat16", 7, None], ids=str)
def test_wrong_weights_are_found_out(thresholds: Any) -> None:
    counting = BinaryAUROC(thresholds=thresholds, weighted=True, inputs="probabilities")
    batch = torch.tensor([0.2, 0.7, 0.6, 0.1]), torch.tensor([0, 1, 1, 0])
    with pytest.raises(InputError, match="sample_weight to be finite and not negative, got -1"):
        counting.update(*batch, torch.tensor([1.0, 1, -1, NAN]))
    with pytest.raises(InputError, match=r"target to be 0 or 1, got 0\.5"):
        counting.update(batch[0], torch.tensor([0, 0.5, 1, 0]), torch.ones(4))
    _updated(counting, (*batch, torch.tensor([1.0, 1, -1, NAN])), "deferred")
    with pytest.raises(InputError, match=r"^2 samples counted"):
        counting.compute()


# ---- certain bounds


def auroc_of(scores: list[float], target: list[int], weight: list[float]) -> float:
    """By its definition: the share of pairs that are in order, ties half."""
    yes, no = ([(s, w) for s, t, w in zip(scores, target, weight, strict=True) if t == k] for k in (1, 0))
    won = sum(v * w * ((s > z) + (s == z) / 2) for s, v in yes for z, w in no)
    return won / (sum(w for _, w in yes) * sum(w for _, w in no))


def average_precision_of(scores: list[float], target: list[int], weight: list[float]) -> float:
    """By its definition: the mean over positives of the precision where scores from theirs up are positive."""
    samples = list(zip(scores, target, weight, strict=True))
    total = 0.0
    for score, truth, w in samples:
        if truth and w:
            above = [(t, v) for s, t, v in samples if s >= score]
            total += w * sum(v for t, v in above if t) / sum(v for _, v in above)
    return total / sum(w for _, t, w in samples if t)


EXACT = {"auroc": auroc_of, "average_precision": average_precision_of}


def test_the_definitions_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        scores, target, weight = rng.integers(0, 6, 30) / 6, rng.integers(0, 2, 30), rng.random(30)
        arguments = scores.tolist(), target.tolist(), weight.tolist()
        assert auroc_of(*arguments) == pytest.approx(roc_auc_score(target, scores, sample_weight=weight))
        expected = average_precision_score(target, scores, sample_weight=weight)
        assert average_precision_of(*arguments) == pytest.approx(expected)


STEPS = (0.0, 1e-7, -1e-7, 1e-4, -1e-4, 0.05, -0.3)
LOGITS = (-40.0, -3.0, -0.2, 0.0, 0.7, 5.0, 17.0, 30.0)
CERTAIN = {"logits": (-INF, INF, -0.0, 3e38), "probabilities": (0.0, 1.0, 0.5, 1e-45, 1 - 2**-24)}
KINDS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@st.composite
def scored(draw: st.DrawFn, *, weighted: bool = False) -> tuple[str, Tensor, Tensor, Tensor]:
    """Many ties and near-ties, in every order: a reading, scores of some type, targets of both classes, weights."""
    reading, kind = draw(st.sampled_from(READINGS)), draw(st.sampled_from(KINDS))
    size = draw(st.integers(2, 18))
    near = st.builds(lambda base, step: base + step, st.sampled_from(LOGITS), st.sampled_from(STEPS))
    logits = torch.tensor(draw(st.lists(near, min_size=size, max_size=size)), dtype=torch.float64)
    scores = logits if reading == "logits" else logits.sigmoid()
    certain = st.sampled_from([None, None, None, *CERTAIN[reading]])
    ends = draw(st.lists(certain, min_size=size, max_size=size))
    scores = torch.tensor([s if e is None else e for s, e in zip(scores.tolist(), ends, strict=True)])
    scores = scores.double().to(kind) if kind != torch.float64 else scores.double()
    target = draw(st.lists(st.integers(0, 1), min_size=size, max_size=size).filter(lambda t: len(set(t)) == 2))
    units = st.sampled_from([1e-3, 0.01, 0.5, 1.0, 3.0, 1000.0] if weighted else [1.0])
    weight = draw(st.lists(units, min_size=size, max_size=size))
    return reading, scores, torch.tensor(target), torch.tensor(weight, dtype=torch.float64)


ScoreStatistic = tuple[str, Tensor, Tensor, Tensor]
POSITIVE_BELOW = (torch.tensor([1.0001, 1.0, 1.0002, 0.9999]), torch.tensor([0, 1, 0, 1]))
"""All negatives of a bin above its positives."""
POSITIVE_ABOVE = (POSITIVE_BELOW[0], 1 - POSITIVE_BELOW[1])


def assert_bounded(data: ScoreStatistic, weighted: bool, way: str, **options: Any) -> None:
    reading, scores, target, weight = data
    evaluation = BinaryEvaluation(reading, curves=True, weighted=weighted, statistics=["auroc"], **options)  # type: ignore[arg-type]
    _updated(evaluation, (scores, target, weight) if weighted else (scores, target), way)
    for name, exact in EXACT.items():
        low, value, high = (float(part) for part in evaluation.bounds(name))
        truth = exact(scores.double().tolist(), target.tolist(), weight.tolist())
        assert low <= value <= high
        assert low - 1e-12 <= truth <= high + 1e-12
        assert low >= 0
        assert high <= 1 + 1e-12


@given(scored(), st.sampled_from([8, 9, 64, 1024, "bfloat16"]), st.sampled_from(["at_once", "deferred"]))
@example(("logits", *POSITIVE_BELOW, torch.ones(4)), 8, "at_once")
@example(("logits", *POSITIVE_ABOVE, torch.ones(4)), 8, "deferred")
@example(
    ("logits", torch.tensor([1e39, 1e40, 1e41], dtype=torch.float64), torch.tensor([0, 0, 1]), torch.ones(3)),
    64,
    "at_once",
)
@example(
    ("probabilities", torch.tensor([0.5, 0.5 + 1e-12], dtype=torch.float64), torch.tensor([0, 1]), torch.ones(2)),
    "bfloat16",
    "deferred",
)
@example(
    ("probabilities", torch.tensor([0.5, 0.5 + 1e-12], dtype=torch.float64), torch.tensor([0, 1]), torch.ones(2)),
    "bfloat16",
    "at_once",
)
def test_the_exact_areas_lie_between_the_bounds(data: ScoreStatistic, resolution: Any, way: str) -> None:
    assert_bounded(data, False, way, resolution=resolution)


@given(scored(weighted=True), st.sampled_from([8, 64]))
@example(("logits", *POSITIVE_BELOW, torch.full((4,), 1e-3)), 8)
@example(("logits", *POSITIVE_ABOVE, torch.full((4,), 1e3)), 8)
def test_the_exact_weighted_areas_lie_between_the_bounds(data: ScoreStatistic, resolution: int) -> None:
    assert_bounded(data, True, "at_once", resolution=resolution)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("higher", [0, 1], ids=["negatives_above", "positives_above"])
def test_the_worst_order_inside_every_bin_reaches_the_bound(weighted: bool, higher: int) -> None:
    """Two scores in each of many bins, the same class always above: no bound of AUROC could be narrower."""
    bins = FineBins(64, "logits")
    lowest = torch.logit(bins.lowest()).float()[5:60]
    pairs = torch.stack((lowest + 0.001, lowest + 0.002), -1).repeat_interleave(3, 0)
    target = torch.tensor([1 - higher, higher]).expand(len(pairs), 2)
    evaluation = BinaryEvaluation("logits", curves=True, resolution=64, weighted=weighted, statistics=["auroc"])
    weight = torch.full((pairs.numel(),), 0.01, dtype=torch.float64)
    evaluation.update(pairs.flatten(), target.flatten(), *([weight] if weighted else []))
    low, _, high = evaluation.bounds()
    exact = roc_auc_score(target.flatten(), pairs.flatten())
    assert exact == pytest.approx(float(high if higher else low), abs=1e-12)
    low, _, high = evaluation.bounds("average_precision")
    exact = average_precision_score(target.flatten(), pairs.flatten())
    assert low - 1e-12 <= exact <= high + 1e-12


@pytest.mark.parametrize("reading", READINGS)
def test_the_default_bounds_are_narrow(reading: str) -> None:
    """65,536 bins: NOTES of the measured width for unit normal logits one apart say 4e-5 for logits."""
    target = torch.randint(0, 2, (20_000,))
    scores = torch.randn(20_000) + target
    scores = scores if reading == "logits" else scores.sigmoid()
    evaluation = BinaryEvaluation(reading, curves=True)
    evaluation.update(scores, target)
    for name, exact in (("auroc", roc_auc_score), ("average_precision", average_precision_score)):
        low, value, high = evaluation.bounds(name)
        assert low <= exact(target, scores.double()) <= high
        assert high - low < 1e-3
        assert evaluation.compute()[name] == pytest.approx(float(value), rel=1e-6)


@pytest.mark.parametrize("most", [0.01, 0.1, 0.37, 0.9, 1.0])
@pytest.mark.parametrize("thresholds", ["fine", "bfloat16", None])
def test_the_exact_partial_area_lies_between_the_bounds(most: float, thresholds: Any) -> None:
    for seed in range(6):
        torch.manual_seed(seed)
        target = torch.randint(0, 2, (60,))
        scores = (torch.randn(60) + target).round(decimals=2).sigmoid()
        metric = BinaryAUROC(max_fpr=most, thresholds=thresholds, inputs="probabilities")
        metric.update(scores, target)
        low, value, high = metric.bounds()
        exact = roc_auc_score(target, scores.double(), max_fpr=most)
        assert low - 1e-9 <= exact <= high + 1e-9
        assert low - 1e-12 <= value <= high + 1e-12
        if thresholds is None:
            assert float(metric.compute()) == pytest.approx(exact, abs=1e-6)


def test_raw_scores_rank_where_a_sigmoid_saturates() -> None:
    """Logits that are all above 17 have one sigmoid in single precision; their order is still known."""
    target = torch.randint(0, 2, (500,))
    for low, high in ((17.0, 40.0), (40.0, 2000.0), (-2000.0, -40.0)):
        scores = torch.where(target == 1, torch.rand(500) + high, torch.rand(500) + low)
        assert low < 0 or (scores.sigmoid() == 1).all()
        evaluation = BinaryEvaluation("logits", curves=True, statistics=["auroc"])
        evaluation.update(scores, target)
        assert evaluation.compute()["auroc"] == 1
        assert list(evaluation.bounds("average_precision")) == [1, 1, 1]


def test_saturated_classes_rank_too() -> None:
    """Log-odds of a class whose probability is 1 to 20 digits."""
    target = torch.randint(0, 3, (300,))
    logits = torch.rand(300, 3)
    logits[:, 0] += torch.where(target == 0, 80.0, 60.0)
    assert (logits.softmax(1)[:, 0] == 1).all()
    evaluation = MulticlassEvaluation("logits", 3, curves=True, statistics=["auroc/0", "auroc/macro"])
    evaluation.update(logits, target)
    assert evaluation.compute()["auroc/0"] == 1


def test_probabilities_in_double_precision_are_told_from_one() -> None:
    target = torch.tensor([0, 0, 1, 1, 1])
    scores = torch.tensor([1 - 1e-10, 1 - 1e-9, 1 - 1e-12, 1 - 1e-13, 1.0], dtype=torch.float64)
    for way in ("at_once", "deferred"):
        evaluation = _updated(BinaryEvaluation("probabilities", curves=True), (scores, target), way)
        assert list(evaluation.bounds()) == [1, 1, 1]
        tiny = _updated(BinaryEvaluation("probabilities", curves=True), (1 - scores, 1 - target), way)
        assert list(tiny.bounds()) == [1, 1, 1]


@pytest.mark.parametrize("scale", [0.1, 3.0, 40.0, 300.0])
@pytest.mark.parametrize("number", [2, 3, 50])
def test_log_odds_of_classes_are_those_of_a_softmax_in_double_precision(scale: float, number: int) -> None:
    logits = torch.randn(200, number) * scale
    exact = logits.double()
    rest = torch.stack([exact[:, [c for c in range(number) if c != k]].logsumexp(1) for k in range(number)], 1)
    torch.testing.assert_close(class_log_odds(logits).double(), exact - rest, rtol=2e-6, atol=2e-6)
    torch.testing.assert_close(class_log_odds(logits.double()), exact - rest, rtol=1e-12, atol=1e-12)


def test_a_class_that_is_ruled_out_is_at_the_end() -> None:
    odds = class_log_odds(torch.tensor([[-INF, 0.0, 1.0], [INF, 0.0, 1.0]]))
    assert odds[0].tolist() == [-INF, pytest.approx(-1), pytest.approx(1)]
    assert odds[1].tolist() == [INF, -INF, -INF]


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
    sums = metric.counter.calibration(metric.totals)
    assert sums.bin_weights.tolist() == [[1] * (bins - 1) + [2]]
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
    assert metric.counter.calibration(metric.totals).bin_weights.tolist() == [[0] * 9 + [4]]


def test_the_confidence_of_classes_is_the_highest_probability() -> None:
    logits, target = torch.randn(400, 5) * 2, torch.randint(0, 5, (400,))
    confidence, label = logits.softmax(1).max(1)
    expected = calibration_of(confidence, label == target, 15)
    for inputs, preds in (("logits", logits), ("probabilities", logits.softmax(1))):
        evaluation = MulticlassEvaluation(inputs, 5, curves=True, resolution=8)  # type: ignore[arg-type]
        evaluation.update(preds, target)
        assert float(evaluation.compute()["calibration_error"]) == pytest.approx(expected, rel=1e-5)


# ---- on an accelerator

PRETENDED = VARIANTS | {
    "images": Variant(classes("logits"), "classes_logits", {"ignore_index": 0}),
    "default_bins": Variant(binary("probabilities"), "binary", {"weighted": True}),
    "default_bins_of_labels": Variant(labels("logits"), "labels_logits"),
    "given_classes": Variant(metric(MulticlassAUROC, 4), "classes_logits", {"thresholds": [0.2, 0.4]}),
    "classes_bfloat16": Variant(metric(MulticlassAUROC, 4), "classes_logits", {"thresholds": "bfloat16"}),
}


@pytest.mark.parametrize("name", PRETENDED)
def test_an_update_reads_nothing_back_and_adds_in_order(name: str) -> None:
    """The first update may bring thresholds to the device, no other."""
    counting, batch = PRETENDED[name].fresh(), PRETENDED[name].batch()
    with FakeTensorMode(allow_non_fake_inputs=True):
        pretend_on_device(counting)
        on_device = [torch.zeros(each.shape, dtype=each.dtype, device=DEVICE) for each in batch]
        low = [on_device[0].bfloat16(), *on_device[1:]]
        empty = [torch.zeros((0, *each.shape[1:]), dtype=each.dtype, device=DEVICE) for each in batch]
        counting.update(*on_device)
        with OrderedOperators() as operators:
            for each in (on_device, low, empty):
                counting.update(*each)
    assert operators.names
    assert operators.waiting == []
    assert operators.without_order == []


# ---- compiled

COMPILED = ("binary_logits", "binary_weighted", "classes_ignoring", "labels", "given", "calibration_classes")


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
def test_equal_batches_are_one_graph(name: str) -> None:
    from torch._dynamo.testing import CompileCounter  # late: ranks load this file

    torch._dynamo.reset()
    variant, graphs = VARIANTS[name], CompileCounter()
    counting, eager = variant.fresh(), variant.fresh()

    def update(*batch: Tensor) -> None:
        counting.update(*batch)

    step = torch.compile(update, fullgraph=True, backend=graphs)
    for seed in range(6):
        step(*variant.batch(16, seed))
        eager.update(*variant.batch(16, seed))
        counting.compute()
    assert graphs.frame_count == 1
    with torch.inference_mode():
        counting.reset()
    for size in (16, 7, 9):  # a last batch may add one
        step(*variant.batch(size, size))
    assert graphs.frame_count <= 2
    for seed in range(6):
        step(*variant.batch(16, seed))
    for size in (16, 7, 9):
        eager.update(*variant.batch(size, size))
    assert without_doubt(counting).tolist() == without_doubt(eager).tolist()
    _assert_same_results(counting.compute(), eager.compute())


def test_compiled_bad_scores_are_found_out() -> None:
    torch._dynamo.reset()
    evaluation = BinaryEvaluation("probabilities", curves=True, resolution=8)
    step = torch.compile(lambda *batch: evaluation.update(*batch), fullgraph=True, backend="eager")
    step(torch.tensor([0.2, NAN, 1.5, 0.8]), torch.tensor([0, 1, 1, 1]))
    with pytest.raises(InputError, match=r"^2 samples counted"):
        evaluation.compute()


# ---- ranks

JOINED = {name: EVALUATIONS[name] for name in ("binary_logits", "binary_weighted", "classes_ignoring", "labels")}
GATHERED = {name: METRICS[name] for name in ("exact", "exact_classes", "exact_labels")}
LAYOUTS = ("uneven", "empty_last", "empty_first")


def plain(value: Any) -> Any:
    return {k: v.tolist() for k, v in value.items()} if isinstance(value, dict) else value.tolist()


class Joined:
    """What one rank computes, and by which collectives."""

    def __init__(self, name: str, layout: str) -> None:
        self.name, self.layout = name, layout

    def __call__(self, rank: int, world: int) -> Any:
        counting = filled(self.name, ranks.shards(self.layout, world)[rank])
        with ranks.recorded() as collectives:
            values = plain(counting.compute())
        with ranks.recorded() as afterwards:
            asked(counting)
        totals = tally_of(counting).global_totals
        reals = None if totals.reals is None else totals.reals.tolist()
        integers = totals.integers.tolist()
        return {
            "values": values,
            "integers": integers,
            "reals": reals,
            "collectives": collectives,
            "afterwards": afterwards,
        }


def asked(counting: Any) -> None:
    """Everything that can be asked after a compute."""
    if not hasattr(counting, "tally"):
        counting.bounds()
        return
    name = None if isinstance(counting, BinaryEvaluation) else "1"
    for question in (counting.roc, counting.precision_recall_curve, counting.reliability):
        question(name)
    counting.bounds("average_precision", name)
    counting.best_threshold()
    counting.at_threshold(0.5)
    assert counting.counts


def filled(name: str, batches: list[range]) -> Any:
    variant = VARIANTS[name]
    counting = variant.fresh()
    for batch in batches:
        counting.update(*ranks.rows(variant.batch(ranks.SAMPLES), batch))
    return counting


SCENES = {f"{name}-{layout}": Joined(name, layout) for name in JOINED | GATHERED for layout in LAYOUTS}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> ranks.Found:
    """What every rank returned; the processes run once for all tests, also where tests run in several processes."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder = folder / "scores"
    folder.mkdir(exist_ok=True)
    return ranks.run_once(SCENES, folder)


@pytest.mark.slow
@pytest.mark.parametrize("world", ranks.WORLDS, ids="{}_ranks".format)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", JOINED | GATHERED)
def test_ranks_are_joined_to_the_scores_of_one_process(found: ranks.Found, world: int, layout: str, name: str) -> None:
    shards = ranks.shards(layout, world)
    alone = filled(name, [batch for rank in shards for batch in rank])
    totals, values = tally_of(alone).totals, plain(alone.compute())
    for result in found[world][f"{name}-{layout}"]:
        assert not isinstance(result, str), result
        assert result["integers"] == totals.integers.tolist()
        assert result["values"] == pytest.approx(values, rel=1e-6, nan_ok=True)
        assert result["afterwards"] == []
        if name in JOINED:
            assert result["collectives"] == ["all_reduce"]
        if totals.reals is not None:
            assert np.array(result["reals"]) == pytest.approx(totals.reals.numpy(), rel=1e-9, abs=1e-12)


# ---- copies


@every_variant
def test_a_copy_goes_on_alone(variant: Variant) -> None:
    first, both = variant.fresh(), variant.fresh()
    first.update(*variant.batch(20, 1))
    copies = [first.clone(), copy.deepcopy(first), pickle.loads(pickle.dumps(first.clone()))]
    for each in copies:
        each.update(*variant.batch(20, 2))
    for seed in (1, 2):
        both.update(*variant.batch(20, seed))
    before = first.compute()
    for each in copies:
        _assert_same_results(each.compute(), both.compute())
    again = variant.fresh()
    again.update(*variant.batch(20, 1))
    _assert_same_results(before, again.compute())


@every_variant
def test_a_checkpoint_goes_on_where_it_was_saved(variant: Variant) -> None:
    saved, loaded = variant.fresh(), variant.fresh()
    saved.update(*variant.batch(20, 1))
    saved.persistent(True)
    loaded.load_state_dict(saved.state_dict())
    for each in (saved, loaded):
        each.update(*variant.batch(20, 2))
    _assert_same_results(loaded.compute(), saved.compute())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"curves": True}, {}),
        ({}, {"curves": True}),
        ({"curves": True, "resolution": 64}, {"curves": True, "resolution": 65}),
        ({"curves": True, "resolution": "bfloat16"}, {"curves": True}),
    ],
)
def test_a_checkpoint_of_other_bins_is_refused(one: dict[str, Any], other: dict[str, Any]) -> None:
    saved, loaded = BinaryEvaluation("logits", **one), BinaryEvaluation("logits", **other)
    saved.update(torch.randn(9), torch.randint(0, 2, (9,)))
    saved.persistent(True)
    with pytest.raises(RuntimeError, match=r"counted under another declaration: binning=.* in the checkpoint, .* here"):
        loaded.load_state_dict(saved.state_dict())
    with pytest.raises(InputError, match="only counts of one declaration can be merged"):
        loaded.merge_state(saved)


@every_summed
def test_a_cast_does_not_touch_it(variant: Variant) -> None:
    cast, kept = variant.fresh(), variant.fresh()
    for each in (cast, kept):
        each.update(*variant.batch(20, 1))
    torch.nn.ModuleList([cast]).half().to(torch.bfloat16)
    cast.set_dtype(torch.float16)
    for each in (cast, kept):
        each.update(*variant.batch(20, 2))
    assert_same_counts(cast, kept)
    assert tally_of(cast).totals.integers.dtype == torch.int64
    assert all(total is None or total.dtype in (torch.int64, torch.float64) for total in tally_of(cast).totals)


def test_unequal_bins_are_unequal_declarations() -> None:
    """A stock collection merges equal states; these must never be."""
    kinds = ["fine", "bfloat16", 7, 8, [0.2, 0.5], None]
    keys = {Binary(binning=binning_of(kind)).key for kind in kinds} | {Binary().key}
    assert len(keys) == len(kinds) + 1


def test_a_threshold_among_negative_logits_that_are_no_bfloat16_keeps_its_positives() -> None:
    logits, target = torch.tensor([-1.002, -1.003, -3.0]), torch.tensor([1, 1, 0])
    found = BinaryEvaluation("logits", curves=True, resolution="bfloat16", zero_division=0.0)
    found.update(logits, target)
    applied = BinaryEvaluation("logits", threshold=found.best_threshold("f1"))
    applied.update(logits, target)
    assert applied.compute()["recall"] == 1
    assert found.compute()["best_f1"] == 1
