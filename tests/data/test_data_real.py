"""Real data: splits that look like the whole, features on the training rows' scale, files whose faults are told."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from lightning.pytorch import Trainer
from pyarrow import csv
from quiet import QUIET
from sklearn import datasets
from tabular_files import Linear, binary_loss
from torch.nn import functional

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.data.real import (
    BreastCancerDataModule,
    DigitsDataModule,
    IsDigitDataModule,
    PackagedDataModule,
    WineDataModule,
)
from lightning_evalkit.data.tabular import TabularDataModule
from lightning_evalkit.errors import DeclarationError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor

    from lightning_evalkit.data import TensorDataModule


# ---- what scikit-learn brings along


PACKAGED: dict[type[PackagedDataModule], Callable[[], Any]] = {
    BreastCancerDataModule: datasets.load_breast_cancer,
    WineDataModule: datasets.load_wine,
    DigitsDataModule: datasets.load_digits,
    IsDigitDataModule: datasets.load_digits,
}


@pytest.mark.parametrize(("module", "load"), PACKAGED.items())
def test_packaged_data_is_all_there_and_standardised(module: type[PackagedDataModule], load: Callable[[], Any]) -> None:
    bunch, data = load(), module(val_share=0.25, test_share=0.15)
    assert data._splits is None
    assert data.num_features == bunch.data.shape[1]
    train, val, test = (features for features, _ in data.ready)
    assert len(train) + len(val) + len(test) == len(bunch.data)
    assert len(val) == pytest.approx(0.25 * len(bunch.data), abs=1)
    assert len(test) == pytest.approx(0.15 * len(bunch.data), abs=1)
    moving = train.std(0, correction=0) > 0
    torch.testing.assert_close(train.mean(0), torch.zeros(data.num_features), atol=1e-5, rtol=0)
    torch.testing.assert_close(train.std(0, correction=0), moving.float(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("module", [WineDataModule, DigitsDataModule])
def test_classes_are_known_before_the_data_is_read(module: type[Any]) -> None:
    bunch, data = PACKAGED[module](), module()
    assert data.num_classes == len(bunch.target_names)
    assert data.class_names == [str(name) for name in bunch.target_names]
    assert data._splits is None
    counts = sum(target.bincount() for _, target in data.ready)
    assert counts.tolist() == np.bincount(bunch.target).tolist()


@pytest.mark.parametrize("module", [BreastCancerDataModule, IsDigitDataModule])
@pytest.mark.parametrize("name", ["num_classes", "class_names", "num_labels", "label_names"])
def test_binary_data_has_no_classes(module: type[Any], name: str) -> None:
    assert not hasattr(module(), name)


def test_malignant_is_positive() -> None:
    """Malignant tumours are the larger ones; scikit-learn counts 212 of them, and 357 benign ones."""
    bunch, data = datasets.load_breast_cancer(), BreastCancerDataModule()
    assert bunch.target_names.tolist() == ["malignant", "benign"]
    counts = sum(target.bincount() for _, target in data.ready)
    assert counts.tolist() == [357, 212]
    features, target = data.ready.train
    radius = features[:, bunch.feature_names.tolist().index("mean radius")]
    assert radius[target == 1].mean() > radius[target == 0].mean() + 1


@pytest.mark.parametrize("digit", [0, 7])
def test_is_it_this_digit_has_the_rows_of_all_digits(digit: int) -> None:
    data, every = IsDigitDataModule(digit=digit, seed=5), DigitsDataModule(seed=5)
    for (features, target), (pixels, digits) in zip(data.ready, every.ready, strict=True):
        assert torch.equal(features, pixels)
        assert torch.equal(target, (digits == digit).long())
        assert target.float().mean() == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("digit", [-1, 10])
def test_no_such_digit(digit: int) -> None:
    with pytest.raises(DeclarationError, match=f"expected a digit from 0 to 9, got {digit}"):
        IsDigitDataModule(digit=digit)


def test_hyperparameters_are_kept() -> None:
    options = {"val_share": 0.1, "test_share": 0.3, "batch_size": 7, "seed": 2, "on_device": False}
    assert dict(IsDigitDataModule(digit=3, **options).hparams) == {"digit": 3, **options}
    assert dict(WineDataModule(**options).hparams) == options


def test_packaged_data_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    data = WineDataModule()
    with pytest.raises(InputError, match=r"needs scikit-learn, .*: pip install \"lightning-evalkit\[data\]\""):
        data.setup("fit")


# ---- one fit each


def class_loss(scores: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(scores, target, reduction="none")


def fitted(data: TensorDataModule, outputs: int, loss: Callable[[Tensor, Tensor], Tensor], evaluation: Any) -> float:
    """The accuracy on the test split after a few epochs."""
    module, trainer = Linear(data.num_features, outputs, loss, evaluation), Trainer(**QUIET, max_epochs=8)
    trainer.fit(module, data)
    trainer.test(module, data, verbose=False)
    values = evaluation.compute()
    return float(values.get("accuracy", values.get("hamming_accuracy")))


@pytest.mark.parametrize(("data", "least"), [(BreastCancerDataModule(), 0.9), (IsDigitDataModule(digit=6), 0.97)])
def test_fit_packaged_binary_data(data: PackagedDataModule, least: float) -> None:
    """Better than the larger class alone, which 63 % and 90 % of the rows are."""
    assert fitted(data, 1, binary_loss, BinaryEvaluation("logits")) > least


@pytest.mark.parametrize("data", [WineDataModule(), DigitsDataModule()])
def test_fit_packaged_classes(data: Any) -> None:
    evaluation = MulticlassEvaluation("logits", num_classes=data.num_classes, class_names=data.class_names)
    assert fitted(data, data.num_classes, class_loss, evaluation) > 0.85


def cloud_file(path: Path, **more: Any) -> Path:
    """Two columns whose signs say which of four kinds, and both labels."""
    points = np.random.default_rng(0).normal(size=(400, 2))
    right, high = (points > 0).T.astype(int)
    csv.write_csv(pa.table({"x": points[:, 0], "y": points[:, 1], "right": right, "high": high} | more), path)
    return path


def test_fit_a_file_with_weights(tmp_path: Path) -> None:
    """Every third row says the opposite, and weighs nothing."""
    lie = np.arange(400) % 3 == 0
    told = (np.random.default_rng(0).normal(size=(400, 2))[:, 0] > 0) ^ lie
    path = cloud_file(tmp_path / "data.csv", told=told, truth=1.0 - lie)
    data = TabularDataModule(path, "told", features=["x", "y"], weight="truth", batch_size=32)
    assert fitted(data, 1, binary_loss, BinaryEvaluation("logits", weighted=True)) > 0.9


def test_fit_a_file_of_several_labels(tmp_path: Path) -> None:
    data = TabularDataModule(cloud_file(tmp_path / "data.csv"), ["right", "high"], batch_size=32)
    evaluation = MultilabelEvaluation("logits", num_labels=data.num_labels, label_names=data.label_names)
    assert fitted(data, data.num_labels, binary_loss, evaluation) > 0.9
