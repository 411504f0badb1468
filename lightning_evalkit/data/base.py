"""Base of our data modules: splits as tensors in memory, one loader for each stage."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch

from lightning_evalkit.data.loader import TensorLoader
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.trainer import LightningDataModule

if TYPE_CHECKING:
    from torch import Tensor


class Splits(NamedTuple):
    """Features, target and, if there are any, weights of each split."""

    train: tuple[Tensor, ...]
    val: tuple[Tensor, ...]
    test: tuple[Tensor, ...]


def extra(module: str, package: str) -> Any:
    """Import what only the optional extra ``data`` installs."""
    try:
        return import_module(module)
    except ImportError as missing:
        raise InputError(
            f'this data needs {package}, which is not installed: pip install "lightning-evalkit[data]"'
        ) from missing


class TensorDataModule(LightningDataModule):
    """Data that fits into memory. A final class defines ``splits``, and ``num_features`` before they exist.

    Args:
        batch_size: Rows in a batch.
        seed: The seed of everything random in the data, including the order of training rows.
        on_device: Move all data to the device of the training at once, instead of batch by batch.
    """

    num_features: int
    loader: ClassVar[type[TensorLoader]] = TensorLoader
    """The loader of a split's rows."""
    predicted_rows: Tensor | None = None  # row numbers of ``predict_dataloader`` in the source, if it has rows
    value_names: tuple[str, ...] = ()  # of a binary target in the source, the positive one last

    def __init__(self, batch_size: int, seed: int, on_device: bool) -> None:
        super().__init__()
        if batch_size < 1:
            raise DeclarationError(f"expected a batch_size of at least 1, got {batch_size}.")
        self.batch_size, self.seed, self.on_device = batch_size, seed, on_device
        self._splits: Splits | None = None

    def __str__(self) -> str:
        """Show the class and its features; Lightning's own text would load the data to count rows."""
        return f"{type(self).__name__}(num_features={self.num_features})"

    def splits(self, device: torch.device) -> Splits:
        """Make or read the data, on this device if possible."""
        raise NotImplementedError

    def setup(self, stage: str) -> None:
        """Make or read the data once."""
        if self._splits is None:
            device = self.trainer.strategy.root_device if self.on_device and self.trainer else torch.device("cpu")
            self._splits = Splits(*(tuple(tensor.to(device) for tensor in split) for split in self.splits(device)))

    @property
    def ready(self) -> Splits:
        """The data, made now if no trainer has asked for it yet."""
        self.setup("")
        assert self._splits is not None  # set by setup
        return self._splits

    def train_dataloader(self) -> TensorLoader:
        """Training rows in another order every epoch."""
        overfitting = getattr(self.trainer, "overfit_batches", 0)  # on the same batches in every epoch
        return self.loader(self.ready.train, self.batch_size, shuffle=not overfitting, seed=self.seed)

    def val_dataloader(self) -> TensorLoader:
        """Validation rows, each exactly once on any number of ranks."""
        return self.loader(self.ready.val, self.batch_size)

    def test_dataloader(self) -> TensorLoader:
        """Test rows, each exactly once on any number of ranks."""
        return self.loader(self.ready.test, self.batch_size)

    def predict_dataloader(self) -> TensorLoader:
        """Test rows."""
        return self.test_dataloader()
