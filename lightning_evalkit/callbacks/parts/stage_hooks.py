"""Calls one method for the hooks of all stages, so that a callback treats training, validation and test alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightning_evalkit.trainer import Callback

if TYPE_CHECKING:
    from lightning_evalkit.evaluation.stages import Stage
    from lightning_evalkit.trainer import LightningModule, Trainer


class StageHooks(Callback):
    """Passes Lightning's hooks on with the name of their stage: "train", "val" or "test".

    The sanity check is "val"; ask ``trainer.sanity_checking``.
    """

    def epoch_start(self, trainer: Trainer, module: LightningModule, stage: Stage) -> None:
        """An epoch of a stage begins."""

    def batch_start(
        self, trainer: Trainer, module: LightningModule, stage: Stage, batch: Any, number: int, dataloader: int
    ) -> None:
        """A step begins."""

    def batch_end(
        self,
        trainer: Trainer,
        module: LightningModule,
        stage: Stage,
        outputs: Any,
        batch: Any,
        number: int,
        dataloader: int,
    ) -> None:
        """A step has ended; ``outputs`` is its result."""

    def epoch_end(self, trainer: Trainer, module: LightningModule, stage: Stage) -> None:
        """An epoch of a stage ends, before the module's own hook and before Lightning logs."""

    # ---- Lightning's hooks

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.epoch_start(trainer, pl_module, "train")

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.epoch_start(trainer, pl_module, "val")

    def on_test_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.epoch_start(trainer, pl_module, "test")

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.batch_start(trainer, pl_module, "train", batch, batch_idx, 0)

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        self.batch_start(trainer, pl_module, "val", batch, batch_idx, dataloader_idx)

    def on_test_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        self.batch_start(trainer, pl_module, "test", batch, batch_idx, dataloader_idx)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.batch_end(trainer, pl_module, "train", outputs, batch, batch_idx, 0)

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self.batch_end(trainer, pl_module, "val", outputs, batch, batch_idx, dataloader_idx)

    def on_test_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self.batch_end(trainer, pl_module, "test", outputs, batch, batch_idx, dataloader_idx)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.epoch_end(trainer, pl_module, "train")

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.epoch_end(trainer, pl_module, "val")

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.epoch_end(trainer, pl_module, "test")
