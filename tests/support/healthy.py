"""Modules as people write them, with nothing wrong: Diagnose has nothing to say of any."""

from __future__ import annotations

from typing import Any

import misused
import torch
from misused import KITS, loader
from torch import Tensor, nn
from torchmetrics import MaxMetric, MeanMetric, MetricCollection

from lightning_evalkit import BinaryEvaluation

STAGES = ("train", "val", "test")


class Healthy(misused.Steps):
    """One step for all stages; ``count`` is each module's own."""

    def count(self, stage: str, logits: Tensor, target: Tensor, loader: int = 0) -> None: ...

    def train_with(self, logits: Tensor, target: Tensor) -> None:
        self.count("train", logits, target)

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.count("val", logits, target, loader)

    def both(self) -> MetricCollection:
        return MetricCollection([self.kit.BinaryAccuracy(), self.kit.BinaryF1Score()])

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 1.0)

    def test_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self.count("test", self.network(batch[0]).squeeze(-1), batch[1], dataloader_idx)


class CollectionPerStage(Healthy):
    def make(self) -> None:
        self.train_metrics, self.val_metrics, self.test_metrics = (self.both().clone(prefix=f"{s}/") for s in STAGES)

    def count(self, stage: str, logits: Tensor, target: Tensor, loader: int = 0) -> None:
        metrics = getattr(self, f"{stage}_metrics")
        metrics.update(logits.sigmoid(), target)
        self.log_dict(metrics, on_step=False, on_epoch=True)


class InModuleDict(Healthy):
    def make(self) -> None:
        self.held = nn.ModuleDict({f"{stage}_f1": self.kit.BinaryF1Score() for stage in STAGES})

    def count(self, stage: str, logits: Tensor, target: Tensor, loader: int = 0) -> None:
        self.held[f"{stage}_f1"].update(logits.sigmoid(), target)
        self.log(f"{stage}/f1", self.held[f"{stage}_f1"], on_step=False, on_epoch=True)


class SeveralLoaders(Healthy):
    def make(self) -> None:
        self.val_f1s, self.test_f1s = (nn.ModuleList(self.kit.BinaryF1Score() for _ in range(2)) for _ in range(2))

    def count(self, stage: str, logits: Tensor, target: Tensor, loader: int = 0) -> None:
        if stage != "train":
            metric = getattr(self, f"{stage}_f1s")[loader]
            metric.update(logits.sigmoid(), target)
            self.log(f"{stage}/f1", metric)


class ByHand(Healthy):
    """Update in the step; compute, log and reset when the epoch ends."""

    def make(self) -> None:
        self.metrics = nn.ModuleDict({f"{stage}_": self.both() for stage in STAGES})

    def count(self, stage: str, logits: Tensor, target: Tensor, loader: int = 0) -> None:
        self.metrics[f"{stage}_"].update(logits.sigmoid(), target)

    def ended(self, stage: str) -> None:
        values = self.metrics[f"{stage}_"].compute()
        self.log_dict({f"{stage}/{name}": value for name, value in values.items()})
        self.metrics[f"{stage}_"].reset()

    def on_train_epoch_end(self) -> None:
        self.ended("train")

    def on_validation_epoch_end(self) -> None:
        self.ended("val")

    def on_test_epoch_end(self) -> None:
        self.ended("test")


class ManualOptimisation(CollectionPerStage):
    def make(self) -> None:
        super().make()
        self.automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> None:
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(super().training_step(batch, batch_idx))
        optimizer.step()


class TwoNetworks(Healthy):
    """Adversarial: two networks, two optimisers, two losses, and how often the discriminator is right."""

    def make(self) -> None:
        self.automatic_optimization = False
        self.generator = nn.Linear(4, 4)
        self.accuracy, self.val_size = self.kit.BinaryAccuracy(), MeanMetric()

    def training_step(self, batch: Any, batch_idx: int) -> None:
        real = batch[0]
        target = torch.cat((torch.ones(len(real)), torch.zeros(len(real)))).long()
        for optimizer, of_generator in zip(self.optimizers(), (True, False), strict=True):
            self.toggle_optimizer(optimizer)
            logits = self.network(torch.cat((real, self.generator(torch.randn_like(real))))).squeeze(-1)
            wanted = torch.ones_like(target) if of_generator else target
            loss = nn.functional.binary_cross_entropy_with_logits(logits, wanted.float())
            self.log("g_loss" if of_generator else "d_loss", loss, prog_bar=True)
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
            self.untoggle_optimizer(optimizer)
        self.accuracy.update(logits.detach().sigmoid(), target)
        self.log("d_accuracy", self.accuracy, on_step=False, on_epoch=True)

    def count(self, stage: str, logits: Tensor, target: Tensor, loader: int = 0) -> None:
        if stage == "val":
            self.val_size.update(logits)
            self.log("val/d_real", self.val_size)

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD(part.parameters(), 0.05) for part in (self.generator, self.network)]


class SyncedLosses(Healthy):
    """Losses as plain numbers, averaged over ranks, and a MeanMetric beside them."""

    def make(self) -> None:
        self.mean = MeanMetric()

    def count(self, stage: str, logits: Tensor, target: Tensor, loader: int = 0) -> None:
        loss = nn.functional.binary_cross_entropy_with_logits(logits, target.float())
        self.log(f"{stage}/loss", loss, on_epoch=True, sync_dist=True, batch_size=len(target))
        if stage == "val":
            self.mean.update(loss, weight=len(target))
            self.log("val/mean_loss", self.mean)


class MadeInSetup(CollectionPerStage):
    """Metrics that exist only once the data are known."""

    def make(self) -> None: ...

    def setup(self, stage: str) -> None:
        if not hasattr(self, "val_metrics"):
            CollectionPerStage.make(self)


class CountedInHooks(Healthy):
    """The step returns its outputs, and a hook counts them."""

    def make(self) -> None:
        self.train_mean, self.f1 = MeanMetric(), self.kit.BinaryF1Score()

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        return self.network(batch[0]).squeeze(-1).sigmoid()

    def on_validation_batch_end(self, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self.f1.update(outputs, batch[1])

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.train_mean.update(outputs["loss"])

    def on_train_epoch_end(self) -> None:
        self.log("train/mean", self.train_mean.compute())
        self.train_mean.reset()

    def on_validation_epoch_end(self) -> None:
        self.log("val/f1", self.f1.compute())
        self.f1.reset()


class BestSoFar(CollectionPerStage):
    """As a well-known template: the best value over epochs, begun after the sanity check."""

    def make(self) -> None:
        super().make()
        self.best = MaxMetric()

    def on_train_start(self) -> None:
        self.best.reset()
        self.val_metrics.reset()

    def end(self) -> None:
        self.best(self.val_metrics["BinaryF1Score"].compute())
        self.log("val/f1_best", self.best.compute(), sync_dist=True)


class Ranking(Healthy):
    """Scores that are stored, and scores in bins."""

    def make(self) -> None:
        self.areas = nn.ModuleDict(
            {
                stage: MetricCollection([self.kit.BinaryAUROC(), self.kit.BinaryAveragePrecision(thresholds=50)])
                for stage in STAGES[1:]
            }
        )

    def count(self, stage: str, logits: Tensor, target: Tensor, loader: int = 0) -> None:
        if stage != "train":
            self.areas[stage].update(logits.sigmoid(), target)
            self.log_dict({f"{stage}/{name}": metric for name, metric in self.areas[stage].items(copy_state=False)})


class SeveralClasses(Healthy):
    """A few statistics of several classes, each with another average."""

    def make(self) -> None:
        options = {"num_classes": 2}
        self.metrics = nn.ModuleDict(
            {
                stage: MetricCollection(
                    [
                        self.kit.MulticlassAccuracy(2, average="micro"),
                        self.kit.MulticlassF1Score(**options, average="macro"),
                    ],
                    prefix=f"{stage}/",
                )
                for stage in STAGES[1:]
            }
        )

    def count(self, stage: str, logits: Tensor, target: Tensor, loader: int = 0) -> None:
        if stage != "train":
            self.metrics[stage].update(torch.stack((-logits, logits), 1).softmax(1), target)
            self.log_dict(self.metrics[stage])


class OnStepAndEpoch(Healthy):
    """The value of every batch on the progress bar, and that of the epoch, from one call of the object."""

    def make(self) -> None:
        self.train_f1, self.val_f1 = self.kit.BinaryF1Score(), self.kit.BinaryF1Score()

    def count(self, stage: str, logits: Tensor, target: Tensor, loader: int = 0) -> None:
        if stage != "test":
            metric = getattr(self, f"{stage}_f1")
            metric(logits.sigmoid(), target)
            self.log(f"{stage}/f1", metric, on_step=True, on_epoch=True)


class OwnEvaluations(Healthy):
    """This package's evaluations, one for each stage."""

    def make(self) -> None:
        self.train_numbers, self.val_numbers, self.test_numbers = (
            BinaryEvaluation("logits", prefix=f"{stage}/", curves=True) for stage in STAGES
        )

    def count(self, stage: str, logits: Tensor, target: Tensor, loader: int = 0) -> None:
        getattr(self, f"{stage}_numbers").update(logits.detach(), target)

    def on_validation_epoch_end(self) -> None:
        self.log_dict(self.val_numbers.compute())
        self.val_numbers.reset()

    def on_train_epoch_end(self) -> None:
        self.log_dict(self.train_numbers.compute())
        self.train_numbers.reset()

    def on_test_epoch_end(self) -> None:
        self.log_dict(self.test_numbers.compute())


class Returns(Healthy):
    """No metric at all: the steps return what a callback counts."""

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> dict[str, Tensor]:
        return {"logits": self.network(batch[0]).squeeze(-1), "target": batch[1]}

    def test_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> dict[str, Tensor]:
        return self.validation_step(batch, batch_idx)


class OwnsMetrics:
    """A callback with metrics of its own, for training and for validation."""

    kit: Any = KITS["stock"]

    def __init__(self) -> None:
        self.train_size, self.accuracy = MeanMetric(), self.kit.BinaryAccuracy()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, *_: Any) -> None:
        self.train_size.update(outputs["loss"] if outputs else 0.0)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        pl_module.log("callback/size", self.train_size.compute())
        self.train_size.reset()

    def on_validation_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, *_: Any) -> None:
        self.accuracy.update(pl_module.network(batch[0]).squeeze(-1).sigmoid(), batch[1])

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        pl_module.log("callback/accuracy", self.accuracy.compute())
        self.accuracy.reset()


class Data:
    """Few rows, which a linear network learns in three epochs, so that its probabilities come true."""

    def __init__(self, loaders: int = 1) -> None:
        super().__init__()
        self.loaders = loaders

    def train_dataloader(self) -> Any:
        return loader(320)

    def val_dataloader(self) -> Any:
        return loader(seed=1) if self.loaders == 1 else [loader(seed=place) for place in range(self.loaders)]

    def test_dataloader(self) -> Any:
        return self.val_dataloader()


def made(kind: type, package: Any, kit: str = "stock", *arguments: Any) -> Any:
    """A module, a callback or data of Lightning's package, with the metrics of a kit."""
    bases = {OwnsMetrics: "Callback", Data: "LightningDataModule"}
    base = getattr(package, bases.get(kind, "LightningModule"))
    return type(kind.__name__, (kind, base), {"kit": KITS[kit]})(*arguments)


MODULES = (
    CollectionPerStage,
    InModuleDict,
    SeveralLoaders,
    ByHand,
    ManualOptimisation,
    TwoNetworks,
    SyncedLosses,
    MadeInSetup,
    CountedInHooks,
    BestSoFar,
    Ranking,
    SeveralClasses,
    OnStepAndEpoch,
    OwnEvaluations,
    Returns,
)
