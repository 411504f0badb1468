"""evalkit diagnose: counts, matrices, checkpoints, runs and saved evaluations, in every format."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from io import StringIO
from typing import TYPE_CHECKING, Any

import lightning.pytorch
import pytest
import torch
from misused import Steps, loader, module
from rich.console import Console
from simulated import binary, classes, labels

from lightning_evalkit import BinaryEvaluation, Counts, MulticlassEvaluation, MultilabelEvaluation, diagnose
from lightning_evalkit.callbacks import Evaluate
from lightning_evalkit.cli import main
from lightning_evalkit.evaluation.saved import saved_evaluations
from lightning_evalkit.sinks.terminal import show_diagnosis

if TYPE_CHECKING:
    from pathlib import Path

    from lightning_evalkit.evaluation.base import Evaluation


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(["diagnose", *words])
    return code, capsys.readouterr().out


def test_counts_as_explain_takes_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    matrix = tmp_path / "matrix.csv"
    matrix.write_text("40,10\n10,40\n")
    one_by_one = ("--tp", "40", "--fp", "10", "--fn", "10", "--tn", "40")
    given = [one_by_one, ("--counts", "40,10,10,40"), ("--matrix", "40,10;10,40"), ("--matrix", str(matrix))]
    answers = {printed(capsys, *each) for each in given}
    [(code, out)] = answers
    assert code == 0
    assert out.startswith("0 issues and 3 tips; ")
    assert "EK203 tip: accuracy, precision, recall and f1 are all 0.8: TP = TN and FP = FN." in out


def test_a_matrix_of_several_classes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    matrix = tmp_path / "matrix.csv"
    matrix.write_text(",cat,dog,fox\ncat,50,3,0\ndog,4,43,0\nfox,9,9,0\n")
    _, out = printed(capsys, "--matrix", str(matrix))
    assert "EK207 tip: fox occurs 18 times and is never predicted." in out


def test_strict_ignored_and_known(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked = ("--counts", "40,10,10,40", "--prevalence", "0.01")
    assert printed(capsys, *asked)[0] == 0
    assert printed(capsys, *asked, "--strict")[0] == 3
    assert printed(capsys, *asked, "--strict", "--ignore", "ek211, EK208")[0] == 0
    baseline = tmp_path / "known.json"
    baseline.write_text(printed(capsys, *asked, "--format", "json")[1])
    code, out = printed(capsys, *asked, "--strict", "--baseline", str(baseline))
    assert code == 0
    assert out.startswith("nothing was found")
    baseline.write_text(json.dumps(["EK211:f1"]))
    assert "EK211 warning: precision" in printed(capsys, *asked, "--baseline", str(baseline))[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--counts", "1,2,3"], "expected --counts tp,fp,fn,tn"),
        ([], "expected what to diagnose: a checkpoint, the folder of a run or a saved evaluation, or --counts"),
        (["--tp", "1"], "expected all four counts"),
        (["nowhere.ckpt"], "expected a checkpoint, the folder of a run or a saved evaluation, got 'nowhere.ckpt'"),
        (["here.txt"], "here.txt: expected a checkpoint or a saved evaluation, but it cannot be read"),
        (["here.txt", "--counts", "1,2,3,4"], "expected a file or --counts, got both"),
        (["--counts", "1,2,3,4", "--ignore", "EK999"], "there is no rule 'EK999'"),
        (["--counts", "1,2,3,4", "--baseline", "here.txt"], "expected a baseline in JSON"),
        (["--counts", "1,2,3,4", "--baseline", "other.json"], "expected a JSON list of fingerprints"),
        (["--counts", "1,2,3,4", "--prevalence", "2"], "prevalence"),
        (["empty.pt"], "empty.pt holds no evaluation that has counted"),
    ],
)
def test_wrong_use_is_one_line(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.txt").write_text("not a checkpoint")
    (tmp_path / "other.json").write_text("[1]")
    torch.save({"weight": torch.zeros(2)}, tmp_path / "empty.pt")
    assert main(["diagnose", *words]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert len(err.splitlines()) == 1


# ---- files


def counted(task: str, **options: Any) -> Evaluation:
    if task == "binary":
        evaluation: Evaluation = BinaryEvaluation("logits", **options)
        evaluation.update(*binary(300, 1, shift=2.0))
    elif task == "multiclass":
        scores, target = classes(300, 1)
        names = [f"class {k}" for k in range(scores.shape[1])]
        evaluation = MulticlassEvaluation("logits", scores.shape[1], names, **options)
        evaluation.update(scores, target)
    else:
        scores, target = labels(300, 1)
        evaluation = MultilabelEvaluation("logits", scores.shape[1], **options)
        evaluation.update(scores, target)
    return evaluation


DECLARED: list[tuple[str, dict[str, Any]]] = [
    ("binary", {}),
    ("binary", {"curves": True, "threshold": 0.3, "ignore_index": -1}),
    ("binary", {"curves": True, "resolution": "bfloat16"}),
    ("multiclass", {"confusion_matrix": True, "statistics": ["accuracy", "top_2_accuracy"]}),
    ("multiclass", {"curves": True, "resolution": 512, "ignore_index": (0, -1)}),
    ("multilabel", {"threshold": [0.1 * k for k in range(1, 9)]}),
    ("multilabel", {"statistics": ["hamming_accuracy"]}),
]


@pytest.mark.parametrize(("task", "options"), DECLARED, ids=str)
def test_a_saved_evaluation_is_read_as_it_was_declared(task: str, options: dict[str, Any], tmp_path: Path) -> None:
    evaluation = counted(task, **options)
    evaluation.persistent(True)
    torch.save(evaluation.state_dict(), tmp_path / "evaluation.pt")
    [(name, read)] = saved_evaluations(tmp_path / "evaluation.pt").items()
    assert name == "evaluation"
    assert type(read) is type(evaluation)
    assert read.counts == evaluation.counts
    assert read.tally.counter.task == evaluation.tally.counter.task
    before, after = evaluation.compute(), read.compute()
    shared = [each for each in before if each in after]
    assert shared
    assert all(torch.equal(before[each], after[each]) for each in shared)


def test_a_checkpoint_of_the_callback_and_the_folder_of_its_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = module(lightning.pytorch, Returning)
    evaluate = Evaluate(BinaryEvaluation("logits", curves=True))
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False, "accelerator": "cpu"}
    trainer = lightning.pytorch.Trainer(max_epochs=1, callbacks=[evaluate], default_root_dir=tmp_path, **quiet)
    trainer.fit(made, loader(), loader(seed=1))
    [path] = tmp_path.rglob("*.ckpt")
    assert "val.0" in saved_evaluations(path)
    for given in (path, tmp_path):
        code, out = printed(capsys, str(given), "--format", "json")
        assert code == 0
        subjects = [each["subject"] for each in json.loads(out)["tips"]]
        assert all(each.startswith(("val.0/", "train.0/")) for each in subjects)
        assert "val.0/positive" in subjects  # of 90 samples


class Returning(Steps):
    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> dict[str, torch.Tensor]:
        return {"preds": self.network(batch[0]).squeeze(-1), "target": batch[1]}


# ---- formats


def test_sarif_has_what_the_format_requires(capsys: pytest.CaptureFixture[str]) -> None:
    _, out = printed(capsys, "--counts", "0,0,10,90", "--format", "sarif", "--ignore", "EK209")
    read = json.loads(out)
    assert read["version"] == "2.1.0"
    [run] = read["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"]
    assert all(rule["id"] and rule["fullDescription"]["text"] and rule["help"]["text"] for rule in driver["rules"])
    assert {result["ruleId"] for result in run["results"]} == {rule["id"] for rule in driver["rules"]}
    for result in run["results"]:
        assert result["message"]["text"]
        assert result["level"] in ("none", "note", "warning", "error")
        assert all(isinstance(each, str) for each in result["partialFingerprints"].values())
        assert all(each["kind"] in ("inSource", "external") for each in result.get("suppressions", []))
        assert all(each["name"] for place in result["locations"] for each in place["logicalLocations"])
    suppressed = {result["ruleId"] for result in run["results"] if "suppressions" in result}
    assert suppressed == {"EK209"}


def test_markdown_is_a_list_and_text_has_no_colours(capsys: pytest.CaptureFixture[str]) -> None:
    _, out = printed(capsys, "--counts", "0,0,10,90", "--format", "markdown")
    assert all(line.startswith("- **EK2") for line in out.splitlines())
    assert "\x1b" not in printed(capsys, "--counts", "0,0,10,90")[1]


def test_a_terminal_of_80_columns() -> None:
    written = StringIO()
    console = Console(file=written, force_terminal=True, width=80, color_system="standard")
    show_diagnosis(diagnose(Counts(tp=0, fp=0, fn=10, tn=90)), console)
    assert "\x1b[33mEK205 warning: all 100 samples were predicted as 'negative'." in written.getvalue()
    plain = re.sub("\x1b\\[[0-9;]*m", "", written.getvalue())
    assert max(map(len, plain.splitlines())) <= 80
    assert "  → Look at the scores" in plain


def test_counts_need_neither_lightning_nor_torchmetrics() -> None:
    source = (
        "import sys; from lightning_evalkit.cli import main; main(['diagnose', '--counts', '40,10,10,40']);"
        "print([name for name in ('lightning', 'torchmetrics', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_table_without_samples(capsys: pytest.CaptureFixture[str]) -> None:
    _, out = printed(capsys, "--counts", "0,0,0,0")
    assert out.count("EK209") == 1
    assert "nothing was counted" in out
