"""Files of rows for tests of real data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from lightning.pytorch import LightningModule
from torch.nn import functional

from lightning_evalkit.data.splitting import SplitRows, checked_shares, stratified
from lightning_evalkit.data.tabular import TabularDataModule
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor


def split_of(target: Tensor, val_share: float = 0.2, test_share: float = 0.2, seed: int = 0) -> SplitRows:
    names = [f"c{place}" for place in range(int(target.max()) + 1 if target.ndim == 1 else target.shape[1])]
    return stratified(target, checked_shares(val_share, test_share), seed, names, "the file")


Columns = dict[str, list[Any]]


def columns(rows: int = 40) -> Columns:
    """Two features, one of which says the target; the target alternates."""
    return {
        "height": [place + 0.5 for place in range(rows)],
        "width": [float(place % 2) + place / 100 for place in range(rows)],
        "kind": [place % 2 for place in range(rows)],
    }


def read(path: Path, target: str | list[str] = "kind", **options: Any) -> TabularDataModule:
    """A data module whose file has been read."""
    data = TabularDataModule(path, target, **options)
    data.setup("fit")
    return data


def refused(message: str) -> Any:
    return pytest.raises(InputError, match=message)


def binary_loss(scores: Tensor, target: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(scores.view(target.shape), target.float(), reduction="none")


class Linear(LightningModule):
    """A linear layer, trained with weights if there are any, and evaluated on the test split."""

    def __init__(self, features: int, outputs: int, loss: Callable[[Tensor, Tensor], Tensor], evaluation: Any) -> None:
        super().__init__()
        self.layer, self.loss, self.evaluation = torch.nn.Linear(features, outputs), loss, evaluation

    def training_step(self, batch: tuple[Tensor, ...]) -> Tensor:
        features, target, *weight = batch
        loss = self.loss(self.layer(features), target)
        return (loss * weight[0]).sum() / weight[0].sum() if weight else loss.mean()

    def validation_step(self, batch: tuple[Tensor, ...]) -> None:
        assert self.loss(self.layer(batch[0]), batch[1]).isfinite().all()

    def test_step(self, batch: tuple[Tensor, ...]) -> None:
        features, target, *weight = batch
        scores = self.layer(features)
        self.evaluation.update(scores.squeeze(1) if scores.shape[1] == 1 else scores, target, *weight)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), 0.05)
