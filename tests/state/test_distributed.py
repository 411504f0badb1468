"""Two and three real processes: the integers of one process, by one collective, whatever each rank was given."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
import ranks
import torch

from lightning_evalkit import BinaryEvaluation
from lightning_evalkit.counts import Totals

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

EVERYTHING = [range(ranks.SAMPLES)]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> ranks.Found:
    """What every rank returned; the processes run once for all tests, also where tests run in several processes."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    return ranks.run_once(ranks.SCENES, folder)


@pytest.fixture(params=ranks.WORLDS, ids="{}_ranks".format)
def world(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture
def played(found: ranks.Found, world: int) -> Callable[[str], list[Any]]:
    """What the ranks of a world returned from a scene."""

    def results(scene: str) -> list[Any]:
        failed = [result for result in found[world][scene] if isinstance(result, str)]
        assert not failed, "\n".join(failed)
        return found[world][scene]

    return results


def alone(name: str, batches: list[range]) -> Any:
    """The same samples in one process."""
    return ranks.filled(name, batches)


@pytest.mark.parametrize("layout", ranks.LAYOUTS)
def test_ranks_share_the_samples(world: int, layout: str) -> None:
    shares = ranks.shards(layout, world)
    every = [sample for rank in shares for batch in rank for sample in batch]
    assert sorted(every) == list(range(ranks.SAMPLES))
    assert len(shares) == world
    assert ([] in shares) == layout.startswith("empty")
    assert layout != "uneven" or len({sum(map(len, rank)) for rank in shares}) > 1


@pytest.mark.parametrize("layout", ranks.LAYOUTS)
@pytest.mark.parametrize("name", ranks.DECLARATIONS)
def test_every_rank_has_the_counts_of_one_process(played: Any, name: str, layout: str) -> None:
    single = alone(name, EVERYTHING)
    values, counts = ranks.plain(single.compute()), ranks.cells(single)
    for rank in played(f"{name}-{layout}"):
        for epoch in rank:
            assert epoch["counts"] == counts
            assert epoch["values"] == epoch["again"] == values
            assert epoch["state_kept"]


@pytest.mark.parametrize("layout", ranks.LAYOUTS)
@pytest.mark.parametrize("name", ranks.DECLARATIONS)
def test_one_collective_answers_every_question(played: Any, name: str, layout: str) -> None:
    for rank in played(f"{name}-{layout}"):
        for epoch in rank:
            assert epoch["collectives"] == ["all_reduce"]
            assert epoch["afterwards"] == []


def test_a_process_group_is_summed_by_itself(played: Any, world: int) -> None:
    for result in played("in_a_process_group"):
        batches = [batch for member in result["members"] for batch in ranks.shards("uneven", world)[member]]
        assert result["counts"] == ranks.cells(alone("plain", batches))
        assert result["collectives"] == ["all_reduce"]


def test_ranks_may_stay_apart(played: Any, world: int) -> None:
    for rank, result in enumerate(played("without_synchronisation")):
        assert result["counts"] == ranks.cells(alone("plain", ranks.shards("uneven", world)[rank]))
        assert result["collectives"] == []


@pytest.mark.parametrize("name", ["plain", "weighted"])
def test_forward_joins_ranks_if_asked(played: Any, world: int, name: str) -> None:
    single = ranks.plain(alone(name, EVERYTHING).compute())
    twice = ranks.cells(alone(name, EVERYTHING * 2))
    for rank, results in enumerate(played("synchronised_on_step")):
        result = results[name]
        assert result["steps"] == [single, single]
        assert result["forward"] == ["all_reduce"] * 2
        assert result["compute"] == ["all_reduce"]
        assert result["counts"] == twice
        assert result["kept"] == ranks.state(alone(name, [range(rank, ranks.SAMPLES, world)] * 2))


def test_a_gather_of_ones_own_is_used_once(played: Any) -> None:
    for result in played("with_a_gather_of_ones_own"):
        for name in ("plain", "weighted"):
            assert result[name]["values"] == ranks.plain(alone(name, EVERYTHING).compute())
            assert result[name]["collectives"] == ["all_gather"]
        assert result["asked"] == ["torch.int64", "torch.float64"]


@pytest.mark.parametrize("name", ["metric", "weighted_metric", "samplewise"])
def test_ranks_are_joined_and_parted_by_hand(played: Any, name: str) -> None:
    joined = _rows_alone(False) if name == "samplewise" else ranks.plain(alone(name, EVERYTHING).compute())
    for results in played("by_hand"):
        result = results[name]
        assert result["joined"] == result["inside"] == result["later"] == joined
        assert result["meanwhile"] == []
        assert name == "samplewise" or result["collectives"] == ["all_reduce"]
        assert result["kept"]
        already, update, unsynced = result["refused"]
        assert "already been synced" in already
        assert "call unsync() before update()" in update
        assert "already been un-synced" in unsynced


def _rows_alone(weighted: bool) -> list[list[float]]:
    """tp, fp, tn, fn, support of every sample, by a loop."""
    scores, target, *weight = ranks.data(weighted, wide=4)
    units = weight[0].tolist() if weighted else [1] * ranks.SAMPLES
    found = []
    for row, truth, unit in zip(scores.tolist(), target.tolist(), units, strict=True):
        pairs = [(score > 0.5, bool(t)) for score, t in zip(row, truth, strict=True)]
        cells = [pairs.count(pair) for pair in ((True, True), (True, False), (False, False), (False, True))]
        found.append([unit * count for count in (*cells, cells[0] + cells[3])])
    return found


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("layout", ["uneven", "empty_last", "empty_first"])
def test_samples_keep_their_own_results_in_the_order_of_ranks(played: Any, layout: str, weighted: bool) -> None:
    for result in played("row_by_row"):
        assert result[layout, weighted] == _rows_alone(weighted)


@pytest.mark.parametrize("name", ["plain", "weighted"])
def test_integers_beyond_float64_cross_exactly(played: Any, world: int, name: str) -> None:
    """Each cell is ``world`` times 2**53 and 1 + 2 + … + world more: its neighbours in float64 are 2 apart."""
    more = world * (world + 1) // 2
    cell = world * 2**53 + more
    for result in played("large_numbers"):
        tp, fp, updates, positives, negatives, samples = sorted(result[name])
        assert tp == fp == updates == cell
        assert positives == negatives == 2 * cell
        assert samples == 4 * cell
    assert torch.tensor(float(2**53 + 1), dtype=torch.float64).long().item() != 2**53 + 1


def test_buckets_are_joined_by_one_collective(played: Any) -> None:
    alone = BinaryEvaluation("probabilities", zero_division=0.0, curves=True, buckets=8)
    alone.update(*ranks.data(), sample=torch.arange(ranks.SAMPLES))
    values, ends = ranks.plain(alone.compute()), [(each.low, each.high) for each in alone.intervals().values()]
    for result in played("in_buckets"):
        assert result["collectives"] == ["all_reduce"]
        assert result["values"] == pytest.approx(values)
        assert result["ends"] == [pytest.approx(pair, nan_ok=True) for pair in ends]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layout", ranks.LAYOUTS)
def test_two_models_are_joined_by_one_collective(played: Any, layout: str, weighted: bool) -> None:
    single = ranks.paired(EVERYTHING, weighted)
    whole = single.counter.split(single.totals)
    updates = [int(single.counter.each.ledger(part).updates) for part in (whole.first, whole.second)]
    for result in played("two_models"):
        found = result[layout, weighted]
        joined = single.counter.split(Totals(torch.tensor(found["integers"]), single.totals.reals))
        assert [joined.only.tolist(), joined.rows.tolist()] == [whole.only.tolist(), [ranks.SAMPLES]]
        assert updates == [1, 1]
        values, test, compared = found["said"]
        assert values == pytest.approx(ranks.plain(single.compute()), abs=1e-7)
        assert test == [*single.mcnemar()]
        for name, each in single.comparisons().items():
            assert compared[name] == pytest.approx([each.difference, each.high], abs=1e-9, nan_ok=True)
        assert found["collectives"] == ["all_reduce"]
        for part, alone_part in zip(joined[:2], whole[:2], strict=True):
            rows = [single.counter.each.evidence(each).buckets for each in (part, alone_part)]
            tables = [each.counter.rows.by_group(each.rows).integers for each in rows]
            assert torch.equal(*tables)
            assert rows[0].fingerprint == rows[1].fingerprint


@pytest.mark.parametrize("name", ["plain", "weighted"])
def test_bad_samples_of_one_rank_are_an_error_on_every_rank(played: Any, name: str) -> None:
    expected = ranks.cells(alone(name, EVERYTHING))
    expected[2] += 1  # the third of the bad batch is a false negative like any other
    for results in played("invalid_on_one_rank"):
        result = results[name]
        assert all(message.startswith("2 samples counted") for message in result["refused"])
        assert result["counts"] == expected
        assert result["collectives"] == ["all_reduce"]


@pytest.mark.parametrize("name", ["plain", "weighted"])
def test_reset_ends_the_error_on_every_rank(played: Any, world: int, name: str) -> None:
    expected = ranks.cells(alone(name, EVERYTHING * world))
    assert [results[name]["then"] for results in played("invalid_on_one_rank")] == [expected] * world


@pytest.mark.parametrize("layout", ["uneven", "empty_last"])
def test_a_stock_collection_has_the_values_of_one_process(played: Any, layout: str) -> None:
    tp, fp, fn, _ = ranks.cells(alone("plain", EVERYTHING))
    for result in played("in_a_stock_collection"):
        assert result[layout]["BinaryF1Score"] == pytest.approx(2 * tp / (2 * tp + fp + fn))
        assert result[layout]["BinaryRecall"] == pytest.approx(tp / (tp + fn))


def test_a_saved_state_is_that_of_the_rank(played: Any, world: int) -> None:
    for result in played("copies"):
        assert result["loaded"] == ranks.cells(alone("plain", EVERYTHING))
        assert result["duplicate"] == ranks.cells(alone("plain", EVERYTHING + [range(1)] * world))
