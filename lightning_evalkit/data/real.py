"""Real data that comes with scikit-learn: no download, and imported when first needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch

from lightning_evalkit.data.base import Splits, TensorDataModule, extra
from lightning_evalkit.data.splitting import checked_shares, standardised, stratified
from lightning_evalkit.errors import DeclarationError

if TYPE_CHECKING:
    from torch import Tensor


class PackagedDataModule(TensorDataModule):
    """Data of scikit-learn, stratified by class and standardised; a final class names the data and its target.

    Args:
        val_share: Share of the rows to validate on.
        test_share: Share of the rows to test on, and to predict.
    """

    function: ClassVar[str]
    """The function of sklearn.datasets that reads it."""

    def __init__(
        self,
        val_share: float = 0.2,
        test_share: float = 0.2,
        batch_size: int = 32,
        seed: int = 0,
        on_device: bool = False,
    ) -> None:
        super().__init__(batch_size, seed, on_device)
        self.shares = checked_shares(val_share, test_share)
        self.save_hyperparameters(logger=False)

    def splits(self, device: torch.device) -> Splits:
        """Read, split and standardise."""
        bunch = getattr(extra("sklearn.datasets", "scikit-learn"), self.function)()
        classes = torch.tensor(bunch.target, dtype=torch.int64)
        names = list(map(str, bunch.target_names))
        rows = stratified(classes, self.shares, self.seed, names, type(self).__name__)
        self.predicted_rows = rows.test
        features, target = standardised(torch.tensor(bunch.data), rows.train), self.target(classes)
        return Splits(*((features[split], target[split]) for split in rows))

    def target(self, classes: Tensor) -> Tensor:
        """Derive the target from scikit-learn's classes."""
        return classes


class BreastCancerDataModule(PackagedDataModule):
    """Is it malignant? 569 tumours, 212 of them (37 %) malignant, the positive class.

    scikit-learn's own target is the other way round (0 malignant, 1 benign): its recall is about benign tumours.

    >>> features, target = BreastCancerDataModule().ready.train
    >>> features.shape, target.float().mean()
    (torch.Size([341, 30]), tensor(0.3724))
    """

    function = "load_breast_cancer"
    num_features = 30

    def target(self, classes: Tensor) -> Tensor:
        """1 for malignant."""
        return 1 - classes


class WineDataModule(PackagedDataModule):
    """Which of three growers? 178 wines by 13 chemical measurements.

    >>> WineDataModule().ready.test[1].bincount()
    tensor([12, 14,  9])
    """

    function = "load_wine"
    num_features = 13
    num_classes = 3
    class_names: ClassVar[list[str]] = ["class_0", "class_1", "class_2"]


class DigitsDataModule(PackagedDataModule):
    """Which digit? 1,797 handwritten ones of 8 × 8 pixels.

    >>> len(DigitsDataModule(val_share=0.1).ready.val[0])
    180
    """

    function = "load_digits"
    num_features = 64
    num_classes = 10
    class_names: ClassVar[list[str]] = list("0123456789")


class IsDigitDataModule(PackagedDataModule):
    """Is it this digit? The rows of ``DigitsDataModule``, 10 % of them positive.

    >>> IsDigitDataModule(digit=7).ready.test[1].bincount()
    tensor([324,  35])

    Args:
        digit: The digit that is positive, 0 to 9.
    """

    function = "load_digits"
    num_features = 64

    def __init__(self, digit: int = 0, **options: Any) -> None:
        if digit not in range(10):
            raise DeclarationError(f"expected a digit from 0 to 9, got {digit}.")
        self.digit = digit
        super().__init__(**options)

    def target(self, classes: Tensor) -> Tensor:
        """1 for the digit."""
        return (classes == self.digit).long()
