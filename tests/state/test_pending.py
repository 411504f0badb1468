"""Small batches are checked and copied by an update and counted later; no one can tell but by the time it takes."""

from __future__ import annotations

import copy
import io
import math
import pickle
import sys
import threading
import tracemalloc
import warnings
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from called import PACKAGE, calls_of
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torchmetrics import MetricCollection
from torchmetrics.wrappers import ClasswiseWrapper, Running
from versions import compiles, since

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.callbacks.exact_distributed.rollback import rolled_back
from lightning_evalkit.counts.pending import FEW, FEW_SCORES, LEAST_BYTES
from lightning_evalkit.errors import InputError
from lightning_evalkit.metrics import (
    BinaryAccuracy,
    BinaryAUROC,
    BinaryAveragePrecision,
    BinaryCalibrationError,
    BinaryF1Score,
    BinaryStatScores,
    MulticlassAccuracy,
    MulticlassAUROC,
    MulticlassCalibrationError,
    MultilabelAUROC,
    MultilabelExactMatch,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from lightning_evalkit.state import Tally

CLASSES, LABELS = 5, 3
KINDS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True)
class Declared:
    """A way to declare a metric, and what its batches look like."""

    build: Callable[[], Any]
    classes: int = 0
    labels: int = 0
    scores: tuple[str, ...] = ("logits", "probabilities")
    targets: tuple[torch.dtype, ...] = (torch.int64, torch.uint8, torch.bool, torch.float32)
    ignored: int | None = None

    def batch(self, size: int, seed: int, scores: str, kind: torch.dtype, target: torch.dtype) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        columns = self.classes or self.labels
        drawn = torch.randn((size, columns) if columns else (size,), generator=generator) * 3
        if self.classes:
            truth = torch.randint(0, self.classes, (size,), generator=generator)
        else:
            truth = torch.randint(0, 2, drawn.shape, generator=generator)
        if self.ignored is not None:
            truth[torch.rand(truth.shape, generator=generator) < 0.3] = self.ignored
        if scores == "labels":
            return (drawn.argmax(1) if self.classes else (drawn > 0).long()), truth.to(target)
        if scores == "probabilities":
            drawn = drawn.softmax(1) if self.classes else drawn.sigmoid()
        return drawn.to(kind), truth.to(target)


WHOLE = (torch.int64, torch.int16)
DECLARED = {
    "logits": Declared(lambda: BinaryEvaluation("logits"), scores=("logits",)),
    "thresholds": Declared(lambda: BinaryEvaluation("probabilities", threshold=[0.2, 0.7]), scores=("probabilities",)),
    "labels": Declared(lambda: BinaryEvaluation("labels"), scores=("labels",)),
    "curves": Declared(lambda: BinaryEvaluation("logits", curves=True, resolution=64), scores=("logits",)),
    "ignoring": Declared(
        lambda: BinaryEvaluation("logits", curves=True, resolution=64, ignore_index=-1),
        scores=("logits",),
        targets=WHOLE,
        ignored=-1,
    ),
    "ignoring_255": Declared(
        lambda: BinaryEvaluation("logits", ignore_index=255), scores=("logits",), targets=(torch.int64,), ignored=255
    ),
    "ignoring_a_class": Declared(lambda: BinaryStatScores(inputs="logits", ignore_index=0), scores=("logits",)),
    "guessed": Declared(BinaryStatScores, scores=("logits", "probabilities", "labels")),
    "guessed_scores": Declared(BinaryAUROC),
    "guessed_and_ignoring": Declared(lambda: BinaryAUROC(ignore_index=-1), targets=WHOLE, ignored=-1),
    "calibration": Declared(BinaryCalibrationError),
    "classes": Declared(
        lambda: MulticlassEvaluation("logits", CLASSES, per_class=True), CLASSES, scores=("logits",), targets=WHOLE
    ),
    "classes_curves": Declared(
        lambda: MulticlassEvaluation("logits", CLASSES, curves=True, resolution=64),
        CLASSES,
        scores=("logits",),
        targets=WHOLE,
    ),
    "classes_ignoring": Declared(
        lambda: MulticlassEvaluation("probabilities", CLASSES, ignore_index=-100),
        CLASSES,
        scores=("probabilities",),
        targets=WHOLE,
        ignored=-100,
    ),
    "classes_guessed": Declared(
        lambda: MulticlassAccuracy(CLASSES), CLASSES, scores=("logits", "probabilities", "labels"), targets=WHOLE
    ),
    "classes_scores": Declared(lambda: MulticlassAUROC(CLASSES, thresholds=16), CLASSES, targets=WHOLE),
    "classes_calibration": Declared(lambda: MulticlassCalibrationError(CLASSES), CLASSES, targets=WHOLE),
    "many_labels": Declared(
        lambda: MultilabelEvaluation("logits", LABELS, curves=True, resolution=64), labels=LABELS, scores=("logits",)
    ),
    "many_labels_ignoring": Declared(
        lambda: MultilabelEvaluation("logits", LABELS, ignore_index=-1),
        labels=LABELS,
        scores=("logits",),
        targets=WHOLE,
        ignored=-1,
    ),
    "many_labels_guessed": Declared(lambda: MultilabelExactMatch(LABELS), labels=LABELS),
    "many_labels_scores": Declared(lambda: MultilabelAUROC(LABELS, thresholds=[0.2, 0.5, 0.9]), labels=LABELS),
}
every_declaration = pytest.mark.parametrize("declared", DECLARED.values(), ids=DECLARED)


def tally_of(metric: Any) -> Tally:
    return getattr(metric, "tally", metric)


def pending(metric: Any) -> int:
    return len(tally_of(metric)._pending or ())


def alone(metric: Any) -> Any:
    """The metric, counting every batch by itself."""
    tally_of(metric).__dict__["_pending"] = None
    return metric


def pickled(metric: Any) -> Any:
    return pickle.loads(pickle.dumps(metric))


def merged(metric: Any) -> Any:
    other = copy.deepcopy(metric)
    other.reset()
    other.merge_state(metric)
    return other


def loaded(metric: Any) -> Any:
    metric.persistent(True)
    file = io.BytesIO()
    torch.save(metric.state_dict(), file)
    file.seek(0)
    other = copy.deepcopy(metric)
    other.reset()
    other.load_state_dict(torch.load(file, weights_only=True))
    return other


def moved(metric: Any) -> Any:
    return metric.to(torch.bfloat16).to("cpu")


def asked(metric: Any) -> Any:
    tally_of(metric).compute()
    return metric


def assert_same_state(found: Any, expected: Any) -> None:
    found, expected = tally_of(found), tally_of(expected)
    assert torch.equal(found.totals.integers, expected.totals.integers)
    assert found.counter.ledger(found.totals) == expected.counter.ledger(expected.totals)
    assert found.update_count == expected.update_count
    if expected.totals.reals is not None:
        # A sigmoid in single precision differs in its last bit with its place in a batch.
        torch.testing.assert_close(found.totals.reals, expected.totals.reals, rtol=1e-6, atol=1e-6)


BETWEEN = {
    "nothing": lambda metric: metric,
    "deepcopy": copy.deepcopy,
    "clone": lambda metric: metric.clone(),
    "pickle": pickled,
    "merge": merged,
    "load": loaded,
    "move": moved,
    "compute": asked,
}
steps = st.tuples(
    st.integers(0, 30),  # samples
    st.integers(0, 2**16),  # seed
    st.integers(0, 11),  # the kinds of scores, of their precision and of targets
    st.sampled_from(["batch", "batch", "batch", "batch", "forward", "bad scores", "bad target", *BETWEEN]),
)


@every_declaration
@given(plan=st.lists(steps, min_size=1, max_size=12))
def test_whatever_happens_the_state_is_that_of_batches_counted_one_by_one(
    declared: Declared, plan: list[tuple[int, int, int, str]]
) -> None:
    metric, model = declared.build(), alone(declared.build())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of undefined values and mixed guesses
        for size, seed, choice, what in plan:
            if what in BETWEEN:
                metric = BETWEEN[what](metric)
                continue
            kinds = (options[choice % len(options)] for options in (declared.scores, KINDS, declared.targets))
            preds, target = declared.batch(size, seed, *kinds)
            if what == "forward" and size:
                metric(preds, target), model(preds, target)
                continue
            if what == "bad scores" and preds.is_floating_point() and size:
                preds[0] = torch.nan
                target[0] = 1
            if what == "bad target" and size and target.dtype != torch.bool:
                target[0] = 77
            outcomes = [_outcome(each, preds, target) for each in (metric, model)]
            assert outcomes[0] == outcomes[1]
    assert_same_state(metric, model)


def _outcome(metric: Any, preds: Tensor, target: Tensor) -> str:
    try:
        metric.update(preds, target)
    except InputError as refused:
        return str(refused)
    return "counted"


@every_declaration
def test_small_batches_become_pending(declared: Declared) -> None:
    metric = declared.build()
    kinds = declared.scores[0], torch.float32, declared.targets[0]
    for seed in range(3):
        metric.update(*declared.batch(20, seed, *kinds))
    guesses_of_used_samples = declared is DECLARED["guessed_and_ignoring"]
    assert pending(metric) == (0 if guesses_of_used_samples else 3)
    assert tally_of(metric).update_count == 3


READERS: dict[str, Callable[[Any], Any]] = {
    "compute": lambda metric: metric.compute(),
    "totals": lambda metric: metric.totals,
    "counts": lambda metric: metric.counts,
    "metric_state": lambda metric: metric.metric_state,
    "names of states": lambda metric: [getattr(metric, name) for name in metric._defaults],
    "state_dict": lambda metric: (metric.persistent(True), metric.state_dict()),
    "global_ledger": lambda metric: metric.global_ledger,
    "pickle": pickle.dumps,
    "deepcopy": copy.deepcopy,
    "merge": merged,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_whatever_reads_the_state_counts_pending_batches(read: Callable[[Any], Any]) -> None:
    metric = BinaryStatScores()
    metric.update(torch.tensor([0.9, 0.2]), torch.tensor([1, 1]))
    assert pending(metric) == 1
    read(metric)
    assert pending(metric) == 0
    (state,) = (vars(metric)[name] for name in metric._defaults)
    assert int(state.sum()) > 0


def test_a_batch_that_changes_after_its_update_was_counted_as_it_was() -> None:
    metric = BinaryStatScores()
    preds, target = torch.tensor([0.9, 0.8, 0.1]), torch.tensor([1, 1, 0])
    metric.update(preds, target)
    preds.fill_(0.0)
    target.fill_(1)
    assert metric.compute().tolist() == [2, 0, 1, 0, 2]


def test_single_labels_without_a_dimension_are_counted() -> None:
    metric = MulticlassAccuracy(3, average="micro")
    for predicted in (0, 1, 2):
        metric.update(torch.tensor(predicted), torch.tensor(1))
    metric.update(torch.tensor([1, 1, 1]), torch.tensor([1, 1, 1]))
    assert float(metric.compute()) == pytest.approx(4 / 6)


def test_a_reset_forgets_pending_batches() -> None:
    metric = BinaryStatScores()
    metric.update(torch.tensor([0.9]), torch.tensor([1]))
    metric.reset()
    assert not metric.update_called
    metric.update(torch.tensor([0.1]), torch.tensor([0]))
    assert metric.compute().tolist() == [0, 0, 1, 0, 0]


def test_loaded_totals_replace_pending_batches() -> None:
    first, second = BinaryStatScores(), BinaryStatScores()
    first.update(torch.tensor([0.9]), torch.tensor([1]))
    second.update(torch.tensor([0.1, 0.2]), torch.tensor([0, 0]))
    second.load_totals(first.totals)
    assert second.compute().tolist() == [1, 0, 0, 0, 1]


def test_two_copies_do_not_share_pending_batches() -> None:
    metric = BinaryStatScores()
    metric.update(torch.tensor([0.9]), torch.tensor([1]))
    other = copy.copy(metric)
    metric.update(torch.tensor([0.1]), torch.tensor([0]))
    other.update(torch.tensor([0.8]), torch.tensor([0]))
    assert metric.compute().tolist() == [1, 0, 1, 0, 1]
    assert other.compute().tolist() == [1, 1, 0, 0, 1]


@pytest.mark.parametrize("build", [BinaryAccuracy, BinaryAUROC], ids=["counts", "scores"])
def test_pending_batches_take_no_more_memory_than_the_state(build: Callable[[], Any]) -> None:
    metric = build()
    most = max(LEAST_BYTES, 8 * metric.counter.layout.size)
    preds, target = torch.rand(2_000).double(), torch.randint(0, 2, (2_000,))
    held = []
    for _ in range(200):
        metric.update(preds, target)
        held.append(
            sum(part.nbytes for part in [each for pair in metric._pending._batches.values() for each in pair[:2]])
        )
    assert most / 2 < max(held) <= most
    assert metric.update_count == 200
    assert metric.counter.ledger(metric.totals).invalid == 0
    alone_metric = alone(build())
    for _ in range(200):
        alone_metric.update(preds, target)
    assert_same_state(metric, alone_metric)


def test_batches_of_one_sample_take_no_more_memory_either() -> None:
    metric = BinaryAccuracy()
    preds, target = torch.tensor([0.9]), torch.tensor([1])
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(5_000):
            metric.update(preds, target)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most - before < 2 * LEAST_BYTES
    assert metric.update_count == 5_000


@pytest.mark.parametrize(("build", "few"), [(BinaryAccuracy, FEW), (BinaryAUROC, FEW_SCORES)], ids=["counts", "scores"])
def test_large_batches_are_counted_at_once(build: Callable[[], Any], few: int) -> None:
    metric = build()
    metric.update(torch.rand(few), torch.ones(few))
    assert pending(metric) == 1
    metric.update(torch.rand(few + 1), torch.ones(few + 1))
    assert pending(metric) == 0
    assert metric.update_count == 2


def test_a_thread_that_reads_meanwhile_counts_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = BinaryAccuracy()
    metric.update(torch.tensor([0.9, 0.2]), torch.tensor([1, 1]))
    count, readers = metric.counter.count_arranged, []

    def slowly(*batch: Any) -> Any:
        if not readers:
            readers.append(threading.Thread(target=metric.compute))
            readers[0].start()
            readers[0].join(0.2)
        return count(*batch)

    monkeypatch.setattr(metric.counter, "count_arranged", slowly)
    assert metric.counter.ledger(metric.totals).updates == 1
    readers[0].join()
    assert metric.update_count == 1


def disturbed(work: Callable[[], Any], at: int, disturb: Callable[[], None]) -> bool:
    """Do work, with a disturbance before the instruction of this number in the package; whether it has so many."""
    seen = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal seen
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen += 1
            if seen == at:
                sys.settrace(None)
                disturb()
        return trace

    sys.settrace(trace)
    with suppress(KeyboardInterrupt):
        try:
            work()
        finally:
            sys.settrace(None)
    return seen >= at


def press_control_c(_: Any) -> None:
    raise KeyboardInterrupt


def read(metric: Any) -> None:
    """As the handler of a signal does that saves a checkpoint; what it reads is whole."""
    assert metric.counter.ledger(metric.totals).updates == metric.update_count


@pytest.mark.parametrize("disturb", [press_control_c, read])
@pytest.mark.parametrize("build", [BinaryStatScores, lambda: BinaryCalibrationError(4)], ids=["counts", "sums"])
def test_wherever_counting_is_disturbed_every_batch_counts_once(
    build: Callable[[], Any], disturb: Callable[[Any], None]
) -> None:
    """Ten samples in one batch, and one in another, of another kind."""
    first, second = (torch.rand(10), torch.ones(10)), (torch.tensor([0.5]).half(), torch.tensor([1]))
    expected = alone(build())
    for each in (first, first, second):
        expected.update(*each)
    for at in count(1):
        metric = build()
        metric.update(*first)
        metric.update(*first)
        went_on = disturbed(lambda metric=metric: metric.update(*second), at, lambda metric=metric: disturb(metric))
        if metric.update_count == 2:  # interrupted before it was added
            metric.update(*second)
        assert_same_state(metric, expected)
        if not went_on:
            break
    for at in count(1):
        metric = build()
        metric.update(*first)
        metric.update(*first)
        went_on = disturbed(lambda metric=metric: metric.totals, at, lambda metric=metric: disturb(metric))
        metric.update(*second)
        assert_same_state(metric, expected)
        if not went_on:
            break
    assert at > 100


def test_a_reset_by_a_handler_is_one() -> None:
    metric = BinaryStatScores()
    for at in count(1):
        metric.reset()
        metric.update(torch.rand(3), torch.ones(3))
        went_on = disturbed(lambda: metric.totals, at, metric.reset)
        assert metric.update_count == (0 if went_on else 1)
        if not went_on:
            break
    assert at > 100


def test_what_an_update_let_pass_can_be_counted_however_numpy_is_set() -> None:
    evaluation = BinaryEvaluation("logits", curves=True)
    with np.errstate(all="raise"):
        evaluation.update(torch.tensor([-95.0, 3.0]), torch.tensor([0, 1]))  # exp(-95) is below single precision
        assert evaluation.compute()["log_loss"] == pytest.approx(math.log1p(math.exp(-3)) / 2)


def test_a_copy_of_the_attributes_has_the_pending_batches() -> None:
    metric = BinaryStatScores()
    metric.update(torch.tensor([0.9, 0.2]), torch.tensor([1, 1]))
    other = copy.copy(metric)
    other.__dict__.update(copy.deepcopy(metric.__dict__))
    metric.reset()
    assert other.compute().tolist() == [1, 0, 0, 1, 2]


def test_many_small_batches_are_counted_in_one_go() -> None:
    metric = BinaryEvaluation("logits", curves=True)
    for _ in range(100):
        metric.update(torch.randn(256), torch.randint(0, 2, (256,)))
    called = calls_of(metric.tally.count_pending)
    assert called.count("scores_at_once.py:_at_once") == 1
    assert metric.tally.update_count == 100


# ---- states that others see


@since("torchmetrics", "1.7", "in earlier ones the states of a group are shared only when the collection is asked")
def test_metrics_of_a_stock_collection_see_every_batch_when_asked_one_by_one() -> None:
    auroc, precision = BinaryAUROC(), BinaryAveragePrecision()
    together = MetricCollection({"auroc": auroc, "precision": precision})
    expected = BinaryAveragePrecision()
    for seed in range(4):
        batch = DECLARED["guessed_scores"].batch(30, seed, "probabilities", torch.float32, torch.int64)
        together.update(*batch)
        expected.update(*batch)
        assert precision.compute() == expected.compute()  # not asked through the collection
    assert together.compute()["precision"] == expected.compute()


def test_a_batch_of_one_member_is_not_counted_for_its_group() -> None:
    values = []
    for counted in (alone, lambda metric: metric):
        together = MetricCollection({"accuracy": counted(BinaryAccuracy()), "f1": counted(BinaryF1Score())})
        for seed in range(4):
            batch = DECLARED["guessed"].batch(9, seed, "probabilities", torch.float32, torch.int64)
            (together["f1"] if seed == 2 else together).update(*batch)
        values.append(together.compute())
    assert values[0] == values[1]


def test_a_state_that_something_else_holds_counts_at_once() -> None:
    metric = BinaryStatScores()
    (held,) = (getattr(metric, name) for name in metric._defaults)
    metric.update(torch.tensor([0.9, 0.2]), torch.tensor([1, 1]))
    assert pending(metric) == 0
    assert int(held.sum()) > 0
    del held
    metric.update(torch.tensor([0.9, 0.2]), torch.tensor([1, 1]))
    assert pending(metric) == 1


def test_sums_of_reals_that_something_else_holds_count_at_once() -> None:
    metric = MultilabelExactMatch(LABELS)
    _, held = (getattr(metric, name) for name in metric._defaults)
    metric.update(torch.ones(2, LABELS), torch.ones(2, LABELS).long())
    assert float(held.sum()) > 0


@pytest.mark.parametrize("made", [lambda metric: metric, copy.deepcopy, pickled], ids=["new", "deepcopy", "pickle"])
def test_a_classwise_wrapper_reads_the_state_without_asking(made: Callable[[Any], Any]) -> None:
    wrapper = made(ClasswiseWrapper(MulticlassAccuracy(CLASSES, average=None)))
    wrapper.update(torch.tensor([0, 1]), torch.tensor([0, 2]))
    assert [int(getattr(wrapper, name).sum()) > 0 for name in wrapper._defaults] == [True]


def test_a_batch_that_is_rolled_back_is_not_counted_later() -> None:
    metric = BinaryStatScores()
    metric.update(torch.tensor([0.9]), torch.tensor([1]))
    with rolled_back(metric):
        metric.update(torch.tensor([0.1]), torch.tensor([0]))
    metric.update(torch.tensor([0.2]), torch.tensor([1]))
    assert metric.compute().tolist() == [1, 0, 0, 1, 2]


def test_a_running_window_has_the_batches_of_its_window() -> None:
    running = Running(BinaryF1Score(), window=2)
    for preds, target in (([0.9, 0.9], [0, 0]), ([0.9, 0.1], [1, 1]), ([0.8, 0.2], [1, 0])):
        running.update(torch.tensor(preds), torch.tensor(target))
    assert float(running.compute()) == pytest.approx(2 * 2 / (2 * 2 + 1))


@compiles
@pytest.mark.usefixtures("_no_graph_of_another_test")
def test_eager_and_compiled_updates_add_up() -> None:
    metric, expected = BinaryEvaluation("logits"), alone(BinaryEvaluation("logits"))

    @torch.compile(fullgraph=True, backend="eager")
    def compiled(preds: Tensor, target: Tensor) -> None:
        metric.update(preds, target)

    for seed in range(6):
        batch = DECLARED["logits"].batch(16, seed, "logits", torch.float32, torch.int64)
        (compiled if seed % 2 else metric.update)(*batch)
        expected.update(*batch)
        assert seed or pending(metric) == 1  # later the compiler may hold the names of states
    assert_same_state(metric, expected)
