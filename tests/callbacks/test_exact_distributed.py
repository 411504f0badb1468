"""Validation and test on 1 to 4 real ranks: every row is counted once, ranks keep in step, nothing is left behind.

Expected counts and losses are added up in plain Python from the logits of one process, those of other metrics come from
torchmetrics in one process.
"""

from __future__ import annotations

import math
import os
import pickle
import re
from copy import deepcopy
from typing import TYPE_CHECKING, Any
from unittest import mock

import exact_metrics
import exact_ranks
import exact_trainers
import pytest
import ranks
import torch
from exact_metrics import METRICS
from exact_ranks import AGAIN
from exact_trainers import LENGTHS, WORLDS
from lightning.fabric.utilities.distributed import DistributedSamplerWrapper
from lightning.pytorch.cli import LightningCLI
from lightning.pytorch.demos.boring_classes import BoringModel
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler
from torchmetrics import CatMetric, MeanMetric, MetricCollection, SumMetric
from torchmetrics.classification import BinaryAUROC, BinaryPrecision
from versions import since

from lightning_evalkit import BinaryEvaluation
from lightning_evalkit.callbacks.exact_distributed import ExactDistributedEvaluation
from lightning_evalkit.callbacks.exact_distributed.loaders import is_repeat, without_repeat
from lightning_evalkit.callbacks.exact_distributed.rollback import rolled_back
from lightning_evalkit.callbacks.exact_distributed.row_check import has_rows
from lightning_evalkit.callbacks.parts.method_patch import MethodPatch, MethodPatches

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


# ---- one process, by hand


def logits(network: Any = None) -> list[float]:
    """Of all rows there are."""
    network = network or exact_trainers.network()
    with torch.no_grad():
        return network.eval()(exact_trainers.data(100)[0])[:, 0].tolist()


def expected(rows: Iterable[int], network: Any = None) -> dict[str, Any]:
    """Counts, rows and loss."""
    rows, scores, targets = sorted(rows), logits(network), exact_trainers.data(100)[1].tolist()
    pairs = [(scores[row] > 0, bool(targets[row])) for row in rows]
    counts = [pairs.count(pair) for pair in ((True, True), (True, False), (False, True), (False, False))]
    losses = [math.log1p(math.exp(-scores[row] if targets[row] else scores[row])) for row in rows]
    loss = pytest.approx(sum(losses) / len(losses), rel=1e-12)
    return {"counts": counts, "stock": counts, "rows": rows, "loss": loss}


def share(length: int, world: int, size: int, drop: bool = False, batches: int | None = None) -> range:
    """The rows in the batches that ranks run: rank r has the rows r, r + world, …, filled up to equally many."""
    each = -(-length // world)
    run = each // size if drop else -(-each // size)
    return range(min(length, min(run, run if batches is None else batches) * size * world))


# ---- the processes


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> ranks.Found:
    """What every rank returned; the processes run once for all tests, also where tests run in several processes."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "exact_on_ranks"
    folder.mkdir(exist_ok=True)
    with mock.patch.multiple(ranks, run=exact_ranks.run, PATIENCE=exact_trainers.PATIENCE):
        return ranks.run_once(exact_ranks.SCENES, folder)


def played(found: ranks.Found, world: int, scene: str) -> list[Any]:
    failed = [result for result in found[world][scene] if isinstance(result, str)]
    assert not failed, "\n".join(failed)
    assert len(found[world][scene]) == world
    return found[world][scene]


several = pytest.mark.parametrize("world", [2, 3], ids="{}_ranks".format)


@pytest.mark.slow
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("world", sorted(WORLDS), ids="{}_ranks".format)
def test_every_length_is_counted_as_by_one_process(found: ranks.Found, world: int, length: int) -> None:
    layouts = exact_ranks.layouts(length, world)
    wanted = [expected(share(length, world, size, drop)) for size, drop in layouts]
    results = [rank["found"][length] for rank in played(found, world, "grid")]
    assert [result["loaders"] for result in results] == [wanted] * world
    assert len({result["forwards"] for result in results}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("world", sorted(WORLDS), ids="{}_ranks".format)
def test_nothing_is_said_where_all_is_exact(found: ranks.Found, world: int) -> None:
    assert [rank["said"] for rank in played(found, world, "grid")] == [[]] * world


@pytest.mark.slow
@several
def test_lightning_alone_counts_repeats(found: ranks.Found, world: int) -> None:
    """Without it the tests above could not fail."""
    repeats = [*range(2 * world + 1), *range(world - 1)]
    for rank in played(found, world, "repeated"):
        assert rank["rows"] == sorted(repeats)
        assert rank["counts"] == expected(repeats)["counts"]


@pytest.mark.slow
@several
def test_fit_validates_and_tests_exactly_and_trains_as_ever(found: ranks.Found, world: int) -> None:
    results = played(found, world, "fitted")
    lengths = [2 * world + 1, 3 * world - 1]
    for rank, result in enumerate(results):
        network = exact_trainers.network()
        network.load_state_dict(results[0]["weights"])
        wanted = [expected(range(length), network) for length in lengths]
        assert result["fit"] == result["test"] == wanted
        assert result["said"] == []
        assert result["forwards"] == 2 + 3
        sanity, *epochs = [[loader["rows"] for loader in epoch] for epoch in result["epochs"]]
        assert sanity[0] == [*range(2 * world + 1)]
        assert len(sanity[1]) == 2 * world
        assert epochs == [[[*range(length)] for length in lengths]] * 2
        padded = [*range(6 * world - 1), *range(1)]
        shuffled = [row for epoch in (0, 1) for row in _shuffled(padded[:-1], world, rank, epoch)]
        assert result["trained"] in (padded[rank::world] * 2, shuffled)


def _shuffled(rows: list[int], world: int, rank: int, epoch: int) -> list[int]:
    sampler = DistributedSampler(rows, num_replicas=world, rank=rank, seed=int(os.environ.get("PL_GLOBAL_SEED", 0)))
    sampler.set_epoch(epoch)
    return [*sampler]


@pytest.mark.slow
@several
def test_samplers_and_loaders_of_all_kinds_are_exact(found: ranks.Found, world: int) -> None:
    kinds = [*[range(7)] * 3, AGAIN, *[range(7)] * 2, range(14), range(7), range(7 // world * world), range(7)]
    for rank in played(found, world, "sampled"):
        assert rank["loaders"] == [expected(rows) for rows in kinds]
        assert rank["said"] == []
    assert len({rank["forwards"] for rank in played(found, world, "sampled")}) == 1


@pytest.mark.slow
def test_workers_read_ahead_while_others_look(found: ranks.Found) -> None:
    assert played(found, 2, "worked") == [[expected(range(7))] * 2] * 2


@pytest.mark.slow
@several
@pytest.mark.parametrize("limit", [2, 5, 0.5, 1.0])
def test_limits_leave_the_rows_of_the_batches_that_are_run(found: ranks.Found, world: int, limit: float) -> None:
    """4 * world + 1 rows are 5 single rows, or 3 pairs, for every rank."""
    run = [
        min(limit, 5) if isinstance(limit, int) else int(5 * limit),
        min(limit, 3) if isinstance(limit, int) else int(3 * limit),
    ]
    wanted = [expected(share(4 * world + 1, world, size, batches=n)) for size, n in zip((1, 2), run, strict=True)]
    assert [rank[limit] for rank in played(found, world, "limited")] == [wanted] * world


# ---- what is logged


@pytest.mark.slow
@several
def test_logged_values_are_of_the_rows_of_the_rank_or_of_all(found: ranks.Found, world: int) -> None:
    for rank, results in enumerate(played(found, world, "logged")):
        for (length, _), result in results.items():
            for joined, rows in ((False, range(rank, length, world)), (True, range(length))):
                mean = pytest.approx(sum(rows) / len(rows) if rows else math.nan, rel=1e-12, nan_ok=True)
                means = [result[f"mean_{joined}"], result[f"sized_{joined}"], result[f"both_{joined}_epoch"]]
                assert means == [mean] * 3
                assert result[f"sum_{joined}"] == sum(rows)
                assert result[f"max_{joined}"] == max(rows, default=-math.inf)
                assert result[f"min_{joined}"] == min(rows, default=math.inf)


@pytest.mark.slow
@several
def test_a_batch_without_rows_weighs_nothing(found: ranks.Found, world: int) -> None:
    assert played(found, world, "emptied") == [{"mean": world / 2, "said": []}] * world


# ---- metrics


def same(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: same(each) for name, each in value.items()}
    if isinstance(value, list):
        return [same(each) for each in value]
    return pytest.approx(value, rel=1e-5, abs=1e-6, nan_ok=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning:torchmetrics.*")
@pytest.mark.filterwarnings("ignore:No (positive|negative) samples")  # which stock metrics say too
@several
@pytest.mark.parametrize("name", METRICS)
def test_metrics_have_the_values_of_one_process(found: ranks.Found, world: int, name: str) -> None:
    build, given = METRICS[name]
    for called in (False, True):
        for length, size in ((1, 1), (2 * world + 1, 1), (2 * world + 1, 2)):
            alone, batch = build(), exact_trainers.data(length)
            rows = range(0, length, size) if name == "list_of_numbers" else [0]
            for first in rows:
                alone.update(*given([part[first : first + size] for part in batch] if len(rows) > 1 else batch))
            wanted = exact_metrics.plain(alone.compute())
            results = [rank[called, length, size][name] for rank in played(found, world, "measured")]
            if name != "list_of_numbers" or size == 1:
                assert results == [same(wanted)] * world


@pytest.mark.slow
@several
def test_metrics_in_callbacks_are_exact(found: ranks.Found, world: int) -> None:
    wanted = expected(range(2 * world + 1))
    scores, targets = exact_ranks.scores(exact_trainers.data(2 * world + 1))
    pairs = [(score > 0.5, bool(target)) for score, target in zip(scores.tolist(), targets.tolist(), strict=True)]
    counts = [pairs.count(pair) for pair in ((True, True), (True, False), (False, True), (False, False))]
    holding = {"counts": counts, "rows": wanted["rows"]}
    assert played(found, world, "held") == [[holding, holding, 2 * world + 1]] * world


@pytest.mark.slow
@several
def test_modules_of_this_package_have_the_numbers_of_one_process(found: ranks.Found, world: int) -> None:
    (alone,) = played(found, 1, "classified")
    ends = [f"/dataloader_idx_{place}" for place in (0, 1)]
    assert {f"val/{name}{end}" for name in ("loss", "loss_of_worst", "accuracy") for end in ends} == alone[
        "values"
    ].keys()
    for rank in played(found, world, "classified"):
        assert rank == {**alone, "values": same(alone["values"])}
        assert rank["counts"] == [expected(range(length))["counts"] for length in (1, 7)]
        assert rank["said"] == []


@pytest.mark.slow
@several
@pytest.mark.parametrize("length", [7, 13])
def test_callbacks_of_this_package_have_the_numbers_of_one_process(found: ranks.Found, world: int, length: int) -> None:
    (alone,) = (rank[length] for rank in played(found, 1, "called_back"))
    assert {"val/accuracy", "val/auroc", "val/threshold", "val/loss/refinement", "test/f1@tuned"} <= alone[
        "values"
    ].keys()
    target, scores = exact_trainers.data(length)[1].tolist(), exact_trainers.data(length)[0][:, 0].tolist()
    right = sum((score > 0) == bool(truth) for score, truth in zip(scores, target, strict=True))
    for rank in played(found, world, "called_back"):
        assert rank[length] == {**alone, "values": same(alone["values"])}
        assert rank[length]["values"]["test/accuracy"] == pytest.approx(right / length)


@pytest.mark.slow
def test_evaluate_alone_says_how_many_rows_it_counts_more_than_once(found: ranks.Found) -> None:
    first, second = played(found, 2, "padded")
    for rank in (first, second):
        assert {case: ended["counted"] for case, ended in rank.items()} == {(13, 0): 14, (12, 0): 12, (13, 1): 8}
    assert [len(ended["said"]) for ended in first.values()] == [1, 0, 0]
    [said] = first[13, 0]["said"]
    assert re.match(r"Evaluate counts 1 row of validation more than once: .* Add ExactDistributedEvaluation\(\)", said)
    assert not any(ended["said"] for ended in second.values())


@pytest.mark.slow
def test_evaluate_says_that_every_rank_has_read_all_rows_of_a_stream(found: ranks.Found) -> None:
    first, second = played(found, 2, "streamed")
    assert [ended["counted"] for ended in first] == [ended["counted"] for ended in second] == [26, 13, 0]
    assert [len(ended["said"]) for ended in first] == [1, 0, 0]
    assert first[0]["said"][0].startswith("Evaluate counted the same on all 2 ranks in validation, as if each had read")
    assert not any(ended["said"] for ended in second)


# ---- what is said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loader", "words"),
    [
        ("metric", r"the metric summary \(MeanMetric\): it is updated with no tensor that has the batch's rows"),
        (
            "iterable",
            "a DataLoader of validation: which row an iterable data set gives to which rank is its own affair",
        ),
        ("derived", "a DataLoader of validation: how its Strange shares out rows to ranks is its own affair"),
        ("unshared", "a DataLoader of validation: its SequentialSampler does not share out rows to ranks"),
        ("plain", "a Plain of validation: it is not a torch DataLoader"),
        ("shuffled", "a TensorLoader of validation: it is not a torch DataLoader"),
    ],
)
def test_what_is_not_exact_is_named_once_by_one_rank(found: ranks.Found, loader: str, words: str) -> None:
    first, second = (rank[loader] for rank in played(found, 2, "named"))
    with pytest.raises(AssertionError, match=f"^ExactDistributedEvaluation cannot vouch for {words}"):
        raise AssertionError(*first)
    assert second == []


@pytest.mark.slow
def test_this_packages_own_loader_is_exact_by_itself(found: ranks.Found) -> None:
    assert [rank["own"] for rank in played(found, 2, "named")] == [[], []]


@pytest.mark.slow
def test_batches_that_cannot_be_told_apart_are_named(found: ranks.Found) -> None:
    first, second = (
        [[words for words in said if "Exact" in words] for said in rank] for rank in played(found, 2, "together")
    )
    for (words,), what in zip(
        first, ("loaders that are read side by side", "a step that takes a dataloader_iter"), strict=True
    ):
        assert f"cannot vouch for {what}: a repeat that is alone in its batch is counted." in words
    assert second == [[], []]


# ---- nothing is left behind


@pytest.mark.slow
def test_everything_is_put_back_after_an_exception(found: ranks.Found) -> None:
    first, second = played(found, 2, "interrupted")
    assert "Evaluation.update" not in " ".join(first["standing"])
    assert {"BinaryEvaluation.update", "BinaryStatScores.forward", "CatMetric._sync_dist"} <= {*second["standing"]}
    assert "DDPStrategy.process_dataloader" in first["standing"]
    for rank in (first, second):
        assert rank["after_failure"] == rank["after"] == rank["filters"] == []
        assert rank["loaders"] == [expected(range(5))]


@pytest.mark.slow
def test_copies_made_meanwhile_count_for_themselves(found: ranks.Found) -> None:
    for rank in played(found, 2, "copied"):
        assert rank["loaders"] == [expected(range(5))]
        assert rank["grown"] == [0] * 6


@pytest.mark.slow
def test_nothing_happens_on_one_rank(found: ranks.Found) -> None:
    assert played(found, 1, "alone") == [{"standing": [], "sampler": "BatchSampler", "said": []}]


@since("torch", "2.6", "earlier ones shard on CUDA alone")
@pytest.mark.slow
def test_a_module_in_pieces_keeps_in_step(found: ranks.Found) -> None:
    """FSDP of torch (``fully_shard``), which gathers weights in every forward."""
    network = exact_ranks.Sharded().network
    for rank in played(found, 2, "sharded"):
        for (length, result), forwards in zip(rank.items(), (1, 3, 2), strict=True):
            assert result["loaders"] == [expected(range(length), network)]
            assert (result["forwards"], result["kinds"], result["said"]) == (forwards, {"DTensor"}, [])


# ---- parts


@pytest.mark.parametrize("world", range(1, 8))
def test_a_loader_gives_every_row_to_one_rank(world: int) -> None:
    for length in LENGTHS:
        for size in (*range(1, 8), None):
            for drop in (False, True) if size else (False,):
                loaders = [_shared(length, world, rank, size, drop) for rank in range(world)]
                batches = [[*loader._index_sampler] for loader in loaders]
                assert len({len(loader) for loader in loaders} | {*map(len, batches)}) == 1
                own = [
                    row
                    for loader, rank in zip(loaders, batches, strict=True)
                    for number, batch in enumerate(rank)
                    if not is_repeat(loader, number)
                    for row in (batch if size else [batch])
                ]
                assert sorted(own) == [*share(length, world, size or 1, drop)]


def _shared(length: int, world: int, rank: int, size: int | None, drop: bool) -> DataLoader[Any]:
    rows = range(length)
    kind = DistributedSampler if length % 2 else DistributedSamplerWrapper
    sampler = kind(rows, num_replicas=world, rank=rank, shuffle=False)
    return without_repeat(DataLoader(rows, batch_size=size, sampler=sampler, drop_last=drop))


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("kind", [BatchSampler, exact_ranks.Sorted])
@pytest.mark.parametrize("drop", [False, True])
def test_a_row_that_is_drawn_again_is_no_repeat(kind: type[BatchSampler], size: int, drop: bool) -> None:
    """The second of two ranks has the rows 3, 5, 5 of its own, and a repeat of 3."""
    shared = DistributedSamplerWrapper(AGAIN, num_replicas=2, rank=1, shuffle=False)
    loader = without_repeat(DataLoader(range(7), batch_sampler=kind(shared, size, drop)))
    batches = [*loader.batch_sampler]
    own = sorted(row for number, batch in enumerate(batches) for row in batch if not is_repeat(loader, number))
    assert own == [3, 5, 5]
    assert len(batches) == -(-4 // size) - (drop and size == 3 and kind is BatchSampler)


def test_the_given_loader_is_not_changed() -> None:
    given = DataLoader(
        range(7), batch_size=2, sampler=DistributedSampler(range(7), num_replicas=2, rank=1, shuffle=False)
    )
    own = without_repeat(given)
    assert [batch.tolist() for batch in own] == [[1, 3], [5]]
    assert [batch.tolist() for batch in given] == [[1, 3], [5, 0]]
    assert without_repeat(own) is own
    own.batch_sampler.sampler.set_epoch(3)
    assert given.sampler.epoch == 3


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        ([torch.zeros(4)], True),
        ([torch.zeros(4, 2), torch.zeros(4)], True),
        ([torch.zeros(12)], True),  # pixels of every row
        ([["a", "b", "c", "d"]], True),
        ([{"scores": torch.zeros(4)}], True),
        ([[{"boxes": torch.zeros(3, 4)}] * 4], True),
        ([torch.tensor(0.5), 4], True),
        ([torch.tensor(0.5)], False),
        ([0.5], False),
        ([4.0], False),
        ([torch.tensor(0.5), 3], False),
        ([torch.zeros(1)], False),
        ([torch.zeros(3)], False),
        ([], False),
    ],
)
def test_what_has_the_rows_of_a_batch(given: list[Any], rows: bool) -> None:
    for batch in (
        (torch.zeros(4, 2), torch.zeros(4)),
        {"x": torch.zeros(4, 2), "size": torch.tensor(2)},
        ([torch.zeros(5, 8, 8)] * 4, ["a"] * 4),
        torch.zeros(4, 2),
    ):
        assert has_rows(given, batch) == rows
    assert has_rows(given, object())
    assert has_rows(given, torch.zeros(0, 2))


def test_what_is_counted_is_taken_back() -> None:
    added, listed = SumMetric(), CatMetric()
    evaluation = BinaryEvaluation("probabilities", zero_division=0.0)
    tally = evaluation.tally.totals.integers
    scores, target = torch.tensor([0.2, 0.7]), torch.tensor([0, 1])
    for number in range(3):
        for metric, given in ((added, (scores,)), (listed, (scores,)), (evaluation, (scores, target))):
            metric.update(*given)
            with torch.inference_mode(number % 2 == 0), rolled_back(metric):
                metric.update(*given)
                metric(*given)
    assert added.compute().item() == pytest.approx(3 * 0.9)
    assert listed.compute().tolist() == pytest.approx([0.2, 0.7] * 3)
    assert ranks.cells(evaluation) == [3, 0, 0, 3]
    assert evaluation.tally.totals.integers is tally
    evaluation.update(scores, target)
    assert ranks.cells(evaluation) == [4, 0, 0, 4]


def test_a_list_keeps_the_type_and_shape_of_what_was_taken_back() -> None:
    listed = BinaryAUROC()
    with rolled_back(listed):
        listed.update(torch.rand(2, dtype=torch.float64), torch.tensor([0, 1]))
    assert [(entry.shape, entry.dtype) for entry in (*listed.preds, *listed.target)] == [
        (torch.Size([0]), torch.float64),
        (torch.Size([0]), torch.int64),
    ]


def test_a_number_keeps_the_type_and_shape_of_what_was_taken_back() -> None:
    added, apart = MeanMetric(), SumMetric()
    with rolled_back(added), rolled_back(apart):
        added.mean_value = added.mean_value + torch.ones((), dtype=torch.float64)
        apart.sum_value = apart.sum_value + torch.ones(3)
    assert (added.mean_value.item(), added.mean_value.dtype) == (0.0, torch.float64)
    assert apart.sum_value.tolist() == [0.0] * 3


def test_a_collection_does_not_decide_by_a_repeat_what_its_metrics_share() -> None:
    """torchmetrics compares states after the first update, and one row is equal at all thresholds."""
    cuts = MetricCollection({f"{cut}": BinaryPrecision(threshold=cut / 10) for cut in (1, 5, 9)})
    with rolled_back(cuts):
        cuts.update(torch.tensor([0.95]), torch.tensor([1]))
    scores, target = torch.tensor([0.95, 0.6, 0.2]), torch.tensor([1, 0, 0])
    cuts.update(scores, target)
    with rolled_back(cuts):
        cuts.update(torch.tensor([0.95]), torch.tensor([1]))
    cuts.update(scores, target)
    assert {name: value.item() for name, value in cuts.compute().items()} == pytest.approx(
        {"1": 1 / 3, "5": 1 / 2, "9": 1}
    )


def test_a_stand_in_is_not_copied() -> None:
    metric, calls = SumMetric(), []
    own = metric.update
    standing = MethodPatches()
    for _ in range(2):
        standing.place(metric, "update", lambda method, value: calls.append(value) or method(2 * value))
        standing.place(metric, "forward", lambda method, value: calls.append(value))
    metric.update(1.0)
    metric(1.0)
    assert (metric.compute().item(), calls) == (2.0, [1.0, 1.0])
    for duplicate in (deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        duplicate.update(1.0)
        assert duplicate(1.0).item() == 1.0
        assert duplicate.compute().item() == 4.0
        assert not any(isinstance(value, MethodPatch) for value in vars(duplicate).values())
    standing.remove()
    assert metric.update is own
    assert "forward" not in vars(metric)
    assert not standing


def test_it_is_configured_by_its_name_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["evalkit"])
    monkeypatch.setenv("JSONARGPARSE_DEPRECATION_WARNINGS", "off")  # of what Lightning calls there
    name = "lightning_evalkit.callbacks.ExactDistributedEvaluation"
    config = tmp_path / "config.yaml"
    config.write_text(f"trainer:\n  logger: false\n  accelerator: cpu\n  callbacks:\n    - class_path: {name}\n")
    cli = LightningCLI(BoringModel, run=False, args=["--config", str(config)], seed_everything_default=False)
    (exact,) = (each for each in cli.trainer.callbacks if isinstance(each, ExactDistributedEvaluation))
    assert isinstance(pickle.loads(pickle.dumps(exact)), ExactDistributedEvaluation)  # as it is sent to spawned ranks
