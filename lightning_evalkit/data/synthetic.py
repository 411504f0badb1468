"""Synthetic data: Gaussian clouds with a chosen prevalence, separability, label noise and size; deterministic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.data import gaussian
from lightning_evalkit.data.base import Splits, TensorDataModule
from lightning_evalkit.data.loader import stream
from lightning_evalkit.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Generator, Tensor

    from lightning_evalkit.data.gaussian import Rates


class SyntheticDataModule(TensorDataModule):
    """Base of the synthetic data: a final class draws the rows of one split. Class counts are exact, not drawn.

    Args:
        separability: Accuracy of the best possible classifier if classes are equally frequent and labels correct.
        label_noise: Share of wrong labels in every class.
        num_features: Number of features.
        train_size: Rows to train on.
        val_size: Rows to validate on.
        test_size: Rows to test on, and to predict.
    """

    def __init__(
        self,
        separability: float = 0.9,
        label_noise: float = 0.0,
        num_features: int = 16,
        train_size: int = 4_000,
        val_size: int = 2_000,
        test_size: int = 10_000,
        batch_size: int = 256,
        seed: int = 0,
        on_device: bool = False,
    ) -> None:
        super().__init__(batch_size, seed, on_device)
        self.sizes = train_size, val_size, test_size
        if min(self.sizes) < 2:
            raise DeclarationError(f"expected at least 2 rows in each split, got {min(self.sizes)}.")
        if not 0 <= label_noise < 0.5:
            raise DeclarationError(f"expected label_noise in [0, 0.5), a share of wrong labels, got {label_noise}.")
        self.num_features, self.separability, self.label_noise = num_features, separability, label_noise

    def splits(self, device: torch.device) -> Splits:
        """Draw train, validation and test rows, each from its own random stream, around the same directions."""
        around, *streams = (stream("data", self.seed, place, device=device) for place in range(4))
        along = self.directions(around)
        pairs = [self.drawn(place, each, along) for place, each in enumerate(streams)]
        return Splits(*pairs)

    def directions(self, generator: Generator) -> Tensor:
        """The directions along which labels show, as rows."""
        raise NotImplementedError

    def drawn(self, split: int, generator: Generator, along: Tensor) -> tuple[Tensor, Tensor]:
        """Features and target of a split: 0 train, 1 validation, 2 test."""
        raise NotImplementedError


class BinaryGaussians(SyntheticDataModule):
    """Two clouds, negative and positive.

    Args:
        prevalence: Share of positives.
        test_prevalence: Share of positives in the test split; by default as in the others.
    """

    def __init__(self, prevalence: float, test_prevalence: float | None = None, **options: Any) -> None:
        super().__init__(**options)
        _checked_separability(self.separability, 0.5)
        self.prevalence = prevalence
        shares = prevalence, prevalence, prevalence if test_prevalence is None else test_prevalence
        self.positives = tuple(map(_positives, shares, self.sizes))

    @property
    def best(self) -> Rates:
        """Recall and specificity of the classifier with the highest possible accuracy, at the training prevalence."""
        return gaussian.best_rates(self.prevalence, self.separability, self.label_noise)

    @property
    def bayes_accuracy(self) -> float:
        """The highest accuracy that any classifier can have, at the training prevalence and with the label noise."""
        return self.best.accuracy(self.prevalence)

    def directions(self, generator: Generator) -> Tensor:
        """One direction."""
        return gaussian.directions(1, self.num_features, generator)

    def drawn(self, split: int, generator: Generator, along: Tensor) -> tuple[Tensor, Tensor]:
        """Draw both clouds, each half the distance away from the centre."""
        told, shown = gaussian.exact_labels(self.sizes[split], self.positives[split], self.label_noise, generator)
        steps = (shown - 0.5).unsqueeze(1) * gaussian.distance(self.separability)
        return gaussian.cloud(steps, along, generator), told


class BalancedDataModule(BinaryGaussians):
    """Data with exactly as many positives as negatives in every split.

    >>> data = BalancedDataModule(train_size=100)
    >>> features, target = data.ready.train
    >>> int(target.sum()), round(data.bayes_accuracy, 3)
    (50, 0.9)
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(prevalence=0.5, test_prevalence=None, **options)
        odd = [size for size in self.sizes if size % 2]
        if odd:
            raise DeclarationError(f"expected an even number of rows, which two classes can share, got {odd[0]}.")
        self.save_hyperparameters(logger=False)


class ImbalancedDataModule(BinaryGaussians):
    """A chosen share of positives, exact to the row; ``test_prevalence`` sets another share for the test split.

    >>> data = ImbalancedDataModule(prevalence=0.1, train_size=100)
    >>> int(data.ready.train[1].sum()), round(data.bayes_accuracy, 3)
    (10, 0.952)
    """

    def __init__(self, prevalence: float = 0.1, test_prevalence: float | None = None, **options: Any) -> None:
        super().__init__(prevalence, test_prevalence, **options)
        self.save_hyperparameters(logger=False)


class PoorFeaturesDataModule(BinaryGaussians):
    """Features without information about the label: both clouds are the same.

    >>> PoorFeaturesDataModule(prevalence=0.3).bayes_accuracy
    0.7
    """

    def __init__(self, prevalence: float = 0.5, test_prevalence: float | None = None, **options: Any) -> None:
        super().__init__(prevalence, test_prevalence, separability=0.5, label_noise=0.0, **options)
        self.save_hyperparameters(logger=False)


class MulticlassDataModule(SyntheticDataModule):
    """Clouds of several classes on orthogonal axes, with chosen ``class_shares`` (equal ones by default).

    >>> data = MulticlassDataModule(num_classes=3, class_shares=[0.5, 0.3, 0.2], train_size=10)
    >>> data.ready.train[1].bincount().tolist()
    [5, 3, 2]

    Args:
        num_classes: Number of classes.
        class_shares: Share of each class among the rows; equal shares by default.
    """

    def __init__(self, num_classes: int = 5, class_shares: list[float] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.num_classes, self.shares = num_classes, _checked_shares(class_shares, num_classes)
        self.counts = [gaussian.shared_out(size, self.shares) for size in self.sizes]
        if min(map(min, self.counts)) < 1:
            raise DeclarationError(
                f"expected rows of every class in every split, got {self.counts} of {self.sizes} rows."
            )
        _checked_separability(self.separability, 1 / num_classes)
        self.step = gaussian.class_distance(self.separability, num_classes)
        self.save_hyperparameters(logger=False)

    @property
    def bayes_accuracy(self) -> float:
        """The highest accuracy that any classifier can have with these shares and this noise (from 200,000 draws)."""
        return gaussian.expected_best(self.shares, self.step, self.label_noise)

    def directions(self, generator: Generator) -> Tensor:
        """One direction per class."""
        return gaussian.directions(self.num_classes, self.num_features, generator)

    def drawn(self, split: int, generator: Generator, along: Tensor) -> tuple[Tensor, Tensor]:
        """Draw rows, each moved along the axis of its class."""
        told, shown = gaussian.exact_classes(self.counts[split], self.label_noise, generator)
        noise = torch.randn(len(told), self.num_features, generator=generator, device=generator.device)
        return noise.add_(along[shown], alpha=self.step), told


class MultilabelDataModule(SyntheticDataModule):
    """Several yes-or-no labels, each with its own direction and ``prevalence`` (one for all, or one per label).

    >>> data = MultilabelDataModule(num_labels=2, prevalence=[0.5, 0.1], train_size=100)
    >>> data.ready.train[1].sum(0).tolist()
    [50, 10]

    Args:
        num_labels: Number of labels.
        prevalence: Share of positives: one number for all labels, or a list with one for each.
    """

    def __init__(self, num_labels: int = 5, prevalence: float | list[float] = 0.3, **options: Any) -> None:
        super().__init__(**options)
        _checked_separability(self.separability, 0.5)
        self.prevalences = [prevalence] * num_labels if isinstance(prevalence, (int, float)) else list(prevalence)
        if num_labels < 2 or len(self.prevalences) != num_labels:
            raise DeclarationError(
                f"expected at least 2 labels and a prevalence for each, got num_labels={num_labels} and "
                f"{len(self.prevalences)} prevalences."
            )
        self.num_labels = num_labels
        self.positives = [[_positives(share, size) for share in self.prevalences] for size in self.sizes]
        self.save_hyperparameters(logger=False)

    @property
    def bayes_accuracy(self) -> list[float]:
        """The highest accuracy that any classifier can have on each label."""
        rates = [gaussian.best_rates(share, self.separability, self.label_noise) for share in self.prevalences]
        return [best.accuracy(share) for best, share in zip(rates, self.prevalences, strict=True)]

    def directions(self, generator: Generator) -> Tensor:
        """One direction per label."""
        return gaussian.directions(self.num_labels, self.num_features, generator)

    def drawn(self, split: int, generator: Generator, along: Tensor) -> tuple[Tensor, Tensor]:
        """Draw rows, each moved forth or back along the direction of every label."""
        rows, noise = self.sizes[split], self.label_noise
        pairs = [gaussian.exact_labels(rows, positives, noise, generator) for positives in self.positives[split]]
        told, shown = (torch.stack(labels, 1) for labels in zip(*pairs, strict=True))
        return gaussian.cloud((shown - 0.5) * gaussian.distance(self.separability), along, generator), told


def _checked_separability(separability: float, least: float) -> None:
    if not least <= separability < 1:
        raise DeclarationError(
            f"expected separability in [{least:.4g}, 1), the best accuracy where classes are equally frequent, "
            f"got {separability}."
        )


def _positives(prevalence: float, rows: int) -> int:
    positives = round(prevalence * rows) if 0 < prevalence < 1 else 0
    if not 0 < positives < rows:
        raise DeclarationError(
            f"expected a prevalence in (0, 1) that gives {rows} rows of both classes, got {prevalence}."
        )
    return positives


def _checked_shares(shares: Sequence[float] | None, num_classes: int) -> list[float]:
    if num_classes < 2:
        raise DeclarationError(f"expected num_classes of at least 2, got {num_classes}.")
    shares = [1 / num_classes] * num_classes if shares is None else list(shares)
    if len(shares) != num_classes or not (min(shares) > 0 and abs(sum(shares) - 1) <= 1e-6):
        raise DeclarationError(
            f"expected class_shares to be {num_classes} positive numbers that add up to 1, got {shares}."
        )
    return [share / sum(shares) for share in shares]
