"""Turns evaluations into matrices, curves and explanations: read on every rank (a collective), drawn on one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_evalkit.evaluation.curve_panels import panels
from lightning_evalkit.evaluation.plots import counts_image
from lightning_evalkit.evaluation.score_snapshot import score_snapshot
from lightning_evalkit.reports.schedule import Schedule
from lightning_evalkit.reports.snapshot import Snapshot, explanation
from lightning_evalkit.sinks import thumbnails
from lightning_evalkit.trainer import TrainerFn, steps_done

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from lightning_evalkit.evaluation.base import Evaluation
    from lightning_evalkit.reports.loggers import Board
    from lightning_evalkit.reports.soft_failures import SoftFailures
    from lightning_evalkit.trainer import Trainer

CURVES = ("roc", "precision_recall", "thresholds", "reliability")
"""The tags of the panels, in their order."""
FINDINGS = "findings/"
"""The prefix of text tags, so that they stand together and before the tags of stages."""


class Drawing:
    """Draws evaluations at some epochs and always at the last one; writes texts only for the last."""

    def __init__(
        self,
        failures: SoftFailures,
        every_n_epochs: int | None = None,
        figures: bool = True,
        explanations: bool = True,
        curves: bool = True,
        stages: Sequence[str] = ("val", "test"),
    ) -> None:
        self.failures, self.schedule, self.stages = failures, Schedule(every_n_epochs), tuple(stages)
        self.figures, self.explanations, self.curves = figures, explanations, curves
        self._waiting: dict[str, Snapshot] = {}  # to be drawn, by tag
        self._latest: dict[str, Snapshot] = {}  # to be explained

    def forget(self) -> None:
        """Begin a run."""
        self.schedule.begin()
        self._waiting.clear()
        self._latest.clear()

    def show(
        self, trainer: Trainer, boards: Sequence[Board], stage: str, evaluation: Evaluation, distinction: str = ""
    ) -> None:
        """Read the counts of an epoch; draw them now, or at the end of the run if no later epoch is drawn."""
        if stage not in self.stages:
            return
        snapshot = _read(trainer, stage, evaluation, distinction)
        if not trainer.is_global_zero:
            return
        tag = snapshot.tag("")
        self._waiting[tag] = self._latest[tag] = snapshot
        if self.schedule.is_due(trainer.current_epoch):
            self._draw(boards, self._waiting.pop(tag))

    def finish(self, boards: Sequence[Board]) -> None:
        """Draw the last epochs if they are not drawn yet, and explain them."""
        for snapshot in self._waiting.values():
            self._draw(boards, snapshot)
        for snapshot in self._latest.values() if self.explanations else ():
            with self.failures.going_on("write the explanation", snapshot.start):
                text = explanation(snapshot.counted)
                for board in boards:
                    board.text(f"{FINDINGS}{snapshot.tag('explanation')}", text, snapshot.step)
        self._waiting.clear()
        self._latest.clear()

    def _draw(self, boards: Sequence[Board], snapshot: Snapshot) -> None:
        with self.schedule.drawing():
            if self.figures:
                with self.failures.going_on("draw the confusion matrix", snapshot.start):
                    image = counts_image(snapshot.counted, snapshot.title)
                    _show(boards, snapshot, "confusion_matrix", image)
            if self.curves:
                with self.failures.going_on("draw the curves", snapshot.start):
                    self._draw_curves(boards, snapshot)

    def _draw_curves(self, boards: Sequence[Board], snapshot: Snapshot) -> None:
        scores = score_snapshot(snapshot.counted)
        if scores is None:
            return
        for name, counts in scores.pr_curves():
            for board in boards:
                board.pr_curve(snapshot.tag(f"pr_curve/{name}" if name else "pr_curve"), counts, snapshot.step)
        for what, panel in zip(CURVES, panels(scores), strict=True) if self.figures else ():
            _show(boards, snapshot, what, thumbnails.panel(panel, snapshot.title))


def _show(boards: Sequence[Board], snapshot: Snapshot, what: str, image: NDArray[np.uint8]) -> None:
    for board in boards:
        board.image(snapshot.tag(what), image, snapshot.step)


def _read(trainer: Trainer, stage: str, evaluation: Evaluation, distinction: str) -> Snapshot:
    # The step of this epoch's scalars, which Lightning logs after the hooks.
    step = steps_done(trainer) - (stage == "train")
    epoch = f" · epoch {trainer.current_epoch}" if trainer.state.fn == TrainerFn.FITTING else ""
    start, end = evaluation.prefix or f"{stage}/", f"{evaluation.postfix or ''}{distinction}"
    return Snapshot(start, end, epoch, step, evaluation, evaluation.tally.global_totals)
