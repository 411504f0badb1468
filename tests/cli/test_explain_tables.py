"""evalkit explain of confusion matrices and of files of labels, in all three tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from sklearn import metrics as sklearn

from lightning_evalkit import Counts
from lightning_evalkit.cli import main
from lightning_evalkit.cli.label_tables import Classes, Labels
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
    "a crosstab": "row_0,7,8,9\n7,5,1,0\n8,0,4,2\n9,1,0,7\n",
    "numbers over names": ",0,1,2\ncat,5,1,0\ndog,0,4,2\ncow,1,0,7\n",
    "names over numbers": ",cat,dog,cow\n0,5,1,0\n1,0,4,2\n2,1,0,7\n",
    "numbers on both": ",0,1,2\n0,5,1,0\n1,0,4,2\n2,1,0,7\n",
    "a line that counts": "0,1,2\n5,1,0\n0,4,2\n1,0,7\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_matrix_of_several_classes(capsys: Capture, form: str):
    Path("m.csv").write_text(FORMS[form])
    target, preds = (np.repeat(places.ravel(), np.ravel(MATRIX)) for places in np.indices((3, 3)))
    finding = found(capsys, "--matrix=m.csv")
    assert finding["code"] == "micro-is-accuracy"
    assert finding["evidence"]["values"]["accuracy"] == pytest.approx(sklearn.accuracy_score(target, preds))
    first = {
        "cells": "0",
        "a line that counts": "0",
        "numbers on both": "0",
        "names that are numbers": "7",
        "a crosstab": "7",
    }.get(form, "cat")
    values = found(capsys, "--matrix=m.csv", f"--first=recall/{first}", "--second=f1/macro")["evidence"]["values"]
    assert values[f"recall/{first}"] == pytest.approx(sklearn.recall_score(target, preds, average=None)[0])
    assert values["f1/macro"] == pytest.approx(sklearn.f1_score(target, preds, average="macro"))


def test_rows_in_another_order_than_columns_are_refused(capsys: Capture):
    Path("m.csv").write_text(",cat,dog,cow\ndog,0,4,2\ncat,5,1,0\ncow,1,0,7\n")
    assert "the same names in the same order before the rows and over the columns, got dog,cat,cow and cat" in told(
        capsys, "--matrix=m.csv"
    )


def test_samples_of_two_files_in_another_order_are_refused(capsys: Capture):
    Path("p.csv").write_text("id,label\n1,a\n2,b\n3,b\n")
    Path("t.csv").write_text("id,target\n3,c\n2,b\n1,a\n")
    said = told(capsys, "--labels=p.csv", "--targets=t.csv")
    assert "in row 1 p.csv has id '1' and t.csv '3': sort both files by id" in said
    Path("t.csv").write_text("id,target,label\n1.0,a,c\n2.0,b,c\n3.0,c,c\n")  # labels of another model
    values = found(capsys, "--labels=p.csv", "--targets=t.csv", "--first=accuracy")["evidence"]["values"]
    assert values == {"accuracy": pytest.approx(2 / 3)}


def test_another_separator_is_told(capsys: Capture):
    Path("l.csv").write_text("target;label\n1;0\n0;0\n")
    assert "l.csv: expected values between commas, in a .tsv file between tabs, got the line 'target;label'." in told(
        capsys, "--labels=l.csv"
    )


def test_one_number_alone_is_told(capsys: Capture):
    of_counts = found(capsys, "--matrix=90,0;10,0", "--first=accuracy")
    assert of_counts == explain(Counts(tp=0, fp=0, fn=10, tn=90), "accuracy").to_dict()
    of_classes = found(capsys, "--matrix=5,1,0;0,4,2;1,0,7", "--first=recall/0")
    assert of_classes["headline"].startswith("recall/0 is 0.833333")
    second = found(capsys, "--counts=2,1,1,6", "--second=recall")
    assert [*second["evidence"]["values"]] == ["accuracy", "recall"], "the first is accuracy"


def test_a_file_that_is_missing_is_named(capsys: Capture):
    assert main(["explain", "--matrix=missing.csv"]) == 2
    assert "there is no file 'missing.csv'" in capsys.readouterr().err
    assert "missing.csv: expected a file of labels, but there is none (seen from" in told(
        capsys, "--labels=missing.csv"
    )


def test_columns_with_other_names_are_asked_for(capsys: Capture):
    Path("l.csv").write_text("y_true,y_pred\n1,0\n1,1\n0,0\n")
    assert "--target NAME takes another column, --targets FILE another file." in told(capsys, "--labels=l.csv")
    assert "--prediction NAME takes another column." in told(capsys, "--labels=l.csv", "--target=y_true")
    finding = found(capsys, "--labels=l.csv", "--target=y_true", "--prediction=y_pred")
    assert finding["evidence"]["counts"] == {"tp": 1, "fp": 0, "fn": 1, "tn": 1}


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
    assert "expected --positive to say which label is positive, such as --positive good" in told(capsys, given, *named)
    assert "--positive to be a label: did you mean 'bad'" in told(capsys, given, *named, "--positive=bat")


def save(form: str, columns: dict[str, Any]) -> str:
    """Targets and predictions of samples in a file of this form, each (N,) or (N, L)."""
    path = f"samples.{form}"
    if form == "npz":
        np.savez(path, **columns)
    else:
        frame = pandas.DataFrame({name: list(map(_listed, column)) for name, column in columns.items()})
        frame.to_parquet(path) if form == "parquet" else frame.to_json(path, orient="records", lines=True)
    return f"--labels={path}"


def _listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("form", ["parquet", "jsonl", "npz"])
def test_other_files_hold_the_same_labels(capsys: Capture, form: str):
    rng = np.random.default_rng(0)
    target, label = rng.integers(0, 2, (2, 40))
    tp, fp, fn, tn = ((target == t) & (label == p) for t, p in ((1, 1), (0, 1), (1, 0), (0, 0)))
    expected = explain(Counts(*(int(cell.sum()) for cell in (tp, fp, fn, tn)))).to_dict()
    assert found(capsys, save(form, {"target": target, "label": label})) == expected
    assert found(capsys, save(form, {"target": target == 1, "label": label.astype(float)})) == expected, "1.0 is 1"
    words = np.array(["cat", "dog", "fox"])
    target, label = words[rng.integers(0, 3, (2, 40))]
    values = found(capsys, save(form, {"target": target, "label": label}), "--second=f1/macro")["evidence"]["values"]
    assert values["accuracy"] == pytest.approx(sklearn.accuracy_score(target, label))
    assert values["f1/macro"] == pytest.approx(sklearn.f1_score(target, label, average="macro"))
    target, label = rng.integers(0, 2, (2, 40, 3))
    values = found(capsys, save(form, {"target": target, "label": label}))["evidence"]["values"]
    assert values["exact_match"] == pytest.approx(sklearn.accuracy_score(target, label))
    assert values["hamming_accuracy"] == pytest.approx(1 - sklearn.hamming_loss(target, label))


def test_targets_may_have_a_file_of_their_own(capsys: Capture):
    target, label = np.array([[1, 0, 1], [1, 1, 0]]), np.array([[1, 0, 0], [1, 1, 0]])
    for name, array in (("target", target), ("label", label)):
        np.save(f"{name}.npy", array)
        Path(f"{name}.txt").write_text("\n".join(map(str, array.ravel())))
        pandas.DataFrame({"anything": array.ravel()}).to_csv(f"{name}.csv", index=False)
    expected = explain(Counts(tp=3, fp=0, fn=1, tn=2)).to_dict()
    for kinds in (("txt", "txt"), ("csv", "txt")):
        assert found(capsys, f"--labels=label.{kinds[0]}", f"--targets=target.{kinds[1]}") == expected
    values = found(capsys, "--labels=label.npy", "--targets=target.npy")["evidence"]["values"]
    assert values == pytest.approx({"exact_match": 0.5, "hamming_accuracy": 5 / 6})
    assert "--targets FILE another file" in told(capsys, "--labels=label.txt")
    assert "got 6 in label.txt and 2 in target.npy" in told(capsys, "--labels=label.txt", "--targets=target.npy")
    assert "expected --labels, the file of predicted labels" in told(capsys, "--targets=target.txt")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("l.txt", b"1\n\n0\n", "l.txt, line 2: expected a label on every line, got nothing"),
        ("l.txt", b"", "expected columns with one value for each sample, got label: 0"),
        ("l.csv", b"1\n0\n1\n", "expected a line of names first, got the label '1'"),
        ("l.jsonl", b'{"target": 1, "label": 0}\n{"target": 1}\n', "row 2: expected a JSON object with the keys"),
        ("l.jsonl", b'{"target": 1,', "expected JSON lines in UTF-8, but it cannot be read"),
        ("l.jsonl", b'{"target": [1], "label": 0}\n{"target": [1, 0], "label": 0}\n', "lists of equal length"),
        ("l.jsonl", b'{"target": 1, "label": null}\n', "column 'label', row 1: expected a label, got nothing"),
        ("l.csv", b"target,label\n1,0.73\n0,0.1\n", "expected predicted labels or targets, got the score 0.73"),
        ("l.npz", b"PK\x03\x04", "expected NumPy arrays of labels, but they cannot be read"),
        ("l.parquet", b"no", "expected Parquet data, but it cannot be read"),
    ],
)
def test_faults_of_files_are_told(capsys: Capture, name: str, content: bytes, message: str):
    Path(name).write_bytes(content)
    assert message in told(capsys, f"--labels={name}")


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
        (("--matrix=5,1,0;2,3,1",), "expected a square confusion matrix of whole numbers"),
        (("--matrix=0,1;40,10;10,40",), "expected a square confusion matrix of whole numbers"),
        (("--matrix=1,2;3,4", "--counts=1,2,3,4"), "expected one of --counts, --matrix and --labels, got"),
        (("--labels=absent.csv",), "absent.csv"),
    ],
)
def test_what_is_no_matrix_is_one_line(capsys: Capture, words: tuple[str, ...], message: str):
    assert message in told(capsys, *words)


@pytest.mark.parametrize("text", ["5,1,0\n2,3,1\n", "5,1\n0,2\n3,1\n"])
def test_cells_of_a_matrix_that_is_not_square_are_not_taken_for_names(capsys: Capture, text: str):
    Path("m.csv").write_text(text)
    assert "got one that is square only without 5, " in told(capsys, "--matrix=m.csv")


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


NAMES_OF_CLASSES = [(), ("accuracy",), ("recall/1",), ("accuracy", "f1/macro"), ("mcc",), ("balanced_accuracy", "f1/2")]
NAMES_OF_LABELS = [(), ("exact_match",), ("f1/0",), ("f1/samples", "exact_match"), ("f1/micro", "f1/macro")]


@pytest.mark.parametrize("zero_division", [0.0, float("nan")])
@pytest.mark.parametrize(
    ("form", "names"), [*((Classes, each) for each in NAMES_OF_CLASSES), *((Labels, each) for each in NAMES_OF_LABELS)]
)
def test_what_is_counted_once_is_explained_like_an_evaluation(
    form: type[Classes], names: tuple[str, ...], zero_division: float
):
    torch.manual_seed(len(names))
    shape, most, places = ((300,), 4, "0123") if form is Classes else ((300, 3), 2, "012")
    table = form(torch.randint(most, shape), torch.randint(most, shape), [*places])
    evaluation: Any = table.evaluation()
    wanted = [*dict.fromkeys([*evaluation, *names])]
    evaluation = evaluation.replace(statistics=wanted, zero_division=zero_division)
    sample = {"sample": torch.arange(300)} if form is Labels else {}
    evaluation.update(table.preds, table.target, **sample)
    assert table.explained(names, zero_division).to_dict() == evaluation.explain(*names).to_dict()
