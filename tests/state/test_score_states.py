"""The state of scores: on an accelerator, compiled, over ranks, in copies."""

from __future__ import annotations

import copy
import os
import pickle
from typing import Any

import numpy as np
import pytest
import ranks
import torch
from device import DEVICE, OrderedOperators, pretend_on_device, tally_of
from score_batches import (
    EVALUATIONS,
    METRICS,
    NAN,
    VARIANTS,
    Variant,
    _assert_same_results,
    assert_same_counts,
    binary,
    classes,
    every_summed,
    every_variant,
    labels,
    metric,
    plain,
    without_doubt,
)
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from versions import compiles

from lightning_evalkit import BinaryEvaluation
from lightning_evalkit.errors import InputError
from lightning_evalkit.inputs import Binary, binning_of
from lightning_evalkit.metrics import (
    MulticlassAUROC,
)

# ---- on an accelerator


PRETENDED = VARIANTS | {
    "images": Variant(classes("logits"), "classes_logits", {"ignore_index": 0}),
    "default_bins": Variant(binary("probabilities"), "binary", {"weighted": True}),
    "default_bins_of_labels": Variant(labels("logits"), "labels_logits"),
    "given_classes": Variant(metric(MulticlassAUROC, 4), "classes_logits", {"thresholds": [0.2, 0.4]}),
    "classes_bfloat16": Variant(metric(MulticlassAUROC, 4), "classes_logits", {"thresholds": "bfloat16"}),
}


@pytest.mark.skipif(
    torch.version.cuda is not None and not torch.cuda.is_available(), reason="a build for CUDA asks for its driver"
)
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


CALIBRATION = ("calibration", "calibration_classes", "calibration_weighted", "calibration_declared")
COMPILED = ("binary_logits", "binary_weighted", "classes_ignoring", "labels", "given", *CALIBRATION)


@compiles
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


@compiles
def test_compiled_bad_scores_are_found_out() -> None:
    torch._dynamo.reset()
    evaluation = BinaryEvaluation("probabilities", curves=True, resolution=8)
    step = torch.compile(lambda *batch: evaluation.update(*batch), fullgraph=True, backend="eager")
    step(torch.tensor([0.2, NAN, 1.5, 0.8]), torch.tensor([0, 1, 1, 1]))
    with pytest.raises(InputError, match=r"^2 samples counted"):
        evaluation.compute()


# ---- ranks


JOINED = {name: EVALUATIONS[name] for name in ("binary_logits", "binary_weighted", "classes_ignoring", "labels")}
JOINED |= {name: METRICS[name] for name in CALIBRATION}
GATHERED = {name: METRICS[name] for name in ("exact", "exact_classes", "exact_labels")}
LAYOUTS = ("uneven", "empty_last", "empty_first")


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
        counting.compute() if "Calibration" in counting.title else counting.bounds()
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
