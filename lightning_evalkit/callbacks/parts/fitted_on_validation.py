"""Base of callbacks that fit on a validation epoch, save the fit in the checkpoint, and apply it in test."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from lightning_evalkit.callbacks.parts import epoch_log
from lightning_evalkit.callbacks.parts.restoring import RestoringCallback
from lightning_evalkit.callbacks.parts.weighing import is_weighted, weighing
from lightning_evalkit.errors import InputError
from lightning_evalkit.reports.loggers import other_boards, tensorboards
from lightning_evalkit.reports.soft_failures import SoftFailures
from lightning_evalkit.sinks import thumbnails
from lightning_evalkit.trainer import steps_done

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from lightning_evalkit.callbacks.parts.step_outputs import StepOutputs
    from lightning_evalkit.reports.loggers import Board
    from lightning_evalkit.sinks.panels import Panel
    from lightning_evalkit.trainer import LightningModule, Trainer


class Shown(NamedTuple):
    """Panels by their tags, and a text, of one epoch."""

    tag: str
    panels: Mapping[str, Panel]
    text: str
    step: int


class FittedOnValidation(RestoringCallback):
    """Counts the logits of one validation dataloader, and learns from them at the end of every epoch."""

    weighted: bool | None
    """Whether weights are declared; None leaves it to the declaration of our modules."""

    def __init__(self, outputs: StepOutputs, weighted: bool | None, dataloader_idx: int) -> None:
        super().__init__()
        self._outputs, self.weighted = outputs, weighted
        self.dataloader_idx = dataloader_idx
        self._failures = SoftFailures(type(self).__name__)
        self._shown: Shown | None = None

    # ---- to be defined by a subclass

    def begin(self, module: LightningModule) -> None:
        """Forget the last epoch, and move to the module's device."""
        raise NotImplementedError

    def count(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> None:
        """Count a batch, with weights if they are declared."""
        raise NotImplementedError

    def learn(self, trainer: Trainer, module: LightningModule) -> Mapping[str, float]:
        """Learn from the epoch, draw it, and return numbers to log; runs on every rank, as it is a collective."""
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
        self.place_among(len(trainer.num_val_batches))
        self._outputs = replace(self._outputs, weighted=self.weighs(trainer, pl_module))
        self.begin(pl_module)

    def weighs(self, trainer: Trainer, module: LightningModule) -> bool:
        """Whether samples have weights: as declared here, or else by our module.

        Undeclared weights that the module, a metric or another callback uses are refused.
        """
        if self.weighted is not None:
            return self.weighted
        if is_weighted(module):
            return True
        if (who := weighing(trainer, module, self)) is not None:
            raise InputError(self._outputs.untold(who))
        return False

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
                self.count(*found)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.sanity_checking:
            values = self.learn(trainer, pl_module)
            self.report(trainer, pl_module, {name: torch.tensor(value) for name, value in values.items()})

    def report(self, trainer: Trainer, module: LightningModule, values: Mapping[str, Tensor]) -> None:
        """Log numbers of all ranks under names that nothing else logs."""
        try:
            epoch_log.refuse_taken(trainer, values.keys())
        except InputError as taken:
            otherwise = f"{type(self).__name__} logs it too: give what the module logs another name."
            raise InputError(str(taken).replace(epoch_log.OTHERWISE, otherwise)) from None
        epoch_log.log(module, {name: value.to(module.device) for name, value in values.items()}, ())

    def place_among(self, loaders: int) -> int:
        """The index of the counted dataloader among all."""
        if not 0 <= self.dataloader_idx < loaders:
            raise InputError(
                f"{type(self).__name__} counts dataloader_idx={self.dataloader_idx}, but there are {loaders} "
                "dataloaders, of which the first is 0."
            )
        return self.dataloader_idx

    def insist(self, doing: str) -> None:
        """Refuse to continue if nothing was learnt."""
        if not self.learnt:
            raise InputError(
                f"{type(self).__name__} cannot {doing}: nothing was learnt yet. Run fit or validate with it first, or "
                "give a checkpoint that was saved with it (and not with save_weights_only)."
            )

    # ---- drawing: only the last epoch, as drawing each would take longer than many epochs

    def show(self, trainer: Trainer, tag: str, panels: Mapping[str, Panel], text: str) -> None:
        """Draw this epoch at the end of the run, unless a later epoch replaces it."""
        self._shown = Shown(tag, panels, text, steps_done(trainer))

    def leave(self, trainer: Trainer) -> None:
        shown, self._shown = self._shown, None
        boards: list[Board] = [*tensorboards(trainer), *other_boards(trainer)]
        if shown is None or not boards or not trainer.is_global_zero:
            return
        with self._failures.going_on(f"draw {shown.tag}"):
            for tag, panel in shown.panels.items():
                image = thumbnails.panel(panel, shown.tag)
                for board in boards:
                    board.image(tag, image, shown.step)
            for board in boards:
                board.text(shown.tag, shown.text, shown.step)
