"""Data modules of made data for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from lightning_evalkit.data import (
    BalancedDataModule,
    ImbalancedDataModule,
    MulticlassDataModule,
    MultilabelDataModule,
    PoorFeaturesDataModule,
)

if TYPE_CHECKING:
    from collections.abc import Callable


SMALL: dict[str, Any] = {"train_size": 60, "val_size": 40, "test_size": 50, "num_features": 8}
KINDS: dict[str, Callable[..., Any]] = {
    "balanced": BalancedDataModule,
    "imbalanced": ImbalancedDataModule,
    "poor": PoorFeaturesDataModule,
    "multiclass": MulticlassDataModule,
    "multilabel": MultilabelDataModule,
}
every_kind = pytest.mark.parametrize("build", KINDS.values(), ids=KINDS)


def same(one: Any, other: Any) -> bool:
    """Whether all tensors of two modules have the same bits."""
    pairs = zip(one.ready, other.ready, strict=True)
    return all(torch.equal(a, b) for split, again in pairs for a, b in zip(split, again, strict=True))
