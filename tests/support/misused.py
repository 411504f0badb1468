"""Modules that misuse metrics as people do, each with its corrected twin, under either name of Lightning."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MaxMetric, MetricCollection, MinMaxMetric, RunningMean, classification

from lightning_evalkit import BinaryEvaluation, metrics

CLASSES = 4


def loader(rows: int = 90, batch: int = 16, seed: int = 0) -> DataLoader[Any]:
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 4, generator=random)
    y = (x[:, 0] + 0.5 * torch.randn(rows, generator=random) > 0.3).long()
    return DataLoader(TensorDataset(x, y), batch)


class Steps:
    """What all modules here do; ``make``, ``train``, ``val`` and ``end`` are theirs, and ``kit`` makes the metrics."""

    kit: Any = classification

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.network = nn.Linear(4, 1)
        self.make()

    def make(self) -> None: ...

    def train_with(self, logits: Tensor, target: Tensor) -> None: ...

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None: ...

    def end(self) -> None: ...

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        logits = self.network(batch[0]).squeeze(-1)
        self.train_with(logits, batch[1])
        return nn.functional.binary_cross_entropy_with_logits(logits, batch[1].float())

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self.val_with(self.network(batch[0]).squeeze(-1), batch[1], dataloader_idx)

    def on_validation_epoch_end(self) -> None:
        self.end()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.1)


class Good(Steps):
    def make(self) -> None:
        self.train_f1, self.f1 = self.kit.BinaryF1Score(), self.kit.BinaryF1Score()

    def train_with(self, logits: Tensor, target: Tensor) -> None:
        self.train_f1.update(logits.sigmoid(), target)
        self.log("train/f1", self.train_f1, on_step=False, on_epoch=True)

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.f1.update(logits.sigmoid(), target)
        self.log("val/f1", self.f1)


class ValueLogged(Good):
    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.log("val/f1", self.f1(logits.sigmoid(), target))


class OneForBoth(Good):
    def train_with(self, logits: Tensor, target: Tensor) -> None:
        self.f1.update(logits.sigmoid(), target)
        self.log("train/f1", self.f1, on_step=False, on_epoch=True)


class Reset(Steps):
    def make(self) -> None:
        self.f1 = self.kit.BinaryF1Score()

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.f1.update(logits.sigmoid(), target)

    def end(self) -> None:
        self.log("val/f1", self.f1.compute())
        self.f1.reset()


class NotReset(Reset):
    def end(self) -> None:
        self.log("val/f1", self.f1.compute())


class BestSoFar(Good):
    """What a well-known template does: the best value over epochs, forgotten only after the sanity check."""

    def make(self) -> None:
        super().make()
        self.best, self.recent = MaxMetric(), RunningMean(3)

    def on_train_start(self) -> None:
        self.best.reset()
        self.recent.reset()

    def end(self) -> None:
        for name, metric in (("best", self.best), ("recent", self.recent)):
            metric(self.f1.compute())
            self.log(f"val/f1_{name}", metric.compute())


class Range(Steps):
    """A wrapper that knows the lowest and the highest value over epochs, also after a reset."""

    def make(self) -> None:
        self.range = MinMaxMetric(self.kit.BinaryF1Score())

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.range.update(logits.sigmoid(), target)

    def end(self) -> None:
        self.log_dict(self.range.compute())
        self.range.reset()


class BestWithSanity(Steps):
    """The highest score over epochs, and of the sanity check's samples too."""

    def make(self) -> None:
        self.best = MaxMetric()

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.best.update(logits)

    def end(self) -> None:
        self.log("val/highest", self.best.compute())


class Macro(Steps):
    average = "macro"

    def make(self) -> None:
        made = {"num_classes": CLASSES, "average": self.average}
        self.metrics = MetricCollection(
            [self.kit.MulticlassAccuracy(CLASSES, average="micro"), self.kit.MulticlassF1Score(**made)]
        )

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        labels = (logits > 0).long()
        self.metrics.update(labels + 2 * (labels == target), target + 2 * (labels == target))

    def end(self) -> None:
        self.log_dict(self.metrics.compute())
        self.metrics.reset()


class Micro(Macro):
    average = "micro"


class OneAccuracy(Steps):
    averages: tuple[str, ...] = ("micro",)

    def make(self) -> None:
        self.found = nn.ModuleList(self.kit.MulticlassAccuracy(2, average=each) for each in self.averages)

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        for metric in self.found:
            metric.update((logits > 0).long(), target)

    def end(self) -> None:
        for number, metric in enumerate(self.found):
            self.log(f"accuracy_{number}", metric.compute())
            metric.reset()


class TwoAccuracies(OneAccuracy):
    averages = ("micro", "macro")


class Registered(Steps):
    container: Any = nn.ModuleDict

    def make(self) -> None:
        self.held = self.container({"f1": self.kit.BinaryF1Score()})

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.held["f1"].update(logits.sigmoid(), target)

    def end(self) -> None:
        self.log("val/f1", self.held["f1"].compute())
        self.held["f1"].reset()


class InPlainDict(Registered):
    container = dict


class Declared(Steps):
    def make(self) -> None:
        self.auroc = self.kit.BinaryAUROC(thresholds=50)

    def scores(self, logits: Tensor) -> Tensor:
        return logits.sigmoid()

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.auroc.update(self.scores(logits), target)
        self.log("val/auroc", self.auroc)


class GuessedPerBatch(Declared):
    def scores(self, logits: Tensor) -> Tensor:
        self.turn = not getattr(self, "turn", False)
        return logits.sigmoid() if self.turn else logits - 1


class TwiceSigmoid(Declared):
    def scores(self, logits: Tensor) -> Tensor:
        return logits.sigmoid().sigmoid()


class Ranked(Declared):
    def scores(self, logits: Tensor) -> Tensor:
        return (logits > 0).float()


class PerLoader(Steps):
    def make(self) -> None:
        self.f1s = nn.ModuleList(self.kit.BinaryF1Score() for _ in range(2))

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.f1s[loader].update(logits.sigmoid(), target)
        self.log("f1", self.f1s[loader])


class OneForLoaders(PerLoader):
    def make(self) -> None:
        self.f1s = nn.ModuleList([self.kit.BinaryF1Score()] * 2)


class Apart(Steps):
    groups: Any = False

    def make(self) -> None:
        cuts = {f"at_{cut}": self.kit.BinaryPrecision(threshold=cut / 10) for cut in (1, 5, 9)}
        self.cuts, self.first = MetricCollection(cuts, compute_groups=self.groups), True

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        clean = torch.where(target == 1, 0.99, 0.01)  # the first batch happens to separate at every threshold
        self.cuts.update(clean if self.first else logits.sigmoid(), target)
        self.first = False

    def end(self) -> None:
        self.log_dict(self.cuts.compute())
        self.cuts.reset()


class Merged(Apart):
    groups = True


class Present(Steps):
    classes = 2

    def make(self) -> None:
        self.recall = self.kit.MulticlassRecall(self.classes, average="macro")

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        labels = (logits > 0).long()
        labels[:2] = self.classes - 1
        self.recall.update(labels, target)
        self.log("val/recall", self.recall)


class Absent(Present):
    classes = 6


class Whole(Steps):
    kind = torch.float32

    def make(self) -> None:
        self.mean = self.kit.BinaryHingeLoss()
        self.mean.set_dtype(self.kind)

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.mean.update(logits.sigmoid(), target)
        self.log("hinge", self.mean)


class LowPrecision(Whole):
    kind = torch.bfloat16


class ComputedToo(Good):
    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        super().val_with(logits, target, loader)
        self.f1.compute()


class Own(Steps):
    """An evaluation of this package for each stage."""

    def make(self) -> None:
        self.train_numbers = BinaryEvaluation("logits", prefix="train/")
        self.numbers = BinaryEvaluation("logits", prefix="val/")

    def train_with(self, logits: Tensor, target: Tensor) -> None:
        self.train_numbers.update(logits, target)
        self.log_dict(self.train_numbers, on_step=False, on_epoch=True)

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.numbers.update(logits, target)
        self.log_dict(self.numbers)


class OwnForBoth(Own):
    def train_with(self, logits: Tensor, target: Tensor) -> None:
        self.numbers.update(logits, target)


class OwnByHand(Own):
    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.numbers.update(logits, target)

    def end(self) -> None:
        self.log_dict(self.numbers.compute())
        self.numbers.reset()


class OwnNotReset(OwnByHand):
    def end(self) -> None:
        self.log_dict(self.numbers.compute())


class ClassWeights(Steps):
    """Logged per batch, a loss with class weights depends on the batch size."""

    weights: Tensor | None = torch.tensor([1.0, 5.0])

    def make(self) -> None:
        self.criterion = nn.CrossEntropyLoss(weight=self.weights)

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.log("val_loss", self.criterion(torch.stack((torch.zeros_like(logits), logits), 1), target))


class NoWeights(ClassWeights):
    weights = None


class Called(Good):
    """The value of each batch is computed and thrown away."""

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.f1(logits.sigmoid(), target)
        self.log("val/f1", self.f1)


class EachValue(Steps):
    """One number for each class, under a name of its own."""

    def make(self) -> None:
        self.f1 = self.kit.MulticlassF1Score(2, average=None)

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.f1.update((logits > 0).long(), target)

    def end(self) -> None:
        self.log_dict({f"val/f1/{label}": value for label, value in enumerate(self.f1.compute())})
        self.f1.reset()


class SeveralValues(EachValue):
    """Lightning refuses it."""

    def end(self) -> None:
        self.log_dict({"val/f1": self.f1.compute()})


class SeveralInAStep(EachValue):
    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.log("val/f1", self.f1((logits > 0).long(), target))


class ValidatedBefore(Steps):
    """Validated before it is trained: validate resets the state in inference mode, and fit may not change that."""

    def make(self) -> None:
        self.hinge = self.kit.BinaryHingeLoss()

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.hinge.update(logits.sigmoid(), target)
        self.log("val/hinge", self.hinge)


class ResetBefore(ValidatedBefore):
    """Fit begins with a state of its own."""

    def on_fit_start(self) -> None:
        self.hinge.reset()


RAISING: dict[str, tuple[type[Steps], type[Steps]]] = {
    "EK122": (SeveralValues, EachValue),
    "EK125": (ValidatedBefore, ResetBefore),
}
"""Misuses that end a run in an exception, by the rule that explains it, and the corrected twin."""
MISUSES: dict[str, tuple[type[Steps], type[Steps]]] = {
    "EK101": (ValueLogged, Good),
    "EK102": (OneForBoth, Good),
    "EK103": (Micro, Macro),
    "EK104": (NotReset, Reset),
    "EK105": (TwoAccuracies, OneAccuracy),
    "EK108": (InPlainDict, Registered),
    "EK109": (GuessedPerBatch, Declared),
    "EK110": (OneForLoaders, PerLoader),
    "EK111": (Merged, Apart),
    "EK115": (TwiceSigmoid, Declared),
    "EK117": (Ranked, Declared),
    "EK118": (Absent, Present),
    "EK119": (ComputedToo, Good),
    "EK120": (ClassWeights, NoWeights),
    "EK121": (LowPrecision, Whole),
    "EK124": (Called, Good),
}
"""The code of the rule that finds it, the misuse, and its corrected twin."""
HEALTHY = (Good, Reset, Registered, Declared, PerLoader, Apart, Present, Whole, Own, OwnByHand, NoWeights, OneAccuracy)


KITS = {"stock": classification, "own": metrics}
"""The two packages with metrics of the same names."""


def module(package: Any, steps: type[Steps], kit: str = "") -> Any:
    """One of these modules as a LightningModule of a package, with the metrics of a kit or those it has."""
    return type(steps.__name__, (steps, package.LightningModule), {"kit": KITS[kit]} if kit else {})()
