"""Evaluations into matrices, curves and explanations: read on every rank, as that joins them, and drawn on one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning.pytorch.trainer.states import TrainerFn

from lightning_evalkit.callbacks.curves import KeptScores, kept_scores
from lightning_evalkit.callbacks.panels import panels
from lightning_evalkit.callbacks.reading import Reading, explanation, rows
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.sinks import figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lightning.pytorch import Trainer

    from lightning_evalkit.callbacks.boards import Board
    from lightning_evalkit.callbacks.failures import Failures
    from lightning_evalkit.evaluation.base import Evaluation


class Drawing:
    """What is drawn of evaluations, and when: every so many epochs, and always the last."""

    def __init__(
        self,
        failures: Failures,
        every_n_epochs: int = 1,
        figures: bool = True,
        explanations: bool = True,
        curves: bool = True,
    ) -> None:
        if not isinstance(every_n_epochs, int) or every_n_epochs < 1:
            raise DeclarationError(f"expected every_n_epochs to be a whole number from 1 on, got {every_n_epochs!r}.")
        self.failures, self.every_n_epochs = failures, every_n_epochs
        self.figures, self.explanations, self.curves = figures, explanations, curves
        self._waiting: dict[str, Reading] = {}  # by tag

    def forget(self) -> None:
        """Begin a run."""
        self._waiting.clear()

    def show(
        self, trainer: Trainer, boards: Sequence[Board], stage: str, evaluation: Evaluation, distinction: str = ""
    ) -> None:
        """Read what an epoch counted; draw it now, or at the end of the run if no later epoch is drawn."""
        reading = self._read(trainer, stage, evaluation, distinction)
        if not trainer.is_global_zero:
            return
        self._waiting[reading.tag("")] = reading
        if (trainer.current_epoch + 1) % self.every_n_epochs == 0:
            self._draw(boards, self._waiting.pop(reading.tag("")))

    def finish(self, boards: Sequence[Board]) -> None:
        """Draw what the last epochs have not drawn."""
        for reading in self._waiting.values():
            self._draw(boards, reading)
        self._waiting.clear()

    def _read(self, trainer: Trainer, stage: str, evaluation: Evaluation, distinction: str) -> Reading:
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
                scores = kept_scores(evaluation)
        # The step of this epoch's scalars, which Lightning logs after the hooks.
        step = trainer.fit_loop.epoch_loop._batches_that_stepped - (stage == "train")
        epoch = f" · epoch {trainer.current_epoch}" if trainer.state.fn == TrainerFn.FITTING else ""
        return Reading(start, end, epoch, step, rows(evaluation), matrix, text, scores)

    def _draw(self, boards: Sequence[Board], reading: Reading) -> None:
        if reading.matrix is not None:
            with self.failures.going_on("draw the confusion matrix", reading.start):
                tag = reading.tag("confusion_matrix")
                draw = figures.confusion_matrix if reading.matrix.ndim == 2 else figures.label_counts
                image = figures.pixels(draw(reading.matrix, reading.rows, tag + reading.epoch))
                for board in boards:
                    board.image(tag, image, reading.step)
        if reading.explanation is not None:
            with self.failures.going_on("write the explanation", reading.start):
                for board in boards:
                    board.text(reading.tag("explanation"), reading.explanation, reading.step)
        if reading.scores is not None:
            with self.failures.going_on("draw the curves", reading.start):
                self._draw_curves(boards, reading, reading.scores)

    def _draw_curves(self, boards: Sequence[Board], reading: Reading, scores: KeptScores) -> None:
        for name, counts in scores.pr_curves():
            for board in boards:
                board.pr_curve(reading.tag(f"pr_curve/{name}" if name else "pr_curve"), counts, reading.step)
        if self.figures:
            tag = reading.tag("curves")
            image = figures.pixels(figures.panels(panels(scores), tag + reading.epoch))
            for board in boards:
                board.image(tag, image, reading.step)
