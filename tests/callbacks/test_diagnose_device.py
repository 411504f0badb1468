"""Diagnose waits for no device within an epoch, and asks nothing more of other ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import misused
import pytest
import torch
from device import DEVICE, Operators, pretend_on_device
from lightning.pytorch import LightningModule, Trainer
from misused import KITS, loader
from quiet import QUIET
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torchmetrics import classification

from lightning_evalkit import BinaryEvaluation, metrics
from lightning_evalkit.callbacks import Diagnose
from lightning_evalkit.callbacks.diagnosing.epoch_state import StockEpochState
from lightning_evalkit.callbacks.diagnosing.given import MAX_PENDING, Facts, Given
from lightning_evalkit.callbacks.diagnosing.values import ReturnedValues
from lightning_evalkit.callbacks.diagnosing.watched import WatchedMetric
from lightning_evalkit.callbacks.diagnosing.weighted_losses import WeightedLosses
from lightning_evalkit.callbacks.parts.method_patch import MethodPatches
from lightning_evalkit.diagnosis.rules import structure
from lightning_evalkit.diagnosis.seen import Owner

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*"),  # Lightning's own use of torch
    pytest.mark.filterwarnings("ignore:.*does not have many workers.*"),
    pytest.mark.filterwarnings("ignore:.*number of training batches.*"),
]
MADE: dict[str, Callable[[], Any]] = {
    "a count": metrics.BinaryF1Score,
    "a histogram": metrics.BinaryAUROC,
    "an evaluation": lambda: BinaryEvaluation("logits"),
    "an evaluation with curves": lambda: BinaryEvaluation("logits", curves=True),
}


def fake(kind: torch.dtype) -> Tensor:
    return torch.zeros(8, dtype=kind, device=DEVICE)


@pytest.mark.parametrize("name", MADE)
def test_watching_our_metrics_waits_for_nothing(name: str) -> None:
    metric, patches = MADE[name](), MethodPatches()
    watched = WatchedMetric("f1", metric, ReturnedValues(), {each: Facts(each) for each in (False, True)}, lambda: True)
    watched.enter(patches)
    with FakeTensorMode():
        pretend_on_device(metric)
        preds, target = fake(torch.float32), fake(torch.int64)
        metric.update(preds, target)  # the edges of bins go to the device once
        with Operators() as operators:
            watched.mark()
            for dataloader in range(2):
                watched.mark_loader(dataloader)
                metric.update(preds, target)
                watched.owners.see(Owner("val", dataloader))
    watched.leave()
    patches.remove()
    assert watched.owners.dataloaders == {0, 1}
    assert "clone" in operators.names
    assert operators.waiting == []


def test_watching_stock_metrics_waits_for_nothing() -> None:
    metric, given = classification.BinaryF1Score(), Given(Facts(True))
    with FakeTensorMode():
        for name in metric._defaults:
            setattr(metric, name, torch.zeros((), dtype=torch.int64, device=DEVICE))
        with Operators() as operators:
            StockEpochState(metric, lambda: vars(metric), lambda: 0)
            for _ in range(MAX_PENDING):
                given.look(fake(torch.float32), fake(torch.int64))
    assert {"clone", "aminmax", "stack"} <= {*operators.names}
    assert operators.waiting == []


def test_summing_weighted_losses_waits_for_nothing() -> None:
    with FakeTensorMode():
        module = nn.Sequential(nn.CrossEntropyLoss(weight=torch.ones(2, device=DEVICE)))
        losses = WeightedLosses(module)
        losses.enter()
        value = module[0](torch.zeros(8, 2, device=DEVICE), fake(torch.int64))
        with Operators() as operators:
            assert losses.logged("loss", value) == "0"
    losses.leave()
    assert "sum" in operators.names
    assert operators.waiting == []


GATHERED: list[Tensor] = []


def gathered(state: Tensor, group: Any = None) -> list[Tensor]:
    """What a rank among several would do, were it alone."""
    GATHERED.append(state)
    return [state]


class AmongRanks(misused.NotReset, LightningModule):
    """Mixes epochs, so that the true number is computed."""

    kit = KITS["own"]

    def make(self) -> None:
        self.f1 = self.kit.BinaryF1Score(dist_sync_fn=gathered, distributed_available_fn=lambda: True)


class StockAmongRanks(AmongRanks):
    kit = KITS["stock"]


@pytest.mark.parametrize("kind", [AmongRanks, StockAmongRanks])
def test_a_true_number_adds_no_collective(kind: type[AmongRanks]) -> None:
    joins = []
    for callbacks in ([], [Diagnose()]):
        GATHERED.clear()
        Trainer(max_epochs=2, callbacks=callbacks, **QUIET).fit(kind(), loader(), loader(seed=1))
        joins.append(len(GATHERED))
    [finding] = [each for each in callbacks[0].diagnosis.issues if each.code == "EK104"]
    assert "truth" in finding.evidence
    assert joins[0] == joins[1] > 0


# ---- stored predictions


class Stored(misused.Declared, LightningModule):
    def make(self) -> None:
        self.auroc = self.kit.BinaryAUROC(thresholds=None)


class OwnStored(Stored):
    kit = KITS["own"]


class Binned(misused.Declared, LightningModule):
    kit = KITS["own"]

    def make(self) -> None:
        self.auroc = self.kit.BinaryAUROC()


@pytest.mark.parametrize(("kind", "codes"), [(Stored, ["EK113"]), (OwnStored, ["EK113"]), (Binned, [])])
def test_stored_predictions_are_found(kind: type, codes: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ninety scores and labels stand for a quarter of a gigabyte."""
    monkeypatch.setattr(structure, "LARGE", 90 * 4)
    diagnose = Diagnose()
    Trainer(max_epochs=1, callbacks=[diagnose], **QUIET).fit(kind(), loader(), loader(seed=1))
    assert [each.code for each in diagnose.diagnosis.issues if each.code < "EK200"] == codes
