"""A module that has metrics of this package can be compiled by ``torch.jit.script``, as with those of torchmetrics."""

from collections.abc import Callable

import pytest
import torch
from lightning.pytorch import LightningModule
from torch import Tensor
from torch.nn import Module

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation, Slices
from lightning_evalkit.metrics import (
    Accuracy,
    BinaryAUROC,
    BinaryF1Score,
    LossProfile,
    MeanLoss,
    MulticlassCalibrationError,
    MulticlassConfusionMatrix,
    MultilabelExactMatch,
)
from lightning_evalkit.modules import BinaryClassifier

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*to_torchscript.*"),
]
METRICS: dict[str, Callable[[], Module]] = {
    "facade": lambda: Accuracy(task="multiclass", num_classes=3),
    "binary": BinaryF1Score,
    "scores": BinaryAUROC,
    "calibration": lambda: MulticlassCalibrationError(3),
    "matrix": lambda: MulticlassConfusionMatrix(3),
    "labels": lambda: MultilabelExactMatch(3),
    "losses": MeanLoss,
    "profile": LossProfile,
    "binary evaluation": lambda: BinaryEvaluation("logits", curves=True),
    "multiclass evaluation": lambda: MulticlassEvaluation("logits", 3, ["a.b", "b", "c"], per_class=True),
    "multilabel evaluation": lambda: MultilabelEvaluation("logits", 3),
    "slices": lambda: Slices(BinaryEvaluation("logits"), 4),
}


class Plain(Module):
    def __init__(self, metric: Module) -> None:
        super().__init__()
        self.network, self.metric = torch.nn.Linear(3, 1), metric

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x)


class OfLightning(LightningModule):
    def __init__(self, metric: Module) -> None:
        super().__init__()
        self.network, self.metric = torch.nn.Linear(3, 1), metric

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x)


@pytest.mark.parametrize("name", METRICS)
def test_a_module_with_a_metric_is_scripted(name: str):
    plain, module, x = Plain(METRICS[name]()), OfLightning(METRICS[name]()), torch.randn(5, 3)
    torch.testing.assert_close(torch.jit.script(plain)(x), plain(x))
    torch.testing.assert_close(module.to_torchscript()(x), module(x))


def test_a_classifier_of_this_package_is_scripted_by_its_network():
    module = BinaryClassifier(num_features=3)
    x = torch.randn(5, 3)
    torch.testing.assert_close(torch.jit.script(module.network)(x).squeeze(-1), module(x))
