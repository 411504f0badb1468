"""A callback that has changed something leaves it as it was, also where a run ends in an exception."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_evalkit.trainer import Callback

if TYPE_CHECKING:
    from lightning_evalkit.trainer import LightningModule, Trainer


class RestoringCallback(Callback):
    """Leaves once a run is over, however it ended: then Lightning calls one of two hooks."""

    def leave(self, trainer: Trainer) -> None:
        """Put back what was changed, and do what is due at the end; twice is as good as once."""

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Leave."""
        self.leave(trainer)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Leave."""
        self.leave(trainer)
