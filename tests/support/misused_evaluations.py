"""Modules that misuse an evaluation of this package, each with its corrected twin."""

from __future__ import annotations

from typing import Any

import torch
from misused import Own, OwnByHand, OwnForBoth, OwnNotReset, Steps
from torch import Tensor, nn

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation


class ValuesLogged(Own):
    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.log_dict(self.numbers(logits, target))


class PerLoader(Steps):
    def make(self) -> None:
        self.f1s = nn.ModuleList(BinaryEvaluation("logits") for _ in range(2))

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.f1s[loader].update(logits, target)
        self.log_dict(self.f1s[loader])


class OneForLoaders(PerLoader):
    def make(self) -> None:
        self.f1s = nn.ModuleList([BinaryEvaluation("logits")] * 2)


class Registered(Steps):
    container: Any = nn.ModuleDict

    def make(self) -> None:
        self.held = self.container({"numbers": BinaryEvaluation("logits")})

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.held["numbers"].update(logits, target)

    def end(self) -> None:
        self.log_dict(self.held["numbers"].compute())
        self.held["numbers"].reset()


class InPlainDict(Registered):
    container = dict


class Declared(Steps):
    inputs, curves = "probabilities", False

    def make(self) -> None:
        self.numbers = BinaryEvaluation(self.inputs, curves=self.curves, zero_division=0.0)

    def scores(self, logits: Tensor) -> Tensor:
        return logits.sigmoid()

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.numbers.update(self.scores(logits), target)
        self.log_dict(self.numbers)


class TwiceSigmoid(Declared):
    def scores(self, logits: Tensor) -> Tensor:
        return logits.sigmoid().sigmoid()


class ProbabilitiesAsLogits(Declared):
    inputs = "logits"


class RankedLabels(Declared):
    curves = True

    def scores(self, logits: Tensor) -> Tensor:
        return (logits > 0).float()


class Ranked(Declared):
    curves = True


class ComputedToo(Own):
    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        super().val_with(logits, target, loader)
        self.numbers.compute()


class Called(Own):
    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.numbers(logits, target)
        self.log_dict(self.numbers)


class Absent(Steps):
    """Four of six classes never are a target, and one of those is predicted."""

    def make(self) -> None:
        self.numbers = MulticlassEvaluation("labels", 6, statistics=["recall/macro"])

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        labels = (logits > 0).long()
        labels[:2] = 5
        self.numbers.update(labels, target)
        self.log_dict(self.numbers)


class Cast(Own):
    def make(self) -> None:
        super().make()
        self.numbers.set_dtype(torch.bfloat16)
        self.numbers.half()


class SeveralThresholds(Steps):
    def make(self) -> None:
        self.numbers, self.first = BinaryEvaluation("probabilities", [0.1, 0.5, 0.9], zero_division=0.0), True

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        clean = torch.where(target == 1, 0.99, 0.01)  # the first batch happens to separate at every threshold
        self.numbers.update(clean if self.first else logits.sigmoid(), target)
        self.first = False
        self.log_dict(self.numbers)


MISUSES: dict[str, tuple[str, type[Steps], type[Steps]]] = {
    "values logged": ("EK101", ValuesLogged, Own),
    "one for both stages": ("EK102", OwnForBoth, Own),
    "not reset": ("EK104", OwnNotReset, OwnByHand),
    "in a plain dict": ("EK108", InPlainDict, Registered),
    "one for two loaders": ("EK110", OneForLoaders, PerLoader),
    "sigmoid twice": ("EK115", TwiceSigmoid, Declared),
    "probabilities as logits": ("EK115", ProbabilitiesAsLogits, Declared),
    "ranked labels": ("EK218", RankedLabels, Ranked),
    "computed in steps": ("EK119", ComputedToo, Own),
    "called": ("EK124", Called, Own),
}
"""The code of the rule that finds it, the misuse, and its corrected twin."""
HARMLESS = (Absent, Cast, SeveralThresholds)
"""What goes wrong with stock metrics (EK118, EK121, EK111) and not with an evaluation."""
