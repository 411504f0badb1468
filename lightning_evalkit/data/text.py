"""Texts as data: reads the user's file, tokenises its texts, and yields batches for Hugging Face models."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path  # noqa: TC003 (the command line reads the types of the constructor)
from typing import TYPE_CHECKING, Any, NamedTuple

from lightning_evalkit.data import tokens
from lightning_evalkit.data.base import Splits, TensorDataModule
from lightning_evalkit.data.columns import check_labels, checked_separator
from lightning_evalkit.data.json_lines import opened_text
from lightning_evalkit.data.label_lists import is_list, listed_labels
from lightning_evalkit.data.loader import TensorLoader
from lightning_evalkit.data.splitting import SplitRows, checked_shares, stratified
from lightning_evalkit.data.targets import FileClasses, Target, labels, one_target
from lightning_evalkit.errors import DeclarationError, InputError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from lightning_evalkit.data.table import Table


class TextLoader(TensorLoader):
    """Batches as dicts of "input_ids", "attention_mask" and "labels", cut to the longest text of the batch."""

    def batch(self, tensors: tuple[Tensor, ...]) -> dict[str, Tensor]:
        """Tokens and labels by name."""
        ids, mask, target = tensors
        if ids.is_cpu and len(ids):  # on other devices the host would wait for the length
            used = mask.any(0).nonzero().flatten()
            first, last = (int(used[0]), int(used[-1]) + 1) if len(used) else (0, 1)
            ids, mask = ids[:, first:last], mask[:, first:last]
        return {"input_ids": ids.long(), "attention_mask": mask.long(), "labels": target}


class LabelledTexts(NamedTuple):
    """Texts, their target, the rows of each split, and the names of three or more classes."""

    texts: list[str]
    target: Target
    rows: SplitRows
    class_names: list[str]


class TokenDataModule(TensorDataModule):
    """Texts as tokens. A final class defines ``labelled_texts``.

    Args:
        tokenizer: The name or path of a tokenizer; without it, one is trained on the training texts.
        vocabulary: The largest number of tokens of a tokenizer that is trained here.
        max_length: The number of tokens after which a text is cut.
        batch_size: Rows in a batch.
        seed: The seed of everything random in the data, including the order of training rows.
        on_device: Move all data to the device of the training at once, instead of batch by batch.
    """

    loader = TextLoader

    def __init__(
        self, tokenizer: str | None, vocabulary: int, max_length: int, batch_size: int, seed: int, on_device: bool
    ) -> None:
        super().__init__(batch_size, seed, on_device)
        if vocabulary < 300 or max_length < 3:
            raise DeclarationError(
                "expected a vocabulary of at least 300 tokens, 256 of which are bytes, and a max_length of at least 3, "
                f"got {vocabulary} and {max_length}."
            )
        self.tokenizer_name, self.vocabulary, self.max_length = tokenizer, vocabulary, max_length

    def __str__(self) -> str:
        """Show the class alone; Lightning's own text would load the data to count rows."""
        return f"{type(self).__name__}(tokenizer={self.tokenizer_name or 'trained on the texts'})"

    @cached_property
    def labelled_texts(self) -> LabelledTexts:
        """Make or read the texts, once."""
        raise NotImplementedError

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer; if it is trained here, on the training texts only."""
        if self.tokenizer_name is not None:
            return tokens.loaded(self.tokenizer_name)
        texts, _, rows, _ = self.labelled_texts
        return tokens.trained([texts[row] for row in rows.train.tolist()], self.vocabulary)

    @property
    def vocab_size(self) -> int:
        """The number of tokens, for a model that is not trained yet."""
        return len(self.tokenizer)

    def splits(self, device: torch.device) -> Splits:
        """Tokens, mask and target of each split."""
        texts, target, rows, _ = self.labelled_texts
        ids, mask = tokens.encoded(self.tokenizer, texts, self.max_length, type(self).__name__)
        self.predicted_rows, self.value_names = rows.test, target.value_names
        return Splits(*((ids[split], mask[split], target.values[split]) for split in rows))


class TextDataModule(FileClasses, TokenDataModule):
    """A CSV, JSON lines or Parquet file with a column of texts: stratified splits, tokens, dicts as batches.

    ``target`` is one column (two values, of which ``positive`` says which is the positive one, or classes), a list of
    columns that are labels of 0 and 1, or one column whose rows list their labels: as lists, or as text between
    ``label_separator``. The file is read once, when first needed.

    Args:
        path: A file that ends in .csv, .tsv, .jsonl or .parquet.
        text: The column of texts.
        target: The column to predict, or a list of columns that are labels of 0 and 1.
        label_separator: The text between the labels of a row, if the target lists them as text.
        positive: Which of two values of the target is the positive one.
        val_share: Share of the rows to validate on.
        test_share: Share of the rows to test on, and to predict.
        separator: The character between the values of a CSV file; "tab" for tabs, which is the default for .tsv files.
    """

    def __init__(
        self,
        path: str | Path,
        text: str,
        target: str | list[str],
        label_separator: str | None = None,
        positive: str | int | float | bool | None = None,
        val_share: float = 0.2,
        test_share: float = 0.2,
        separator: str | None = None,
        tokenizer: str | None = None,
        vocabulary: int = 4_000,
        max_length: int = 128,
        batch_size: int = 32,
        seed: int = 0,
        on_device: bool = False,
    ) -> None:
        super().__init__(tokenizer, vocabulary, max_length, batch_size, seed, on_device)
        path = str(path)  # a checkpoint keeps it, and loads only plain values again
        self.path, self.text, self.label_separator, self.positive = path, text, label_separator, positive
        self.separator, self.shares = checked_separator(separator, path), checked_shares(val_share, test_share)
        self.targets = [target] if isinstance(target, str) else list(target)
        self.several = not isinstance(target, str)
        if self.several:
            check_labels(self.targets, positive)
        if label_separator is not None and (self.several or positive is not None or not label_separator):
            raise DeclarationError("expected label_separator, a text, with one target column and without positive.")
        if text in self.targets:
            raise DeclarationError(f"expected every column in one role, got {text!r} as text and as target.")
        self.save_hyperparameters(logger=False)

    def _classes(self) -> list[str]:
        return self.labelled_texts.class_names

    @property
    def num_labels(self) -> int:
        """The number of labels; a target of one class per row has no such attribute."""
        return len(self.label_names)

    @property
    def label_names(self) -> list[str]:
        """The labels in the order of the target's columns; a target of one class per row has no such attribute."""
        target = self.labelled_texts.target
        if target.values.ndim == 1:
            raise AttributeError(f"the target {self.targets} of {self.path} has one class per row.")
        return target.names

    @cached_property
    def labelled_texts(self) -> LabelledTexts:
        """Read the file."""
        table = opened_text(self.path, self.separator)
        table.load([], [self.text, *self.targets])
        texts, target = _texts(table, self.text), self._target(table)
        rows = stratified(target.values, self.shares, self.seed, target.names, f"{self.path}, target {self.targets}")
        many = target.values.ndim == 1 and len(target.names) > 2
        return LabelledTexts(texts, target, rows, target.names if many else [])

    def _target(self, table: Table) -> Target:
        if self.several:
            return labels(table, self.targets)
        column = self.targets[0]
        if self.label_separator is not None or is_list(table, column):
            return listed_labels(table, column, self.label_separator)
        return one_target(table, column, self.positive)


def _texts(table: Table, name: str) -> list[str]:
    texts: list[Any] = table.columns.column(name).to_pylist()
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise table.wrong(name, row, "a text")
    if not texts:
        raise InputError(f"{table.path}: expected rows, got none.")
    return texts
