"""Calibration alone has the sums that it has beside a histogram and losses, which are those of its definition."""

from __future__ import annotations

import math
from bisect import bisect_right
from contextlib import nullcontext
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pytest
import torch
from device import deferred
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from lightning_evalkit.counts import CalibrationCounter, ScoreCounter, Totals
from lightning_evalkit.counts.numpy_path import BLOCK
from lightning_evalkit.errors import InputError
from lightning_evalkit.inputs import Binary, Binning, Multiclass, binning_of
from lightning_evalkit.metrics import BinaryCalibrationError, MulticlassCalibrationError
from lightning_evalkit.state import Tally

KINDS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
WAYS = ("at_once", "deferred")
CLASSES = 4
Batch = tuple[Tensor, Tensor, Tensor | None]


def task_of(classes: int, inputs: Any, bins: int, ignore_index: Any = None, weighted: bool = False) -> Any:
    binning = Binning("calibration", 0, calibration_bins=bins)
    if not classes:
        return Binary(inputs, ignore_index, weighted, binning=binning)
    return Multiclass(inputs, ignore_index, weighted, num_classes=classes, binning=binning)


def counted(counter: Any, batch: Batch, way: str = "at_once") -> Totals:
    if way == "at_once":
        totals = counter.count(*batch)
    else:
        with deferred():
            totals = counter.count(*batch)
    return totals.dense(counter.layout.integers.width)


@st.composite
def batches(draw: st.DrawFn, classes: int, inputs: str, mark: int | None, weighted: bool) -> Batch:
    """Scores of any scale with ties and edges; some classes may be absent, and all samples."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    size, kind = draw(st.integers(0, 40)), draw(st.sampled_from(KINDS))
    shape = (size, classes) if classes else (size,)
    scores = torch.randn(shape, generator=generator, dtype=torch.float64) * draw(st.sampled_from([1e-3, 1.0, 30.0]))
    if inputs == "probabilities" or (inputs == "auto" and draw(st.booleans())):
        scores = scores.softmax(1) if classes else scores.sigmoid()
    if draw(st.booleans()):
        scores = scores.round(decimals=2)  # many are edges of 10 and of 100 bins
    present = draw(st.integers(1, classes or 2))
    target = torch.randint(present, (size,), generator=generator)
    if mark is not None:
        target = torch.where(torch.rand(size, generator=generator) < draw(st.sampled_from([0.2, 1.0])), mark, target)
    weight = torch.randint(0, 5, (size,), generator=generator) / 2 if weighted else None
    return scores.to(kind), target, weight


@settings(deadline=None)
@given(
    data=st.data(),
    classes=st.sampled_from([0, 2, CLASSES]),
    inputs=st.sampled_from(["auto", "logits", "probabilities"]),
    bins=st.sampled_from([1, 3, 10, 15, 100]),
    mark=st.sampled_from([None, -1, 1]),
    weighted=st.booleans(),
    way=st.sampled_from(WAYS),
)
def test_it_has_the_sums_that_are_kept_beside_a_histogram(
    data: st.DataObject, classes: int, inputs: str, bins: int, mark: int | None, weighted: bool, way: str
) -> None:
    batch, task = data.draw(batches(classes, inputs, mark, weighted)), task_of(classes, inputs, bins, mark, weighted)
    alone, both = (
        CalibrationCounter(task),
        ScoreCounter(replace(task, binning=binning_of((0.5,), sums=True, calibration_bins=bins))),
    )
    totals, others = counted(alone, batch, way), counted(both, batch, way)
    found, expected = alone.by_bin(totals), both.calibration(others)
    assert found.weights.tolist() == expected.bin_weights[0].tolist()
    assert found.hits.tolist() == expected.hits[0].tolist()
    np.testing.assert_allclose(found.confidences, expected.confidences[0].numpy(), rtol=1e-12, atol=1e-14)
    assert alone.ledger(totals) == both.ledger(others)


@settings(deadline=None)
@given(
    data=st.data(),
    classes=st.sampled_from([0, CLASSES]),
    bins=st.sampled_from([1, 3, 10, 15, 100]),
    mark=st.sampled_from([None, -1]),
    weighted=st.booleans(),
    way=st.sampled_from(WAYS),
)
def test_its_sums_are_those_of_the_definition(
    data: st.DataObject, classes: int, bins: int, mark: int | None, weighted: bool, way: str
) -> None:
    """Sample by sample: a bin contains its lower edge, and the last one its upper edge too."""
    scores, target, weight = batch = data.draw(batches(classes, "probabilities", mark, weighted))
    kind = torch.float32 if classes else scores.dtype
    inner = torch.linspace(0, 1, bins + 1, dtype=kind).tolist()[1:-1]
    sums: list[list[list[float]]] = [[[], [], []] for _ in range(bins)]
    for place, (row, truth) in enumerate(zip(scores.tolist(), target.tolist(), strict=True)):
        if truth == mark:
            continue
        confidence = max(row) if classes else row
        hit = row.index(confidence) == truth if classes else truth == 1
        amount = 1.0 if weight is None else float(weight[place])
        rounded = float(torch.tensor(confidence, dtype=kind))
        added = (amount, amount * confidence, amount * hit)
        for part, number in zip(sums[bisect_right(inner, rounded)], added, strict=True):
            part.append(number)
    counter = CalibrationCounter(task_of(classes, "probabilities", bins, mark, weighted))
    found = counter.by_bin(counted(counter, batch, way))
    for part, expected in zip(found[:3], zip(*sums, strict=True), strict=True):
        np.testing.assert_allclose(part, [math.fsum(each) for each in expected], rtol=1e-12, atol=0)


@pytest.mark.parametrize("inputs", ["auto", "logits", "probabilities"])
@pytest.mark.parametrize("classes", [0, CLASSES])
def test_a_large_batch_is_its_parts(classes: int, inputs: str) -> None:
    """Batches are counted in blocks, and guessed as a whole: only the last score is outside of [0, 1]."""
    size = 2 * BLOCK + 5 if not classes else BLOCK // 2
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand((size, classes) if classes else (size,), generator=generator)
    if inputs == "auto":
        scores.view(-1)[-1] = 1.5
    target = torch.randint(classes or 2, (size,), generator=generator)
    counter = CalibrationCounter(task_of(classes, inputs, 15, ignore_index=-1))
    whole = counted(counter, (scores, target, None))
    as_declared = CalibrationCounter(task_of(classes, "logits" if inputs == "auto" else inputs, 15))
    parts = [counted(as_declared, (*pair, None)) for pair in zip(scores.split(1000), target.split(1000), strict=True)]
    summed = [np.sum(each, axis=0) for each in zip(*(as_declared.by_bin(part)[:3] for part in parts), strict=True)]
    for found, expected in zip(counter.by_bin(whole)[:3], summed, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    ledger = counter.ledger(whole)
    assert (ledger.updates, ledger.guessed_logits, ledger.guessed_probabilities) == (1, inputs == "auto", 0)


@pytest.mark.parametrize("way", WAYS)
def test_images_are_counted_pixel_by_pixel(way: str) -> None:
    scores, target = torch.randn(5, CLASSES, 3, 2), torch.randint(-1, CLASSES, (5, 3, 2))
    counter = CalibrationCounter(task_of(CLASSES, "logits", 15, ignore_index=-1))
    flat = scores.movedim(1, -1).reshape(-1, CLASSES), target.flatten(), None
    images, rows = counted(counter, (scores, target, None), way), counted(counter, flat, way)
    assert images.integers.equal(rows.integers)
    torch.testing.assert_close(images.reals, rows.reals)


BAD: dict[str, tuple[Any, Batch, str]] = {
    "nan": (("auto", 0), (torch.tensor([0.5, math.nan]), torch.tensor([0, 1]), None), "preds to be a number, got nan"),
    "probability": (
        ("probabilities", 0),
        (torch.tensor([0.5, 1.5]), torch.tensor([0, 1]), None),
        r"a probability in \[0, 1\], got 1.5 at position 1",
    ),
    "answer": (("auto", 0), (torch.tensor([0.5, 0.7]), torch.tensor([0, 2]), None), "target to be 0 or 1, got 2"),
    "part": (("auto", 0), (torch.tensor([0.5, 0.7]), torch.tensor([0.5, 1]), None), "target to be 0 or 1, got 0.5"),
    "class": (("auto", 3), (torch.eye(3), torch.tensor([0, -2, 3]), None), "a class from 0 to 2, got -2 at position 1"),
    "low": (("probabilities", 3), (torch.eye(3) - 0.1, torch.tensor([0, 1, 2]), None), r"probability in \[0, 1\]"),
    "infinite": (("logits", 3), (torch.eye(3) / 0, torch.tensor([0, 1, 2]), None), "preds to be a number"),
    "endless": (
        ("logits", 3),
        (torch.tensor([[math.inf, 0.0, 1.0]]), torch.tensor([0]), None),
        "finite where it is largest, got inf",
    ),
    "labels": (("auto", 0), (torch.tensor([0, 1]), torch.tensor([0, 1]), None), "expected preds to be floating-point"),
}


@pytest.mark.parametrize(("declared", "batch", "words"), BAD.values(), ids=BAD)
def test_a_bad_batch_is_refused_and_leaves_no_trace(declared: tuple[str, int], batch: Batch, words: str) -> None:
    inputs, classes = declared
    kind: Any = MulticlassCalibrationError if classes else BinaryCalibrationError
    metric = kind(*[classes] * bool(classes), inputs=inputs)
    good = (torch.eye(classes), torch.arange(classes)) if classes else (torch.tensor([0.2, 0.9]), torch.tensor([0, 1]))
    metric.update(*good)
    before = [part.clone() for part in metric.totals[:2]]
    for update in (metric.update, metric):
        with pytest.raises(InputError, match=words):
            update(*batch[:2])
    assert all(part.equal(kept) for part, kept in zip(metric.totals[:2], before, strict=True))
    assert metric.update_count == 1
    assert metric.compute().dtype == torch.float32


@pytest.mark.parametrize("name", [name for name in BAD if name != "labels"])
def test_a_bad_sample_is_counted_as_such_where_checks_are_deferred(name: str) -> None:
    (inputs, classes), batch, _ = BAD[name]
    counter = CalibrationCounter(task_of(classes, inputs, 15))
    totals = counted(counter, batch, "deferred")
    invalid = counter.ledger(totals).invalid
    assert invalid == {"class": 2, "low": 3, "infinite": 3}.get(name, 1)
    assert counter.by_bin(totals).weights.sum() == len(batch[1]) - invalid
    assert np.isfinite(counter.by_bin(totals).confidences).all()


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_the_value_of_a_batch_is_that_of_a_fresh_metric(norm: Any) -> None:
    metric = MulticlassCalibrationError(CLASSES, 10, norm)
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        batch = torch.randn(30, CLASSES, generator=generator), torch.randint(CLASSES, (30,), generator=generator)
        fresh = MulticlassCalibrationError(CLASSES, 10, norm)
        fresh.update(*batch)
        assert metric(*batch).equal(fresh.compute())


@pytest.mark.parametrize("way", WAYS)
@settings(deadline=None)
@given(kinds=st.lists(st.sampled_from(KINDS), max_size=3))
def test_the_precision_is_the_widest_of_all_batches_and_in_a_checkpoint(way: str, kinds: list[torch.dtype]) -> None:
    binary, classes, loaded = BinaryCalibrationError(), MulticlassCalibrationError(2), BinaryCalibrationError()
    for kind in kinds:
        scores = torch.tensor([0.25, 0.75], dtype=kind)
        with nullcontext() if way == "at_once" else deferred():
            assert binary(scores, torch.tensor([0, 1])).dtype == kind
            assert classes(torch.stack((1 - scores, scores), 1), torch.tensor([0, 1])).dtype == torch.float32
    expected = reduce(torch.promote_types, kinds) if kinds else torch.float32
    binary.persistent(True)
    loaded.load_state_dict(binary.state_dict())
    merged = loaded.clone()
    merged.merge_state(binary)
    for each in (binary, loaded, merged):
        assert each.counter.by_bin(each.totals).precision == expected
    assert binary.update_count == classes.update_count == len(kinds)
    binary.reset()
    assert binary.counter.by_bin(binary.totals).precision == torch.float32


@example(bins=15)
@settings(deadline=None, max_examples=20)
@given(bins=st.integers(1, 200))
def test_no_state_is_wider_than_its_bins_need(bins: int) -> None:
    """Two whole numbers and one real of each bin, whether samples are weighed or not, and a few for the books."""
    for weighted in (False, True):
        layout = BinaryCalibrationError(bins, weighted=weighted).counter.layout
        assert layout.size - 3 * bins <= 10
        assert layout.reals.width == (3 * bins if weighted else bins)


def test_the_state_of_the_former_layout_is_refused() -> None:
    """It was counted by a threshold at 0.5, with losses beside the bins."""
    binning = binning_of((0.5,), sums=True, calibration_bins=15)
    former, metric = Tally(ScoreCounter(Binary("auto", binning=binning))), BinaryCalibrationError()
    former.update(torch.tensor([0.2, 0.9]), torch.tensor([0, 1]))
    former.persistent(True)
    with pytest.raises(RuntimeError, match=r"counted under another declaration: binning=.*'cuts'.* in the checkpoint"):
        metric.load_state_dict(former.state_dict())
    assert not metric.update_called
