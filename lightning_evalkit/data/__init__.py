"""Data modules: made data whose best possible accuracy is known, and real data that needs no download."""

from lightning_evalkit.data.base import TensorDataModule
from lightning_evalkit.data.loader import TensorLoader
from lightning_evalkit.data.synthetic import (
    BalancedDataModule,
    ImbalancedDataModule,
    MulticlassDataModule,
    MultilabelDataModule,
    PoorFeaturesDataModule,
)

__all__ = [
    "BalancedDataModule",
    "ImbalancedDataModule",
    "MulticlassDataModule",
    "MultilabelDataModule",
    "PoorFeaturesDataModule",
    "TensorDataModule",
    "TensorLoader",
]
