"""Metrics of many classes and labels, and batches for them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor


def assert_same(ours: Tensor, theirs: Tensor, note: object = None) -> None:
    torch.testing.assert_close(
        ours,
        theirs,
        rtol=1e-5,
        atol=1e-6,
        equal_nan=True,
        check_dtype=False,
        msg=lambda text: f"{note}\n{text}",
    )


AVERAGES = ("micro", "macro", "weighted", "none", None)

CLASSES = (2, 3, 7)

SAMPLES = 8


class Case(NamedTuple):
    """One combination of arguments and data."""

    task: str
    reading: str
    number: int
    kind: str
    shape: tuple[int, ...]
    preds_type: torch.dtype
    target_type: torch.dtype
    ignored: str
    arguments: dict[str, Any]

    @property
    def ignore_index(self) -> int | None:
        """The ignored target; a mark outside is one that the types can hold, as torchmetrics writes it into both."""
        outside = 99 if torch.uint8 in (self.preds_type, self.target_type) else -1
        last = 1 if self.task == "multilabel" else self.number - 1
        return {"none": None, "outside": outside, "first": 0, "last": last}[self.ignored]

    def options(self, names: list[str]) -> dict[str, Any]:
        """What class or function is called with, as far as it has these parameters."""
        number = "num_classes" if self.task == "multiclass" else "num_labels"
        every = {number: self.number, "ignore_index": self.ignore_index, **self.arguments}
        return {name: every[name] for name in names if name in every}

    def batch(self) -> tuple[Tensor, Tensor]:
        """Predictions and targets."""
        return self._classes() if self.task == "multiclass" else self._labels()

    def _marked(self, truth: Tensor) -> Tensor:
        if self.ignored == "outside":
            share = 2.0 if self.kind == "all ignored" else 0.2
            truth = torch.where(torch.rand(truth.shape) < share, self.ignore_index, truth)
        elif self.ignored != "none" and self.kind == "all ignored":
            truth = torch.full_like(truth, self.ignore_index)
        return truth.to(self.target_type)

    def _classes(self) -> tuple[Tensor, Tensor]:
        shape, last = (SAMPLES, *self.shape), self.number - 1
        truth, said = torch.randint(self.number, shape), torch.randint(self.number, shape)
        fewer_truth, fewer_said = truth.clamp(max=max(last - 1, 0)), said.clamp(max=max(last - 1, 0))
        truth, said = {
            "mixed": (truth, said),
            "class without target": (fewer_truth, said),
            "class without prediction": (truth, fewer_said),
            "class absent": (fewer_truth, fewer_said),
            "one class": (torch.zeros_like(truth), torch.zeros_like(said)),
            "one class, missed": (torch.zeros_like(truth), torch.ones_like(said)),
            "right": (truth, truth),
            "all ignored": (truth, said),
        }[self.kind]
        preds = said.to(self.preds_type) if self.reading == "labels" else self._class_scores(said)
        return preds, self._marked(truth)

    def _class_scores(self, said: Tensor) -> Tensor:
        """Scores without ties in any precision, of which the largest belongs to what is said."""
        ranks = torch.rand(SAMPLES, self.number, *self.shape).argsort(1).argsort(1)
        ranks = ranks.scatter(1, said.unsqueeze(1), self.number).double()
        if self.reading == "probabilities":
            return ((ranks + 1) / (ranks + 1).sum(1, keepdim=True)).to(self.preds_type)
        return (3 * ranks - 7).to(self.preds_type)

    def _labels(self) -> tuple[Tensor, Tensor]:
        shape = (SAMPLES, self.number, *self.shape)
        truth, said = torch.randint(2, shape), torch.randint(2, shape)
        none = torch.arange(self.number).view(1, -1, *[1] * len(self.shape)) > 0
        truth, said = {
            "mixed": (truth, said),
            "class without target": (truth * none, said),
            "class without prediction": (truth, said * none),
            "class absent": (truth * none, said * none),
            "one class": (torch.ones_like(truth), torch.ones_like(said)),
            "one class, missed": (torch.ones_like(truth), torch.zeros_like(said)),
            "right": (truth, truth),
            "all ignored": (truth, said),
        }[self.kind]
        preds = said if self.reading == "labels" else self._label_scores(said)
        return preds.to(self.preds_type), self._marked(truth)

    def _label_scores(self, said: Tensor) -> Tensor:
        """Scores clearly on their side of the threshold, where a sigmoid's rounding cannot matter, or right on it."""
        size, cut = 0.05 + 0.95 * torch.rand(said.shape), self.arguments["threshold"]
        if self.reading == "probabilities":
            below = torch.where(size > 0.9, cut, cut * (1 - size))
            return torch.where(said == 1, cut + (1 - cut) * size, below)
        size.view(-1)[0] = 2.0  # outside [0, 1], so that the batch is read in one way
        return math.log(cut / (1 - cut)) + 4 * size * (2 * said - 1)


KINDS = (
    "mixed",
    "class without target",
    "class without prediction",
    "class absent",
    "one class",
    "one class, missed",
    "right",
    "all ignored",
)
IGNORED = ("none", "outside", "first", "last")
READINGS = ("logits", "probabilities", "labels")
