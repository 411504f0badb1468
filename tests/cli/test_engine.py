"""Several processes and machines, by torchrun and Lightning alone: the documented commands count what one process does.

The same weights have the same counts on any number of processes, because no validation row is counted twice. Two
processes with half a batch each learn what one learns, but for rounding: the least logit of these few rows is larger
than that by orders of magnitude, so that the counts of every epoch are equal.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import faulty
import pytest
import torch

from lightning_evalkit.cli.training import launched
from lightning_evalkit.data import ImbalancedDataModule
from lightning_evalkit.modules.classifier import COUNTED

pytestmark = [
    pytest.mark.slow,
    # About the tiny training.
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty"),
]


def in_one_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[faulty.Line]:
    """The epochs of a run that was never disturbed."""
    folder.mkdir()
    monkeypatch.chdir(folder)
    options = [*faulty.SMALL, "--data.batch_size=20", "--trainer.default_root_dir=.", faulty.callbacks()]
    launched(["fit", "--config", faulty.EXPERIMENT, *options])
    [lines] = faulty.reported(folder)
    return lines


def counts_by_hand(checkpoint: Path) -> list[int]:
    """True positives, false positives, false negatives, true negatives of the saved weights, by comparing rows."""
    state = torch.load(checkpoint, weights_only=True)["state_dict"]
    data = ImbalancedDataModule(prevalence=0.3, train_size=200, val_size=101, test_size=20)
    features, target = data.ready.val
    called = (features @ state["network.0.weight"].T + state["network.0.bias"]).squeeze(1) > 0
    pairs = list(zip(called.tolist(), target.bool().tolist(), strict=True))
    return [pairs.count(pair) for pair in ((True, True), (True, False), (False, True), (False, False))]


def agree(ranks: list[list[faulty.Line]], alone: list[faulty.Line]) -> None:
    """Every rank knows in every epoch what one process knew."""
    assert len(ranks) == 2
    for lines in ranks:
        assert [line.pop("ranks") for line in lines] == [2, 2, 2]
        for found, expected in zip(lines, alone, strict=True):
            assert found == {**expected, "loss": pytest.approx(expected["loss"], rel=1e-4)}


def small(command: list[str]) -> list[str]:
    """A documented command for a few rows, in the folder where it is started."""
    options = [*faulty.SMALL, "--data.batch_size=10", "--trainer.default_root_dir=."]
    return [*command[: command.index("--data.batch_size")], *options]


def test_two_nodes_count_what_one_process_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two launchers that find each other on the loopback, each with one process."""
    _, command = faulty.documented()
    assert command[:5] == ["torchrun", "--nnodes", "2", "--nproc-per-node", "1"]
    endpoint = f"127.0.0.1:{faulty.free_port()}"
    words = [word.replace("HOST:29400", endpoint) for word in small(command)]
    assert endpoint in words
    nodes = [faulty.Run([*words, faulty.callbacks()], tmp_path) for _ in range(2)]
    for code, out in [node.ended() for node in nodes]:
        assert code == 0, out
    alone = in_one_process(tmp_path / "alone", monkeypatch)
    assert [line.pop("ranks") for line in alone] == [1, 1, 1]
    assert {(sum(line["train"]), sum(line["val"])) for line in alone} == {(200, 101)}
    agree(faulty.reported(tmp_path), alone)
    assert counts_by_hand(tmp_path / "last.ckpt") == alone[-1]["val"]


def test_a_run_goes_on_after_its_processes_have_died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 1 is killed in the validation of the first epoch, and after a restart rank 0 in that of the second.

    The first leaves another process that saves in its last moments, the second a checkpoint within an epoch only.
    """
    command, _ = faulty.documented()
    assert command[:4] == ["torchrun", "--standalone", "--nproc-per-node", "2"]
    killing = "{class_path: faulty.Killing, init_args: {plan: [[1, 0], [0, 1]]}}"
    words = ["torchrun", "--max-restarts=2", *small(command)[1:], "--ckpt_path=last"]
    words.append(faulty.callbacks(killing, every_n_train_steps=7))
    code, out = faulty.Run(words, tmp_path, TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1").ended()
    assert code == 0, out
    # torchrun names the process that it saw end first: the killed one, or the other, whose connection broke.
    assert len(re.findall(r"failed \(exitcode: (?:-9|1)\)", out)) == 2, out
    assert out.count("Restored all states from the checkpoint") == 2, out
    assert "begins anew" not in out
    assert "leaves out its first" not in out
    alone = in_one_process(tmp_path / "alone", monkeypatch)
    assert [line.pop("ranks") for line in alone] == [1, 1, 1]
    agree(faulty.reported(tmp_path), alone)


@pytest.mark.parametrize("also", [(), ("{class_path: faulty.Terminated}",)], ids=["", "terminated"])
def test_a_process_that_raises_ends_the_job_with_its_words(also: tuple[str, ...], tmp_path: Path) -> None:
    """The other waits for it in a collective, and Lightning would have it wait for the other to save a checkpoint."""
    command, _ = faulty.documented()
    spoiling = "{class_path: faulty.Spoiling, init_args: {rank: 1}}"
    code, out = faulty.Run([*small(command), faulty.callbacks(spoiling, *also)], tmp_path).ended()
    assert code == 1
    said = [line for line in out.splitlines() if line.startswith("evalkit fit: ")]
    assert said == [
        "evalkit fit: expected every target to be 0 or 1, got 7 at position 0 (10 of 10 values are wrong); soft "
        "targets and class numbers above 1 are no binary problem."
    ]
    assert (tmp_path / "last.ckpt").is_file(), out
    saved: dict[str, Any] = torch.load(tmp_path / "last.ckpt", weights_only=True)
    assert saved["global_step"] == 3, "what the others have learnt is kept"
    assert COUNTED not in saved, "but no counts, of which those of one process are missing"
    assert not _alive(tmp_path)


def _alive(folder: Path) -> list[str]:
    """Processes that still work in a folder."""
    own = [path for path in Path("/proc").glob("[0-9]*/cwd") if os.access(path, os.R_OK)]
    return [str(path) for path in own if _target(path) == str(folder)]


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:  # it has ended meanwhile
        return ""
