"""Real processes that talk through gloo: what each rank does, and a record of every collective it takes part in.

The processes are started once for many scenes; each scene returns plain values, and the tests look at those.
"""

from __future__ import annotations

import copy
import os
import sys
import tempfile
import time
import traceback
import warnings
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from unittest import mock

import torch
import torch.distributed as dist
from torchmetrics import MetricCollection
from torchmetrics.utilities.exceptions import TorchMetricsUserError

from lightning_evalkit import BinaryEvaluation, PairedComparison
from lightning_evalkit.errors import InputError
from lightning_evalkit.metrics import BinaryF1Score, BinaryRecall, BinaryStatScores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

PATIENCE = timedelta(minutes=2)
COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_to_all",
    "barrier",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
)


# ---- starting ranks


WORLDS = (2, 3)
Scenes = dict[str, "Callable[[int, int], Any]"]
Found = dict[int, dict[str, list[Any]]]


def run(scenes: Scenes) -> Found:
    """Play every scene in worlds of two and of three ranks; what each rank returned, by world and scene.

    The third process waits while the first two are a world of their own: starting processes is what takes time.
    """
    with tempfile.TemporaryDirectory() as folder:
        context = torch.multiprocessing.start_processes(
            _process, args=(folder, scenes), nprocs=max(WORLDS), join=False, start_method="forkserver"
        )
        deadline = time.monotonic() + 3 * PATIENCE.total_seconds()
        try:
            while not context.join(timeout=1):
                if time.monotonic() > deadline:
                    raise TimeoutError("the ranks did not finish.")
        finally:
            for process in context.processes:
                process.kill()
        found = {world: [_loaded(folder, world, rank) for rank in range(world)] for world in WORLDS}
    return {world: {scene: [each[scene] for each in results] for scene in scenes} for world, results in found.items()}


def run_once(scenes: Scenes, folder: Path) -> Found:
    """The same, by the first of several test processes that share a folder; the others wait for its results."""
    results = folder / "results"
    try:
        (folder / "taken").touch(exist_ok=False)
    except FileExistsError:
        deadline = time.monotonic() + 4 * PATIENCE.total_seconds()
        while not results.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
    else:
        found = None
        try:
            found = run(scenes)
        finally:  # a failure must not keep the others waiting
            torch.save(found, folder / "unfinished")
            (folder / "unfinished").rename(results)
    return torch.load(results, weights_only=False)


def _loaded(folder: str, world: int, rank: int) -> dict[str, Any]:
    return torch.load(Path(folder) / f"{rank}_of_{world}", weights_only=False)


def _process(rank: int, folder: str, scenes: Scenes) -> None:
    torch.set_num_threads(1)
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.*")
    for world in WORLDS:
        if rank < world:
            meeting = f"file://{folder}/meeting_of_{world}"
            dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world, timeout=PATIENCE)
            torch.save(
                {name: _played(scene, rank, world) for name, scene in scenes.items()},
                Path(folder) / f"{rank}_of_{world}",
            )
            leave()


_LEFT: list[Any] = []


def leave() -> None:
    """Leave the world together.

    torch 2.5 holds Python's lock while it frees a group, and waits for ever for a thread of gloo that needs the lock to
    free the tensors of the last gather: the group is kept until the process ends.
    """
    dist.barrier()
    _LEFT.append(dist.group.WORLD)
    dist.destroy_process_group()


def leave_and_end() -> NoReturn:
    """Leave the world together and end the process, as the children of multiprocessing end: without a finalisation.

    A thread of gloo that frees a tensor while Python finalises asks for Python's lock, and the process aborts.
    """
    if dist.is_initialized():
        leave()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _played(scene: Callable[[int, int], Any], rank: int, world: int) -> Any:
    try:
        return scene(rank, world)
    except Exception:
        return f"rank {rank} failed:\n{traceback.format_exc()}"


@contextmanager
def recorded() -> Iterator[list[str]]:
    """The names of the collectives called meanwhile."""
    names: list[str] = []

    def recording(name: str) -> Callable[..., Any]:
        collective = getattr(dist, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            names.append(name)
            return collective(*args, **kwargs)

        return call

    with ExitStack() as stack:
        for name in COLLECTIVES:
            stack.enter_context(mock.patch.object(dist, name, recording(name)))
        yield names


# ---- what is evaluated

SAMPLES = 23
LAYOUTS = ("uneven", "empty_last", "empty_first", "one")


def shards(layout: str, world: int) -> list[list[range]]:
    """The batches of every rank: together all samples once."""
    if layout == "uneven":
        cuts = [0, *(SAMPLES - 3 * (world - r) - r for r in range(1, world)), SAMPLES]
        return [[range(a, (a + b) // 2), range((a + b) // 2, b)] for a, b in pairwise(cuts)]
    half = [range(9), range(9, SAMPLES)]
    busy = {"empty_last": [half, *[[]] * (world - 1)], "empty_first": [[]] * (world - 1) + [half]}
    return busy.get(layout, [[range(rank, SAMPLES, world)] for rank in range(world)])


def data(weighted: bool = False, wide: int | None = None) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(5)
    shape = (SAMPLES,) if wide is None else (SAMPLES, wide)
    scores = torch.rand(shape, generator=generator)
    target = torch.randint(0, 2, shape, generator=generator)
    weight = torch.randint(0, 4, (SAMPLES,), generator=generator).double()
    return (scores, target, weight) if weighted else (scores, target)


def rows(tensors: tuple[Tensor, ...], batch: range) -> list[Tensor]:
    return [tensor[list(batch)] for tensor in tensors]


def evaluation(**declared: Any) -> Callable[..., Any]:
    return lambda **options: BinaryEvaluation("probabilities", zero_division=0.0, **declared, **options)


DECLARATIONS: dict[str, Callable[..., Any]] = {
    "plain": evaluation(),
    "ignoring": evaluation(ignore_index=0),
    "cuts": evaluation(threshold=[0.2, 0.5, 0.8]),
    "weighted": evaluation(weighted=True),
    "weighted_cuts": evaluation(weighted=True, threshold=[0.2, 0.8]),
    "metric": lambda **options: BinaryStatScores(**options),
    "weighted_metric": lambda **options: BinaryStatScores(inputs="probabilities", weighted=True, **options),
}


def is_weighted(name: str) -> bool:
    return name.startswith("weighted")


def plain(computed: Any) -> Any:
    """Values without tensors."""
    return (
        {name: value.tolist() for name, value in computed.items()} if isinstance(computed, dict) else computed.tolist()
    )


def cells(metric: Any) -> list[Any]:
    return [cell.tolist() for cell in metric.counts.cells]


def state(metric: Any) -> list[Any]:
    """The totals of this rank."""
    return [None if total is None else total.tolist() for total in getattr(metric, "tally", metric).totals]


def filled(name: str, batches: list[range], **options: Any) -> Any:
    metric = DECLARATIONS[name](**options)
    for batch in batches:
        metric.update(*rows(data(is_weighted(name)), batch))
    return metric


# ---- scenes: what one rank does and sees


class Declared:
    """Two epochs of one declaration: what is computed, and what each question costs."""

    def __init__(self, name: str, layout: str) -> None:
        self.name, self.layout = name, layout

    def __call__(self, rank: int, world: int) -> Any:
        metric = filled(self.name, shards(self.layout, world)[rank])
        first = self._epoch(metric)
        metric.reset()
        for batch in shards(self.layout, world)[rank]:
            metric.update(*rows(data(is_weighted(self.name)), batch))
        return [first, self._epoch(metric)]

    def _epoch(self, metric: Any) -> dict[str, Any]:
        local = state(metric)
        with recorded() as computing:
            values = plain(metric.compute())
        with recorded() as afterwards:
            again, counts = plain(metric.compute()), cells(metric)
            if isinstance(metric, BinaryEvaluation):
                again = {entry: metric[entry].compute().tolist() for entry in values}
                names = list(values)
                metric.explain(names[0], names[1])
                if self.name != "ignoring":
                    metric.at_prevalence(0.3)
        return {
            "values": values,
            "again": again,
            "counts": counts,
            "collectives": computing,
            "afterwards": afterwards,
            "state_kept": state(metric) == local,
        }


def in_a_process_group(rank: int, world: int) -> Any:
    """The first two ranks are one group (the first alone, if there are but two), the last is another."""
    members = [list(range(world - 1)), [world - 1]]
    groups = [dist.new_group(ranks) for ranks in members]
    mine = int(rank == world - 1)
    metric = filled("plain", shards("uneven", world)[rank], process_group=groups[mine])
    with recorded() as collectives:
        metric.compute()
    return {"members": members[mine], "counts": cells(metric), "collectives": collectives}


def without_synchronisation(rank: int, world: int) -> Any:
    metric = filled("plain", shards("uneven", world)[rank], sync_on_compute=False)
    with recorded() as collectives:
        metric.compute()
        return {"counts": cells(metric), "collectives": collectives}


def synchronised_on_step(rank: int, world: int) -> Any:
    """Forward gives the batches of all ranks; what is kept is this rank's."""
    results = {}
    for name in ("plain", "weighted"):
        metric = DECLARATIONS[name](dist_sync_on_step=True)
        batches = rows(data(is_weighted(name)), range(rank, SAMPLES, world))
        with recorded() as forward:
            steps = [plain(metric(*batches)) for _ in range(2)]
        kept = state(metric)
        with recorded() as compute:
            metric.compute()
        results[name] = {
            "steps": steps,
            "forward": forward,
            "compute": compute,
            "counts": cells(metric),
            "kept": kept,
        }
    return results


def with_a_gather_of_ones_own(rank: int, world: int) -> Any:
    """``dist_sync_fn`` as torchmetrics defines it: a list with the tensor of every rank."""
    asked: list[str] = []

    def gather(tensor: Tensor, group: Any = None) -> list[Tensor]:
        asked.append(str(tensor.dtype))
        parts = [torch.zeros_like(tensor) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, tensor, group=group)
        return parts

    results = {}
    for name in ("plain", "weighted"):
        metric = filled(name, shards("uneven", world)[rank], dist_sync_fn=gather)
        with recorded() as collectives:
            values = plain(metric.compute())
        results[name] = {"values": values, "collectives": collectives}
    return {**results, "asked": asked}


def by_hand(rank: int, world: int) -> Any:
    results = {}
    for name in ("metric", "weighted_metric", "samplewise"):
        metric = (
            _rowwise(rank, world, "uneven", False)
            if name == "samplewise"
            else filled(name, shards("uneven", world)[rank])
        )
        before = state(metric)
        with recorded() as collectives:
            metric.sync()
        with recorded() as meanwhile:
            joined = plain(metric.compute())
        refused = [_refusal(metric.sync), _refusal(lambda m=metric: m.update(*rows(data(), range(3))))]
        metric.unsync()
        after = state(metric)
        with metric.sync_context():
            inside = plain(metric.value_of(metric.totals))
        results[name] = {
            "joined": joined,
            "inside": inside,
            "collectives": collectives,
            "meanwhile": meanwhile,
            "refused": [*refused, _refusal(metric.unsync)],
            "kept": before == after == state(metric),
            "later": plain(metric.compute()),
        }
    return results


def _refusal(call: Callable[[], Any]) -> str:
    try:
        call()
    except TorchMetricsUserError as refused:
        return str(refused)
    return "not refused"


def _rowwise(rank: int, world: int, layout: str, weighted: bool) -> Any:
    metric = BinaryStatScores(multidim_average="samplewise", inputs="probabilities", weighted=weighted)
    for batch in shards(layout, world)[rank]:
        metric.update(*rows(data(weighted, wide=4), batch))
    return metric


def row_by_row(rank: int, world: int) -> Any:
    """Samples keep their own results, in the order of ranks, however many each rank has."""
    found = {}
    for layout in ("uneven", "empty_last", "empty_first"):
        for weighted in (False, True):
            metric = _rowwise(rank, world, layout, weighted)
            found[layout, weighted] = plain(metric.compute())
    return found


def large_numbers(rank: int, world: int) -> Any:
    """Every rank holds 2**53 and its own number of samples more in each cell, which no float64 can hold."""
    one_of_each = torch.tensor([0.9, 0.8, 0.2, 0.1]), torch.tensor([1, 0, 1, 0])
    results = {}
    for name in ("plain", "weighted"):
        metric = DECLARATIONS[name]()
        batch = (*one_of_each, torch.ones(4)) if is_weighted(name) else one_of_each
        metric.update(*batch)
        for _ in range(53):
            metric.merge_state(metric.clone())
        for _ in range(rank + 1):
            metric.update(*batch)
        results[name] = metric.tally.global_totals.integers.tolist()
    return results


def invalid_on_one_rank(rank: int, world: int) -> Any:
    """A bad batch is counted as on a device by the last rank alone."""
    results = {}
    for name in ("plain", "weighted"):
        metric = filled(name, shards("uneven", world)[rank])
        bad = (torch.tensor([0.9, float("nan"), 0.4]), torch.tensor([5, 1, 1]))
        bad = (*bad, torch.ones(3)) if is_weighted(name) else bad
        if rank == world - 1:
            with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
                metric.update(*bad)
        with recorded() as collectives:
            refused = [_input_error(metric.compute), _input_error(metric["f1"].compute)]
            counts = cells(metric)
        metric.reset()
        metric.update(*rows(data(is_weighted(name)), range(SAMPLES)))
        metric.compute()
        results[name] = {"refused": refused, "counts": counts, "collectives": collectives, "then": cells(metric)}
    return results


def _input_error(call: Callable[[], Any]) -> str:
    try:
        call()
    except InputError as refused:
        return str(refused)
    return "not refused"


def in_a_stock_collection(rank: int, world: int) -> Any:
    """Equal declarations may be grouped by torchmetrics; the values stay right on ranks without data."""
    collection = MetricCollection([BinaryF1Score(), BinaryRecall()])
    found = {}
    for layout in ("uneven", "empty_last"):
        for batch in shards(layout, world)[rank]:
            collection.update(*rows(data(), batch))
        found[layout] = plain(collection.compute())
        collection.reset()
    return found


def copies(rank: int, world: int) -> Any:
    """What is copied and saved is this rank's state, also after a compute."""
    metric = filled("plain", shards("uneven", world)[rank])
    metric.compute()
    metric.persistent(True)
    duplicate = copy.deepcopy(metric)
    loaded = DECLARATIONS["plain"]()
    loaded.load_state_dict(metric.state_dict())
    loaded.compute()
    duplicate.update(*rows(data(), range(1)))
    duplicate.compute()
    return {"loaded": cells(loaded), "duplicate": cells(duplicate)}


def in_buckets(rank: int, world: int) -> Any:
    """Samples and clusters, counts and scores: what is joined, and by which collectives."""
    metric = BinaryEvaluation("probabilities", zero_division=0.0, curves=True, buckets=8)
    for batch in shards("uneven", world)[rank]:
        metric.update(*rows(data(), batch), sample=torch.tensor([*batch]))
    with recorded() as collectives:
        found = metric.compute()
        ends = [(each.low, each.high) for each in metric.intervals().values()]
    return {"values": plain(found), "ends": ends, "collectives": collectives}


def two_models(rank: int, world: int) -> Any:
    """Two models counted together, on ranks with unequal numbers of samples and with none."""
    found = {}
    for layout in LAYOUTS:
        for weighted in (False, True):
            metric = paired(shards(layout, world)[rank], weighted)
            with recorded() as collectives:
                values, test = plain(metric.compute()), [*metric.mcnemar()]
                compared = {name: [each.difference, each.high] for name, each in metric.comparisons().items()}
            joined = metric.global_totals.integers.tolist()
            found[layout, weighted] = {"integers": joined, "said": [values, test, compared], "collectives": collectives}
    return found


def paired(batches: list[range], weighted: bool) -> PairedComparison:
    metric = PairedComparison(BinaryEvaluation("probabilities", zero_division=0.0, weighted=weighted), buckets=16)
    for batch in batches:
        scores, *others = rows(data(weighted), batch)
        metric.update(scores, scores.sqrt(), *others, sample=torch.tensor([*batch], dtype=torch.int64))
    return metric


SCENES: dict[str, Callable[[int, int], Any]] = {
    **{f"{name}-{layout}": Declared(name, layout) for name in DECLARATIONS for layout in LAYOUTS},
    "in_a_process_group": in_a_process_group,
    "without_synchronisation": without_synchronisation,
    "synchronised_on_step": synchronised_on_step,
    "with_a_gather_of_ones_own": with_a_gather_of_ones_own,
    "by_hand": by_hand,
    "row_by_row": row_by_row,
    "large_numbers": large_numbers,
    "invalid_on_one_rank": invalid_on_one_rank,
    "in_a_stock_collection": in_a_stock_collection,
    "copies": copies,
    "in_buckets": in_buckets,
    "two_models": two_models,
}
