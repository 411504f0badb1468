"""Writes predictions as a table: number, scores, label and target of every row, as CSV or Parquet.

Rows are numbered from 0: as in the file or data set if the data module knows it, else in reading order. If steps
return something other than scores, ``torch.save`` writes that.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from lightning.pytorch.callbacks import BasePredictionWriter
from torch import Tensor

from lightning_evalkit.callbacks.parts.decisions import Decisions
from lightning_evalkit.cli.messages import WrongError
from lightning_evalkit.data.base import extra
from lightning_evalkit.data.loader import TensorLoader
from lightning_evalkit.inputs.threshold import names_of
from lightning_evalkit.modules.classifier import Classifier
from lightning_evalkit.sinks.files import replaced, write_csv

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lightning_evalkit.trainer import LightningModule, Trainer

SCORES = ("probabilities", "logits", "scores")
"""Keys of a dict under which a step returns scores."""
TARGETS = ("target", "targets", "label", "labels", "y")
"""Keys of a batch under which its target stands."""
NUMBERS = ("0", "1")

Columns = dict[str, list[Any]]


class Predictions(BasePredictionWriter):
    """Collects what ``predict_step`` returns, batch by batch."""

    def __init__(self) -> None:
        super().__init__("batch")
        self.columns: Columns = {}
        self.others: list[Any] = []
        self.read: dict[int, int] = {}  # rows of each dataloader so far

    def write_on_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        prediction: Any,
        batch_indices: Sequence[int] | None,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int,
    ) -> None:
        """Put a batch into columns."""
        scores = scores_of(prediction)
        if scores is None:
            self.others.append(prediction)
            return
        size = len(next(iter(scores.values())))
        added = {"row": self._rows(trainer, dataloader_idx, size, batch_indices)}
        if len(trainer.num_predict_batches) > 1:
            added["dataloader"] = [dataloader_idx] * size
        added |= _told(pl_module, getattr(trainer, "datamodule", None), scores, target_of(batch, size))
        for name, values in added.items():
            self.columns.setdefault(name, []).extend(values)

    def _rows(self, trainer: Trainer, loader: int, size: int, given: Sequence[int] | None) -> list[int]:
        """The row numbers, each once across ranks."""
        first = self.read.get(loader, 0)
        self.read[loader] = first + size
        if given:
            return list(given)
        loaders = trainer.predict_dataloaders
        shared = isinstance(loaders[loader] if isinstance(loaders, list) else loaders, TensorLoader)
        step, start = (trainer.world_size, trainer.global_rank) if shared else (1, 0)
        rows = [start + step * place for place in range(first, first + size)]
        source = getattr(getattr(trainer, "datamodule", None), "predicted_rows", None)
        return rows if source is None else [int(source[row]) for row in rows]

    def write(self, output: str | None, folder: Path, rank: int, ranks: int) -> Path:
        """Write the table, one file for each process, and say where."""
        path = folder / "predictions.csv" if output is None else Path(output)
        if ranks > 1:
            path = path.with_name(f"{path.stem}_{rank}{path.suffix}")
        if self.others:
            return _save(self.others, path.with_suffix(".pt"))
        if path.suffix == ".parquet":
            arrow = extra("pyarrow", "pyarrow")
            with replaced(path) as temporary:
                extra("pyarrow.parquet", "pyarrow").write_table(arrow.table(self.columns), str(temporary))
        else:
            write_csv(path, [*self.columns], [*zip(*self.columns.values(), strict=True)])
        return path


def _told(module: Any, data: Any, scores: Mapping[str, Tensor], target: Tensor | None) -> Columns:
    """The columns of a batch; classes are called by their names."""
    labels = labels_by(module, scores) if isinstance(module, Classifier) else {}
    names = (names_by(module) if isinstance(module, Classifier) else ()) or names_in(data)
    told: Columns = {}
    for name, values in {**scores, **labels, **({} if target is None else {"target": target})}.items():
        if values.ndim == 2:
            called = names if len(names) == values.shape[1] else [str(place) for place in range(values.shape[1])]
            told |= {f"{name}_{each}": column.tolist() for each, column in zip(called, values.T, strict=True)}
        elif names and name.startswith(("label", "target")) and not values.is_floating_point():  # class indices
            told[name] = [names[code] if 0 <= code < len(names) else str(code) for code in values.tolist()]
        else:
            told[name] = values.tolist()
    return told


def check_output(output: str | None) -> None:
    """Refuse a file of another kind before anything is predicted."""
    if output is not None and Path(output).suffix not in (".csv", ".parquet"):
        raise WrongError(f"--output: expected a file that ends in .csv or .parquet, got {output!r}.")


def _save(predicted: list[Any], path: Path) -> Path:
    warnings.warn(
        f"expected predict_step to return scores, (N,) or (N, C), or a dict of such, got "
        f"{type(predicted[0]).__name__}: {path} has it as torch saves it.",
        stacklevel=2,
    )
    with replaced(path) as temporary:
        torch.save(predicted, temporary)
    return path


def scores_of(prediction: Any) -> dict[str, Tensor] | None:
    """Columns of numbers by name: "score", and the other entries of a dict; None for anything else."""
    parts = prediction if isinstance(prediction, dict) else {"score": prediction}
    if not parts or not all(isinstance(part, Tensor) and part.ndim in (1, 2) for part in parts.values()):
        return None
    if len({len(part) for part in parts.values()}) > 1:
        return None
    scores = next((name for name in SCORES if name in parts), "score")
    called = {scores: "score", "labels": "label"}
    return {called.get(name, name): _plain(part) for name, part in parts.items()}


def _plain(part: Tensor) -> Tensor:
    part = part.detach().cpu()
    part = part.squeeze(1) if part.ndim == 2 and part.shape[1] == 1 else part
    return part.float() if part.dtype in (torch.bfloat16, torch.float16) else part


def target_of(batch: Any, size: int) -> Tensor | None:
    """The target of a batch, if it has one of a known form."""
    if isinstance(batch, dict):
        found = next((batch[name] for name in TARGETS if name in batch), None)
    else:
        found = batch[1] if isinstance(batch, (tuple, list)) and len(batch) > 1 else None
    fits = isinstance(found, Tensor) and found.ndim in (1, 2) and len(found) == size
    return _plain(found) if fits else None  # type: ignore[arg-type]


def names_by(module: Any) -> Sequence[str]:
    """The names of a classifier's classes or labels; empty for a binary one."""
    evaluation = module.evaluation("test")
    names: Sequence[str] = getattr(evaluation, "class_names", ()) or getattr(evaluation, "label_names", ())
    return names


def names_in(data: Any) -> Sequence[str]:
    """The names of classes or of the two values of a target, if the data module knows any; 0 and 1 stay numbers."""
    names: Sequence[str] = getattr(data, "class_names", ()) or getattr(data, "value_names", ())
    return () if tuple(names) == NUMBERS else names


def labels_by(module: Any, scores: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The labels of a classifier's probabilities, as its evaluation decides; empty if it has labels already."""
    evaluation, probabilities = module.evaluation("test"), scores["score"]
    if any(name.startswith("label") for name in scores):
        return {}
    if hasattr(evaluation, "class_names"):
        return {"label": probabilities.argmax(1)}
    cuts = evaluation.tally.counter.task.thresholds
    if probabilities.ndim == 1 and len(cuts) > 1:
        return {
            f"label@{name}": Decisions([cut], "logits").of(probabilities, "probabilities", None)
            for name, cut in zip(names_of(cuts), cuts, strict=True)
        }
    return {"label": Decisions(cuts, "logits").of(probabilities, "probabilities", None)}
