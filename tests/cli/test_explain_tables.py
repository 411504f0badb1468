"""evalkit explain of confusion matrices and of files of labels, in all three tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn import metrics as sklearn

from lightning_evalkit import Counts
from lightning_evalkit.cli import main
from lightning_evalkit.diagnosis import explain

Capture = pytest.CaptureFixture[str]
MATRIX = [[5, 1, 0], [0, 4, 2], [1, 0, 7]]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def found(capsys: Capture, *words: str) -> dict[str, Any]:
    assert main(["explain", "--format=json", *words]) == 0, capsys.readouterr().err
    finding: dict[str, Any] = json.loads(capsys.readouterr().out)
    return finding


def told(capsys: Capture, *words: str) -> str:
    assert main(["explain", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err


def test_a_matrix_of_two_rows_is_binary_with_negatives_first(capsys: Capture):
    expected = explain(Counts(tp=43, fp=3, fn=4, tn=50)).to_dict()
    assert found(capsys, "--matrix", "50,3;4,43") == expected
    Path("m.csv").write_text("no,yes\n50,3\n4,43\n")
    assert found(capsys, "--matrix", "m.csv") == expected


FORMS = {
    "cells": "5,1,0\n0,4,2\n1,0,7\n",
    "line of names": "cat,dog,cow\n5,1,0\n0,4,2\n1,0,7\n",
    "column of names": "cat,5,1,0\ndog,0,4,2\ncow,1,0,7\n",
    "both": ",cat,dog,cow\ncat,5,1,0\ndog,0,4,2\ncow,1,0,7\n",
    "with a corner": "target,cat,dog,cow\ncat,5,1,0\ndog,0,4,2\ncow,1,0,7\n",
    "names that are numbers": ",7,8,9\n7,5,1,0\n8,0,4,2\n9,1,0,7\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_matrix_of_several_classes(capsys: Capture, form: str):
    Path("m.csv").write_text(FORMS[form])
    target, preds = (np.repeat(places.ravel(), np.ravel(MATRIX)) for places in np.indices((3, 3)))
    finding = found(capsys, "--matrix=m.csv")
    assert finding["code"] == "micro-is-accuracy"
    assert finding["evidence"]["values"]["accuracy"] == pytest.approx(sklearn.accuracy_score(target, preds))
    first = {"cells": "0", "names that are numbers": "7"}.get(form, "cat")
    values = found(capsys, "--matrix=m.csv", f"--first=recall/{first}", "--second=f1/macro")["evidence"]["values"]
    assert values[f"recall/{first}"] == pytest.approx(sklearn.recall_score(target, preds, average=None)[0])
    assert values["f1/macro"] == pytest.approx(sklearn.f1_score(target, preds, average="macro"))


def test_two_classes_may_be_a_multiclass_task(capsys: Capture):
    finding = found(capsys, "--matrix=50,3;4,43", "--task=multiclass")
    assert finding["evidence"]["values"] == {"accuracy": 0.93, "f1/micro": 0.93}


def file(**columns: Any) -> str:
    pandas.DataFrame(columns).to_csv("labels.csv", index=False)
    return "--labels=labels.csv"


def test_labels_of_a_binary_task(capsys: Capture):
    expected = explain(Counts(tp=2, fp=1, fn=1, tn=3)).to_dict()
    target, label = [1, 1, 1, 0, 0, 0, 0], [1, 1, 0, 1, 0, 0, 0]
    assert found(capsys, file(row=range(7), label=label, target=target)) == expected
    words = [["bad" if one else "good" for one in column] for column in (target, label)]
    given = file(truth=words[0], said=words[1])
    named = ("--target=truth", "--prediction=said")
    assert found(capsys, given, *named, "--positive=bad") == expected
    assert "which of two labels is positive, such as --positive good" in told(capsys, given, *named)
    assert "--positive to be a label: did you mean 'bad'" in told(capsys, given, *named, "--positive=bat")


def test_labels_of_several_classes(capsys: Capture):
    target, label = ["10", "9", "9", "b"], ["9", "9", "9", "b"]
    finding = found(capsys, file(target=target, label=label), "--first=recall/9", "--second=accuracy")
    assert finding["evidence"]["values"] == {"recall/9": 1.0, "accuracy": 0.75}


def test_many_labels_as_predict_writes_them(capsys: Capture):
    target, label = np.array([[1, 0], [1, 1], [0, 0]]), np.array([[1, 0], [0, 1], [0, 1]])
    columns = {
        f"{kind}_{name}": part[:, place]
        for kind, part in (("target", target), ("label", label))
        for place, name in enumerate("ab")
    }
    values = found(capsys, file(**columns))["evidence"]["values"]
    hamming = 1 - sklearn.hamming_loss(target, label)
    assert values == pytest.approx({"exact_match": sklearn.accuracy_score(target, label), "hamming_accuracy": hamming})
    values = found(capsys, file(**columns), "--first=f1/samples", "--second=exact_match")["evidence"]["values"]
    assert set(values) == {"f1/samples", "exact_match"}
    columns["label_b"] = np.array([0, 1, 2])
    assert "column 'label_b': expected 0 or 1 in every label, got '2'" in told(capsys, file(**columns))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--matrix=1,2;3",), "expected a square confusion matrix of whole numbers"),
        (("--matrix=1,2;3,-4",), "expected a square confusion matrix"),
        (("--matrix=1,2;3,4.5",), "expected a square confusion matrix"),
        (("--matrix=7",), "expected a square confusion matrix"),
        (("--matrix=",), "expected a square confusion matrix"),
        (("--matrix=1,2,3;4,5,6;7,8,9", "--task=binary"), "expected a matrix of two rows, negatives first"),
        (("--matrix=1,2;3,4", "--counts=1,2,3,4"), "expected one of --counts, --matrix and --labels, got"),
        (("--labels=absent.csv",), "absent.csv"),
    ],
)
def test_what_is_no_matrix_is_one_line(capsys: Capture, words: tuple[str, ...], message: str):
    assert message in told(capsys, *words)


def test_what_is_no_file_of_labels_is_one_line(capsys: Capture):
    assert "expected a column 'target', but there is none: did you mean 'targt'" in told(
        capsys, file(targt=[1, 0], label=[1, 0])
    )
    Path("labels.csv").write_text("target,label\n1\n")
    assert "expected a line of names and rows of as many values" in told(capsys, "--labels=labels.csv")
    Path("labels.csv").write_text("")
    assert "expected a line of names" in told(capsys, "--labels=labels.csv")
    Path("labels.csv").write_bytes(b"target,label\n\xff,1\n")
    assert "expected CSV text in UTF-8" in told(capsys, "--labels=labels.csv")
