"""State keeps what was counted: through casts, copies, checkpoints, merges, failures and inference mode.

Expected counts are made sample by sample in plain Python or NumPy, never by the code under test.
"""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import TYPE_CHECKING

import pytest
import torch
from states import (
    CASTS,
    COPIES,
    ONE_OF_EACH,
    VARIANTS,
    Around,
    Metric,
    Variant,
    counted,
    filled,
    saved_and_loaded,
    snapshot,
    tally_of,
    values,
)
from torch import Tensor

from lightning_evalkit import BinaryEvaluation
from lightning_evalkit.errors import InputError
from lightning_evalkit.metrics import BinaryAccuracy, BinaryStatScores

if TYPE_CHECKING:
    from collections.abc import Callable


EVALUATIONS = [name for name in VARIANTS if name.startswith("evaluation")]
SUMMED = [name for name in VARIANTS if not name.startswith("samplewise")]

every_variant = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
every_evaluation = pytest.mark.parametrize("variant", [VARIANTS[name] for name in EVALUATIONS], ids=EVALUATIONS)
every_sum = pytest.mark.parametrize("variant", [VARIANTS[name] for name in SUMMED], ids=SUMMED)


def state_tensors(metric: Metric) -> list[Tensor]:
    states = tally_of(metric).metric_state.values()
    return [tensor for state in states for tensor in (state if isinstance(state, list) else [state])]


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
