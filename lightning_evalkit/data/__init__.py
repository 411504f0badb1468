"""Data modules: synthetic data whose best possible accuracy is known, and real data that needs no download."""

from lightning_evalkit.data.base import TensorDataModule
from lightning_evalkit.data.loader import TensorLoader
from lightning_evalkit.data.messages import CustomerMessagesDataModule
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
from lightning_evalkit.data.text import TextDataModule

__all__ = [
    "BalancedDataModule",
    "BreastCancerDataModule",
    "CustomerMessagesDataModule",
    "DigitsDataModule",
    "ImbalancedDataModule",
    "IsDigitDataModule",
    "MulticlassDataModule",
    "MultilabelDataModule",
    "PoorFeaturesDataModule",
    "TabularDataModule",
    "TensorDataModule",
    "TensorLoader",
    "TextDataModule",
    "WineDataModule",
]
