"""Removes the logit shift of a weighted loss or of resampling in validation, test and prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit import rescaling
from lightning_evalkit.callbacks.parts.correction import Correction, has_a_place
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.reports.loggers import other_boards, tensorboards
from lightning_evalkit.reports.soft_failures import SoftFailures
from lightning_evalkit.sinks import thumbnails
from lightning_evalkit.sinks.panels import Line, Panel
from lightning_evalkit.trainer import RunningStage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lightning_evalkit.reports.loggers import Board
    from lightning_evalkit.trainer import LightningModule, Trainer


class PriorCorrection(Correction):
    """Undoes the logit shift of class weights or resampling in validation, test and prediction.

    The arguments are those of ``lightning_evalkit.rescaling.PriorCorrection``: ``pos_weight`` or ``class_weights`` of
    the loss, and the shares of positives (or of all classes) ``trained_at`` and ``deployed_at``. Training is unchanged.

    >>> callback = PriorCorrection(trained_at=0.5, deployed_at=0.01)
    >>> round(float(callback.correction.shift), 4)  # ln(0.5 / 0.5) - ln(0.01 / 0.99)
    4.5951
    """

    correction: rescaling.PriorCorrection
    corrected = frozenset({RunningStage.VALIDATING, RunningStage.TESTING, RunningStage.PREDICTING})

    def __init__(
        self,
        pos_weight: float | None = None,
        class_weights: Sequence[float] | None = None,
        trained_at: float | Sequence[float] | None = None,
        deployed_at: float | Sequence[float] | None = None,
        submodule: str | None = None,
    ) -> None:
        super().__init__(submodule)
        self.correction = rescaling.PriorCorrection(pos_weight, class_weights, trained_at, deployed_at)
        self._failures = SoftFailures(type(self).__name__)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Start to correct the logits."""
        if has_a_place(pl_module) and getattr(pl_module, "shift", 0.0) != 0:
            raise DeclarationError("expected correct_shift=True of the module or PriorCorrection, not both.")
        super().setup(trainer, pl_module, stage)

    def on_validation_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Refuse a step that bypasses the correction: it would be validated uncorrected."""
        if not trainer.sanity_checking:
            self._insist(pl_module, "validation_step")

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Draw the corrected probability over the original one."""
        if not trainer.is_global_zero:
            return
        with self._failures.going_on("draw the correction"):
            chances = torch.linspace(0, 1, 201, dtype=torch.float64)
            lines = [Line((0, 1), (0, 1), "uncorrected", "dotted")]
            for place, shift in enumerate(self.correction.shift.double().cpu()):
                name = "" if len(self.correction.shift) == 1 else f"class {place}: "
                corrected = (chances.logit() - shift).sigmoid()
                lines.append(Line(chances, corrected, f"{name}logit − {shift:.3f}", number=place % 10))
            panel = Panel("Prior correction", "probability as trained", "probability as corrected", lines)
            image = thumbnails.panel(panel)
            boards: list[Board] = [*tensorboards(trainer), *other_boards(trainer)]
            for board in boards:
                board.image("prior_correction", image, 0)
