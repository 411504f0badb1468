"""An update on an accelerator waits for nothing, in few operators, and loses nothing: shown without a GPU.

Tensors that only claim to be on "cuda:0" raise wherever a value would be read; a dispatch mode records every operator.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import torch
from device import DEVICE, Operators, deferred, pretend_on_device, synchronisation_is_an_error, tally_of
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from lightning_evalkit import BinaryEvaluation
from lightning_evalkit.counts import BinaryCounter, Counts
from lightning_evalkit.errors import InputError
from lightning_evalkit.inputs import Binary
from lightning_evalkit.metrics import BinaryAccuracy, BinaryF1Score, BinaryStatScores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lightning_evalkit.counts import Ledger, Totals


@pytest.fixture
def fake() -> Iterator[None]:
    with FakeTensorMode():
        yield


def pretended_batch(*, labels: bool, weighted: bool, shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    kind = torch.int64 if labels else torch.float32
    preds, target = torch.zeros(shape, dtype=kind, device=DEVICE), torch.zeros(shape, dtype=torch.int64, device=DEVICE)
    return (preds, target, torch.ones(shape[:1], device=DEVICE)) if weighted else (preds, target)


def evaluation(inputs: str, **options: Any) -> Callable[[], BinaryEvaluation]:
    return lambda: BinaryEvaluation(inputs, **options)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Case:
    """A declaration and the number of operators that one update was measured to need."""

    build: Callable[[], Any]
    most: int
    labels: bool = False
    weighted: bool = False
    shape: tuple[int, ...] = (16,)

    def batch(self) -> tuple[Tensor, ...]:
        return pretended_batch(labels=self.labels, weighted=self.weighted, shape=self.shape)


CUTS = (0.1, 0.5, 0.9)
PLAIN = {
    "logits": Case(evaluation("logits"), 13),
    "probabilities": Case(evaluation("probabilities"), 14),
    "labels": Case(evaluation("labels"), 14, labels=True),
    "logits_ignoring": Case(evaluation("logits", ignore_index=-1), 14),
    "logits_ignoring_zero": Case(evaluation("logits", ignore_index=0), 14),
    "logits_ignoring_one": Case(evaluation("logits", ignore_index=1), 14),
    "probabilities_ignoring": Case(evaluation("probabilities", ignore_index=-1), 15),
    "probabilities_ignoring_one": Case(evaluation("probabilities", ignore_index=1), 15),
    "labels_ignoring": Case(evaluation("labels", ignore_index=-1), 15, labels=True),
    "labels_ignoring_zero": Case(evaluation("labels", ignore_index=0), 15, labels=True),
    "logits_metric": Case(lambda: BinaryF1Score(inputs="logits"), 13),
}
OTHER = {
    "logits_three_cuts": Case(evaluation("logits", threshold=CUTS), 19),
    "probabilities_three_cuts": Case(evaluation("probabilities", threshold=CUTS), 20),
    "logits_images": Case(evaluation("logits"), 15, shape=(4, 2, 3)),
    "logits_weighted": Case(evaluation("logits", weighted=True), 26, weighted=True),
    "probabilities_weighted_ignoring": Case(
        evaluation("probabilities", weighted=True, ignore_index=-1), 28, weighted=True
    ),
    "logits_weighted_images": Case(evaluation("logits", weighted=True), 30, weighted=True, shape=(4, 2, 3)),
    "guessed": Case(BinaryAccuracy, 21),
    "guessed_integers": Case(BinaryAccuracy, 15, labels=True),
    "guessed_ignoring": Case(lambda: BinaryAccuracy(ignore_index=-1), 22),
    "guessed_samplewise": Case(lambda: BinaryStatScores(multidim_average="samplewise"), 22, shape=(4, 3)),
    "logits_samplewise": Case(
        lambda: BinaryStatScores(multidim_average="samplewise", inputs="logits"), 13, shape=(4, 3)
    ),
    "weighted_samplewise": Case(
        lambda: BinaryStatScores(multidim_average="samplewise", inputs="logits", weighted=True),
        26,
        weighted=True,
        shape=(4, 3),
    ),
}
CASES = PLAIN | OTHER

# ---- no waiting, few operators


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_update_reads_nothing_back(case: Case) -> None:
    metric = case.build()
    with FakeTensorMode():
        pretend_on_device(metric)
        batch = case.batch()
        with Operators() as operators:
            metric.update(*batch)
            metric.update(*batch)
    assert operators.names
    assert operators.waiting == []


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_update_is_few_operators(case: Case) -> None:
    metric = case.build()
    with FakeTensorMode():
        pretend_on_device(metric)
        batch = case.batch()
        with Operators() as operators:
            metric.update(*batch)
    assert len(operators.names) <= case.most, Counter(operators.names)


def test_declared_inputs_are_at_most_fifteen_operators() -> None:
    assert max(case.most for case in PLAIN.values()) <= 15


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("truth", [torch.bool, torch.uint8, torch.float32], ids=str)
@pytest.mark.parametrize("samples", [0, 5])
def test_every_type_of_tensor_stays_on_the_device(kind: torch.dtype, truth: torch.dtype, samples: int) -> None:
    metric = BinaryEvaluation("logits", ignore_index=-1)
    with FakeTensorMode():
        pretend_on_device(metric)
        preds = torch.zeros(samples, dtype=kind, device=DEVICE, requires_grad=True)
        target = torch.zeros(samples, dtype=truth, device=DEVICE)
        with Operators() as operators:
            metric.update(preds, target)
        state = metric.tally.totals.integers
    assert operators.waiting == []
    assert not state.requires_grad
    assert state.dtype == torch.int64


def test_tensors_elsewhere_are_refused_before_anything_is_counted() -> None:
    metric = BinaryEvaluation("logits")
    with FakeTensorMode():
        pretend_on_device(metric)
        with pytest.raises(
            InputError, match=r"expected tensors on cuda:0, where the metric is, got cpu: call .to\('cpu'"
        ):
            metric.update(torch.zeros(3), torch.zeros(3))
        with pytest.raises(InputError, match="on one device, got cuda:0 and cpu"):
            metric.update(torch.zeros(3, device=DEVICE), torch.zeros(3))


# ---- the proof can fail

WAITS: dict[str, Callable[[Tensor], Any]] = {
    "to_the_host": lambda x: x.cpu(),
    "from_the_host": lambda x: torch.tensor([1.0, 2.0], device=DEVICE),
    "moved_from_the_host": lambda x: torch.zeros(2).to(DEVICE),
    "number_to_the_host": lambda x: x.sum().cpu(),
    "masked_write": lambda x: x.index_put_((x > 0,), torch.zeros((), device=DEVICE)),
    "histogram": lambda x: torch.histc(x),
    "item": lambda x: x.sum().item(),
    "truth": lambda x: bool((x > 0).any()),
    "nonzero": lambda x: x.nonzero(),
    "unique": lambda x: x.unique(),
    "bincount": lambda x: torch.bincount(x.long()),
    "masked_read": lambda x: x.masked_select(x > 0),
    "list": lambda x: x.tolist(),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_waiting_is_noticed(wait: Callable[[Tensor], Any], fake: None) -> None:
    """Either the fake tensor refuses (with one of torch's own exceptions) or the operator is recorded."""
    x = torch.zeros(4, device=DEVICE)
    refused = False
    with Operators() as operators:
        try:
            wait(x)
        except Exception:
            refused = True
    assert refused or operators.waiting


# ---- the same path on the CPU


GOOD = (torch.tensor([0.9, 0.8, 0.2, 0.1, 0.7]), torch.tensor([1, 0, 1, 0, -1]))
BAD = (torch.tensor([0.9, math.nan, 1.5, -0.1, 0.3, math.nan]), torch.tensor([7, 1, 0, 0, 1, -1]))
"""Four of six are invalid: a target, a NaN and two probabilities; the last is ignored whatever its score."""


@pytest.fixture(params=["evaluation", "cuts", "metric", "weighted"])
def counting(request: pytest.FixtureRequest) -> Any:
    return {
        "evaluation": lambda: BinaryEvaluation("probabilities", ignore_index=-1),
        "cuts": lambda: BinaryEvaluation("probabilities", ignore_index=-1, threshold=[0.5, 0.6]),
        "metric": lambda: BinaryStatScores(inputs="probabilities", ignore_index=-1),
        "weighted": lambda: BinaryEvaluation("probabilities", ignore_index=-1, weighted=True),
    }[request.param]()


def fed(metric: Any, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
    return (*batch, torch.full((len(batch[0]),), 2.0)) if tally_of(metric).counter.task.weighted else batch


def read(metric: Any) -> list[float]:
    """The counts at the first threshold, per unit of weight."""
    unit = 2 if tally_of(metric).counter.task.weighted else 1
    return [cell.flatten()[0].item() / unit for cell in metric.counts.cells]


def test_good_samples_count_and_bad_ones_are_reported(counting: Any) -> None:
    counting.update(*fed(counting, GOOD))
    with deferred():
        counting.update(*fed(counting, BAD))
    for _ in range(2):
        with pytest.raises(InputError, match=r"^4 samples counted by \w+ were not what was declared.*reset\(\)"):
            counting.compute()
    assert read(counting) == [1, 1, 2, 1]
    assert tally_of(counting).update_count == 2


def test_bad_samples_are_reported_until_reset(counting: Any) -> None:
    with deferred():
        counting.update(*fed(counting, BAD))
    counting.update(*fed(counting, GOOD))
    duplicate = counting.clone()
    for metric in (counting, duplicate):
        with pytest.raises(InputError, match="4 samples"):
            metric.compute()
    counting.merge_state(duplicate)
    with pytest.raises(InputError, match="8 samples"):
        counting.compute()
    counting.reset()
    counting.update(*fed(counting, GOOD))
    counting.compute()
    assert read(counting) == [1, 1, 1, 1]


def test_bad_samples_are_reported_by_every_entry() -> None:
    metric = BinaryEvaluation("probabilities", ignore_index=-1)
    with deferred():
        metric.update(*BAD)
    for _, entry in metric.items():
        with pytest.raises(InputError, match="4 samples"):
            entry.compute()


def test_forward_gives_the_good_samples_of_a_bad_batch(counting: Any) -> None:
    with deferred():
        counting(*fed(counting, BAD))
    with pytest.raises(InputError, match="4 samples"):
        counting.compute()
    assert read(counting) == [0, 0, 1, 0]


def test_on_the_cpu_the_same_batch_is_refused(counting: Any) -> None:
    with pytest.raises(InputError, match="expected every target to be 0 or 1 or ignore_index=-1, got 7 at position 0"):
        counting.update(*fed(counting, BAD))


# ---- both ways of counting are the definition, sample by sample

SCORES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
LABELS = (torch.bool, torch.uint8, torch.int8, torch.int64, torch.float32)
TARGETS = (torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64, torch.float32, torch.float64)


@dataclass(frozen=True)
class Read:
    """What one batch holds, by the definition."""

    cells: list[list[float]]
    ignored: int
    invalid: int
    logits: bool


def defined(task: Binary, preds: Tensor, target: Tensor, weight: Tensor | None = None) -> Read:
    """Count by a loop over samples. Scores are compared exactly, but for that which a threshold is written for.

    Guessed ones are cut as torchmetrics does: after a sigmoid, in their own precision.
    """
    reading = task.score_kind(preds)
    scores, truths = preds.tolist(), target.tolist()
    weights = [1] * len(scores) if weight is None else weight.tolist()
    if reading == "auto":
        there = [score for score, unit in zip(scores, weights, strict=True) if unit != 0]
        reading = "probabilities" if all(0 <= score <= 1 for score in there) else "logits"
        allowed = (-math.inf, math.inf)
    else:
        allowed = (-math.inf, math.inf) if reading == "logits" else (0, 1)
    kind = preds.dtype if preds.is_floating_point() else torch.float64
    if task.inputs == "auto":
        compared = preds.sigmoid() if reading == "logits" else preds
        decided = [(compared > threshold).tolist() for threshold in task.thresholds]
    else:
        cuts = task.cuts("logits") if reading == "logits" else [meant(cut, kind) for cut in task.thresholds]
        decided = [[score > cut for score in scores] for cut in cuts]
    cells, ignored, invalid = [[0.0] * 4 for _ in task.thresholds], 0, 0
    for place, (score, truth, unit) in enumerate(zip(scores, truths, weights, strict=True)):
        if unit == 0:
            continue  # as if it were not there
        if truth == task.ignore_index:
            ignored += 1
        elif (
            truth not in (0, 1)
            or not allowed[0] <= score <= allowed[1]
            or (reading == "labels" and score not in (0, 1))
            or not 0 <= unit < math.inf
        ):
            invalid += 1
        else:
            for row, above in zip(cells, decided, strict=True):
                positive = score == 1 if reading == "labels" else above[place]
                row[(0 if positive else 2) + (positive != bool(truth) if positive else not truth)] += unit
    return Read(cells, ignored, invalid, reading == "logits")


def meant(threshold: float, kind: torch.dtype) -> float:
    """The score that is nearest to a threshold, if the threshold is its shortest text, else the threshold."""

    def nearest(number: float) -> float:
        return torch.tensor(number, dtype=torch.float64).to(kind).item()

    own = nearest(threshold)
    texts = (float(f"{own:.{digits}g}") for digits in range(1, 18))
    return own if next(text for text in texts if nearest(text) == own) == threshold else threshold


def found(counter: BinaryCounter, totals: Totals) -> Read:
    counts, ledger = counter.counts(totals), counter.ledger(totals)
    return Read(_rows(counts), ledger.ignored, ledger.invalid, _logits(counter, ledger))


def _rows(counts: Counts) -> list[list[float]]:
    return torch.stack(counts.cells, -1).double().tolist()


def _logits(counter: BinaryCounter, ledger: Ledger) -> bool:
    return counter.task.inputs == "logits" or (counter.task.inputs == "auto" and ledger.guessed_logits > 0)


def scores_near(thresholds: tuple[float, ...], kind: torch.dtype, inputs: str) -> list[float]:
    """Valid scores: at and beside every cut, and at the ends of what is allowed."""
    if inputs == "labels" or not kind.is_floating_point:
        return [0.0, 1.0]
    task = Binary("logits", thresholds=thresholds)
    cuts = torch.tensor([*task.thresholds, *task.cuts("logits")], dtype=torch.float64)
    step = torch.finfo(kind).eps
    rounded = cuts.to(kind).double()
    beside = torch.cat((cuts, rounded, rounded * (1 + step), rounded * (1 - step))).tolist()
    scores = [score for score in beside if math.isfinite(score)] + [0.0, 1.0, 0.300000005]
    return [score for score in scores if inputs != "probabilities" or 0 <= score <= 1]


def wrong_scores(kind: torch.dtype) -> list[float]:
    if kind.is_floating_point:
        return [math.nan, math.inf, -math.inf, -0.5, 1.5]
    return [] if kind == torch.bool else [2]


def holds(kind: torch.dtype, number: int) -> bool:
    if kind == torch.bool:
        return number in (0, 1)
    return kind.is_floating_point or torch.iinfo(kind).min <= number <= torch.iinfo(kind).max


def tensor_of(values: st.SearchStrategy[float], size: int, kind: torch.dtype) -> st.SearchStrategy[Tensor]:
    lists = st.lists(values, min_size=size, max_size=size)
    return lists.map(lambda numbers: torch.tensor(numbers, dtype=torch.float64).to(kind))


@st.composite
def batches(draw: st.DrawFn, *, valid: bool = False, **options: Any) -> tuple[Binary, Tensor, Tensor]:
    """A declaration with a batch of some types, with or without values that contradict it."""
    inputs = draw(st.sampled_from(["logits", "probabilities", "labels", "auto"]))
    cuts = st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.9, 1.0]), min_size=1, max_size=3, unique=True)
    task = Binary(inputs, draw(st.sampled_from([None, -1, 0, 1, 255])), thresholds=tuple(draw(cuts)), **options)
    kind = draw(st.sampled_from({"labels": LABELS, "auto": (*SCORES, torch.int64)}.get(inputs, SCORES)))
    truth = draw(st.sampled_from(TARGETS))
    valid = valid or draw(st.booleans())
    scores = scores_near(task.thresholds, kind, inputs) + ([] if valid else wrong_scores(kind))
    ignored = [] if task.ignore_index is None else [task.ignore_index]
    targets = [number for number in [0, 1, *ignored, *([] if valid else [2, -1, 255])] if holds(truth, number)]
    size = draw(st.integers(0, 6))
    return (
        task,
        draw(tensor_of(st.sampled_from(scores), size, kind)),
        draw(tensor_of(st.sampled_from(targets), size, truth)),
    )


AROUND_HALF = (torch.tensor([0.3], dtype=torch.float16), torch.ones(1))


@given(batches())
@example((Binary("auto", thresholds=(0.3,)), *AROUND_HALF))
@example((Binary("labels", -1), torch.tensor([1]), torch.tensor([255], dtype=torch.uint8)))
def test_deferred_counting_is_the_definition(batch: tuple[Binary, Tensor, Tensor]) -> None:
    task, preds, target = batch
    counter = BinaryCounter(task)
    with deferred():
        totals = counter.count(preds, target).tensors()
    assert found(counter, totals) == defined(task, preds, target)


@given(batches())
@example((Binary("auto", thresholds=(0.3,)), *AROUND_HALF))
@example((Binary("labels", -1), torch.tensor([1]), torch.tensor([255], dtype=torch.uint8)))
def test_counting_at_once_is_the_definition(batch: tuple[Binary, Tensor, Tensor]) -> None:
    task, preds, target = batch
    counter, expected = BinaryCounter(task), defined(task, preds, target)
    if expected.invalid:
        with pytest.raises(InputError, match=r"expected every (target|preds) to be"):
            counter.count(preds, target)
    else:
        assert found(counter, counter.count(preds, target).tensors()) == expected


WEIGHTS = (0, 1, 2, 2.5, 1000)


@given(batches(weighted=True), st.data())
def test_weighted_counting_is_the_definition(batch: tuple[Binary, Tensor, Tensor], data: st.DataObject) -> None:
    task, preds, target = batch
    kind = data.draw(st.sampled_from([torch.float16, torch.float32, torch.float64, torch.int64]))
    wrong = data.draw(st.sampled_from([[], [-1, math.nan, math.inf] if kind.is_floating_point else [-1]]))
    weight = data.draw(tensor_of(st.sampled_from([*WEIGHTS, *wrong]), len(preds), kind))
    counter, expected = BinaryCounter(task), defined(task, preds, target, weight)
    with deferred():
        assert found(counter, counter.count(preds, target, weight).tensors()) == expected
    if expected.invalid:
        with pytest.raises(InputError, match=r"expected every (target|preds|sample_weight) to be"):
            counter.count(preds, target, weight)


@given(batches(samplewise=True), st.integers(1, 3))
def test_samplewise_counting_is_the_definition_of_every_row(batch: tuple[Binary, Tensor, Tensor], rows: int) -> None:
    task, preds, target = batch
    preds, target = (torch.stack([tensor.roll(k) for k in range(rows)]) for tensor in (preds, target))
    counter = BinaryCounter(task)
    with deferred():
        totals = counter.count(preds, target).tensors()
    cells = torch.stack(counter.counts(totals).cells, -1).double().tolist()
    expected = [defined(task, *row) for row in zip(preds, target, strict=True)]
    assert cells == [each.cells for each in expected]
    assert counter.ledger(totals).invalid == sum(each.invalid for each in expected)
    assert counter.ledger(totals).ignored == sum(each.ignored for each in expected)


@pytest.mark.parametrize("inputs", ["auto", "logits", "probabilities"])
@pytest.mark.parametrize("way", ["at_once", "deferred"])
def test_a_low_default_precision_moves_no_cut(inputs: str, way: str) -> None:
    """In bfloat16 a threshold of 0.3 would be 0.30078."""
    task = Binary(inputs, thresholds=(0.3,))  # type: ignore[arg-type]
    counter = BinaryCounter(task)
    scores = torch.tensor([0.2995, 0.3005, 0.6])
    preds, target = torch.logit(scores) if inputs == "logits" else scores, torch.ones(3)
    torch.set_default_dtype(torch.bfloat16)
    try:
        totals = counter._deferred(preds, target, None) if way == "deferred" else counter.count(preds, target).tensors()
    finally:
        torch.set_default_dtype(torch.float32)
    assert found(counter, totals).cells == [[2, 0, 1, 0]]


# ---- on a real device


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_update_on_a_device_does_not_synchronise(case: Case) -> None:
    metric, reference = case.build().to(DEVICE), case.build()
    labels = torch.randint(0, 2, case.shape)
    preds = torch.randint(0, 2, case.shape) if case.labels else torch.rand(case.shape)
    batch = (preds, labels, torch.rand(case.shape[:1])) if case.weighted else (preds, labels)
    on_device = [tensor.to(DEVICE) for tensor in batch]
    metric.update(*on_device)
    with synchronisation_is_an_error():
        metric.update(*on_device)
        metric(*on_device)
    for _ in range(3):
        reference.update(*batch)
    for on_gpu, on_cpu in zip(tally_of(metric).totals, tally_of(reference).totals, strict=True):
        assert (on_gpu is None and on_cpu is None) or torch.allclose(on_gpu.cpu(), on_cpu)


@pytest.mark.gpu
def test_bad_samples_on_a_device_are_reported_at_compute() -> None:
    metric = BinaryEvaluation("probabilities", ignore_index=-1).to(DEVICE)
    on_device = [tensor.to(DEVICE) for tensor in BAD]
    with synchronisation_is_an_error():
        metric.update(*on_device)
    with pytest.raises(InputError, match="4 samples"):
        metric.compute()
    assert read(metric) == [0, 0, 1, 0]


@pytest.mark.gpu
def test_a_state_follows_the_module_to_a_device_and_back() -> None:
    metric = BinaryEvaluation("probabilities", ignore_index=-1, weighted=True)
    metric.update(*GOOD, torch.ones(5))
    module = torch.nn.ModuleList([metric]).to(DEVICE, torch.bfloat16)
    metric.update(*(tensor.to(DEVICE) for tensor in (*GOOD, torch.ones(5))))
    module.cpu()
    assert [cell.item() for cell in metric.counts.cells] == [2, 2, 2, 2]
