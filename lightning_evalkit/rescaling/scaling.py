"""Fits a temperature to held-out logits and targets, so that confidence matches accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import Module
from torchmetrics.utilities import rank_zero_warn

from lightning_evalkit.counts import real_dtype
from lightning_evalkit.errors import InputError
from lightning_evalkit.inputs.arrays import tensor_of
from lightning_evalkit.metrics.loss_profile import LossProfile
from lightning_evalkit.rescaling.classes import as_logits, insist_on_classes

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from lightning_evalkit.statistics.profile import Profile


class Scaling(Module):
    """Rescales logits of a binary problem, of ``num_classes`` or of ``num_labels`` to fit held-out targets.

    Classes or labels are the second dimension, (N, C, ...), as everywhere in this package.
    """

    def __init__(self, num_classes: int | None = None, num_labels: int | None = None) -> None:
        super().__init__()
        # checks the inputs; samples without a weight have weight 1
        self.profile = LossProfile(num_classes, num_labels, weighted=True, sync_on_compute=False)
        self.profile.persistent(False)
        self.num_classes, self.num_labels = num_classes, num_labels
        self.width = num_classes or num_labels or 1

    def fit(self, logits: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Any:
        """Fit to held-out logits and targets; a weight of 2 equals two samples, 0 removes the sample."""
        raise NotImplementedError

    def _tensors(self, logits: Any, target: Any, sample_weight: Any) -> tuple[Tensor, Tensor, Tensor | None]:
        """Convert arrays and lists to the tensors to fit to."""
        logits = as_logits(logits, self.profile.device)
        target = tensor_of("target", target, logits.device)
        weighted = sample_weight is not None
        return logits, target, tensor_of("sample_weight", sample_weight, logits.device) if weighted else None

    def _checked(self, logits: Tensor, target: Tensor, sample_weight: Tensor | None) -> Profile:
        """The profile of the losses; it refuses labels, which have none."""
        if not len(logits):
            raise InputError("expected logits to fit to, got none.")
        profile = self.profile.to(logits.device)
        profile.reset()
        weight = torch.ones(target.shape[:1], device=target.device) if sample_weight is None else sample_weight
        profile.update(logits.detach(), target, sample_weight=weight)
        found = profile.profile()
        profile.reset()
        if not found.samples:
            raise InputError("expected samples to fit to, got none that weighs more than 0.")
        return found

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Scaling:
        """Follow a move to another device, never a cast: 1.37 is 1.367 in bfloat16."""
        for name, value in self._buffers.items():
            if value is not None:
                device = fn(torch.empty(0, device=value.device)).device
                has = value.dtype != torch.float64 or real_dtype(device) == torch.float64
                self._buffers[name] = value.to(device, value.dtype if has else torch.float32)
        self.profile._apply(fn)
        return self


class TemperatureScaling(Scaling):
    """Divides logits by the number that makes their held-out log loss least; predictions stay the same.

    >>> logits, target = torch.tensor([4.0, 4.0, 4.0, -4.0]), torch.tensor([1, 1, 0, 0])
    >>> scaling = TemperatureScaling().fit(logits, target)  # right in 3 of 4 cases: as if sure to 75 %
    >>> scaling(logits).sigmoid()
    tensor([0.7500, 0.7500, 0.7500, 0.2500])
    """

    temperature: Tensor

    def __init__(self, num_classes: int | None = None, num_labels: int | None = None) -> None:
        super().__init__(num_classes, num_labels)
        self.register_buffer("temperature", torch.ones(()))

    def fit(self, logits: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> TemperatureScaling:
        return self.adopt(self._checked(*self._tensors(logits, target, sample_weight)))

    def adopt(self, profile: Profile) -> TemperatureScaling:
        """Take the best temperature from losses that were profiled elsewhere."""
        if not profile.samples:
            raise InputError("expected samples to fit a temperature to, got none.")
        if profile.at_the_end:
            better = "lower" if profile.temperature < 1 else "higher"
            rank_zero_warn(
                f"the temperature {profile.temperature:g} is at the end of what is looked at, and a {better} one would "
                f"still be better: of {profile.samples:g} samples {profile.accuracy:.1%} are predicted right.",
                UserWarning,
            )
        with torch.inference_mode(False):
            self.temperature = torch.tensor(profile.temperature, device=self.temperature.device)
        return self

    def forward(self, logits: Tensor) -> Tensor:
        """Scaled logits, in their own precision."""
        logits = as_logits(logits, self.temperature.device)
        insist_on_classes(logits, self.width)
        return (logits / self.temperature).to(logits.dtype)
