"""Modules on several processes report what one process reports."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import warnings
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
import ranks
import torch
import torch.distributed as dist
from classifiers import CASES, FEATURES, SKLEARN, exact_loss, loader, near, trainer, values
from lightning.pytorch.strategies import DDPStrategy
from torch import nn

from lightning_evalkit.data import TensorLoader
from lightning_evalkit.metrics import MeanLoss

if TYPE_CHECKING:
    from lightning.pytorch import Trainer

    from lightning_evalkit.modules.classifier import Classifier


pytestmark = [
    # About the tiny trainers of these tests.
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no `val_dataloader`"),
]

PAIR = 2
DEFINED = {"binary": ["accuracy"], "multiclass": ["accuracy"], "multilabel": ["exact_match", "hamming_accuracy"]}
"""What has a value for a single row."""
SHARED = [
    *(("binary_pos_weight", length) for length in (1, 2, 3, 5, 257)),
    *(("binary_weighted", length) for length in (1, 5)),
    *(("multiclass_class_weights", length) for length in (2, 257)),
    *(("multilabel_pos_weights", length) for length in (1, 3)),
]
"""A case and a number of rows, which the ranks cannot always share out evenly."""


def normalised(task: str) -> nn.Module:
    return nn.Sequential(nn.BatchNorm1d(FEATURES), nn.Linear(FEATURES, {"binary": 1, "multiclass": 4}.get(task, 3)))


class Trained:
    """A fit with a validation in every epoch, then a test, on rows that the ranks cannot share out evenly."""

    def __init__(self, name: str, length: int) -> None:
        self.name, self.length = name, length

    def build(self) -> Classifier:
        case = CASES[self.name]
        torch.manual_seed(1)
        network = normalised(case.task)
        return case.build(network=network, statistics=DEFINED[case.task], learning_rate=0.1)

    def __call__(self, rank: int, world: int) -> Any:
        case, module, size = CASES[self.name], self.build(), 2 if self.length < 100 else 64
        running = trainer(devices=world, strategy=DDPStrategy(process_group_backend="gloo"), num_sanity_val_steps=2)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            running.fit(module, TensorLoader(case.rows(0, 23), 4, True), TensorLoader(case.rows(1, self.length), size))
            seen = [self._seen("val", running, module)]
            running.test(module, TensorLoader(case.rows(2, self.length), size), verbose=False)
            seen.append(self._seen("test", running, module))
        words = [str(each.message) for each in said if "LeafSpec" not in str(each.message)]
        return {"seen": seen, "said": words, "weights": module.state_dict()}

    def _seen(self, stage: str, running: Trainer, module: Classifier) -> dict[str, Any]:
        with ranks.recorded() as collectives:
            cells, loss = ranks.cells(module.evaluation(stage)), exact_loss(module, stage)
        return {"values": values(running, stage), "cells": cells, "loss": loss, "collectives": collectives}


def lost_nothing(rank: int, world: int) -> Any:
    """A loss that every rank adds to in its own way, one of them not at all."""
    metric = MeanLoss()
    for batch in range(rank):
        metric.update(torch.arange(1.0 + batch) + rank, torch.arange(1.0 + batch) + 1)
    with ranks.recorded() as first:
        value = metric.compute().item()
    with ranks.recorded() as again:
        metric.compute()
    metric.reset()
    metric.update(torch.full((rank + 1,), 0.1, dtype=torch.float64))
    return {"value": value, "first": first, "again": again, "count": metric.global_totals.integers.tolist()}


def plain_loaders(rank: int, world: int) -> Any:
    """DataLoaders with two of them in validation: Lightning pads, but the ranks keep in step."""
    warnings.simplefilter("ignore")
    case = CASES["binary"]
    module = case.build(statistics=["accuracy"])
    running = trainer(devices=world, strategy=DDPStrategy(process_group_backend="gloo"))
    sets = [case.rows(1, 12 * world), case.rows(2, 6 * world)]
    running.fit(module, loader(case.rows(0), 4), [loader(rows, 4) for rows in sets])
    return [ranks.cells(module.evaluation("val", place)) for place in range(2)]


def quoted_names(rank: int, world: int) -> Any:
    """Lightning's advice to join ranks, which are joined already, quotes names in its own way."""
    module = CASES["multiclass"].build(class_names=["it's", '"b"', "c", "d"], per_class=True)
    running = trainer(devices=world, strategy=DDPStrategy(process_group_backend="gloo"))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        running.validate(module, TensorLoader(CASES["multiclass"].rows(1), 16), verbose=False)
    return [str(each.message) for each in said if "It is recommended" in str(each.message)]


SCENES: ranks.Scenes = {
    "quoted_names": quoted_names,
    **{f"{name}-{length}": Trained(name, length) for name, length in SHARED},
    "lost_nothing": lost_nothing,
    "plain_loaders": plain_loaders,
}


def two_processes(scenes: ranks.Scenes) -> ranks.Found:
    """Play the scenes on two ranks; Lightning takes too long to import for more of them."""
    with tempfile.TemporaryDirectory() as folder:
        context = torch.multiprocessing.start_processes(
            process, args=(folder,), nprocs=PAIR, join=False, start_method="forkserver"
        )
        deadline = time.monotonic() + 3 * ranks.PATIENCE.total_seconds()
        try:
            while not context.join(timeout=1):
                assert time.monotonic() < deadline, "the ranks did not finish."
        finally:
            for each in context.processes:
                each.kill()
        results = [torch.load(f"{folder}/{rank}", weights_only=False) for rank in range(PAIR)]
    return {PAIR: {scene: [each[scene] for each in results] for scene in scenes}}


def process(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    os.environ.update(LOCAL_RANK=str(rank), NODE_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    meeting = f"file://{folder}/meeting"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=PAIR, timeout=ranks.PATIENCE)
    torch.save({name: ranks._played(scene, rank, PAIR) for name, scene in SCENES.items()}, f"{folder}/{rank}")
    ranks.leave()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> ranks.Found:
    """What every rank returned; the processes run once for all tests, also where tests run in several processes."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "modules_on_ranks"
    folder.mkdir(exist_ok=True)
    with mock.patch.object(ranks, "run", two_processes):
        return ranks.run_once(SCENES, folder)


def played(found: ranks.Found, scene: str) -> list[Any]:
    failed = [result for result in found[PAIR][scene] if isinstance(result, str)]
    assert not failed, "\n".join(failed)
    return found[PAIR][scene]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "length"), SHARED)
def test_ranks_evaluate_as_one_process(found: ranks.Found, name: str, length: int) -> None:
    case, results = CASES[name], played(found, f"{name}-{length}")
    module = Trained(name, length).build()
    for result in results:
        module.load_state_dict(results[0]["weights"])
        module.eval()
        assert result["said"] == []
        for seed, seen in enumerate(result["seen"], start=1):
            rows = case.rows(seed, length)
            assert seen["cells"] == case.expected_cells(module, rows)
            assert seen["collectives"] == []
            loss = case.expected_loss(module, rows)
            assert seen["loss"] == pytest.approx(loss, rel=1e-12, nan_ok=True)
            wanted = {name: value for name, value in SKLEARN[case.task] if name in DEFINED[case.task]}
            given_weight = {"sample_weight": rows[2].numpy()} if case.weighted else {}
            said = case.decided(module, rows[0])
            expected = {name: float(of(rows[1].numpy(), said, **given_weight)) for name, of in wanted.items()}
            assert seen["values"] == {"loss": near(loss), **{key: near(value) for key, value in expected.items()}}


@pytest.mark.slow
def test_losses_of_all_ranks_are_added_by_one_collective(found: ranks.Found) -> None:
    pairs = [(loss + rank, loss + 1) for rank in range(PAIR) for batch in range(rank) for loss in range(batch + 1)]
    mean = sum(loss * weight for loss, weight in pairs) / sum(weight for _, weight in pairs)
    for result in played(found, "lost_nothing"):
        assert result["value"] == near(mean)
        assert result["first"] == ["all_reduce"]
        assert result["again"] == []
        assert result["count"] == [sum(range(1, PAIR + 1)), PAIR]


@pytest.mark.slow
def test_ranks_keep_several_dataloaders_apart(found: ranks.Found) -> None:
    case = CASES["binary"]
    for result in played(found, "plain_loaders"):
        expected = [case.rows(1, 12 * PAIR), case.rows(2, 6 * PAIR)]
        assert result == [case.expected_cells(case.build(), rows) for rows in expected]


@pytest.mark.slow
def test_no_name_makes_lightning_advise_to_join_ranks(found: ranks.Found) -> None:
    assert played(found, "quoted_names") == [[]] * PAIR
