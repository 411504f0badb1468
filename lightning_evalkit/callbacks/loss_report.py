"""Reports each epoch where the validation loss comes from, and why it rises while accuracy stands still."""

from __future__ import annotations

from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING, Any

from lightning_evalkit.callbacks.parts.fitted_on_validation import FittedOnValidation
from lightning_evalkit.callbacks.parts.step_outputs import of_logits
from lightning_evalkit.callbacks.parts.weighing import weight_of
from lightning_evalkit.callbacks.temperature_scaling import over_temperatures
from lightning_evalkit.diagnosis import explain_loss
from lightning_evalkit.metrics.loss_profile import LossProfile
from lightning_evalkit.sinks.panels import Line, Panel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from lightning_evalkit.statistics.profile import Profile
    from lightning_evalkit.trainer import LightningModule, Trainer

TAG = "val/loss_profile"
LOGGED = ("loss_of_worst", "loss_of_wrong", "refinement", "calibration", "temperature")


class LossReport(FittedOnValidation):
    """Profiles the log loss of every validation epoch: logged as ``val/loss/…``, explained and drawn.

    ``val/loss/refinement`` is the loss at the best temperature, ``val/loss/calibration`` the rest. If only the second
    rises, the network discriminates as well as before but has become overconfident. Texts and figures show which
    samples carry the loss, how confident the network was about them, and how much a temperature would help. It treats
    sample weights as ``TemperatureScaling`` does.

    >>> report = LossReport(num_classes=10, worst=0.01, hardest=20)
    >>> report.profile.worst
    0.01
    """

    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        class_names: Sequence[str] | None = None,
        worst: float = 0.01,
        hardest: int = 10,
        preds_key: str | None = None,
        target_key: str = "target",
        weight_key: str = "sample_weight",
        take: Callable[[Any, Any], Any] | None = None,
        dataloader_idx: int = 0,
        weighted: bool | None = None,
    ) -> None:
        super().__init__(
            of_logits(weighted, preds_key, target_key, weight_key, take, type(self).__name__), weighted, dataloader_idx
        )
        self.profile = LossProfile(
            num_classes,
            num_labels,
            worst=worst,
            hardest=hardest,
            weighted=True,
            class_names=None if class_names is None else [*class_names],
        )
        self.epochs: list[Profile] = []

    @property
    def learnt(self) -> bool:
        """Once an epoch has ended."""
        return bool(self.epochs)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_fit_start(trainer, pl_module)
        self.epochs.clear()

    def begin(self, module: LightningModule) -> None:
        self.profile.to(module.device).reset()

    def count(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> None:
        self.profile.update(preds, target, sample_weight=weight_of(target, sample_weight))

    def learn(self, trainer: Trainer, module: LightningModule) -> dict[str, float]:
        found, hardest = self.profile.profile(), self.profile.hardest()
        self.epochs.append(found)
        best = min(self.epochs, key=lambda epoch: epoch.loss)
        before = None if best is found else best
        finding = explain_loss(found, hardest, self.profile.names, before, self._accuracy)
        panels = {
            f"{TAG}/over_epochs": over_epochs(self.epochs),
            f"{TAG}/worst_samples": by_rank(found),
            f"{TAG}/over_temperatures": over_temperatures(self.profile, found),
        }
        self.show(trainer, TAG, panels, finding.markdown())
        values = self.profile.compute()
        return {f"val/loss/{name}": float(values[name]) for name in LOGGED}

    @property
    def _accuracy(self) -> str:
        """Name the profile's accuracy: an evaluation may use another threshold."""
        if self.profile.counter.is_multiclass:
            return "accuracy"
        return "hamming_accuracy at 0.5" if self.profile.counter.labels else "accuracy at 0.5"


def over_epochs(epochs: Sequence[Profile]) -> Panel:
    """A panel of the loss, its part that no temperature removes, and the share of errors, by epoch."""
    places = [*range(len(epochs))]
    series = {
        "log loss": [epoch.loss for epoch in epochs],
        "refinement: log loss at the best temperature": [epoch.refinement for epoch in epochs],
        "share of errors": [1 - epoch.accuracy for epoch in epochs],
    }
    lines = [Line(places, values, label, number=number) for number, (label, values) in enumerate(series.items())]
    return Panel("Validation", "epoch", "loss and share of errors", lines, scale="linear")


def by_rank(profile: Profile) -> Panel:
    """A panel of the shares of the loss and of the errors that the worst samples carry."""
    parts = {"share of the loss": _beside_infinite(profile), "share of the wrong predictions": profile.wrong}
    ranks = _from_top(profile.histogram)
    lines = [
        Line(ranks[1:], _from_top(part)[1:], label, number=number) for number, (label, part) in enumerate(parts.items())
    ]
    said = f"the worst {profile.worst:.3g} carry {profile.of_worst:.1%}"
    lines.append(Line((profile.worst,), (profile.of_worst,), said, "mark", 0))
    return Panel("Who carries the loss", "share of the samples, the worst first", "share", lines, scale="log")


def _beside_infinite(profile: Profile) -> Sequence[float]:
    """The loss of each bin; infinite losses are in the last bin and then carry everything."""
    return profile.carried if profile.loss < inf else [*[0.0] * (len(profile.carried) - 1), 1.0]


def _from_top(parts: Sequence[float]) -> list[float]:
    """Cumulative shares of the sum, from the last part to the first."""
    total = sum(parts) or 1.0
    return [*accumulate((part / total for part in reversed(parts)), initial=0.0)]
