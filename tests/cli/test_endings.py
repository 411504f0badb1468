"""How a command ends: with the code that says why, all output written, what was done kept; and it always ends."""

from __future__ import annotations

import atexit
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from lightning.pytorch import Callback
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lightning_evalkit.cli import main
from lightning_evalkit.cli.leaving import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


Capture = pytest.CaptureFixture[str]
OWN = __name__
REPOSITORY = Path(__file__).parents[2]
PATIENCE = 300.0
"""Seconds until a process hangs; on a free machine each takes ten."""
SMALL = (
    "--data.train_size=400",
    "--data.val_size=100",
    "--data.test_size=100",
    "--data.batch_size=20",
    "--trainer.accelerator=cpu",
)
CONFIGURED = ("--model=BinaryClassifier", "--data=BalancedDataModule", *SMALL, "--trainer.enable_progress_bar=false")
SAVING = "{class_path: ModelCheckpoint, init_args: {dirpath: kept, save_on_exception: true}}"


class Signalling(Callback):
    """Sends signals to its own process in the middle of a stage, once."""

    def __init__(self, hook: str, signals: list[int], after: int = 0) -> None:
        self.left, self.signals = after, signals
        setattr(self, hook, self._send)

    def _send(self, *_: Any) -> None:
        self.left -= 1
        if self.left == -1:
            for number in self.signals:
                os.kill(os.getpid(), number)


class Blocking(Callback):
    """Leaves behind a thread that never ends, or an exit handler that blocks."""

    def __init__(self, what: str) -> None:
        if what == "thread":
            threading.Thread(target=threading.Event().wait, name="endless").start()
        else:
            atexit.register(threading.Event().wait)


class Finishing(Callback):
    """Leaves behind a thread and an exit handler that have something to write."""

    def __init__(self) -> None:
        def late() -> None:
            time.sleep(0.5)
            Path("thread").touch()

        threading.Thread(target=late).start()
        atexit.register(Path("handler").touch)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---- within this process


@pytest.fixture
def default_handler() -> Iterator[None]:
    """Signals as a program finds them, whoever started this one."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


def signalling(hook: str, number: int, after: int = 0) -> str:
    given = {"hook": hook, "signals": [number], "after": after}
    return json.dumps({"class_path": f"{OWN}.Signalling", "init_args": given})


@pytest.mark.usefixtures("default_handler")
@pytest.mark.parametrize(
    ("command", "hook", "after"),
    [
        ("fit", "on_train_batch_start", 5),
        ("fit", "on_train_batch_start", 59),  # the last of all
        ("fit", "on_validation_batch_start", 3),
        ("validate", "on_validation_batch_start", 0),
        ("validate", "on_validation_batch_start", 4),  # the last
        ("test", "on_test_batch_start", 4),
        ("predict", "on_predict_batch_start", 0),
        ("predict", "on_predict_batch_start", 4),
    ],
)
def test_sigterm_is_code_143_and_one_line(command: str, hook: str, after: int, capsys: Capture) -> None:
    callbacks = f"--trainer.callbacks=[{signalling(hook, signal.SIGTERM, after)}, {SAVING}]"
    words = [*CONFIGURED, "--trainer.max_epochs=3", "--trainer.num_sanity_val_steps=0", "--trainer.logger=false"]
    if command != "fit":
        words[words.index("--trainer.max_epochs=3")] = "--untrained"
    assert main([command, *words, "--trainer.enable_model_summary=false", callbacks]) == 143
    err = [line for line in capsys.readouterr().err.splitlines() if line.startswith("evalkit ")]
    assert err == [f"evalkit {command}: ended by SIGTERM; what was done so far is kept."]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    saved = [torch.load(path, weights_only=True)["global_step"] for path in Path("kept").glob("*.ckpt")]
    if command == "fit":
        assert max(saved) == {5: 6, 59: 60, 3: 20}[after], "the batch in work is the last"
    else:
        assert saved == []
        assert not list(Path().rglob("predictions*"))


@pytest.mark.usefixtures("default_handler")
@pytest.mark.filterwarnings("ignore:The dirpath has changed from")
def test_sigterm_in_a_sweep_keeps_what_is_finished(capsys: Capture) -> None:
    hook = signalling("on_train_batch_start", signal.SIGTERM, 25)
    words = [*CONFIGURED, "--trainer.logger=false", f"--trainer.callbacks=[{hook}]"]
    grid = ["--grid", "trainer.max_epochs=1,2,3", "--out", "swept"]
    assert main(["sweep", *words, *grid]) == 143
    out, err = capsys.readouterr()
    assert "2 of 3 cells are not finished; the same command runs only those." in err
    assert err.endswith("evalkit sweep: ended by SIGTERM; what was done so far is kept.\n")
    assert "summary.md" in out
    assert len(Path("swept/results.csv").read_text(encoding="utf-8").splitlines()) == 2


@pytest.mark.usefixtures("default_handler")
def test_a_handler_of_the_caller_is_called_and_stays() -> None:
    got: list[int] = []

    def own(number: int, frame: Any) -> None:
        got.append(number)

    signal.signal(signal.SIGTERM, own)
    callbacks = f"--trainer.callbacks=[{signalling('on_train_batch_start', signal.SIGTERM, 2)}]"
    words = [*CONFIGURED, "--trainer.logger=false", "--trainer.enable_model_summary=false", callbacks]
    assert main(["fit", *words, "--trainer.max_epochs=2"]) == 143
    assert got == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is own


# ---- processes


def default_signals() -> None:
    """A child inherits the signals that its parent ignores: SIGHUP under nohup, SIGINT in the background."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def started(*words: str, program: str = "", **environment: str) -> subprocess.Popen[str]:
    """The command as a process, with signals as they are by default."""
    run = ["-c", program] if program else ["-m", "lightning_evalkit.cli"]
    paths = os.pathsep.join([str(Path(__file__).parent), str(REPOSITORY)])
    return subprocess.Popen(
        [sys.executable, *run, *words],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
        preexec_fn=default_signals,
    )


def ended_with(running: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = running.communicate(timeout=PATIENCE)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
    return running.returncode, out, err


def until(running: subprocess.Popen[str], ready: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not ready() and running.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    assert running.poll() is None, running.communicate()
    assert ready()


TRAINING = ("fit", *CONFIGURED, "--trainer.max_epochs=1000000", "--trainer.enable_model_summary=false")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_training_that_is_stopped_ends_with_its_code_and_whole_files(name: str) -> None:
    number = getattr(signal, name)
    running = started(*TRAINING, f"--trainer.callbacks=[{SAVING}]", "--trainer.default_root_dir=.")
    until(running, lambda: list(Path("kept").glob("*.ckpt")))
    running.send_signal(number)
    code, _, err = ended_with(running)
    assert code == 128 + number, err
    assert "Traceback" not in err
    how = "interrupted" if name == "SIGINT" else f"ended by {name}"
    assert err.splitlines()[-1] == f"evalkit fit: {how}; what was done so far is kept."
    steps = [torch.load(path, weights_only=True)["global_step"] for path in Path("kept").glob("*.ckpt")]
    [events] = Path().rglob("events.out.tfevents.*")
    curves = EventAccumulator(str(events)).Reload()
    assert max(event.step for event in curves.Scalars("val/loss")) <= max(steps)
    assert max(steps) > 0


@pytest.mark.slow
def test_a_signal_that_was_to_be_ignored_is(folder: Path) -> None:
    """As nohup does it."""
    word = "--trainer.callbacks=[" + signalling("on_train_batch_start", signal.SIGHUP, 2) + "]"
    program = (
        "import signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from lightning_evalkit.cli import console; console()"
    )
    words = ("fit", *CONFIGURED, "--trainer.max_epochs=1", "--trainer.logger=false", word)
    code, _, err = ended_with(started(*words, program=program))
    assert code == 0, err


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM"])
def test_a_signal_before_and_between_trainings_ends_too(name: str) -> None:
    """Where no trainer listens: in the first remark of the sweep, as a stand-in for any place."""
    program = (
        "import os, signal, sys\n"
        "from lightning_evalkit.cli import console, nested_runs\n"
        f"nested_runs.fitted = lambda *_: os.kill(os.getpid(), signal.{name})\n"
        "console()"
    )
    code, out, err = ended_with(started("sweep", "--grid", "data.seed=1,2", *CONFIGURED, program=program))
    assert code == 128 + getattr(signal, name)
    assert out == ""
    assert err.splitlines() == [
        "2 of 2 cells are not finished; the same command runs only those.",
        f"evalkit sweep: ended by {name}; what was done so far is kept.",
    ]


@pytest.mark.slow
def test_a_terminal_that_is_closed_loses_no_result() -> None:
    program = (
        "import os, signal, sys, time\n"
        "from pathlib import Path\n"
        "from lightning_evalkit.cli import console, nested_runs\n"
        "def fitted(arguments, tell):\n"
        "    if Path('second').exists(): time.sleep(300)\n"
        "    Path('second').touch()\n"
        "    return None, {'test/f1': 0.5}\n"
        "nested_runs.fitted = fitted\n"
        "console()"
    )
    words = ["sweep", "--grid", "data.seed=1,2", *CONFIGURED, "--out", "swept"]
    process, terminal = pty.fork()
    if process == 0:
        default_signals()
        os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), str(REPOSITORY)])
        os.execv(sys.executable, [sys.executable, "-c", program, *words])
    try:
        end = time.monotonic() + PATIENCE
        while not list(Path().rglob("result.json")) and time.monotonic() < end:
            time.sleep(0.05)
        os.close(terminal)
        while not (ended := os.waitpid(process, os.WNOHANG))[0] and time.monotonic() < end:
            time.sleep(0.05)
    finally:
        if not ended[0]:
            os.kill(process, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(ended[1]) == 129
    assert len(Path("swept/results.csv").read_text(encoding="utf-8").splitlines()) == 2


@pytest.mark.slow
def test_slurm_is_served_as_lightning_does() -> None:
    """Its signal before the time is up saves and goes on; the one at the end ends.

    Both come at the start of a batch: Lightning saves inside its signal handler, which must not hit another save.
    """
    job = {
        "SLURM_NTASKS": "1",
        "SLURM_JOB_NAME": "train",
        "SLURM_JOB_ID": "7",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
    }
    signals = {"hook": "on_train_batch_start", "signals": [signal.SIGUSR1, signal.SIGTERM], "after": 5}
    sending = json.dumps({"class_path": f"{OWN}.Signalling", "init_args": signals})
    callbacks = f"--trainer.callbacks=[{SAVING}, {sending}]"
    words = [*TRAINING, callbacks, "--trainer.default_root_dir=.", "--trainer.logger=false"]
    code, _, err = ended_with(started(*words, **job, SLURM_NODEID="0", SLURM_NNODES="1", SLURM_NTASKS_PER_NODE="1"))
    assert code == 143, err
    assert list(Path().glob("hpc_ckpt_*.ckpt"))
    assert err.splitlines()[-1] == "evalkit fit: ended by SIGTERM; what was done so far is kept."


# ---- leaving

ONE = (
    "fit",
    *CONFIGURED,
    "--trainer.max_epochs=1",
    "--trainer.default_root_dir=.",
    "--trainer.enable_model_summary=false",
)


@pytest.mark.slow
@pytest.mark.parametrize(("what", "stopped"), [("thread", True), ("handler", False)], ids=["interrupted", "done"])
def test_nothing_that_blocks_keeps_the_process(what: str, stopped: bool) -> None:
    more = [signalling("on_train_batch_start", signal.SIGINT, 5)] if stopped else []
    blocking = json.dumps({"class_path": f"{OWN}.Blocking", "init_args": {"what": what}})
    code, out, err = ended_with(
        started(*ONE, f"--trainer.callbacks=[{', '.join([blocking, *more])}]", **{VARIABLE: "2"})
    )
    assert code == (130 if stopped else 0), err
    names = {"thread": "threads (endless)", "handler": "exit handlers"}
    assert err.splitlines()[-1] == f"evalkit: {names[what]} had not ended after 2 seconds ({VARIABLE}); left them."
    assert ("tensorboard --logdir" in out) is not stopped


@pytest.mark.slow
def test_threads_and_exit_handlers_that_end_are_waited_for() -> None:
    code, _, err = ended_with(started(*ONE, f"--trainer.callbacks=[{{class_path: {OWN}.Finishing}}]"))
    assert code == 0, err
    assert Path("thread").exists()
    assert Path("handler").exists()
    assert "left them" not in err


@pytest.mark.slow
def test_all_that_was_printed_arrives() -> None:
    """More than any buffer holds, also without a line break at its end."""
    program = (
        "import sys\n"
        "from lightning_evalkit.cli import leaving\n"
        "def main():\n"
        "    print('x' * 1_000_000, end='')\n"
        "    print('y' * 1_000_000, end='', file=sys.stderr)\n"
        "    return 7\n"
        "leaving.main = main\n"
        "leaving.console()"
    )
    assert ended_with(started(program=program)) == (7, "x" * 1_000_000, "y" * 1_000_000)


ENDS = {
    "raise SystemExit": (0, ""),
    "raise SystemExit(3)": (3, ""),
    "raise SystemExit('why')": (1, "why\n"),
    "raise KeyError('why')": (1, "KeyError: 'why'\n"),
    "raise KeyboardInterrupt": (130, ""),
    "sys.stdout = open('/dev/full', 'w'); print('lost'); return 0": (
        120,
        "evalkit: the output could not be written: [Errno 28] No space left on device\n",
    ),
    "sys.stdout = open('/dev/full', 'w'); print('lost'); return 2": (2, "No space left on device\n"),
}
"""What a command does, the code of its process, and the end of what it says."""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device on this system")
def test_codes_are_those_of_the_interpreter() -> None:
    """Each of a process of its own, forked from one that has imported everything."""
    lines = ["import os, sys", "from lightning_evalkit.cli import leaving"]
    for number, does in enumerate(ENDS):
        lines += [f"def main_{number}(): {does}"]
        lines += ["if not os.fork():", f"    leaving.main = main_{number}", "    leaving.console()"]
        lines += [
            "print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)",
            "print('|', file=sys.stderr, flush=True)",
        ]
    code, out, err = ended_with(started(program="\n".join(lines)))
    assert code == 0, err
    for (does, (expected, said)), got, words in zip(ENDS.items(), out.split(), err.split("|\n"), strict=False):
        assert int(got) == expected, does
        assert words.endswith(said), does
        assert "KeyError" in does or words.count("\n") == bool(said), does
        assert bool(words) is bool(said), does
    assert len(out.split()) == len(ENDS)


def test_a_caller_gets_its_answer_back(capsys: Capture) -> None:
    """The function returns; only the program leaves."""
    assert main(["explain", "--counts", "45,30,5,20"]) == 0
    assert capsys.readouterr().out
