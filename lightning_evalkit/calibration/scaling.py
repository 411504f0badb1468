"""Scaling fitted to logits and targets that were not trained on, so that confidence is what happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import Module
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torchmetrics.utilities import rank_zero_warn

from lightning_evalkit.errors import InputError
from lightning_evalkit.metrics.loss_profile import LossProfile

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from lightning_evalkit.statistics.profile import Profile

STEPS = 200
"""Of the optimizer, which a convex loss of few numbers hardly needs."""


class Scaling(Module):
    """Logits of a binary problem, of ``num_classes`` or of ``num_labels``, made to fit what happened."""

    def __init__(self, num_classes: int | None = None, num_labels: int | None = None) -> None:
        super().__init__()
        self.profile = LossProfile(num_classes, num_labels, sync_on_compute=False)  # checks what is given
        self.profile.persistent(False)
        self.num_classes, self.num_labels = num_classes, num_labels

    def fit(self, logits: Tensor, target: Tensor) -> Any:
        """Fit to logits and targets of data that was not trained on."""
        raise NotImplementedError

    def _checked(self, logits: Tensor, target: Tensor) -> Profile:
        """What is known of the losses; labels have none."""
        _insist_on_logits(logits)
        if not len(logits):
            raise InputError("expected logits to fit to, got none.")
        profile = self.profile.to(logits.device)
        profile.reset()
        profile.update(logits.detach(), target)
        found = profile.profile()
        profile.reset()
        return found

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Scaling:
        """Follow a move to another device, never a cast: 1.37 is 1.367 in bfloat16."""
        for name, value in self._buffers.items():
            if value is not None:
                self._buffers[name] = value.to(fn(value).device)
        self.profile._apply(fn)
        return self


class TemperatureScaling(Scaling):
    """Logits divided by one number, which makes their log loss on held-out data least: predictions stay the same.

    >>> logits, target = torch.tensor([4.0, 4.0, 4.0, -4.0]), torch.tensor([1, 1, 0, 0])
    >>> scaling = TemperatureScaling().fit(logits, target)  # right in 3 of 4 cases: as if sure to 75 %
    >>> scaling(logits).sigmoid()
    tensor([0.7500, 0.7500, 0.7500, 0.2500])
    """

    temperature: Tensor

    def __init__(self, num_classes: int | None = None, num_labels: int | None = None) -> None:
        super().__init__(num_classes, num_labels)
        self.register_buffer("temperature", torch.ones(()))

    def fit(self, logits: Tensor, target: Tensor) -> TemperatureScaling:
        """Fit to logits and targets of data that was not trained on."""
        return self.adopt(self._checked(logits, target))

    def adopt(self, profile: Profile) -> TemperatureScaling:
        """Take the best temperature of losses that were profiled elsewhere."""
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
        _insist_on_logits(logits)
        return (logits / self.temperature).to(logits.dtype)


class VectorScaling(Scaling):
    """Each logit times a number of its own, plus another: for binary problems a line through them (Platt's scaling).

    It can also move decisions, and needs more data than one temperature. Fitted with all logits in memory.

    >>> logits, target = torch.tensor([4.0, 4.0, 4.0, -4.0, -4.0]), torch.tensor([1, 1, 0, 0, 1])
    >>> VectorScaling().fit(logits, target)(logits).sigmoid()
    tensor([0.6667, 0.6667, 0.6667, 0.5000, 0.5000])
    """

    scale: Tensor
    shift: Tensor

    def __init__(self, num_classes: int | None = None, num_labels: int | None = None) -> None:
        super().__init__(num_classes, num_labels)
        width = num_classes or num_labels or 1
        self.register_buffer("scale", torch.ones(width))
        self.register_buffer("shift", torch.zeros(width))

    def fit(self, logits: Tensor, target: Tensor) -> VectorScaling:
        """Fit to logits and targets of data that was not trained on; works inside inference mode too."""
        self._checked(logits, target)
        with torch.inference_mode(False), torch.enable_grad():
            given, truth = logits.detach().cpu().double().clone(), target.cpu().clone()
            scale, shift = (part.cpu().double().clone().requires_grad_() for part in (self.scale, self.shift))
            loss = self._loss(given, truth)
            optimizer = torch.optim.LBFGS([scale, shift], max_iter=STEPS, line_search_fn="strong_wolfe")

            def closure() -> Tensor:
                optimizer.zero_grad()
                value = loss(scale, shift)
                value.backward()
                return value

            optimizer.step(closure)
            if not all(bool(part.isfinite().all()) for part in (scale, shift)):
                raise InputError("no scaling could be fitted: the classes are perfectly separated, or logits are huge.")
            self.scale, self.shift = (part.detach().float().to(self.scale.device) for part in (scale, shift))
        return self

    def _loss(self, logits: Tensor, target: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        if self.num_classes is not None:
            return lambda scale, shift: cross_entropy(logits * scale + shift, target)
        return lambda scale, shift: binary_cross_entropy_with_logits(logits * scale + shift, target.double())

    def forward(self, logits: Tensor) -> Tensor:
        """Scaled logits, in their own precision."""
        _insist_on_logits(logits)
        return (logits * self.scale + self.shift).to(logits.dtype)


def _insist_on_logits(logits: Tensor) -> None:
    if not logits.is_floating_point():
        raise InputError(f"expected logits, got {logits.dtype}: labels have no confidence that could be scaled.")
