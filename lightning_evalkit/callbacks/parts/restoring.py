"""A callback that restores what it changed, also when a run ends in an exception."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_evalkit.trainer import Callback

if TYPE_CHECKING:
    from lightning_evalkit.trainer import LightningModule, Trainer


class RestoringCallback(Callback):
    """Calls ``leave`` at the end of a run, however it ended: Lightning calls one of the two hooks."""

    def leave(self, trainer: Trainer) -> None:
        """Restore what was changed, and finish what is due; calling it twice does no harm."""

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.leave(trainer)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self.leave(trainer)
