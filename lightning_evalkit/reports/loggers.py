"""Loggers as boards to draw on: TensorBoard shows everything, others show images if they take any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from lightning_evalkit.sinks import tensorboard
from lightning_evalkit.trainer import is_tensorboard, tag_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lightning_evalkit.counts import Counts
    from lightning_evalkit.trainer import Trainer


class Board(Protocol):
    """Shows things under a tag at a step."""

    def image(self, tag: str, pixels: NDArray[np.uint8], step: int) -> None:
        """Show an image of shape (height, width, 3)."""

    def text(self, tag: str, markdown: str, step: int) -> None:
        """Show a text in Markdown."""

    def pr_curve(self, tag: str, counts: Counts, step: int) -> None:
        """Show precision and recall from counts at rising thresholds, which are quantiles of the scores."""


class TensorBoard(Board):
    """The event file of a TensorBoardLogger, tagged as the logger tags its scalars."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    @property
    def writer(self) -> Any:
        """The SummaryWriter."""
        return self.logger.experiment

    def tag(self, tag: str) -> str:
        """A tag with the prefix of the logger."""
        return tag_of(self.logger, tag)

    def image(self, tag: str, pixels: NDArray[np.uint8], step: int) -> None:
        tensorboard.add_image(self.writer, self.tag(tag), pixels, step)

    def text(self, tag: str, markdown: str, step: int) -> None:
        tensorboard.add_text(self.writer, self.tag(tag), markdown, step)

    def pr_curve(self, tag: str, counts: Counts, step: int) -> None:
        tensorboard.add_pr_curve(self.writer, self.tag(tag), counts, step)


class Images(Board):
    """A logger with ``log_image(key, images, step)``, the method that Lightning's Wandb logger has."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def image(self, tag: str, pixels: NDArray[np.uint8], step: int) -> None:
        self.logger.log_image(tag, [pixels], step=step)

    def text(self, tag: str, markdown: str, step: int) -> None:
        """Show nothing: the logger has no place for texts."""

    def pr_curve(self, tag: str, counts: Counts, step: int) -> None:
        """Show nothing: the figure of the curves shows it."""


def tensorboards(trainer: Trainer) -> list[TensorBoard]:
    """The TensorBoards of a trainer."""
    return [TensorBoard(logger) for logger in trainer.loggers if is_tensorboard(logger)]


def other_boards(trainer: Trainer) -> list[Images]:
    """The other loggers that take images; the logger of fast_dev_run has any attribute, but not in its class."""
    return [Images(logger) for logger in trainer.loggers if hasattr(type(logger), "log_image")]
