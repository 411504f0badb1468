"""Two real processes, by torchrun and by ``accelerate launch``, count what one process counts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import accelerate_ranks
import trainer_ranks
from tiny_bert import sequence_model, token_model

pytestmark = pytest.mark.slow

SUPPORT = Path(__file__).parents[1] / "support"
PATIENCE = 240


def ended(program: list[str], folder: Path) -> None:
    """Run to its end, or end it with all of its children."""
    paths = [str(SUPPORT), str(SUPPORT.parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}
    environment |= {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}
    running = subprocess.Popen(
        [sys.executable, "-m", *program, str(folder)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = running.communicate(timeout=PATIENCE)
    finally:
        if running.poll() is None:  # ranks are sessions of their own, which their launcher ends when it is asked to
            running.terminate()
            try:
                running.wait(timeout=60)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)
    assert running.returncode == 0, said[-3_000:]


def read(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads((folder / f"{name}_{rank}.json").read_text(encoding="utf-8")) for rank in range(2)]


# ---- the Trainer


@pytest.fixture(scope="module")
def trainers(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("trainer")
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    ended([*launcher, str(SUPPORT / "trainer_ranks.py")], folder)
    return read(folder, "trainer")


def of_each_row(model: torch.nn.Module, rows: list[dict[str, Any]]) -> list[np.ndarray]:
    with torch.no_grad():
        return [model(input_ids=torch.tensor([row["input_ids"]])).logits[0].numpy() for row in rows]


@pytest.mark.parametrize("batched", [False, True])
def test_messages_are_counted_once_each(trainers: list[dict[str, Any]], batched: bool):
    rows = trainer_ranks.labelled()
    logits = of_each_row(sequence_model(3, "multi_label_classification"), rows)
    right = np.stack([(scores > 0) == (np.array(row["labels"]) == 1) for scores, row in zip(logits, rows, strict=True)])
    for rank in trainers:
        values = rank[f"messages {batched}"]
        assert rank[f"rows {batched}"] == [11, 11, 11], "on every rank all rows, and none twice"
        assert values["eval_exact_match"] == pytest.approx(right.all(1).mean(), abs=1e-6)
        assert values["eval_hamming_accuracy"] == pytest.approx(right.mean(), abs=1e-6)
        assert [values[f"eval_accuracy/{label}"] for label in range(3)] == pytest.approx(right.mean(0), abs=1e-6)


@pytest.mark.parametrize("batched", [False, True])
def test_tokens_without_the_padding_between_ranks(trainers: list[dict[str, Any]], batched: bool):
    rows = trainer_ranks.tagged()
    logits = of_each_row(token_model(4), rows)
    right = np.concatenate([s.argmax(1) == np.array(row["labels"]) for s, row in zip(logits, rows, strict=True)])
    for rank in trainers:
        assert rank[f"tokens {batched}"]["eval_accuracy"] == pytest.approx(right.mean(), abs=1e-6)


def test_repeats_that_the_trainer_leaves_in_are_told(trainers: list[dict[str, Any]]):
    """Accelerate does not cut repeats off the shards of an iterable data set: 16 rows of 11."""
    first, second = trainers
    said = "expected the 11 rows of the evaluation set, counted 16: 5 rows were counted twice"
    assert [line.startswith(said) for line in first["said"]] == [True]
    assert second["said"] == [], "once"


# ---- Accelerate


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("accelerate")
    # Its option --cpu starts one process, or mpirun; --multi_gpu starts two, and the script asks for the CPU.
    launcher = ["accelerate.commands.launch", "--multi_gpu", "--num_processes=2", "--num_machines=1"]
    launcher += ["--mixed_precision=no", "--dynamo_backend=no", "--main_process_port=0"]
    ended([*launcher, str(SUPPORT / "accelerate_ranks.py")], folder)
    return read(folder, "accelerate")


def counted(numbers: Any) -> list[list[int]]:
    """By hand: the label of a row is its number modulo 3, its prediction its number modulo 4, at most 2."""
    matrix = [[0] * 3 for _ in range(3)]
    for number in numbers:
        matrix[number % 3][min(number % 4, 2)] += 1
    return matrix


def test_every_row_counts_once_however_it_is_shared_out(loops: list[dict[str, Any]]):
    for rank in loops:
        assert rank["world"] == 2
        cases = [case for case in rank if case.partition(" ")[0] in (*accelerate_ranks.CONFIGURATIONS, "stream")]
        assert len(cases) == 4 * len(accelerate_ranks.LENGTHS) - 1 + 3
        found = {case: rank[case] for case in cases}
        assert found == {case: counted(range(int(case.split(" ")[1]))) for case in cases}
        assert rank["subset"] == counted([1, 3, 4, 6, 8])
        assert rank["dropped"] == counted(range(8)), "the ninth row is left out by drop_last"


def test_one_collective_and_the_numbers_of_one_process(loops: list[dict[str, Any]]):
    alone = {"accuracy": pytest.approx(sum(n % 3 == min(n % 4, 2) for n in range(9)) / 9)}
    for rank in loops:
        assert rank["collectives"] == ["all_reduce"]
        assert rank["values"] == [alone, alone], "the second evaluation begins anew"


def test_what_cannot_be_counted_once_is_told(loops: list[dict[str, Any]]):
    assert [len(rank["said"]) for rank in loops] == [1, 0]
    assert all(rank["refused"].startswith("expected batches of a loader that accelerator.prepare") for rank in loops)
