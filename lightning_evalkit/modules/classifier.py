"""A LightningModule with one step for all stages, which counts every stage separately."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch
from torchmetrics.utilities import rank_zero_warn

from lightning_evalkit.callbacks.exact_resume import ExactResume
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.modules.stage_metrics import Evaluations, StageMetrics
from lightning_evalkit.trainer import LightningModule, batches, callbacks_of, is_mid_epoch, training_loaders

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor
    from torch.nn import Module

    from lightning_evalkit.evaluation.base import Evaluation
    from lightning_evalkit.modules.losses import Loss
    from lightning_evalkit.trainer import Callback

STAGES = ("train", "val", "test")
SHOWN = {"loss", "accuracy", "f1", "f1/macro", "exact_match"}
"""The numbers in the progress bar."""
COUNTED = "lightning_evalkit_counted"
"""The checkpoint's key for the counts of an unfinished training epoch."""


class Classifier(LightningModule):
    """Base of all tasks: batches are (features, target), or (features, target, sample_weight) with ``weighted``.

    It logs once per epoch, as ``train/…``, ``val/…`` and ``test/…``: the loss of the whole epoch as if it were one
    batch, and the statistics of the evaluation. Each stage and each dataloader has its own evaluation, which keeps its
    counts until its next epoch begins: ``module.evaluation("val").explain()`` works after training. ``worst=0.01`` adds
    ``loss_of_worst``, the share of the loss that the worst 1 % of the samples carry; ``curves`` adds AUROC, average
    precision, calibration and the best F1; ``intervals`` adds the ends of 95 % intervals, as ``val/f1/low`` and
    ``val/f1/high``. Checkpoints hold the counts, summed over ranks, so a run resumed mid-epoch reports what an
    uninterrupted one would.
    """

    def __init__(
        self,
        network: Module,
        loss: Loss,
        evaluation: Evaluation,
        learning_rate: float,
        worst: float | None,
        intervals: bool = False,
    ) -> None:
        super().__init__()
        if not learning_rate > 0:
            raise DeclarationError(f"expected a learning_rate above 0, got {learning_rate}.")
        self.network, self.loss, self.learning_rate = network, loss, learning_rate
        self.weighted = evaluation.tally.counter.task.weighted
        self.train_evaluations, self.val_evaluations, self.test_evaluations = (
            Evaluations([StageMetrics(evaluation.clone(f"{stage}/"), worst, intervals)]) for stage in STAGES
        )
        self.loaders = dict.fromkeys(STAGES, 1)
        self.corrections: list[Callable[[Tensor], Tensor]] = []  # added and removed by callbacks
        self._first = 0  # the current batch of the epoch in this process
        self._resumed: dict[str, Any] = {}  # the counts of an epoch from a checkpoint
        self._global_counts: dict[str, Any] = {}  # the counts of all ranks during validation

    def evaluation(self, stage: str = "val", dataloader_idx: int = 0) -> Evaluation:
        """Return the evaluation of a stage, with the counts of its last epoch."""
        if stage not in STAGES:
            raise InputError(f"expected a stage, 'train', 'val' or 'test', got {stage!r}.")
        if not 0 <= dataloader_idx < len(self._of(stage)):
            raise InputError(
                f"expected one of {len(self._of(stage))} dataloaders, got dataloader_idx={dataloader_idx}."
            )
        evaluation: Evaluation = self._of(stage)[dataloader_idx].evaluation
        return evaluation

    def _of(self, stage: str) -> Any:
        return getattr(self, f"{stage}_evaluations")

    # ---- logits

    def forward(self, features: Tensor) -> Tensor:
        """Logits in the form of the task."""
        return self.arranged(self.network(features))

    def arranged(self, logits: Tensor) -> Tensor:
        """Arrange the network's output in the form of the task."""
        raise NotImplementedError

    def probabilities(self, logits: Tensor) -> Tensor:
        """Turn logits into probabilities."""
        raise NotImplementedError

    def decided(self, logits: Tensor) -> Tensor:
        """The logits to evaluate and predict with: those of the network, after all ``corrections``."""
        for correction in self.corrections:
            logits = correction(logits)
        return logits

    def predict_step(self, batch: Any, batch_idx: int = 0, dataloader_idx: int = 0) -> Tensor:
        """Probabilities of a batch, with or without its target."""
        features = batch[0] if isinstance(batch, (tuple, list)) else batch
        return self.probabilities(self.decided(self(features)).float())

    # ---- one step

    def step(self, stage: str, batch: Any, dataloader_idx: int = 0) -> dict[str, Tensor]:
        """Loss and logits of a batch, counted for its stage."""
        features, target, weight = self._parts(batch)
        logits = self(features)
        kept, decided = self._of(stage)[dataloader_idx], self.decided(logits).detach()
        kept.evaluation.update(decided, target, weight)  # raises an error that describes the batch
        losses = self.loss(logits, target, weight)
        kept.add(losses)
        result = {"loss": losses.mean(), "logits": decided, "target": target}
        return result if weight is None else {**result, "sample_weight": weight}

    def _parts(self, batch: Any) -> tuple[Tensor, Tensor, Tensor | None]:
        expected = 3 if self.weighted else 2
        if not isinstance(batch, (tuple, list)) or len(batch) != expected:
            got = f"{len(batch)} parts" if isinstance(batch, (tuple, list)) else type(batch).__name__
            parts = "(features, target, sample_weight)" if self.weighted else "(features, target)"
            hint = ": a third part are weights, declare weighted=True." if got == "3 parts" else "."
            raise InputError(f"expected batches of {parts}, got {got}{hint}")
        features, target, *weight = batch
        return features, target, weight[0] if weight else None

    def training_step(self, batch: Any, batch_idx: int) -> dict[str, Tensor]:
        result = self.step("train", batch)
        self._of("train")[0].put_back()
        return result

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> dict[str, Tensor]:
        return self.step("val", batch, dataloader_idx)

    def test_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> dict[str, Tensor]:
        return self.step("test", batch, dataloader_idx)

    # ---- epochs

    def setup(self, stage: str) -> None:
        """Silence Lightning's advice on ``sync_dist``: the logged values are already computed across ranks."""
        told = rf"It is recommended to use `self.log\(['\"]({'|'.join(STAGES)})/"
        warnings.filterwarnings("ignore", message=told)

    def on_train_epoch_start(self) -> None:
        self._begin("train", 1)
        self._first = 0

    def on_validation_epoch_start(self) -> None:
        """Forget the last epoch, the sanity check included."""
        self._begin("val", len(self.trainer.num_val_batches))

    def on_test_epoch_start(self) -> None:
        self._begin("test", len(self.trainer.num_test_batches))

    def on_train_epoch_end(self) -> None:
        """Log the epoch, unless all its batches ran in another process whose counts are lost."""
        if self._of("train")[0].resumed or batches(self.trainer).current.processed > self._first:
            self._end("train")

    def on_validation_epoch_end(self) -> None:
        self._end("val")

    def on_test_epoch_end(self) -> None:
        self._end("test")

    def _begin(self, stage: str, loaders: int) -> None:
        """Start one evaluation per dataloader, with Lightning's suffix if there are several."""
        kept, self.loaders[stage] = self._of(stage), loaders
        while len(kept) < loaders:
            kept.append(kept[0].another().to(self.device).train())  # as Lightning expects after a sanity check
        for place, each in enumerate(kept):
            each.reset(f"/dataloader_idx_{place}" if loaders > 1 else "")

    def _end(self, stage: str) -> None:
        """Compute on every rank, also on one without data: it is a collective."""
        if self.trainer.sanity_checking:  # its numbers are not shown, and its few rows may leave some undefined
            return
        for kept in self._of(stage)[: self.loaders[stage]]:
            for name, value in kept.values().items():
                shown = name.removeprefix(f"{stage}/").removesuffix(kept.evaluation.postfix or "") in SHOWN
                self.log(name, value, prog_bar=shown, add_dataloader_idx=False)

    # ---- resuming mid-epoch

    def configure_callbacks(self) -> list[Callback]:
        """Add ExactResume, which completes Lightning's resuming."""
        found = any(isinstance(each, ExactResume) for each in callbacks_of(self.trainer))
        return [] if found else [ExactResume()]

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Save the counts of an unfinished epoch."""
        counted = self._counted()
        if counted:
            checkpoint[COUNTED] = counted

    def _counted(self) -> dict[str, Any]:
        """The counts of all ranks; if one has failed or may be elsewhere, the last known ones."""
        progress = batches(self.trainer).current
        in_work = progress.ready > progress.processed
        if self.trainer.world_size > 1 and (self.trainer.interrupted or in_work):
            return self._global_counts
        if not is_mid_epoch(self.trainer):
            return {}
        counted: dict[str, Any] = self._of("train")[0].saved(progress.processed - self._first if in_work else None)
        return counted

    def on_validation_start(self) -> None:
        """Sum the counts of all ranks now: a rank that fails in validation would lose its own."""
        self._global_counts = self._counted() if self.trainer.world_size > 1 else {}

    def on_validation_end(self) -> None:
        """Forget the sum: training continues to count."""
        self._global_counts = {}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take the saved counts, from which training resumes."""
        self._resumed = checkpoint.get(COUNTED, {})

    def on_train_start(self) -> None:
        """Resume an epoch; Lightning does not call on_train_epoch_start then."""
        self._begin("train", 1)
        resumed, self._resumed, self._first = self._resumed, {}, batches(self.trainer).current.processed
        if is_mid_epoch(self.trainer):
            self._go_on(resumed)

    def _go_on(self, resumed: dict[str, Any]) -> None:
        given_again = all(hasattr(each, "read_by") for each in training_loaders(self.trainer))
        try:
            self._of("train")[0].load(resumed, self.trainer.is_global_zero, given_again)
        except InputError as refused:
            if self._first:
                rank_zero_warn(
                    f"what is reported as train/… of epoch {self.trainer.current_epoch} leaves out its first "
                    f"{self._first} batches, of which the checkpoint has no counts: {refused}"
                )

    def configure_optimizers(self) -> Any:
        """Adam; the command line's ``--optimizer`` and ``--lr_scheduler`` replace it."""
        return torch.optim.Adam(self.parameters(), lr=self.learning_rate)
