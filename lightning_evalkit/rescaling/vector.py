"""Fits a line through the logits of every class to held-out logits and targets."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torchmetrics.utilities import rank_zero_warn

from lightning_evalkit.counts import real_dtype
from lightning_evalkit.errors import InputError
from lightning_evalkit.rescaling.classes import along_classes, as_logits, by_element
from lightning_evalkit.rescaling.newton import STEPS, OneOfMany, YesNo, least
from lightning_evalkit.rescaling.scaling import Scaling

if TYPE_CHECKING:
    from torch import Tensor


class VectorScaling(Scaling):
    """Multiplies each logit by a number of its own and adds another; for binary problems this is Platt's scaling.

    It can change decisions, and needs more data than one temperature. It is fitted with all logits in memory, to the
    least log loss; the size and mean of the logits do not matter. If the logits separate the classes, or a class never
    occurs, there is no least loss: the fit then warns and uses Platt's targets, which are as if one more sample of
    every class had been seen.

    >>> logits, target = torch.tensor([4.0, 4.0, 4.0, -4.0, -4.0]), torch.tensor([1, 1, 0, 0, 1])
    >>> VectorScaling().fit(logits, target)(logits).sigmoid()
    tensor([0.6667, 0.6667, 0.6667, 0.5000, 0.5000])
    """

    scale: Tensor
    shift: Tensor

    def __init__(self, num_classes: int | None = None, num_labels: int | None = None) -> None:
        super().__init__(num_classes, num_labels)
        # in double precision, as the shift cancels scale times a large mean
        kind = real_dtype(torch.get_default_device())
        self.register_buffer("scale", torch.ones(self.width, dtype=kind))
        self.register_buffer("shift", torch.zeros(self.width, dtype=kind))

    def fit(self, logits: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> VectorScaling:
        """Fit to held-out logits and targets; works inside inference mode too."""
        logits, target, sample_weight = self._tensors(logits, target, sample_weight)
        self._checked(logits, target, sample_weight)
        with torch.inference_mode(False), torch.no_grad():
            samples = self._samples(logits.detach(), target, sample_weight)
            lines = self._of_classes(samples) if self.num_classes is not None else self._of_answers(samples)
            self.scale, self.shift = (
                torch.stack(each).to(self.scale.device, self.scale.dtype) for each in zip(*lines, strict=True)
            )
        return self

    def _samples(self, logits: Tensor, target: Tensor, sample_weight: Tensor | None) -> Samples:
        """Every element with a weight above 0: logits of shape (M, C), targets (M,) or (M, L)."""
        weight = torch.ones(target.shape[:1]) if sample_weight is None else sample_weight
        given = self.profile.counter.task.arranged(logits.cpu().double(), target.cpu(), weight.cpu().double())
        logits, target, weight = given
        if self.num_classes is not None:
            rows = by_element(logits), target.flatten().unsqueeze(1), weight.flatten().unsqueeze(1)
        else:
            rows = tuple(part.reshape(-1, self.width) for part in given)
        if not bool(rows[0][(rows[2] > 0).expand_as(rows[0])].isfinite().all()):
            raise InputError("expected finite logits to fit a line to, got infinite ones.")
        return Samples(*rows)

    def _of_answers(self, samples: Samples) -> list[Line]:
        """Fit a line for every label by itself."""
        lines, unbounded = [], []
        for label, parts in enumerate(zip(*(part.unbind(1) for part in samples), strict=True)):
            logits, answers, weights = (part[parts[2] > 0] for part in parts)
            if not len(weights):
                raise InputError(f"expected samples of label {label} to fit to, got none that weighs more than 0.")
            centred = Centred(logits.unsqueeze(1), weights)
            numbers = least(YesNo(centred.logits.squeeze(1), answers.double(), weights))
            if numbers is None:
                unbounded.append(label)
                soft = smoothed(answers.long(), weights, 2)[:, 1]
                numbers = _found(least(YesNo(centred.logits.squeeze(1), soft, weights), soft=True))
            lines.append(Line(*(part.squeeze(0) for part in centred.undone(*numbers.chunk(2)))))
        if unbounded:
            _say_unbounded("" if self.num_labels is None else f" of label {', '.join(map(str, unbounded))}")
        return lines

    def _of_classes(self, samples: Samples) -> list[Line]:
        """Fit the lines of all classes jointly, through one softmax."""
        used = samples.weights.squeeze(1) > 0
        logits, target, weights = (
            samples.logits[used],
            samples.target[used].squeeze(1),
            samples.weights[used].squeeze(1),
        )
        centred = Centred(logits, weights)
        certain = torch.nn.functional.one_hot(target.long(), self.width).double()
        numbers = least(OneOfMany(centred.logits, certain, weights))
        if numbers is None:
            soft = smoothed(target.long(), weights, self.width)
            numbers = _found(least(OneOfMany(centred.logits, soft, weights), soft=True))
            _say_unbounded("")
        scale, shift = centred.undone(*numbers.chunk(2))
        return [Line(*each) for each in zip(scale, shift - shift.mean(), strict=True)]  # a constant changes nothing

    def forward(self, logits: Tensor) -> Tensor:
        """Scaled logits, in their own precision."""
        logits = as_logits(logits, self.scale.device)
        scale, shift = (along_classes(part, logits) for part in (self.scale, self.shift))
        return (logits.to(torch.promote_types(logits.dtype, scale.dtype)) * scale + shift).to(logits.dtype)


class Samples(NamedTuple):
    """Logits (M, C), targets and weights (M, 1) of classes or (M, L) of labels."""

    logits: Tensor
    target: Tensor
    weights: Tensor


class Line(NamedTuple):
    """The factor and the offset of a logit."""

    scale: Tensor
    shift: Tensor


class Centred:
    """Logits (M, C) minus their mean, in units of their spread, and how to map lines back."""

    def __init__(self, logits: Tensor, weights: Tensor) -> None:
        shares = (weights / weights.amax()).unsqueeze(1)
        shares = shares / shares.sum()
        size = _or_one(logits.abs().amax(0))  # so that no square is too large, or too small
        scaled = logits / size
        mean = (shares * scaled).sum(0)
        largest = _or_one((scaled - mean).abs().amax(0))
        spread = largest * (shares * ((scaled - mean) / largest) ** 2).sum(0).sqrt()
        self.constant = (logits == logits[0]).all(0)
        self.logits = torch.where(self.constant, 0.0, (scaled - mean) / _or_one(spread))
        self.mean, self.spread = mean * size, _or_one(spread) * size

    def undone(self, slopes: Tensor, shifts: Tensor) -> tuple[Tensor, Tensor]:
        """The same lines through the original logits; a single value determines no slope, which stays 1."""
        slopes = torch.where(self.constant, 1.0, slopes / self.spread)
        return slopes, shifts - slopes * self.mean


def _or_one(values: Tensor) -> Tensor:
    return torch.where(values > 0, values, 1.0)


def smoothed(target: Tensor, weights: Tensor, classes: int) -> Tensor:
    """Platt's targets, (M, C): as if one more sample of every class had been seen, so never certain."""
    seen = torch.zeros(classes, dtype=torch.float64).index_add_(0, target, weights)[target].unsqueeze(1)
    return (torch.nn.functional.one_hot(target, classes) * seen + 1) / (seen + classes)


def _found(numbers: Tensor | None) -> Tensor:
    if numbers is None:
        raise InputError(f"no scaling could be fitted: the least loss was not found in {STEPS} steps.")
    return numbers


def _say_unbounded(of: str) -> None:
    rank_zero_warn(
        f"the logits{of} tell classes apart without an error, or nearly so, or a class never occurs: a larger scale "
        "would always have a lower loss. The scaling is one as if one more sample of every class had been seen.",
        UserWarning,
    )
