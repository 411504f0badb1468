"""Texts as data: three formats, three kinds of targets, tokens that belong to their labels, and words for faults."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch

pytest.importorskip("pyarrow")
pytest.importorskip("transformers")

import pyarrow as pa
from pyarrow import csv, parquet

from lightning_evalkit.data import CustomerMessagesDataModule, TextDataModule
from lightning_evalkit.data import tokens as tokens_of_texts
from lightning_evalkit.data.messages import CLEAR, VAGUE
from lightning_evalkit.errors import DeclarationError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KINDS = ("refund", "cancel", "address")
ROWS = 30
TEXTS = [f"message {row} about {KINDS[row % 3]}" + ", urgent" * (row % 2) for row in range(ROWS)]
COLUMNS: dict[str, list[Any]] = {
    "message": TEXTS,
    "kind": [KINDS[row % 3] for row in range(ROWS)],
    "urgent": [row % 2 for row in range(ROWS)],
    "about_refund": [int(row % 3 == 0) for row in range(ROWS)],
    "tags": [[KINDS[row % 3], *["urgent"] * (row % 2)] if row else [] for row in range(ROWS)],
}


@pytest.fixture(params=["csv", "jsonl", "parquet"])
def write(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Path]:
    """Write columns to a file of each format; lists are joined by a bar where there are only texts."""

    def written(**changes: list[Any]) -> Path:
        columns, path = COLUMNS | changes, tmp_path / f"messages.{request.param}"
        if request.param == "jsonl":
            rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
            path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
        elif request.param == "csv":
            joined = {
                name: ["|".join(v) if isinstance(v, list) else v for v in column] for name, column in columns.items()
            }
            csv.write_csv(pa.table(joined), path)
        else:
            parquet.write_table(pa.table(columns), path)
        return path

    return written


def read_back(data: Any) -> dict[str, list[int] | int]:
    """The text of every row, from its tokens, and its target."""
    found = {}
    for ids, mask, target in data.ready:
        for row, used, label in zip(ids, mask, target, strict=True):
            text = data.tokenizer.decode(row[used].tolist(), skip_special_tokens=True).strip()
            found[text] = label.tolist()
    return found


# ---- targets


def test_classes(write: Any):
    data = TextDataModule(write(), "message", "kind")
    assert (data.num_classes, data.class_names) == (3, ["address", "cancel", "refund"])
    expected = {text: ["address", "cancel", "refund"].index(KINDS[row % 3]) for row, text in enumerate(TEXTS)}
    assert read_back(data) == expected, "every row once, with its own target"
    assert [len(split[0]) for split in data.ready] == [18, 6, 6]
    assert not hasattr(data, "num_labels")


def test_yes_or_no(write: Any):
    data = TextDataModule(write(), "message", "urgent")
    assert read_back(data) == {text: row % 2 for row, text in enumerate(TEXTS)}
    assert not hasattr(data, "num_labels")
    assert not hasattr(data, "num_classes")
    words = TextDataModule(
        write(urgent=["yes" if row % 2 else "no" for row in range(ROWS)]), "message", "urgent", positive="no"
    )
    assert read_back(words) == {text: 1 - row % 2 for row, text in enumerate(TEXTS)}


def test_several_columns(write: Any):
    data = TextDataModule(write(), "message", ["about_refund", "urgent"])
    assert (data.num_labels, data.label_names) == (2, ["about_refund", "urgent"])
    assert read_back(data) == {text: [int(row % 3 == 0), row % 2] for row, text in enumerate(TEXTS)}


def test_a_list_of_labels(write: Any):
    path = write()
    data = TextDataModule(path, "message", "tags", label_separator="|" if path.suffix == ".csv" else None)
    assert data.label_names == ["address", "cancel", "refund", "urgent"]
    expected = {
        text: [int(row % 3 == 2), int(row % 3 == 1), int(row % 3 == 0 and row > 0), row % 2]
        for row, text in enumerate(TEXTS)
    }
    assert read_back(data) == expected


# ---- tokens


def test_a_tokenizer_is_trained_on_training_texts_only(write: Any, monkeypatch: pytest.MonkeyPatch):
    seen: list[list[str]] = []
    real = tokens_of_texts.trained

    def noted(texts: list[str], size: int) -> Any:
        seen.append(texts)
        return real(texts, size)

    monkeypatch.setattr(tokens_of_texts, "trained", noted)
    data = TextDataModule(write(), "message", "kind")
    rows = data.labelled_texts.rows
    assert data.vocab_size == len(data.tokenizer)
    assert seen == [[TEXTS[row] for row in rows.train.tolist()]], "once"


def test_a_tokenizer_by_its_path(tmp_path: Path, write: Any):
    data = TextDataModule(write(), "message", "kind")
    data.tokenizer.save_pretrained(tmp_path / "tokenizer")
    again = TextDataModule(write(), "message", "kind", tokenizer=str(tmp_path / "tokenizer"))
    assert torch.equal(again.ready.test[0], data.ready.test[0])


def test_a_tokenizer_that_cannot_fill_up(tmp_path: Path):
    made = tokens_of_texts.trained(TEXTS, 300)
    made.pad_token = None
    made.save_pretrained(tmp_path / "bare")
    with pytest.raises(InputError, match="has no padding token: set its pad_token"):
        tokens_of_texts.loaded(str(tmp_path / "bare"))


def test_long_texts_are_cut_and_counted(tmp_path: Path):
    path = tmp_path / "messages.jsonl"
    rows = [{"text": "a " * (20 if row == 4 else 3), "label": row % 2} for row in range(12)]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    data = TextDataModule(path, "text", "label", max_length=5)  # [CLS] a a a [SEP]
    with pytest.warns(UserWarning, match=r"1 of 12 texts are longer than max_length=5 tokens and are cut"):
        ids = data.ready.train[0]
    assert ids.shape[1] == 5
    assert {row[-1] for row in ids.tolist()} == {data.tokenizer.sep_token_id}


def test_batches_are_as_long_as_their_longest_text(write: Any):
    changed = ["much " * (row % 10) + text for row, text in enumerate(TEXTS)]
    data = TextDataModule(write(message=changed), "message", ["about_refund", "urgent"], batch_size=4)
    lengths = set()
    for batch in data.train_dataloader():
        assert list(batch) == ["input_ids", "attention_mask", "labels"]
        assert batch["input_ids"].shape == batch["attention_mask"].shape
        assert bool(batch["attention_mask"].any(0).all()), "no column is padding alone"
        assert bool((batch["input_ids"][batch["attention_mask"] == 0] == data.tokenizer.pad_token_id).all())
        lengths.add(batch["input_ids"].shape[1])
    assert len(lengths) > 1


def test_without_transformers(write: Any, monkeypatch: pytest.MonkeyPatch):
    data = TextDataModule(write(), "message", "kind")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "lightning-evalkit\[transformers\]"'):
        data.setup("fit")


# ---- made messages


def test_messages_say_what_their_labels_are():
    data = CustomerMessagesDataModule(vague=0.0, train_size=200, val_size=20, test_size=20)
    texts, target, rows, _ = data.labelled_texts
    for text, labels in zip(texts, target.values.tolist(), strict=True):
        assert labels == [int(any(phrase in text for phrase in CLEAR[name])) for name in data.label_names]
        assert 1 <= sum(labels) <= 3
    assert [len(split) for split in rows] == [200, 20, 20]
    assert torch.cat(rows).tolist() == list(range(240))


def test_vague_messages_mean_one_of_two():
    data = CustomerMessagesDataModule(vague=1.0, train_size=300, val_size=20, test_size=20)
    texts, target, _, _ = data.labelled_texts
    meant: dict[tuple[str, str], set[str]] = {pair: set() for pair in VAGUE}
    for text, labels in zip(texts, target.values.tolist(), strict=True):
        wanted = {name for name, label in zip(data.label_names, labels, strict=True) if label}
        assert not any(phrase in text for phrases in CLEAR.values() for phrase in phrases)
        for pair, phrases in VAGUE.items():
            if any(phrase in text for phrase in phrases):
                assert wanted & {*pair}
                meant[pair] |= wanted & {*pair} if len(wanted) == 1 else set()
    assert meant == {pair: {*pair} for pair in VAGUE}, "either, over all messages"


def test_the_same_seed_gives_the_same_messages():
    sizes = {"train_size": 20, "val_size": 2, "test_size": 2}
    made = [CustomerMessagesDataModule(seed=seed, **sizes).labelled_texts.texts for seed in (0, 0, 1)]
    assert made[0] == made[1] != made[2]


# ---- faults


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"text": "kind", "target": "kind"}, "expected every column in one role, got 'kind' as text and as target"),
        ({"target": ["urgent"]}, "expected at least 2 labels in a list"),
        ({"target": "tags", "label_separator": ""}, "expected label_separator, a text, with one target column"),
        ({"target": ["a", "b"], "label_separator": "|"}, "expected label_separator, a text, with one target column"),
        ({"vocabulary": 100}, "expected a vocabulary of at least 300 tokens"),
        ({"max_length": 2}, "a max_length of at least 3"),
    ],
)
def test_declarations_that_contradict_themselves(options: dict[str, Any], complaint: str):
    with pytest.raises(DeclarationError, match=complaint):
        TextDataModule(**{"path": "messages.csv", "text": "message", "target": "kind", **options})


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ('{"t": "a", "y": 0}\n\n{"t": "b" "y": 1}', "line 3: expected a JSON object, but it cannot be read"),
        ('{"t": "a", "y": 0}\n[1, 2]', "line 2: expected a JSON object, got list"),
        ('{"t": "a", "y": 0}\n\n{"t": null, "y": 1}', "column 't', line 3: expected a text, got a gap"),
        ('{"t": "a", "y": ["u", "u"]}', r"column 'y', line 1: expected every label once, got \['u', 'u'\]"),
        ('{"t": "a", "y": ["u"]}\n{"t": "a", "y": null}', r"line 2: expected a list of labels \(\[\] for none\)"),
        ('{"t": "a", "y": ["u"]}', r"expected lists of at least 2 different labels, got \['u'\]"),
        ('{"t": "a", "z": 1}', "expected a column 'y', but there is none"),
    ],
)
def test_faults_in_a_file_are_told_by_their_line(lines: str, complaint: str, tmp_path: Path):
    path = tmp_path / "messages.jsonl"
    path.write_text(lines, encoding="utf-8")
    with pytest.raises(InputError, match=complaint):
        TextDataModule(path, "t", "y").setup("fit")


def test_files_that_are_none(tmp_path: Path):
    with pytest.raises(InputError, match=r"ends in \.csv, \.tsv, \.jsonl or \.parquet, got '\.xlsx'"):
        TextDataModule("messages.xlsx", "t", "y").setup("fit")
    with pytest.raises(InputError, match="expected a file, but there is none"):
        TextDataModule(tmp_path / "absent.jsonl", "t", "y").setup("fit")
