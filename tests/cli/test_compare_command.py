"""evalkit compare: two runs' folders, checkpoints and saved evaluations, paired where they counted the same rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from simulated import binary, classes

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, compare
from lightning_evalkit.cli import main
from lightning_evalkit.cli.saved_counts import saved_in

pytestmark = [
    # About Lightning's use of jsonargparse, the machine and the tiny trainings of these tests.
    pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The '[a-z_]+_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches .* is smaller than the logging interval"),
    pytest.mark.filterwarnings("ignore:.* is 0/0"),
]

Capture = pytest.CaptureFixture[str]
QUIET = ("--trainer.accelerator=cpu", "--trainer.enable_model_summary=false", "--trainer.enable_progress_bar=false")
SMALL = ("--data.train_size=300", "--data.val_size=100", "--data.test_size=120")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def counted(noise: float, buckets: int | None = 64, size: int = 300, **options: Any) -> BinaryEvaluation:
    """The same samples every time, and logits that are worse with more noise."""
    logits, target = binary(size, 1)
    worse = logits + noise * torch.randn(size, generator=torch.Generator().manual_seed(2))
    evaluation = BinaryEvaluation("logits", buckets=buckets, **options)
    evaluation.update(worse, target, sample=torch.arange(size) if buckets else None)
    return evaluation


def saved(name: str, evaluation: Any) -> str:
    evaluation.persistent(True)
    torch.save(evaluation.state_dict(), name)
    return name


def printed(capsys: Capture, *words: str) -> str:
    capsys.readouterr()
    assert main(["compare", *words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


# ---- what is said


def test_saved_evaluations_give_what_compare_gives(capsys: Capture) -> None:
    one, other = counted(8.0, curves=True), counted(0.0, curves=True)
    files = saved("one.pt", one), saved("other.pt", other)
    told = json.loads(printed(capsys, *files, "--format=json", "--level=0.9", "--statistics=[f1,mcc,auroc]"))
    expected = compare(one, other, ["f1", "mcc", "auroc"], level=0.9)
    assert told["paired"]
    assert told["files"] == [*files]
    assert [*told["statistics"]] == ["f1", "mcc", "auroc"]
    for name, each in told["statistics"].items():
        assert (each["a"], each["b"]) == (float(one[name].compute()), float(other[name].compute()))
        fields = ("difference", "low", "high", "p_value", "verdict")
        assert [each[field] for field in fields] == [getattr(expected[name], field) for field in fields]
    assert told["statistics"]["f1"]["verdict"] == "better"


def test_the_table_has_80_columns_and_says_who_is_better(capsys: Capture) -> None:
    files = saved("one.pt", counted(8.0, curves=True)), saved("other.pt", counted(0.0, curves=True))
    out = printed(capsys, *files)
    assert all(len(line) <= 80 for line in out.splitlines())
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    assert rows["accuracy"][-1] == "better"
    assert rows["brier"][-1] == "better"  # lower is better
    assert float(rows["brier"][3]) < 0
    assert "Paired: both counted the same 300 rows." in out
    swapped = printed(capsys, *reversed(files))
    assert [line.split()[-1] for line in swapped.splitlines() if line.split()[:1] == ["accuracy"]] == ["worse"]


def test_other_rows_are_not_paired(capsys: Capture) -> None:
    files = saved("one.pt", counted(8.0)), saved("other.pt", counted(0.0, size=200))
    out = " ".join(printed(capsys, *files).split())
    assert "Not paired, so less sure: their fingerprints differ" in out
    assert "A has 300 rows, B 200." in out
    plain = saved("plain.pt", counted(0.0, buckets=None))
    assert "were not counted by their ids" in " ".join(printed(capsys, files[0], plain).split())


def test_undefined_is_a_dash_without_a_warning(capsys: Capture) -> None:
    nothing = BinaryEvaluation("labels")
    nothing.update(torch.zeros(20, dtype=torch.int64), torch.arange(20) % 2)
    file = saved("nothing.pt", nothing)
    [row] = [line.split() for line in printed(capsys, file, file).splitlines() if line.split()[:1] == ["precision"]]
    assert row[1:4] == ["–", "–", "–"]
    read = json.loads(printed(capsys, file, file, "--format=json"))
    assert read["statistics"]["precision"]["difference"] is None


def test_wrong_use_is_one_line(capsys: Capture) -> None:
    scores, target = classes(100, 1)
    several = MulticlassEvaluation("logits", scores.shape[1])
    several.update(scores, target)
    ignored = BinaryEvaluation("labels", ignore_index=-1)
    ignored.update(torch.ones(5, dtype=torch.int64), torch.full((5,), -1))
    one, other, empty = saved("one.pt", counted(0.0)), saved("other.pt", several), saved("empty.pt", ignored)
    Path("folder").mkdir()
    for words, message in [
        ([one, "nowhere"], "got 'nowhere': not there"),
        ([one, "folder"], "folder holds no evaluation that has counted: evalkit fit, validate and test keep those of"),
        ([one, other], "expected two runs of one problem, got binary classification in one.pt and multiclass"),
        ([empty, empty], "has no samples that count"),
        ([one, one, "--stage=val"], "expected both runs to have counted val.0 "),
        ([one, one, "--statistics=[f2]"], "'f2' is not among what both runs have counted"),
        ([one, one, "--level=2"], "level"),
    ]:
        assert main(["compare", *words]) == 2
        err = capsys.readouterr().err
        assert message in err
        assert len(err.splitlines()) == 1


# ---- runs


def fitted(name: str, rate: float, *more: str) -> str:
    task = (
        "--model=BinaryClassifier",
        "--data=ImbalancedDataModule",
        "--data.prevalence=0.3",
        f"--model.learning_rate={rate}",
    )
    place = f"--trainer.default_root_dir={name}"
    assert main(["fit", *task, *SMALL, *QUIET, place, "--trainer.max_epochs=2", *more]) == 0
    return name


def test_two_fits_are_paired_whatever_their_batches(capsys: Capture) -> None:
    best = "[{class_path: ModelCheckpoint, init_args: {monitor: val/accuracy, mode: min}}]"
    first = fitted("first", 0.05, "--data.batch_size=40", f"--trainer.callbacks={best}")
    second = fitted("second", 0.05, "--data.batch_size=30", "--trainer.num_sanity_val_steps=0")
    told = json.loads(printed(capsys, first, second, "--format=json"))
    assert (told["compared"], told["paired"]) == ("val.0", True)
    [checkpoint] = Path("first").rglob("*.ckpt")
    kept = float(torch.load(checkpoint, weights_only=True)["callbacks"][chosen(checkpoint)]["best_model_score"])
    assert told["statistics"]["accuracy"]["a"] == pytest.approx(kept)
    assert main(["diagnose", first]) == 0
    assert main(["test", "--run", first, *QUIET]) == 0
    assert [*saved_in(first)] == ["val.0", "test.0"]
    assert saved_in(first)["test.0"].evaluation.counts.total == 120
    told = json.loads(printed(capsys, first, second, "--format=json"))
    assert told["compared"] == "val.0"  # which both have
    by_checkpoint = json.loads(printed(capsys, str(checkpoint), second, "--format=json"))
    assert by_checkpoint["statistics"] == told["statistics"]


def chosen(checkpoint: Path) -> str:
    [name] = [each for each in torch.load(checkpoint, weights_only=True)["callbacks"] if "ModelCheckpoint" in each]
    return name
