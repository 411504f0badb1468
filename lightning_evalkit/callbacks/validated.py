"""What is learnt from a validation epoch and used afterwards: fitted there, kept in the checkpoint, applied in test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from lightning_evalkit.callbacks import logged
from lightning_evalkit.callbacks.boards import other_boards, tensorboards
from lightning_evalkit.callbacks.failures import Failures
from lightning_evalkit.callbacks.outputs import Outputs
from lightning_evalkit.callbacks.visiting import Visiting
from lightning_evalkit.errors import InputError
from lightning_evalkit.sinks import figures

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lightning.pytorch import LightningModule, Trainer
    from torch import Tensor

    from lightning_evalkit.callbacks.boards import Board


class Shown(NamedTuple):
    """What is drawn of an epoch."""

    tag: str
    panels: list[figures.Panel]
    text: str
    step: int


class Validated(Visiting):
    """Counts the logits of one validation dataloader in every epoch, and learns from them at its end."""

    def __init__(
        self,
        inputs: str,
        preds_key: str | None,
        target_key: str,
        take: Callable[[Any, Any], Any] | None,
        dataloader_idx: int,
    ) -> None:
        super().__init__()
        self._outputs = Outputs(inputs, False, preds_key, target_key, "sample_weight", take, type(self).__name__)
        self.dataloader_idx = dataloader_idx
        self._failures = Failures(type(self).__name__)
        self._shown: Shown | None = None

    # ---- what a subclass says

    def begin(self, module: LightningModule) -> None:
        """Forget the last epoch, and go where the module is."""
        raise NotImplementedError

    def count(self, preds: Tensor, target: Tensor) -> None:
        """Count a batch."""
        raise NotImplementedError

    def learn(self, trainer: Trainer, module: LightningModule) -> Mapping[str, float]:
        """Learn from the epoch and draw it; what is given is logged. On every rank, as joining is a collective."""
        raise NotImplementedError

    @property
    def learnt(self) -> bool:
        """Whether something was learnt or loaded."""
        raise NotImplementedError

    # ---- epochs

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Nothing can be learnt without validation."""
        if not trainer.enable_validation:
            raise InputError(
                f"{type(self).__name__} learns from validation data, but this run has none: give the trainer a "
                "validation dataloader, the module a validation_step, and limit_val_batches above 0."
            )

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Forget the last epoch."""
        self.place_among(len(trainer.num_val_batches))
        self.begin(pl_module)

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Count a batch; in the sanity check too, to see early whether it can be counted."""
        if dataloader_idx == self.dataloader_idx:
            found = self._outputs.of(outputs, batch, f"validation_step of {type(pl_module).__name__}")
            if found is not None:
                self.count(found[0], found[1])

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Learn from the epoch."""
        if not trainer.sanity_checking:
            values = self.learn(trainer, pl_module)
            self.report(trainer, pl_module, {name: torch.tensor(value) for name, value in values.items()})

    def report(self, trainer: Trainer, module: LightningModule, values: Mapping[str, Tensor]) -> None:
        """Log numbers over all ranks, under names that nobody else logs."""
        try:
            logged.refuse_taken(trainer, values.keys())
        except InputError as taken:
            otherwise = f"{type(self).__name__} logs it too: give what the module logs another name."
            raise InputError(str(taken).replace(logged.OTHERWISE, otherwise)) from None
        logged.log(module, {name: value.to(module.device) for name, value in values.items()}, ())

    def place_among(self, loaders: int) -> int:
        """Which of so many dataloaders is counted."""
        if not 0 <= self.dataloader_idx < loaders:
            raise InputError(
                f"{type(self).__name__} counts dataloader_idx={self.dataloader_idx}, but there are {loaders} "
                "dataloaders, of which the first is 0."
            )
        return self.dataloader_idx

    def insist(self, doing: str) -> None:
        """Refuse to go on with nothing learnt."""
        if not self.learnt:
            raise InputError(
                f"{type(self).__name__} cannot {doing}: nothing was learnt yet. Run fit or validate with it first, or "
                "give a checkpoint that was saved with it (and not with save_weights_only)."
            )

    # ---- showing: the last epoch of a run, as drawing each would take longer than many epochs

    def show(self, trainer: Trainer, tag: str, panels: list[figures.Panel], text: str) -> None:
        """Show panels and a text of this epoch at the end of the run, unless a later epoch has others."""
        self._shown = Shown(tag, panels, text, trainer.fit_loop.epoch_loop._batches_that_stepped)

    def leave(self, trainer: Trainer) -> None:
        """Draw the last epoch."""
        shown, self._shown = self._shown, None
        boards: list[Board] = [*tensorboards(trainer), *other_boards(trainer)]
        if shown is None or not boards or not trainer.is_global_zero:
            return
        with self._failures.going_on(f"draw {shown.tag}"):
            image = figures.pixels(figures.panels(shown.panels, shown.tag))
            for board in boards:
                board.image(shown.tag, image, shown.step)
                board.text(shown.tag, shown.text, shown.step)
