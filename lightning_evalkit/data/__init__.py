"""Data modules: made data whose best possible accuracy is known, and real data that needs no download."""

from lightning_evalkit.data.base import TensorDataModule
from lightning_evalkit.data.loader import TensorLoader
from lightning_evalkit.data.real import (
    BreastCancerDataModule,
    DigitsDataModule,
    IsDigitDataModule,
    WineDataModule,
)
from lightning_evalkit.data.synthetic import (
    BalancedDataModule,
    ImbalancedDataModule,
    MulticlassDataModule,
    MultilabelDataModule,
    PoorFeaturesDataModule,
)
from lightning_evalkit.data.tabular import TabularDataModule

__all__ = [
    "BalancedDataModule",
    "BreastCancerDataModule",
    "DigitsDataModule",
    "ImbalancedDataModule",
    "IsDigitDataModule",
    "MulticlassDataModule",
    "MultilabelDataModule",
    "PoorFeaturesDataModule",
    "TabularDataModule",
    "TensorDataModule",
    "TensorLoader",
    "WineDataModule",
]
