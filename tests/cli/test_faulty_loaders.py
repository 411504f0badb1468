"""Which loaders resume, and what is said of the others; files that are damaged or cannot be written."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
import yaml
from fault_runs import BATCHES, StoppedError, Stopping, interrupted, saving, started, trainer
from lightning.pytorch import Callback, LightningModule
from lightning.pytorch.utilities import CombinedLoader
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lightning_evalkit import __version__
from lightning_evalkit.callbacks.exact_resume import ExactResume
from lightning_evalkit.cli import main
from lightning_evalkit.data import TensorLoader

if TYPE_CHECKING:
    from collections.abc import Iterator


pytestmark = [
    # About the tiny trainings of these tests.
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty"),
    pytest.mark.filterwarnings("ignore:The dirpath has changed from"),
    pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`, callbacks used to create the checkpoint"),
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no `val_dataloader`"),
    pytest.mark.filterwarnings("ignore:.* is 0/0"),
]

Capture = pytest.CaptureFixture[str]

OWN = __name__


# ---- loaders


class Plain(LightningModule):
    """Knows nothing of this package; remembers the rows it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.rows = nn.Linear(1, 1), list[Any]()

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        parts = batch if isinstance(batch, dict) else {"only": batch}
        self.rows.append({name: part[0].flatten().int().tolist() for name, part in parts.items()})
        loss: Tensor = self.layer(torch.cat([part[0].reshape(-1, 1) for part in parts.values()])).mean()
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


class Endless:
    """Has no length, so that Lightning fetches one batch more than it asks for; it knows that, and can go on."""

    def __init__(self) -> None:
        self.given = self.start = 0

    def __iter__(self) -> Iterator[list[Tensor]]:
        first, self.start = self.start, 0
        for number in range(first, BATCHES):
            self.given = number + 1
            yield [torch.full((2,), float(number))]

    def state_dict(self) -> dict[str, int]:
        return {"given": self.given - 1}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        self.start = state_dict["given"]


def loader(rows: int = 12, size: int = 3, shuffle: bool = True, seed: int = 0) -> TensorLoader:
    return TensorLoader((torch.arange(float(rows)),), size, shuffle, seed)


def given_around(data: Any, folder: Path, stopping: Stopping, **options: Any) -> tuple[list[Any], list[Any]]:
    """The rows of a whole run, and those of one that was stopped and resumed, without any that were given again."""

    def rows(*callbacks: Callback, path: Path | None = None) -> list[Any]:
        module = Plain()
        running = trainer(ExactResume(), *callbacks, max_epochs=2, enable_checkpointing=bool(callbacks), **options)
        try:
            running.fit(module, data(), ckpt_path=path)
        except StoppedError:
            saved = torch.load(folder / "last.ckpt", weights_only=True)["loops"]["fit_loop"]
            done = saved["epoch_loop.batch_progress"]["total"]["processed"]
            return module.rows[:done]
        return module.rows

    whole = rows()
    return whole, [*rows(stopping, saving(folder)), *rows(path=folder / "last.ckpt")]


@pytest.mark.parametrize(
    ("hook", "times"), [("on_train_batch_end", 3), ("on_before_optimizer_step", 6), ("on_train_batch_start", 8)]
)
@pytest.mark.parametrize("shuffle", [True, False], ids=["shuffled", "in order"])
def test_a_loader_goes_on_with_any_module(hook: str, times: int, shuffle: bool, tmp_path: Path) -> None:
    whole, around = given_around(lambda: loader(shuffle=shuffle), tmp_path, Stopping(hook, times))
    assert around == whole
    assert sorted(row for batch in whole[:4] for row in batch["only"]) == list(range(12))
    assert (whole[:4] != whole[4:]) == shuffle


class Validating(Plain):
    """May be interrupted in its second validation step."""

    def __init__(self, stops: bool) -> None:
        super().__init__()
        self.stops, self.validated = stops, list[Any]()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.validated.append(batch[0].int().tolist())
        if self.stops and batch_idx == 1:
            raise StoppedError


def test_a_validation_begins_again_whoever_has_interrupted_it(tmp_path: Path) -> None:
    """From a checkpoint of Lightning alone, which goes on with the first rows in the place of the last."""
    data = loader(), loader(rows=6, size=2, shuffle=False)
    options: dict[str, Any] = {"max_epochs": 1, "num_sanity_val_steps": 0}
    stopped = trainer(saving(tmp_path), enable_checkpointing=True, **options)
    with pytest.raises(StoppedError):
        stopped.fit(Validating(True), *data)
    module = Validating(False)
    trainer(ExactResume(), **options).fit(module, *data, ckpt_path=tmp_path / "last.ckpt")
    assert module.validated == [[0, 1], [2, 3], [4, 5]]
    assert module.rows == []


@pytest.mark.parametrize(
    ("hook", "times"),
    [("on_train_batch_end", 2), ("on_before_optimizer_step", 4), ("on_train_batch_end", 4), ("on_train_batch_end", 7)],
)
def test_a_batch_that_was_fetched_early_is_not_lost(hook: str, times: int, tmp_path: Path) -> None:
    """Beside a loader without a length, whose end Lightning has to look for."""

    def data() -> CombinedLoader:
        return CombinedLoader({"tensors": loader(), "endless": Endless()}, "max_size_cycle")

    whole, around = given_around(data, tmp_path, Stopping(hook, times))
    assert len(whole) == 2 * BATCHES
    assert around == whole


def test_a_loader_begins_where_another_was() -> None:
    whole, read = loader(), loader()
    whole.sampler.set_epoch(5)
    expected = [batch[0].tolist() for batch in whole]
    read.sampler.set_epoch(5)
    for done in range(1, 4):
        batches = iter(read)
        for _ in range(done):
            next(batches)
        other = loader()
        other.load_state_dict(read.state_dict())
        assert [batch[0].tolist() for batch in other] == expected[done:]
        assert [batch[0].tolist() for batch in other] == expected, "once"
        other.load_state_dict(read.state_dict())
        other.sampler.set_epoch(6)
        assert len(list(other)) == 4, "another epoch is read from its beginning"


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (loader(rows=14), "rows=12, now 14"),
        (loader(size=4), "batch_size=3, now 4"),
        (loader(seed=1), "seed=0, now 1"),
        (loader(shuffle=False, rows=13), "rows=12, now 13; shuffle=1, now 0"),
    ],
)
def test_a_loader_of_other_batches_begins_anew_and_says_so(other: TensorLoader, said: str) -> None:
    read = loader()
    next(iter(read))
    other.load_state_dict(read.state_dict())
    with pytest.warns(UserWarning, match=rf"TensorLoader begins epoch 0 anew: .*{said}\. Some rows"):
        assert len(list(other)) == len(other)


def test_a_loader_of_more_processes_begins_anew_and_says_so() -> None:
    read, other = loader(), loader()
    next(iter(read))
    other.load_state_dict({**read.state_dict(), "processes": 2})
    with pytest.warns(UserWarning, match="saved within it with processes=2, now 1"):
        assert len(list(other)) == 4


@pytest.mark.filterwarnings("ignore:You're resuming from a checkpoint that ended before the epoch ended")
def test_a_loader_that_cannot_go_on_is_named(tmp_path: Path) -> None:
    data = TensorDataset(torch.randn(40, 4), torch.arange(40) % 2)
    stopped = trainer(Stopping("on_train_batch_end", 6), saving(tmp_path), enable_checkpointing=True)
    with pytest.raises(StoppedError):
        stopped.fit(started()[0], DataLoader(data, 10))
    said = r"within epoch 1, after its batch 2, but DataLoader of TensorDataset begins anew: .* this package's Tensor"
    with pytest.warns(UserWarning, match=said):
        trainer().fit(started()[0], DataLoader(data, 10), ckpt_path=tmp_path / "last.ckpt")


def test_a_position_that_was_not_saved_is_missed(tmp_path: Path) -> None:
    """By a version of which the loader could not go on."""
    interrupted(tmp_path, Stopping("on_train_batch_end", 6), saving(tmp_path))
    saved = torch.load(tmp_path / "last.ckpt", weights_only=True)
    del saved["loops"]["fit_loop"]["state_dict"]["combined_loader"]
    torch.save(saved, tmp_path / "older.ckpt")
    with pytest.warns(UserWarning, match="but TensorLoader begins anew"):
        trainer().fit(*started(), ckpt_path=tmp_path / "older.ckpt")


# ---- files


FIT = (
    "--model=BinaryClassifier",
    "--data=BalancedDataModule",
    "--data.train_size=80",
    "--data.val_size=20",
    "--data.test_size=20",
    "--data.batch_size=20",
    "--trainer.accelerator=cpu",
    "--trainer.enable_progress_bar=false",
    "--trainer.enable_model_summary=false",
    "--trainer.max_epochs=4",
    "--trainer.log_every_n_steps=1",
)
SAVING = "{class_path: ModelCheckpoint, init_args: {dirpath: kept, save_on_exception: true}}"


@pytest.fixture
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder for the run, and one for what is temporary."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))


def told(capsys: Capture, command: str, *options: str) -> str:
    """The one line of a call that cannot work."""
    capsys.readouterr()
    assert main([command, *FIT, *options]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("evalkit ")]
    assert len(lines) == 1
    return lines[0]


@pytest.mark.usefixtures("_elsewhere")
def test_a_damaged_checkpoint_is_one_readable_line(tmp_path: Path, capsys: Capture) -> None:
    place = ("--trainer.logger=false", f"--trainer.callbacks=[{SAVING}]")
    assert main(["fit", *FIT, *place]) == 0
    [good] = Path("kept").glob("*.ckpt")
    content, saved = good.read_bytes(), torch.load(good, weights_only=True)
    files: dict[str, Any] = {
        "empty": b"",
        "garbage": os.urandom(1000),
        "text": b"hello\n" * 50,
        "half": content[: len(content) // 2],
        "cut": content[:-10],
        "tensor": torch.zeros(3),
        "list": [1],
        "other": {"a": 1},
        "no_weights": {name: part for name, part in saved.items() if name != "state_dict"},
    }
    for (name, part), command in zip(files.items(), cycle(("fit", "test", "validate"))):
        path = Path(f"{name}.ckpt")
        path.write_bytes(part) if isinstance(part, bytes) else torch.save(part, path)
        line = told(capsys, command, *place, f"--ckpt_path={path}")
        assert line.startswith(f"evalkit {command}: {path} could not be loaded as a checkpoint of this model (")
        assert line.endswith("). It may have been cut off or damaged, or be of something else: take another one.")
    check_other_networks(capsys, saved, *place)
    (tmp_path / "kept" / "last.ckpt").write_bytes(content[: len(content) // 2])
    found = f"evalkit fit: {tmp_path / 'kept' / 'last.ckpt'} could not be loaded"
    assert told(capsys, "fit", *place, "--ckpt_path=last").startswith(found)
    assert good.read_bytes() == content, "what is good stays"


def check_other_networks(capsys: Capture, saved: dict[str, Any], *place: str) -> None:
    """A file that is whole, but of a network of another size, is not called damaged."""
    (name, weights), *rest = saved["state_dict"].items()
    others = {
        "has the shape [2, 32] there, [1, 16] here": {name: weights.repeat(2, 2)},
        f"it has no {name}, which this model has": dict(rest),
        "it has network.7.weight, which this model has not": {**saved["state_dict"], "network.7.weight": weights},
    }
    for words, state in others.items():
        torch.save({**saved, "state_dict": state}, "other_network.ckpt")
        line = told(capsys, "test", *place, "--ckpt_path=other_network.ckpt")
        assert line.startswith("evalkit test: other_network.ckpt is a checkpoint of another network: ")
        assert words in line


@pytest.mark.usefixtures("_elsewhere")
def test_a_configuration_of_an_older_version_is_one_readable_line(capsys: Capture) -> None:
    silent = ("--trainer.fast_dev_run=false", "--trainer.logger=false", "--trainer.default_root_dir=.")
    assert main(["fit", *FIT, *silent, "--trainer.max_epochs=1", "--trainer.callbacks=[]"]) == 0
    written = Path("config.yaml").read_text(encoding="utf-8")
    assert f"# lightning_evalkit=={__version__}\n" in written
    older = written.replace(f"lightning_evalkit=={__version__}", "lightning_evalkit==0.0.7")
    changes = {
        "learning_rate": ("lr", "BinaryClassifier has no option 'lr': expected one of"),
        "max_epochs": ("epochs", "there is no option 'trainer.epochs': did you mean 'min_epochs' or 'max_epochs'?"),
        "seed_everything": ("seed", "there is no option 'seed': expected one of ckpt_path, data,"),
        "separability": ("separable", "BalancedDataModule has no option 'separable': did you mean 'separability'?"),
        "modules.BinaryClassifier": (
            "modules.BinaryModule",
            "there is no lightning_evalkit.modules.BinaryModule: did you mean 'BinaryClassifier'",
        ),
        "lightning_evalkit.data.Bal": (
            "lightning_evalkit.datasets.Bal",
            "there is no lightning_evalkit.datasets: did you mean 'data'",
        ),
    }
    for now, (before, said) in changes.items():
        assert now in older
        Path("older.yaml").write_text(older.replace(now, before), encoding="utf-8")
        capsys.readouterr()
        assert main(["fit", "--config=older.yaml"]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert said in line
        assert line.endswith(f" older.yaml was written by version 0.0.7, this is {__version__}.")
    Path("own.yaml").write_text(yaml.safe_dump({"trainer": {"gpus": 1}}), encoding="utf-8")
    assert "own.yaml" not in told(capsys, "fit", "--config=own.yaml"), "nothing is known of its version"


@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.parametrize("place", ["file/below", "/proc/nowhere"])
def test_a_folder_that_cannot_be_written_ends_a_run_before_it_begins(place: str, capsys: Capture) -> None:
    """Below a file and in the kernel's own folder nobody can make one, whoever asks."""
    if place.startswith("/proc") and not Path("/proc/self").exists():
        pytest.skip("no such folder on this system")
    Path("file").touch()
    for logger in (f"--trainer.default_root_dir={place}", f"--trainer.logger.save_dir={place}"):
        kind = ["--trainer.logger=TensorBoardLogger"] if "save_dir" in logger else []
        line = told(capsys, "fit", *kind, logger, f"--trainer.callbacks=[{SAVING}]")
        assert re.match(rf"evalkit fit: \[Errno \d+\] [\w ]+: '.*{place}", line)
        assert not Path("kept").exists()


class Filling(Callback):
    """In the third epoch the disk of the event files is full: each is replaced by the device that always is."""

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        if trainer.current_epoch == 2:
            for path in Path(trainer.logger.log_dir).glob("events.*"):
                path.unlink()
                path.symlink_to("/dev/full")


class Taking(Callback):
    """In the third epoch the folder of the checkpoints is gone, and a file is in its place."""

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        if trainer.current_epoch == 2:
            Path("kept").rename("gone")
            Path("kept").touch()


def finished(folder: str, *options: str) -> dict[str, float]:
    """The numbers of a run that comes to its end."""
    from lightning_evalkit.cli.training import launched

    words = [*FIT, f"--trainer.default_root_dir={folder}", "--trainer.logger=false", "--trainer.callbacks=[]"]
    ended = launched(["fit", *words, *options])
    return {name: value.item() for name, value in ended.trainer.callback_metrics.items()}


@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("fault", ["Filling", "Taking"])
def test_what_was_learnt_outlives_the_disk(fault: str, capsys: Capture) -> None:
    if fault == "Filling" and not Path("/dev/full").exists():
        pytest.skip("no such device on this system")
    logger = ("--trainer.logger=TensorBoardLogger", "--trainer.logger.save_dir=curves")
    line = told(capsys, "fit", *logger, f"--trainer.callbacks=[{{class_path: {OWN}.{fault}}}, {SAVING}]")
    reason = os.strerror(errno.ENOSPC) if fault == "Filling" else "kept"
    said = re.fullmatch(
        rf"evalkit fit: .*{reason}.*: results are written to curves and runs\. What was learnt is kept: "
        r"--ckpt_path (\S+) resumes from step (\d+)\.",
        line,
    )
    assert said, line
    path, step = Path(said[1]), int(said[2])
    assert step > 8, "of the third epoch"
    assert torch.load(path, weights_only=True)["global_step"] == step
    assert path.is_relative_to(Path("temporary").resolve()) == (fault == "Taking")
    assert finished("on", f"--ckpt_path={path}") == finished("whole")
