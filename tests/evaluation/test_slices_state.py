"""The state of slices: on devices, in checkpoints, over ranks."""

from __future__ import annotations

import copy
import io
import os
import pickle
import tracemalloc
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import ranks
import torch
from device import Operators, pretend_on_device
from sliced import CASES, GROUPS, Case, cells, deferred, every_case, filled, same, state
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torchmetrics import MetricCollection
from versions import compiles

from lightning_evalkit import BinaryEvaluation, Slices
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable


# ---- on a device


@every_case
def test_an_update_reads_nothing_back(case: Case) -> None:
    slices = case.build()
    with FakeTensorMode():
        pretend_on_device(slices)
        batch = [torch.zeros(each.shape, dtype=each.dtype, device="cuda:0") for each in case.batch(6)]
        with Operators() as operators:
            slices.update(*batch)
            slices.update(*batch)
    assert operators.names
    assert operators.waiting == []


def test_a_binary_update_is_few_operators() -> None:
    slices = CASES["binary"].build()
    with FakeTensorMode():
        pretend_on_device(slices)
        batch = [torch.zeros(each.shape, dtype=each.dtype, device="cuda:0") for each in CASES["binary"].batch(6)]
        with Operators() as operators:
            slices.update(*batch)
    assert len(operators.names) <= 35, Counter(operators.names)


def test_groups_elsewhere_are_refused() -> None:
    slices = CASES["binary"].build()
    with FakeTensorMode():
        pretend_on_device(slices)
        scores, target = torch.zeros(3, device="cuda:0"), torch.zeros(3, device="cuda:0")
        with pytest.raises(InputError, match="expected groups on the device of target, got cpu and cuda:0"):
            slices.update(scores, target, torch.zeros(3, dtype=torch.int64))
        with pytest.raises(InputError, match=r"expected tensors on cuda:0, where the metric is, got cpu"):
            slices.update(torch.zeros(3), torch.zeros(3), torch.zeros(3, dtype=torch.int64))


@pytest.mark.parametrize("name", ["binary", "binary_weighted", "classes", "classes_matrix", "labels"])
def test_wrong_groups_on_a_device_are_reported_at_compute(name: str) -> None:
    case = CASES[name]
    good, (preds, target, _, *weight) = case.batch(7, 1), case.batch(3)
    weight = [each + 1 for each in weight]  # what weighs nothing is not wrong
    slices, reference = filled(case, good), filled(case, good)
    with deferred():
        slices.update(preds, target, torch.tensor([-1, 3, 4]), *weight)
    reference.update(*(each[1:2] for each in (preds, target, torch.tensor([-1, 3, 4]), *weight)))
    invalid = 6 if name == "labels" else 2  # labels are samples of three elements
    for _ in range(2):
        with pytest.raises(InputError, match=rf"^{invalid} samples counted by Slices were not .* in 4 groups\)"):
            slices.compute()
    assert cells(slices.counts) == cells(reference.counts)
    assert slices.sizes.tolist() == reference.sizes.tolist()
    assert same(slices.totals.reals.tolist() if weight or name == "labels" else [], _reals(reference))
    slices.reset()
    slices.update(*good)
    slices.compute()


def _reals(slices: Slices) -> list[float]:
    return [] if slices.totals.reals is None else slices.totals.reals.tolist()


def test_an_update_allocates_nothing_of_the_size_of_the_state() -> None:
    """100,000 groups: 3.2 MB of state, of which 256 samples touch 256 numbers."""
    case = CASES["binary"]
    slices, batch = case.build(groups=100_000), case.batch(256, groups=100_000)
    slices.update(*batch)
    tracemalloc.start()
    try:
        slices.update(*batch)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 50_000


@pytest.mark.parametrize("name", ["binary", "binary_weighted", "classes", "labels"])
def test_deferred_updates_make_no_tensor_of_the_size_of_the_state(name: str) -> None:
    class Largest(Operators):
        size = 0

        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = super().__torch_dispatch__(operator, types, args, kwargs)
            if isinstance(result, Tensor) and not operator._schema.name.endswith("_"):
                self.size = max(self.size, result.numel())
            return result

    slices = CASES[name].build(groups=10_000)
    batch = CASES[name].batch(8, groups=10_000)
    with deferred(), Largest() as operators:
        slices.update(*batch)
    assert 8 <= operators.size <= 100


@compiles
@pytest.mark.slow
def test_equal_batches_are_one_graph() -> None:
    from torch._dynamo.testing import CompileCounter

    torch._dynamo.reset()
    case, graphs = CASES["binary_weighted"], CompileCounter()
    slices, eager = case.build(), case.build()
    step = torch.compile(lambda *batch: slices.update(*batch), fullgraph=True, backend=graphs)
    for seed in range(6):
        step(*case.batch(16, seed))
        eager.update(*case.batch(16, seed))
    assert graphs.frame_count == 1
    step(*case.batch(7))
    eager.update(*case.batch(7))
    assert graphs.frame_count == 2
    assert state(slices) == state(eager)


# ---- a state like any other


COPIES: dict[str, Callable[[Slices], Slices]] = {
    "pickle": lambda slices: pickle.loads(pickle.dumps(slices)),
    "deepcopy": copy.deepcopy,
    "clone": lambda slices: slices.clone(),
    "checkpoint": lambda slices: loaded(slices),
}


def loaded(slices: Slices) -> Slices:
    slices.persistent(True)
    file = io.BytesIO()
    torch.save(slices.state_dict(), file)
    file.seek(0)
    fresh = CASES["classes_matrix"].build()
    fresh.load_state_dict(torch.load(file, weights_only=True))
    return fresh


@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
def test_copies_go_on_by_themselves(make: Callable[[Slices], Slices]) -> None:
    case = CASES["classes_matrix"]
    batches = [case.batch(9, seed) for seed in range(3)]
    slices = filled(case, batches[0])
    slices.compute()
    duplicate = make(slices.half())
    duplicate.update(*batches[1])
    slices.update(*batches[2])
    assert state(duplicate) == state(filled(case, *batches[:2]))
    assert state(slices) == state(filled(case, batches[0], batches[2]))
    slices.merge_state(duplicate)
    assert state(slices) == state(filled(case, batches[0], *batches))


def test_forward_gives_the_batch_and_keeps_all() -> None:
    case = CASES["labels"]
    one, two = case.batch(9, 1), case.batch(9, 2)
    slices = filled(case, one)
    given_back = slices(*two)
    alone = filled(case, two).compute()
    assert all(same(value.tolist(), alone[name].tolist()) for name, value in given_back.items())
    assert state(slices)[0] == state(filled(case, one, two))[0]
    assert state(slices)[1] == pytest.approx(state(filled(case, one, two))[1])


def test_other_declarations_do_not_mix() -> None:
    slices = filled(CASES["binary"], CASES["binary"].batch(9))
    other = CASES["binary"].build(groups=GROUPS + 1)
    with pytest.raises(InputError, match=r"expected a state of Binary\(.*\) in 4 groups, got one of .* in 5 groups"):
        slices.merge_state(other)
    slices.persistent(True)
    with pytest.raises(RuntimeError, match="num_groups=4 in the checkpoint, 5 here"):
        other.load_state_dict(slices.state_dict())


def test_the_template_is_not_changed() -> None:
    evaluation = BinaryEvaluation("probabilities")
    slices = Slices(evaluation, GROUPS)
    slices.update(*CASES["binary"].batch(9))
    assert evaluation.tally.update_count == 0
    evaluation.update(*CASES["binary"].batch(4)[:2])
    assert slices.update_count == 1
    assert slices.sizes.sum().item() == 9


def test_a_stock_collection_holds_slices() -> None:
    collection = MetricCollection({"one": CASES["binary"].build(), "two": CASES["binary_cuts"].build()})
    batch = CASES["binary"].batch(30)
    collection.update(*batch)
    alone = filled(CASES["binary"], batch).compute()
    assert same(collection.compute()["accuracy"].tolist(), alone["accuracy"].tolist())


# ---- ranks


JOINED = ("binary", "binary_weighted", "classes_hits", "labels")
LAYOUTS = ("uneven", "empty_last")


class Joined:
    """What one rank computes, and by which collectives."""

    def __init__(self, name: str, layout: str) -> None:
        self.name, self.layout = name, layout

    def __call__(self, rank: int, world: int) -> Any:
        slices = joined(self.name, ranks.shards(self.layout, world)[rank])
        with ranks.recorded() as collectives:
            values = ranks.plain(slices.compute())
        with ranks.recorded() as afterwards:
            counts, sizes = cells(slices.counts), slices.sizes.tolist()
            slices.worst("accuracy" if "accuracy" in values else "f1/macro")
            slices.table()
        return {"found": [values, counts, sizes], "collectives": collectives, "afterwards": afterwards}


def joined(name: str, batches: list[range]) -> Slices:
    everything = CASES[name].batch(ranks.SAMPLES)
    return filled(CASES[name], *(ranks.rows(tuple(everything), batch) for batch in batches))


SCENES = {f"{name}-{layout}": Joined(name, layout) for name in JOINED for layout in LAYOUTS}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> ranks.Found:
    """What every rank returned; the processes run once for all tests, also where tests run in several processes."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder = folder / "slices"
    folder.mkdir(exist_ok=True)
    return ranks.run_once(SCENES, folder)


@pytest.mark.slow
@pytest.mark.parametrize("world", ranks.WORLDS, ids="{}_ranks".format)
def test_ranks_are_joined_once_to_the_groups_of_one_process(found: ranks.Found, world: int) -> None:
    for scene, results in found[world].items():
        name, layout = scene.split("-")
        alone = joined(name, [batch for rank in ranks.shards(layout, world) for batch in rank])
        expected = [ranks.plain(alone.compute()), cells(alone.counts), alone.sizes.tolist()]
        for result in results:
            assert not isinstance(result, str), result
            assert repr(result["found"]) == repr(expected), scene  # NaN included
            assert result["collectives"] == ["all_reduce"]
            assert result["afterwards"] == []


# ---- on a real device


@pytest.mark.gpu
@every_case
def test_an_update_on_a_device_does_not_synchronise(case: Case) -> None:
    slices, batch = case.build().to("cuda:0"), case.batch(40)
    on_device = [each.to("cuda:0") for each in batch]
    slices.update(*on_device)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        slices.update(*on_device)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert cells(slices.counts) == cells(filled(case, batch, batch).counts)
