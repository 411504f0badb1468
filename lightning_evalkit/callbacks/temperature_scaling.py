"""Fits a temperature on validation, and applies it in test and prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightning_evalkit import rescaling
from lightning_evalkit.callbacks.parts.correction import Correction
from lightning_evalkit.callbacks.parts.fitted_on_validation import FittedOnValidation
from lightning_evalkit.callbacks.parts.step_outputs import of_logits
from lightning_evalkit.callbacks.parts.weighing import weight_of
from lightning_evalkit.counts.stored_logits import StoredLogits
from lightning_evalkit.counts.temperatures import SHARPNESS
from lightning_evalkit.diagnosis import Table
from lightning_evalkit.errors import InputError
from lightning_evalkit.metrics.loss_profile import LossProfile
from lightning_evalkit.sinks.panels import Line, Panel
from lightning_evalkit.state import Tally
from lightning_evalkit.trainer import RunningStage

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from lightning_evalkit.statistics.profile import Profile
    from lightning_evalkit.trainer import LightningModule, Trainer

TAG = "val/temperature_scaling"


class TemperatureScaling(Correction, FittedOnValidation):
    """Divides logits in test and prediction by the temperature with the lowest log loss on validation.

    The problem is binary unless ``num_classes`` or ``num_labels`` is given. With ``vector`` every logit gets its own
    scale and shift instead; the callback then stores all validation logits. Validation steps return a dict with
    "logits" and "target" (or ``preds_key`` and ``target_key``); alternatively ``take(output, batch)`` returns both.
    ``Correction`` says which logits are scaled. With ``weighted`` the steps also return "sample_weight" (or
    ``weight_key``, or ``take`` returns it as a third): a weight of 2 equals two samples, 0 removes the sample. By
    default our modules' own declaration holds; other modules' undeclared weights are refused, unless
    ``weighted=False`` ignores them. The callback logs ``val/temperature``, ``val/log_loss@raw`` and
    ``val/log_loss@scaled``.

    >>> callback = TemperatureScaling(num_classes=10)
    >>> float(callback.correction.temperature)
    1.0
    """

    correction: rescaling.TemperatureScaling | rescaling.VectorScaling
    corrected = frozenset({RunningStage.TESTING, RunningStage.PREDICTING})

    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        vector: bool = False,
        submodule: str | None = None,
        preds_key: str | None = None,
        target_key: str = "target",
        weight_key: str = "sample_weight",
        take: Callable[[Any, Any], Any] | None = None,
        dataloader_idx: int = 0,
        weighted: bool | None = None,
    ) -> None:
        Correction.__init__(self, submodule)
        outputs = of_logits(weighted, preds_key, target_key, weight_key, take, type(self).__name__)
        FittedOnValidation.__init__(self, outputs, weighted, dataloader_idx)
        scaling = rescaling.VectorScaling if vector else rescaling.TemperatureScaling
        self.correction = scaling(num_classes, num_labels)
        self.profile = LossProfile(num_classes, num_labels, weighted=True)
        self._stored_logits = (
            Tally(StoredLogits(self.profile.counter.task), compute_with_cache=False) if vector else None
        )
        self._fitted = False

    @property
    def ready(self) -> bool:
        return self._fitted

    learnt = ready

    # ---- fitting

    def begin(self, module: LightningModule) -> None:
        for metric in (self.profile, self._stored_logits):
            if metric is not None:
                metric.to(module.device).reset()

    def count(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> None:
        if not preds.is_floating_point():
            raise InputError(f"expected logits, got {preds.dtype}: labels have no confidence that could be scaled.")
        weight = weight_of(target, sample_weight)
        self.profile.update(preds, target, sample_weight=weight)
        if self._stored_logits is not None:
            self._stored_logits.update(preds, target, weight)

    def learn(self, trainer: Trainer, module: LightningModule) -> dict[str, float]:
        found = self.profile.profile()
        values = {"val/log_loss@raw": found.loss}
        if isinstance(self.correction, rescaling.TemperatureScaling):
            self.correction.to(module.device).adopt(found)
            values |= {"val/temperature": found.temperature, "val/log_loss@scaled": found.refinement}
        else:
            values["val/log_loss@scaled"] = self._fit_vector(self.correction)
        self._fitted = True
        self.show(trainer, TAG, {TAG: over_temperatures(self.profile, found)}, self._described(values))
        return values

    def _fit_vector(self, scaling: rescaling.VectorScaling) -> float:
        """Fit on every rank to the logits of all ranks, so that all get the same result."""
        assert self._stored_logits is not None  # for this kind
        counter = self._stored_logits.counter
        assert isinstance(counter, StoredLogits)
        logits, target, weight = counter.rows(self._stored_logits.compute())
        scaled = scaling.to(logits.device).fit(logits, target, weight)(logits)
        after = LossProfile(scaling.num_classes, scaling.num_labels, weighted=True, sync_on_compute=False)
        after.to(logits.device).update(scaled, target, sample_weight=weight)
        return after.profile().loss

    def _described(self, values: dict[str, float]) -> str:
        rows = [(name, f"{value:.6g}") for name, value in values.items()]
        if isinstance(self.correction, rescaling.VectorScaling):
            for name in ("scale", "shift"):
                rows.append((name, ", ".join(f"{x:.4g}" for x in getattr(self.correction, name).tolist())))
        return Table(("fitted on validation", ""), tuple(rows)).markdown()

    # ---- applying

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Refuse to test before a fit."""
        self.insist("scale the logits of a test")

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Refuse to predict before a fit."""
        self.insist("scale the logits of predictions")

    # ---- checkpoints

    def state_dict(self) -> dict[str, Any]:
        if not self._fitted:
            return {}
        return {name: value.detach().cpu() for name, value in self.correction.named_buffers(recurse=False)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load fitted numbers; refuse those of another problem."""
        own = dict(self.correction.named_buffers(recurse=False))
        shapes = {name: tuple(value.shape) for name, value in own.items()}
        found = {name: tuple(value.shape) for name, value in state_dict.items()}
        if found and found != shapes:
            raise InputError(
                f"the checkpoint holds scaling of shape {found}, this {type(self).__name__} has {shapes}: declare the "
                "same num_classes or num_labels, and the same kind (vector)."
            )
        for name, value in state_dict.items():
            setattr(self.correction, name, value.to(own[name].device))
        self._fitted = bool(state_dict)


def over_temperatures(profile: LossProfile, found: Profile) -> Panel:
    """A panel of the mean log loss over the temperature, with marks at 1 and at the best one."""
    losses = (profile.counter.sums(profile.global_totals).sharpened.losses / found.samples).tolist()
    near = [place for place, loss in enumerate(losses) if loss <= 3 * found.loss]  # more would flatten the rest
    lines = [
        Line([1 / SHARPNESS[place] for place in near], [losses[place] for place in near], "log loss", number=0),
        Line((1.0,), (found.loss,), f"as it is: {found.loss:.4f}", "mark", 1),
        Line(
            (found.temperature,),
            (found.refinement,),
            f"best: {found.refinement:.4f} at {found.temperature:.3g}",
            "mark",
            2,
        ),
    ]
    return Panel("Log loss over the temperature", "temperature", "mean log loss", lines, scale="log")
