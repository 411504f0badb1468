"""State keeps what was counted: through casts, copies, checkpoints, merges, failures and inference mode.

Expected counts are made sample by sample in plain Python or NumPy, never by the code under test.
"""

from __future__ import annotations

import copy
import io
import itertools
import math
import pickle
import warnings
from dataclasses import dataclass, field
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from torch import Tensor, nn

from lightning_evalkit import BinaryEvaluation
from lightning_evalkit.counts import Counts
from lightning_evalkit.errors import DeclarationError, InputError, UndefinedWarning
from lightning_evalkit.metrics import BinaryAccuracy, BinaryF1Score, BinaryRecall, BinaryStatScores

if TYPE_CHECKING:
    from collections.abc import Callable

    from lightning_evalkit.state import Tally

Metric = Any
"""A single metric or an evaluation: both have update, forward, compute, reset, clone and merge_state."""


@dataclass(frozen=True)
class Variant:
    """One way to declare a metric, and what its batches need."""

    build: Callable[[], Metric]
    thresholds: tuple[float, ...] = (0.5,)
    shape: tuple[int, ...] = (40,)
    logits: bool = False
    weighted: bool = False
    samplewise: bool = False

    def batch(self, seed: int) -> tuple[Tensor, ...]:
        """Scores and targets, and whole-number weights where declared: their sums have no rounding."""
        generator = torch.Generator().manual_seed(seed)
        scores = torch.rand(self.shape, generator=generator)
        target = torch.randint(0, 2, self.shape, generator=generator)
        weight = torch.randint(0, 5, self.shape[:1], generator=generator).double()
        scores = torch.logit(scores) if self.logits else scores
        return (scores, target, weight) if self.weighted else (scores, target)

    def expected(self, *batches: tuple[Tensor, ...]) -> list[list[list[float]]]:
        """(tp, fp, fn, tn) of every group and threshold; a group is a sample, or all of them."""
        rows = [row for batch in batches for row in self._rows(*batch)]
        groups = rows if self.samplewise else [list(itertools.chain(*rows))]
        return [[self._cells(group, threshold) for threshold in self.thresholds] for group in groups]

    def _rows(self, scores: Tensor, target: Tensor, weight: Tensor | None = None) -> list[list[tuple[float, ...]]]:
        """The elements of every sample, each as score, target and weight."""
        weights = [1] * len(scores) if weight is None else weight.tolist()
        scores, target = (tensor.reshape(len(tensor), -1).tolist() for tensor in (scores, target))
        return [
            [(*pair, w) for pair in zip(s, t, strict=True)] for s, t, w in zip(scores, target, weights, strict=True)
        ]

    def _cells(self, samples: list[tuple[float, ...]], threshold: float) -> list[float]:
        cells = [0.0] * 4
        for score, target, weight in samples:
            positive = (1 / (1 + math.exp(-score)) if self.logits else score) > threshold
            cells[{(True, 1): 0, (True, 0): 1, (False, 1): 2, (False, 0): 3}[positive, int(target)]] += weight
        return cells


CUTS = (0.25, 0.5, 0.9)
VARIANTS = {
    "guessed": Variant(BinaryAccuracy),
    "declared": Variant(lambda: BinaryF1Score(inputs="logits"), logits=True),
    "ignoring": Variant(lambda: BinaryRecall(inputs="probabilities", ignore_index=-1)),
    "weighted": Variant(lambda: BinaryStatScores(inputs="probabilities", weighted=True), weighted=True),
    "samplewise": Variant(
        lambda: BinaryStatScores(multidim_average="samplewise", inputs="probabilities"), shape=(5, 7), samplewise=True
    ),
    "samplewise_weighted": Variant(
        lambda: BinaryStatScores(multidim_average="samplewise", inputs="probabilities", weighted=True),
        shape=(5, 7),
        samplewise=True,
        weighted=True,
    ),
    "evaluation": Variant(lambda: BinaryEvaluation("logits", prefix="val/"), logits=True),
    "evaluation_cuts": Variant(lambda: BinaryEvaluation("probabilities", threshold=CUTS), thresholds=CUTS),
    "evaluation_weighted": Variant(lambda: BinaryEvaluation("probabilities", weighted=True), weighted=True),
}
EVALUATIONS = [name for name in VARIANTS if name.startswith("evaluation")]
SUMMED = [name for name in VARIANTS if not name.startswith("samplewise")]

every_variant = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
every_evaluation = pytest.mark.parametrize("variant", [VARIANTS[name] for name in EVALUATIONS], ids=EVALUATIONS)
every_sum = pytest.mark.parametrize("variant", [VARIANTS[name] for name in SUMMED], ids=SUMMED)


def tally_of(metric: Metric) -> Tally:
    return getattr(metric, "tally", metric)


def state_tensors(metric: Metric) -> list[Tensor]:
    states = tally_of(metric).metric_state.values()
    return [tensor for state in states for tensor in (state if isinstance(state, list) else [state])]


def counted(metric: Metric) -> list[list[list[float]]]:
    """The counts in the state as nested lists like ``Variant.expected``, read past every cache."""
    tally = tally_of(metric)
    cells = torch.stack(tally.counter.counts(tally.totals).cells, -1)
    return (cells if cells.ndim == 3 else cells[None]).tolist()


def snapshot(metric: Metric) -> dict[str, Any]:
    """Everything of a metric that an update may change."""
    tally = tally_of(metric)
    entries = [entry for _, entry in metric.items()] if isinstance(metric, BinaryEvaluation) else []
    return {
        "totals": [None if total is None else total.tolist() for total in tally.totals],
        "updates": tally.update_count,
        "cache": id(tally._computed),
        "forward": [id(each._forward_cache) for each in (tally, *entries)],
    }


def values(computed: Any) -> Any:
    """A result as plain numbers."""
    return (
        {name: value.tolist() for name, value in computed.items()} if isinstance(computed, dict) else computed.tolist()
    )


def filled(variant: Variant, *seeds: int) -> Metric:
    metric = variant.build()
    for seed in seeds:
        metric.update(*variant.batch(seed))
    return metric


def saved_and_loaded(state_dict: dict[str, Any]) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(state_dict, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


# ---- counting


@every_variant
def test_updates_add_up(variant: Variant) -> None:
    metric = filled(variant, 1, 2)
    assert counted(metric) == variant.expected(variant.batch(1), variant.batch(2))


@every_variant
def test_compute_is_repeatable_and_follows_updates(variant: Variant) -> None:
    metric = filled(variant, 1)
    first = values(metric.compute())
    assert values(metric.compute()) == first
    metric.update(*variant.batch(2))
    assert values(metric.compute()) == values(filled(variant, 1, 2).compute()) != first


@every_variant
def test_reset_forgets_everything(variant: Variant) -> None:
    metric = filled(variant, 1)
    metric.compute()
    metric.reset()
    assert not tally_of(metric).update_called
    metric.update(*variant.batch(2))
    assert counted(metric) == variant.expected(variant.batch(2))
    assert values(metric.compute()) == values(filled(variant, 2).compute())


@every_variant
def test_forward_gives_the_batch_and_accumulates(variant: Variant) -> None:
    metric = filled(variant, 1)
    alone = values(filled(variant, 2).compute())
    assert values(metric(*variant.batch(2))) == alone
    assert counted(metric) == variant.expected(variant.batch(1), variant.batch(2))
    assert values(metric.compute()) == values(filled(variant, 1, 2).compute()) != alone


@every_variant
def test_updates_are_counted(variant: Variant) -> None:
    metric = filled(variant, 1, 2, 3)
    metric(*variant.batch(4))
    assert tally_of(metric).update_count == 4


# ---- casts


CASTS: dict[str, Callable[[Any], Any]] = {
    "half": lambda module: module.half(),
    "bfloat16": lambda module: module.bfloat16(),
    "double": lambda module: module.double(),
    "float": lambda module: module.float(),
    "to_bfloat16": lambda module: module.to(torch.bfloat16),
    "to_float16": lambda module: module.to(torch.float16),
    "to_device_and_dtype": lambda module: module.to("cpu", torch.float16),
    "set_dtype": lambda module: module.set_dtype(torch.float16),
}


class Around(nn.Module):
    def __init__(self, metric: Metric) -> None:
        super().__init__()
        self.layer, self.metric = nn.Linear(2, 1), metric


PLACES = [
    (cast, place) for cast in CASTS for place in ("alone", "in_module") if (cast, place) != ("set_dtype", "in_module")
]


@every_variant
@pytest.mark.parametrize(("cast", "place"), PLACES)
def test_casts_do_not_touch_the_state(variant: Variant, cast: str, place: str) -> None:
    metric = filled(variant, 1)
    before = [(tensor.dtype, tensor.tolist()) for tensor in state_tensors(metric)]
    CASTS[cast](Around(metric) if place == "in_module" else metric)
    assert [(tensor.dtype, tensor.tolist()) for tensor in state_tensors(metric)] == before
    assert {tensor.dtype for tensor in state_tensors(metric)} <= {torch.int64, torch.float64}
    metric.update(*variant.batch(2))
    assert counted(metric) == variant.expected(variant.batch(1), variant.batch(2))
    metric.reset()
    metric.update(*variant.batch(3))
    assert {tensor.dtype for tensor in state_tensors(metric)} <= {torch.int64, torch.float64}


@every_variant
def test_a_low_default_precision_does_not_round_counts(variant: Variant) -> None:
    """``precision="bf16-true"`` of Lightning sets it while a model is built and run."""
    batch = variant.batch(1)
    torch.set_default_dtype(torch.bfloat16)
    try:
        metric = variant.build()
        metric.update(*batch)
    finally:
        torch.set_default_dtype(torch.float32)
    assert counted(metric) == variant.expected(batch)


@pytest.mark.parametrize("default", [torch.float32, torch.bfloat16], ids=str)
def test_whole_number_weights_are_not_rounded(default: torch.dtype) -> None:
    weight = torch.tensor([2**24 + 1, 257, 1, 0])
    metric = BinaryStatScores(weighted=True, inputs="labels")
    torch.set_default_dtype(default)
    try:
        metric.update(torch.tensor([1, 1, 0, 0]), torch.tensor([1, 0, 1, 0]), weight)
    finally:
        torch.set_default_dtype(torch.float32)
    assert metric.compute().tolist() == [2**24 + 1, 257, 0, 1, 2**24 + 2]


# ---- large numbers

ONE_OF_EACH = (torch.tensor([0.9, 0.8, 0.2, 0.1]), torch.tensor([1, 0, 1, 0]))
"""A true positive, a false positive, a false negative and a true negative."""


@pytest.mark.parametrize("doublings", [31, 53, 58])
@pytest.mark.parametrize("build", [BinaryStatScores, lambda: BinaryEvaluation("probabilities")], ids=["metric", "eval"])
def test_one_more_is_exact_beyond(build: Callable[[], Metric], doublings: int) -> None:
    metric = build()
    metric.update(*ONE_OF_EACH)
    for _ in range(doublings):
        metric.merge_state(metric.clone())
    for count in (1, 2):
        metric.update(*ONE_OF_EACH)
        assert counted(metric) == [[[2**doublings + count] * 4]]
    metric(*ONE_OF_EACH)
    assert [cell.item() for cell in metric.counts.cells] == [2**doublings + 3] * 4


def test_weighted_counts_are_exact_beyond_float32() -> None:
    metric = BinaryEvaluation("probabilities", weighted=True)
    for weight in (2.0**31, 1.0, 2.0**40, 1.0):
        metric.update(*ONE_OF_EACH, torch.full((4,), weight))
    assert counted(metric) == [[[2**31 + 2**40 + 2] * 4]]


def test_metric_state_merges_as_a_state() -> None:
    source = BinaryStatScores(inputs="probabilities")
    source.update(*ONE_OF_EACH)
    scaled = {name: state * (2**53 + 1) for name, state in source.metric_state.items()}
    target = BinaryStatScores(inputs="probabilities")
    target.merge_state(scaled)
    target.update(*ONE_OF_EACH)
    assert target.compute().tolist() == [2**53 + 2] * 4 + [2**54 + 4]


# ---- copies

COPIES: dict[str, Callable[[Metric], Metric]] = {
    "pickle": lambda metric: pickle.loads(pickle.dumps(metric)),
    "deepcopy": copy.deepcopy,
    "clone": lambda metric: metric.clone(),
    "in_module": lambda metric: copy.deepcopy(Around(metric)).metric,
    "to_another_process": lambda metric: pickle.loads(ForkingPickler.dumps(metric)),
}
"""The last is how torch.multiprocessing and ddp_spawn hand a model over; tensors then share memory unless copied."""


@every_variant
@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
def test_a_copy_has_the_counts_and_a_state_of_its_own(variant: Variant, make: Callable[[Metric], Metric]) -> None:
    metric = filled(variant, 1)
    metric.compute()
    metric(*variant.batch(2))
    duplicate = make(metric)
    assert counted(duplicate) == counted(metric)
    duplicate.update(*variant.batch(3))
    metric.reset()
    metric.update(*variant.batch(4))
    assert counted(metric) == variant.expected(variant.batch(4))
    assert counted(duplicate) == variant.expected(*map(variant.batch, (1, 2, 3)))
    assert values(duplicate.compute()) == values(filled(variant, 1, 2, 3).compute())


@every_evaluation
@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
def test_entries_of_a_copy_share_the_tally_of_the_copy(variant: Variant, make: Callable[[Metric], Metric]) -> None:
    evaluation = filled(variant, 1)
    duplicate = make(evaluation)
    assert {id(entry.tally) for _, entry in duplicate.items()} == {id(duplicate.tally)} != {id(evaluation.tally)}
    duplicate.update(*variant.batch(2))
    computed = {name: entry.compute().tolist() for name, entry in duplicate.items()}
    assert computed == values(filled(variant, 1, 2).compute())


def test_clone_takes_another_prefix() -> None:
    evaluation = filled(VARIANTS["evaluation"], 1)
    test = evaluation.clone(prefix="test/", postfix="_all")
    assert list(test.keys()) == [f"test/{name}_all" for name in evaluation.keys(keep_base=True)]
    assert list(test.compute().values()) == list(evaluation.compute().values())
    assert all(name.startswith("val/") for name in evaluation.compute())
    assert test["test/f1_all"] is test["f1"]


# ---- checkpoints


@every_variant
def test_state_dict_is_empty_by_default(variant: Variant) -> None:
    assert not filled(variant, 1).state_dict()
    assert set(Around(filled(variant, 1)).state_dict()) == {"layer.weight", "layer.bias"}


@every_variant
def test_persistent_state_has_stable_keys_and_is_saved_once(variant: Variant) -> None:
    metric = filled(variant, 1)
    metric.persistent(True)
    names = {"integers", "declaration"} | ({"reals"} if variant.weighted else set())
    assert set(metric.state_dict()) == names
    assert {key for key in Around(metric).state_dict() if "metric" in key} == {f"metric.{name}" for name in names}
    metric.persistent(False)
    assert not metric.state_dict()


@every_variant
@pytest.mark.parametrize("inside_a_module", [False, True], ids=["alone", "in_module"])
def test_persistent_state_round_trip(variant: Variant, inside_a_module: bool) -> None:
    metric, other = filled(variant, 1), filled(variant, 5)
    other.compute()
    metric.persistent(True)
    saved, into = (Around(metric), Around(other)) if inside_a_module else (metric, other)
    into.load_state_dict(saved_and_loaded(saved.state_dict()), strict=True)
    assert counted(other) == variant.expected(variant.batch(1))
    other.update(*variant.batch(2))
    assert values(other.compute()) == values(filled(variant, 1, 2).compute())
    assert counted(metric) == variant.expected(variant.batch(1))


@every_variant
def test_a_saved_state_does_not_follow_later_updates(variant: Variant) -> None:
    metric, other = filled(variant, 1), variant.build()
    metric.persistent(True)
    saved = metric.state_dict()
    metric.update(*variant.batch(2))
    other.load_state_dict(saved)
    assert counted(other) == variant.expected(variant.batch(1))


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (lambda: BinaryEvaluation("probabilities"), "inputs='logits' in the checkpoint, 'probabilities' here"),
        (lambda: BinaryEvaluation("logits", threshold=0.9), r"thresholds=\[0.5\] in the checkpoint, \[0.9\] here"),
        (lambda: BinaryEvaluation("logits", ignore_index=-1), "ignore_index=None in the checkpoint, -1 here"),
        (lambda: BinaryEvaluation("logits", weighted=True), "weighted=False in the checkpoint, True here"),
    ],
    ids=["inputs", "threshold", "ignore_index", "weighted"],
)
def test_a_checkpoint_of_another_declaration_is_refused(other: Callable[[], Metric], named: str) -> None:
    source, target = filled(VARIANTS["evaluation"], 1), other()
    source.persistent(True)
    before = snapshot(target)
    for saved, into in ((source, target), (Around(source), Around(target))):
        with pytest.raises(RuntimeError, match=named):
            into.load_state_dict(saved_and_loaded(saved.state_dict()))
    assert snapshot(target) == before


# ---- merging


@every_variant
def test_merging_in_any_order_gives_the_same(variant: Variant) -> None:
    expected = sorted(variant.expected(*map(variant.batch, (1, 2, 3))))
    for order in itertools.permutations((1, 2, 3)):
        parts = [filled(variant, seed) for seed in order]
        left = variant.build()
        for part in parts:
            left.merge_state(part)
        parts[1].merge_state(parts[2])
        parts[0].merge_state(parts[1])
        assert sorted(counted(left)) == sorted(counted(parts[0])) == expected
        assert tally_of(left).update_count == tally_of(filled(variant, 1, 2, 3)).update_count


@every_variant
def test_merging_clears_what_was_computed_and_leaves_the_other(variant: Variant) -> None:
    metric, other = filled(variant, 1), filled(variant, 2)
    metric.compute()
    metric.merge_state(other)
    assert values(metric.compute()) == values(filled(variant, 1, 2).compute())
    metric.update(*variant.batch(3))
    assert counted(other) == variant.expected(variant.batch(2))


def test_the_empty_state_is_neutral() -> None:
    for variant in VARIANTS.values():
        metric = filled(variant, 1)
        metric.merge_state(variant.build())
        assert counted(metric) == variant.expected(variant.batch(1))


def test_evaluations_of_one_declaration_merge_whatever_they_report() -> None:
    evaluation = BinaryEvaluation("probabilities", statistics=["f1"])
    other = BinaryEvaluation("probabilities", statistics=["recall", "mcc"], prefix="other/")
    other.update(*ONE_OF_EACH)
    evaluation.merge_state(other)
    assert evaluation.compute() == {"f1": torch.tensor(0.5)}


@pytest.mark.parametrize(
    ("metric", "other", "named"),
    [
        (BinaryAccuracy(), BinaryAccuracy(threshold=0.3), r"thresholds=\(0.5,\).*thresholds=\(0.3,\)"),
        (BinaryAccuracy(), BinaryAccuracy(inputs="logits"), "inputs='auto'.*inputs='logits'"),
        (BinaryEvaluation("logits"), BinaryEvaluation("labels"), "inputs='logits'.*inputs='labels'"),
        (BinaryEvaluation("logits"), BinaryEvaluation("logits", weighted=True), "weighted=False.*weighted=True"),
    ],
    ids=["threshold", "inputs", "evaluation_inputs", "evaluation_weighted"],
)
def test_merging_another_declaration_is_refused(metric: Metric, other: Metric, named: str) -> None:
    before = snapshot(metric)
    with pytest.raises(InputError, match=named):
        metric.merge_state(other)
    assert snapshot(metric) == before


def test_merging_a_foreign_state_is_refused() -> None:
    with pytest.raises(InputError, match="metric_state of one with this declaration, got dict"):
        BinaryAccuracy().merge_state(BinaryAccuracy(threshold=0.3).metric_state)


# ---- failures


@every_variant
@pytest.mark.parametrize("after", ["nothing", "update", "compute", "forward"])
@pytest.mark.parametrize("call", ["update", "forward"])
def test_a_failed_batch_leaves_everything_as_it_was(variant: Variant, call: str, after: str) -> None:
    metric = variant.build() if after == "nothing" else filled(variant, 1)
    if after in ("compute", "forward"):
        metric.compute() if after == "compute" else metric(*variant.batch(2))
    before = snapshot(metric)
    scores, target, *weight = variant.batch(3)
    wrong_value, wrong_shape = (scores, target + 1, *weight), (scores, target[1:], *weight)
    for wrong in (wrong_value, wrong_shape):
        with pytest.raises(InputError, match="expected"):
            getattr(metric, call)(*wrong)
    assert snapshot(metric) == before
    metric.update(*variant.batch(4))
    seeds = {"nothing": (4,), "update": (1, 4), "compute": (1, 4), "forward": (1, 2, 4)}[after]
    assert counted(metric) == variant.expected(*map(variant.batch, seeds))
    assert values(metric.compute()) == values(filled(variant, *seeds).compute())


# ---- inference mode

ACTIONS: dict[str, Callable[[Metric, Variant], Metric]] = {
    "reset": lambda metric, _: metric.reset() or metric,
    "clone": lambda metric, _: metric.clone(),
    "deepcopy": lambda metric, _: copy.deepcopy(metric),
    "pickle": lambda metric, _: pickle.loads(pickle.dumps(metric)),
    "update": lambda metric, variant: metric.update(*variant.batch(2)) or metric,
    "forward": lambda metric, variant: (metric(*variant.batch(2)), metric)[1],
    "compute": lambda metric, _: (metric.compute(), metric)[1],
    "merge": lambda metric, variant: metric.merge_state(filled(variant, 2)) or metric,
    "load": lambda metric, variant: _loaded(metric, filled(variant, 2)),
    "cast": lambda metric, _: metric.to(torch.bfloat16),
}
COUNTED_AFTER = {"reset": (), "update": (1, 2), "forward": (1, 2), "merge": (1, 2), "load": (2,)}


def _loaded(metric: Metric, other: Metric) -> Metric:
    other.persistent(True)
    metric.load_state_dict(other.state_dict())
    return metric


@every_variant
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("inside", [True, False], ids=["used_outside", "used_inside"])
def test_inference_mode_may_begin_and_end_anywhere(variant: Variant, action: str, inside: bool) -> None:
    metric = filled(variant, 1)
    with torch.inference_mode(inside):
        metric = ACTIONS[action](metric, variant)
    seeds = COUNTED_AFTER.get(action, (1,))
    with torch.inference_mode(not inside):
        for following in ("update", "forward", "clone", "compute"):
            metric = ACTIONS[following](metric, variant)
    assert counted(metric) == variant.expected(*map(variant.batch, (*seeds, 2, 2)))


@every_sum
@pytest.mark.parametrize("action", ["construct", *ACTIONS])
def test_no_state_is_born_in_inference_mode(variant: Variant, action: str) -> None:
    """Such a tensor could not be changed outside of it by an operator of torch, on a device or in a compiled step."""
    with torch.inference_mode():
        metric = filled(variant, 1)
        metric = metric if action == "construct" else ACTIONS[action](metric, variant)
    assert not any(tensor.is_inference() for tensor in state_tensors(metric))


@every_variant
def test_a_metric_built_in_inference_mode_works_outside(variant: Variant) -> None:
    with torch.inference_mode():
        metric = filled(variant, 1)
    metric.update(*variant.batch(2))
    metric.compute()
    metric.reset()
    metric(*variant.batch(3))
    assert counted(metric) == variant.expected(variant.batch(3))


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
    evaluation.tally.compute().integers.zero_()
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


# ---- any interleaving

LEVELS = (0.0, 0.1, 0.3, 0.6, 0.8, 1.0)
samples = st.lists(
    st.tuples(st.sampled_from(LEVELS), st.sampled_from((-1, 0, 1)), st.integers(0, 3)), min_size=0, max_size=6
)
batches = samples.map(lambda rows: np.array(rows, dtype=np.float64).reshape(-1, 3))


@dataclass
class Model:
    """What a metric should hold, as a NumPy array per threshold."""

    thresholds: tuple[float, ...]
    weighted: bool
    cells: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.cells = np.zeros((len(self.thresholds), 4))

    def of(self, rows: np.ndarray) -> np.ndarray:
        score, target, weight = rows[rows[:, 1] >= 0].T
        weight = weight if self.weighted else np.ones_like(weight)
        cells = [
            [weight[(score > cut) == yes][target[(score > cut) == yes] == truth].sum() for yes, truth in ORDER]
            for cut in self.thresholds
        ]
        return np.array(cells)


ORDER = ((True, 1), (True, 0), (False, 1), (False, 0))


class Interleavings(RuleBasedStateMachine):
    """Whatever happens between two readings, the counts are those of the model."""

    weighted = False
    thresholds: tuple[float, ...] = (0.2, 0.7)

    @initialize()
    def build(self) -> None:
        self.metric = self.fresh()
        self.model = Model(self.thresholds, self.weighted)

    def fresh(self) -> Metric:
        return BinaryEvaluation(
            "probabilities", threshold=self.thresholds, weighted=self.weighted, ignore_index=-1, zero_division=0.0
        )

    def tensors(self, rows: np.ndarray) -> tuple[Tensor, ...]:
        scores, target, weight = (torch.from_numpy(column.copy()) for column in rows.T)
        return (scores.float(), target.long(), weight) if self.weighted else (scores.float(), target.long())

    @rule(rows=batches)
    def update(self, rows: np.ndarray) -> None:
        self.metric.update(*self.tensors(rows))
        self.model.cells += self.model.of(rows)

    @rule(rows=batches)
    def forward(self, rows: np.ndarray) -> None:
        given = self.metric(*self.tensors(rows))
        self.model.cells += self.model.of(rows)
        assert values(given) == self.accuracies(self.model.of(rows), given)

    def accuracies(self, cells: np.ndarray, given: dict[str, Tensor]) -> dict[str, float]:
        """The accuracies by NumPy, the other values as given."""
        expected = values(given)
        for cut, (tp, fp, fn, tn) in zip(self.thresholds, cells, strict=True):
            total = tp + fp + fn + tn
            expected[f"accuracy@{cut:g}"] = float(np.float32((tp + tn) / total)) if total else 0.0
        return expected

    @rule()
    def compute(self) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The ``compute`` method", UserWarning)
            given = self.metric.compute()
            counts = torch.stack(self.metric.counts.cells, -1)
        assert values(given) == self.accuracies(self.model.cells, given)
        assert counts.tolist() == self.model.cells.tolist()

    @rule()
    def reset(self) -> None:
        self.metric.reset()
        self.model.cells[:] = 0

    @rule(how=st.sampled_from(sorted(COPIES)))
    def go_on_with_a_copy(self, how: str) -> None:
        self.metric = COPIES[how](self.metric)

    @rule(how=st.sampled_from(sorted(CASTS)))
    def cast(self, how: str) -> None:
        CASTS[how](self.metric)

    @rule()
    def merge_with_a_clone(self) -> None:
        self.metric.merge_state(self.metric.clone())
        self.model.cells *= 2

    @rule()
    def go_on_from_a_checkpoint(self) -> None:
        self.metric.persistent(True)
        loaded = self.fresh()
        loaded.load_state_dict(saved_and_loaded(self.metric.state_dict()))
        self.metric = loaded

    @rule(call=st.sampled_from(["update", "forward"]), rows=batches)
    def fail(self, call: str, rows: np.ndarray) -> None:
        bad = np.concatenate((rows, [[math.nan, 1, 1]]))
        with pytest.raises(InputError, match="expected every preds to be a"):
            getattr(self.metric, call)(*self.tensors(bad))

    @invariant()
    def state_is_that_of_the_model(self) -> None:
        if hasattr(self, "metric"):
            assert counted(self.metric) == [self.model.cells.tolist()]


class WeightedInterleavings(Interleavings):
    weighted = True


class SingleInterleavings(Interleavings):
    thresholds = (0.5,)

    def fresh(self) -> Metric:
        return BinaryStatScores(inputs="probabilities", ignore_index=-1)

    def accuracies(self, cells: np.ndarray, given: Tensor) -> list[float]:
        tp, fp, fn, tn = cells[0].tolist()
        return [tp, fp, tn, fn, tp + fn]


few = settings(max_examples=20, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck))
for machine in (Interleavings, WeightedInterleavings, SingleInterleavings):
    machine.TestCase.settings = few
TestInterleavings = Interleavings.TestCase
TestWeightedInterleavings = WeightedInterleavings.TestCase
TestSingleInterleavings = SingleInterleavings.TestCase


def test_a_copy_that_inference_mode_made_of_a_synced_metric_counts_on() -> None:
    metric = BinaryEvaluation("labels", dist_sync_fn=lambda wire, _: [wire, wire])
    metric.update(torch.tensor([1, 0]), torch.tensor([1, 1]))
    metric.tally.sync(distributed_available=lambda: True)
    assert metric.tally.totals.integers[0] == 2
    with torch.inference_mode():
        duplicate = copy.deepcopy(metric)
    duplicate.tally.unsync()
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):  # adds through torch, not NumPy
        duplicate.update(torch.tensor([1, 0]), torch.tensor([1, 1]))
    assert duplicate.counts == Counts(tp=2, fp=0, fn=2, tn=0)
