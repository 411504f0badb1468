"""Modules, trainings and event files for tests of reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from lightning.pytorch import LightningDataModule, LightningModule, Trainer
from sklearn import metrics as sklearn
from tensorboard_runs import EPOCHS, trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation

if TYPE_CHECKING:
    from pathlib import Path

    from lightning_evalkit.evaluation.base import Evaluation


ROWS, BATCH, SHIFT = 48, 8, 0.4
BATCHES = ROWS // BATCH
SEEDS = {"train": 1, "val": 2, "test": 3}
CLASSES = ("cat_1", "dog $", "bird")


def data(task: str, stage: str) -> TensorDataset:
    generator = torch.Generator().manual_seed(SEEDS[stage])
    x = torch.randn(ROWS, 3, generator=generator)
    shape, highest = {"binary": ((ROWS,), 2), "multiclass": ((ROWS,), 3), "multilabel": ((ROWS, 3), 2)}[task]
    y = torch.randint(0, highest, shape, generator=generator)
    return TensorDataset(x[:, 0] if task == "binary" else x, y)


def loader(task: str, stage: str) -> DataLoader[Any]:
    return DataLoader(data(task, stage), batch_size=BATCH)


def decided(task: str, x: np.ndarray, epoch: int) -> np.ndarray:
    if task == "multiclass":
        return (x + SHIFT * epoch * np.array([1, 0, 0])).argmax(1)
    return x + SHIFT * epoch > 0


def numbers(task: str, stage: str, epoch: int) -> dict[str, Any]:
    """Scikit-learn's values and matrix of a whole epoch."""
    x, y = (tensor.numpy() for tensor in data(task, stage).tensors)
    predicted = decided(task, x, epoch)
    if task == "multilabel":
        return {
            "exact_match": sklearn.accuracy_score(y, predicted),
            "hamming_accuracy": 1 - sklearn.hamming_loss(y, predicted),
            "f1/micro": sklearn.f1_score(y, predicted, average="micro"),
            "f1/macro": sklearn.f1_score(y, predicted, average="macro"),
            "matrix": sklearn.multilabel_confusion_matrix(y, predicted),
        }
    average = {"binary": {"f1": "binary"}, "multiclass": {"f1/macro": "macro"}}[task]
    f1 = {name: sklearn.f1_score(y, predicted, average=kind) for name, kind in average.items()}
    matrix = sklearn.confusion_matrix(y, predicted)
    return {"accuracy": sklearn.accuracy_score(y, predicted), **f1, "matrix": matrix}


def evaluation(task: str, prefix: str | None, **options: Any) -> Evaluation:
    options = {"inputs": "logits", "zero_division": 0.0, "prefix": prefix} | options
    if task == "binary":
        return BinaryEvaluation(**options)
    if task == "multiclass":
        return MulticlassEvaluation(**({"num_classes": 3, "class_names": CLASSES, "confusion_matrix": True} | options))
    return MultilabelEvaluation(num_labels=3, label_names=CLASSES, **options)


class Tiny(LightningModule):
    """Evaluations under names that mislead; ``way`` says when they are logged and reset: "end", "start" or "step"."""

    def __init__(
        self, task: str = "binary", way: str = "end", nested: Any = None, flag: bool = True, **options: Any
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.task, self.way = task, way
        self.scale = nn.Parameter(torch.ones(()))
        self.test_evaluation = evaluation(task, "train/", **options)
        self.held = nn.ModuleDict({"train_one": evaluation(task, "val/", **options)})
        self.more = nn.ModuleList([evaluation(task, "test/", **options)])

    def of(self, stage: str) -> Any:
        return {"train": self.test_evaluation, "val": self.held["train_one"], "test": self.more[0]}[stage]

    def forward(self, x: Tensor) -> Tensor:
        shift = torch.tensor([1, 0, 0]) if self.task == "multiclass" else 1
        return x * self.scale + SHIFT * self.current_epoch * shift

    def step(self, stage: str, batch: tuple[Tensor, Tensor]) -> Tensor:
        x, y = batch
        scores = self(x)
        self.of(stage).update(scores, y)
        if self.way == "step":
            self.log_dict(self.of(stage), on_step=stage == "train", on_epoch=True)
        return scores.sum()

    def training_step(self, batch: Any, _: int) -> Tensor:
        return self.step("train", batch)

    def validation_step(self, batch: Any, _: int) -> None:
        self.step("val", batch)

    def test_step(self, batch: Any, batch_idx: int) -> None:
        self.step("test", batch)

    def begin(self, stage: str) -> None:
        if self.way == "start":
            self.of(stage).reset()

    def end(self, stage: str) -> None:
        if self.way != "step":
            self.log_dict(self.of(stage).compute())
        if self.way == "end":
            self.of(stage).reset()

    def on_train_epoch_start(self) -> None:
        self.begin("train")

    def on_validation_epoch_start(self) -> None:
        self.begin("val")

    def on_test_epoch_start(self) -> None:
        self.begin("test")

    def on_train_epoch_end(self) -> None:
        self.end("train")

    def on_validation_epoch_end(self) -> None:
        self.end("val")

    def on_test_epoch_end(self) -> None:
        self.end("test")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.0)


class Rows(LightningDataModule):
    def __init__(self, task: str = "binary", prevalence: float = 0.5) -> None:
        super().__init__()
        self.save_hyperparameters()

    def train_dataloader(self) -> DataLoader[Any]:
        return loader(self.hparams["task"], "train")

    def val_dataloader(self) -> Any:
        return loader(self.hparams["task"], "val")

    def test_dataloader(self) -> DataLoader[Any]:
        return loader(self.hparams["task"], "test")


STEPS = {stage: [(epoch + 1) * BATCHES - 1 for epoch in range(EPOCHS)] for stage in ("train", "val")}
STEPS["test"] = [EPOCHS * BATCHES]
"""Where Lightning logs the scalars of an epoch."""

Drawing = tuple[str, Any]


def drawing(task: str, stage: str, epoch: int) -> Drawing:
    """What has to be drawn."""
    return f"{stage} · epoch {epoch}", numbers(task, stage, epoch)["matrix"].tolist()


def fit(folder: Path, module: LightningModule | None = None, val: Any = None, **options: Any) -> Trainer:
    fitting = trainer(folder, **options)
    fitting.fit(module or Tiny(), loader("binary", "train"), val or loader("binary", "val"))
    return fitting
