"""Counts every row of the data once, on any number of ranks.

1. The loaders of validation and test give every row to one rank (``loaders``). Metrics, losses, anything is then exact.
2. If a row that another rank has is alone in its batch, the step runs with it, because ranks must stay in step, and
   what it counts and logs is rolled back (``repeat_guard``).
3. Ranks then hold different numbers of rows: lists are gathered (``gathering``) and logged means weighted accordingly.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

from lightning_utilities.core.rank_zero import rank_zero_warn

from lightning_evalkit.callbacks.exact_distributed.gathering import gathered, keeps_lists
from lightning_evalkit.callbacks.exact_distributed.loaders import is_repeat, unknown, without_repeat
from lightning_evalkit.callbacks.exact_distributed.metrics import metrics
from lightning_evalkit.callbacks.exact_distributed.repeat_guard import RepeatGuard
from lightning_evalkit.callbacks.parts.method_patch import MethodPatches
from lightning_evalkit.callbacks.parts.restoring import RestoringCallback
from lightning_evalkit.callbacks.parts.stage_hooks import StageHooks
from lightning_evalkit.trainer import (
    TrainerFn,
    callbacks_of,
    evaluation_loaders,
    reads_in_turn,
    results_of,
    takes_iterator,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from lightning_evalkit.evaluation.stages import Stage
    from lightning_evalkit.trainer import LightningModule, Trainer

ADVICE = r"Using `DistributedSampler` with the dataloaders\. During `trainer\.(validate|test)\(\)`"
"""The first words of Lightning's advice to use one device, because several would repeat rows."""


class ExactDistributedEvaluation(StageHooks, RestoringCallback):
    """Gives validation and test on many ranks the numbers of one process; does nothing on one rank or in training.

    Lightning repeats rows of a data set that ranks cannot share evenly. This callback keeps the repeats out of
    evaluations and metrics, of this package and of torchmetrics, in the module or in a callback, and out of values that
    ``self.log`` averages, sums or takes the extreme of over an epoch. All ranks still run the same number of batches,
    as DDP and FSDP need. The last batch of some ranks may have a row less, which matters to code that gathers tensors
    of equal shapes by hand. A rank without any row of its own logs NaN as its mean if ranks are not joined
    (``sync_dist=False``). With ``drop_last`` or ``limit_val_batches``, the rows of the batches that run are counted
    once.

    Warns once about loaders whose repeated rows cannot be identified, and about metrics that are not updated with the
    rows of the batch, whose value depends on how rows are batched.

    >>> from lightning.pytorch import Trainer
    >>> trainer = Trainer(callbacks=[ExactDistributedEvaluation()], logger=False, accelerator="cpu")
    """

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._patches = MethodPatches()
        self._watch = RepeatGuard(self._say)
        self._advice: Any = None

    # ---- the trainer's hooks: those of a callback run before the module's own

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Patch the loaders before they are read."""
        first = next(each for each in callbacks_of(trainer) if isinstance(each, ExactDistributedEvaluation))
        if trainer.world_size > 1 and stage != TrainerFn.PREDICTING and first is self:
            self._patches.place(trainer.strategy, "process_dataloader", partial(self._process, trainer))
            warnings.filterwarnings("ignore", message=ADVICE)
            self._advice = warnings.filters[0]

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._start(trainer)

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._start(trainer)

    def batch_start(
        self, trainer: Trainer, module: LightningModule, stage: Stage, batch: Any, number: int, dataloader: int
    ) -> None:
        """Patch the metrics in a batch of validation or test that needs it."""
        if stage != "train" and self._patches:
            self._begin(trainer, module, batch, number, dataloader)

    def epoch_end(self, trainer: Trainer, module: LightningModule, stage: Stage) -> None:
        if stage != "train":
            self._watch.end()

    # ---- what they do

    def _process(self, trainer: Trainer, process: Callable[[object], object], loader: object) -> object:
        if not trainer.evaluating:
            return process(loader)
        reason = unknown(loader)
        if reason is None:
            return process(without_repeat(loader))
        stage = "test" if trainer.testing else "validation"
        self._say(
            f"a {type(loader).__name__} of {stage}: {reason}. Rows that several ranks read are counted several times: "
            "give every row to one rank, or evaluate on one device."
        )
        return process(loader)

    def _start(self, trainer: Trainer) -> None:
        if self._patches:
            self._watch.results = results_of(trainer)
            self._patches.place(self._watch.results, "update_metrics", self._watch.log)

    def _begin(self, trainer: Trainer, module: LightningModule, batch: Any, number: int, place: int) -> None:
        self._watch.end()
        repeat = self._is_repeat(trainer, number, place)
        if repeat or number == 0:
            found = metrics(trainer, module)
            for _, metric in found:
                if keeps_lists(metric):
                    self._patches.place(metric, "_sync_dist", partial(gathered, metric))
            self._watch.begin(found, batch, repeat)

    def _is_repeat(self, trainer: Trainer, number: int, place: int) -> bool:
        loaders = evaluation_loaders(trainer)
        if takes_iterator(trainer):
            self._say("a step that takes a dataloader_iter: a repeat that is alone in its batch is counted.")
            return False
        if len(loaders) > 1 and not reads_in_turn(trainer):
            self._say("loaders that are read side by side: a repeat that is alone in its batch is counted.")
            return False
        return is_repeat(loaders[place], number)

    def leave(self, trainer: Trainer) -> None:
        self._watch.end()
        self._watch.results = None
        self._patches.remove()
        filters: Any = warnings.filters
        if self._advice in filters:
            filters.remove(self._advice)

    def _say(self, what: str) -> None:
        if what not in self._said:
            self._said.add(what)
            rank_zero_warn(f"ExactDistributedEvaluation cannot vouch for {what}")
