"""Evaluations into matrices, curves and explanations: read on every rank, as that joins them, and drawn on one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.evaluation.curve_panels import panels
from lightning_evalkit.evaluation.plots import matrix_labels
from lightning_evalkit.evaluation.score_snapshot import ScoreSnapshot, score_snapshot
from lightning_evalkit.reports.snapshot import Snapshot, explanation
from lightning_evalkit.sinks import figures
from lightning_evalkit.trainer import TrainerFn, steps_done

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lightning_evalkit.evaluation.base import Evaluation
    from lightning_evalkit.reports.loggers import Board
    from lightning_evalkit.reports.soft_failures import SoftFailures
    from lightning_evalkit.trainer import Trainer


class Drawing:
    """What is drawn of evaluations, and when: every so many epochs, and always the last."""

    def __init__(
        self,
        failures: SoftFailures,
        every_n_epochs: int = 1,
        figures: bool = True,
        explanations: bool = True,
        curves: bool = True,
    ) -> None:
        if not isinstance(every_n_epochs, int) or every_n_epochs < 1:
            raise DeclarationError(f"expected every_n_epochs to be a whole number from 1 on, got {every_n_epochs!r}.")
        self.failures, self.every_n_epochs = failures, every_n_epochs
        self.figures, self.explanations, self.curves = figures, explanations, curves
        self._waiting: dict[str, Snapshot] = {}  # by tag

    def forget(self) -> None:
        """Begin a run."""
        self._waiting.clear()

    def show(
        self, trainer: Trainer, boards: Sequence[Board], stage: str, evaluation: Evaluation, distinction: str = ""
    ) -> None:
        """Read what an epoch counted; draw it now, or at the end of the run if no later epoch is drawn."""
        snapshot = self._read(trainer, stage, evaluation, distinction)
        if not trainer.is_global_zero:
            return
        self._waiting[snapshot.tag("")] = snapshot
        if (trainer.current_epoch + 1) % self.every_n_epochs == 0:
            self._draw(boards, self._waiting.pop(snapshot.tag("")))

    def finish(self, boards: Sequence[Board]) -> None:
        """Draw what the last epochs have not drawn."""
        for snapshot in self._waiting.values():
            self._draw(boards, snapshot)
        self._waiting.clear()

    def _read(self, trainer: Trainer, stage: str, evaluation: Evaluation, distinction: str) -> Snapshot:
        start, end = evaluation.prefix or f"{stage}/", f"{evaluation.postfix or ''}{distinction}"
        matrix = text = scores = None
        if self.figures:
            with self.failures.going_on("draw the confusion matrix", start):
                matrix = evaluation.confusion_matrix.cpu()
        if self.explanations:
            with self.failures.going_on("write the explanation", start):
                text = explanation(evaluation)
        if self.curves:
            with self.failures.going_on("read the curves", start):
                scores = score_snapshot(evaluation)
        # The step of this epoch's scalars, which Lightning logs after the hooks.
        step = steps_done(trainer) - (stage == "train")
        epoch = f" · epoch {trainer.current_epoch}" if trainer.state.fn == TrainerFn.FITTING else ""
        return Snapshot(start, end, epoch, step, matrix_labels(evaluation), matrix, text, scores)

    def _draw(self, boards: Sequence[Board], snapshot: Snapshot) -> None:
        if snapshot.matrix is not None:
            with self.failures.going_on("draw the confusion matrix", snapshot.start):
                tag = snapshot.tag("confusion_matrix")
                draw = figures.confusion_matrix if snapshot.matrix.ndim == 2 else figures.label_counts
                image = figures.pixels(draw(snapshot.matrix, snapshot.matrix_labels, tag + snapshot.epoch))
                for board in boards:
                    board.image(tag, image, snapshot.step)
        if snapshot.explanation is not None:
            with self.failures.going_on("write the explanation", snapshot.start):
                for board in boards:
                    board.text(snapshot.tag("explanation"), snapshot.explanation, snapshot.step)
        if snapshot.scores is not None:
            with self.failures.going_on("draw the curves", snapshot.start):
                self._draw_curves(boards, snapshot, snapshot.scores)

    def _draw_curves(self, boards: Sequence[Board], snapshot: Snapshot, scores: ScoreSnapshot) -> None:
        for name, counts in scores.pr_curves():
            for board in boards:
                board.pr_curve(snapshot.tag(f"pr_curve/{name}" if name else "pr_curve"), counts, snapshot.step)
        if self.figures:
            tag = snapshot.tag("curves")
            image = figures.pixels(figures.panels(panels(scores), tag + snapshot.epoch))
            for board in boards:
                board.image(tag, image, snapshot.step)
