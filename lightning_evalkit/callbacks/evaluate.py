"""Metrics without metric code in the module: counts, logs and draws what its steps return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchmetrics.utilities import rank_zero_warn

from lightning_evalkit.callbacks.parts import epoch_log
from lightning_evalkit.callbacks.parts.repeated_rows import RepeatedRows
from lightning_evalkit.callbacks.parts.row_ids import RowIds
from lightning_evalkit.callbacks.parts.stage_hooks import StageHooks
from lightning_evalkit.callbacks.parts.step_outputs import StepOutputs
from lightning_evalkit.callbacks.tensorboard_report import TensorBoardReport
from lightning_evalkit.errors import DeclarationError, InputError, nearest
from lightning_evalkit.evaluation.base import Evaluation
from lightning_evalkit.evaluation.stages import STAGES, StageEvaluations
from lightning_evalkit.ranks import rank_and_world_size
from lightning_evalkit.reports.drawing import Drawing
from lightning_evalkit.reports.loggers import other_boards, tensorboards
from lightning_evalkit.reports.snapshot import reported
from lightning_evalkit.reports.soft_failures import SoftFailures
from lightning_evalkit.trainer import TrainerFn, callbacks_of, evaluation_loaders, reads_in_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lightning_evalkit.evaluation.stages import Stage
    from lightning_evalkit.reports.loggers import Board
    from lightning_evalkit.trainer import LightningModule, Trainer

KEYS = (None, "target", "sample_weight")
"""The default keys of predictions, target and weights."""


class Evaluate(StageHooks):
    """Counts what the steps of any LightningModule return, and logs the numbers once per epoch.

    A step returns a dict with its predictions under "logits", "probabilities" or "preds" (as the evaluation's
    ``inputs`` declares), its "target", and for weighted evaluations "sample_weight". ``preds_key``, ``target_key`` and
    ``weight_key`` name other keys. Weights that reach an unweighted evaluation are refused, unless ``weight_key=None``
    says to ignore them. An evaluation with ``buckets`` counts rows by their number, or by the ids that a step returns
    as "sample" or "cluster". Alternatively, ``take`` is a function of the step's output and its batch that returns
    (preds, target), (preds, target, sample_weight), or None to skip the batch.

    Each of the ``stages``, and each dataloader in it, has an evaluation of its own: ``evaluate.evaluation("val")``
    holds what the last epoch counted, without the sanity check. Numbers are logged as "val/accuracy", or as
    "val/<prefix>accuracy" if the evaluation has a prefix, so that checkpoints, early stopping and schedulers can
    monitor them; ``separator="_"`` logs "val_accuracy", which a file's name may hold (``filename="{val_f1:.3f}"``).
    Several ``Evaluate`` need different prefixes or stages. ``prog_bar`` lists the numbers that the progress bar
    shows. ``figures`` of validation and test are drawn at the end of the run, and at a few earlier epochs or
    ``every_n_epochs``, in loggers that have ``log_image`` and in TensorBoard; if the trainer has a
    ``TensorBoardReport``, that draws the latter instead. ``intervals`` also logs the ends of 95 % intervals, as
    "val/f1/low" and "val/f1/high".

    >>> from lightning_evalkit.evaluation import BinaryEvaluation
    >>> evaluate = Evaluate(BinaryEvaluation(inputs="logits", curves=True), prog_bar=["f1"])
    >>> evaluate.evaluation("val").prefix
    'val/'
    """

    def __init__(
        self,
        evaluation: Evaluation,
        stages: Sequence[Stage] = ("val", "test"),
        preds_key: str | None = None,
        target_key: str = "target",
        weight_key: str | None = "sample_weight",
        take: Callable[[Any, Any], Any] | None = None,
        prog_bar: Sequence[str] = (),
        figures: bool = True,
        every_n_epochs: int | None = None,
        separator: str = "/",
        intervals: bool = False,
    ) -> None:
        _check(evaluation, stages, prog_bar)
        self._separator = _checked_separator(separator)
        task = evaluation.tally.counter.task
        if take is not None and (preds_key, target_key, weight_key or "sample_weight") != KEYS:
            raise DeclarationError("expected take, a function, or keys of what the step returns; got both.")
        self._outputs = StepOutputs(task.inputs, task.weighted, preds_key, target_key, weight_key, take)
        self.stages = StageEvaluations(evaluation, [stage for stage in STAGES if stage in stages])
        self._key = {"prefix": evaluation.prefix, "postfix": evaluation.postfix, "stages": sorted(stages)}
        self._prog_bar, self._figures, self._intervals = tuple(prog_bar), figures, intervals
        self._drawing = Drawing(SoftFailures(type(self).__name__), every_n_epochs, explanations=False)
        self._resuming, self._interrupted = True, False
        self._repeats, self._rows = RepeatedRows(type(self).__name__), RowIds()

    def evaluation(self, stage: Stage = "val", dataloader_idx: int = 0) -> Evaluation:
        """Return the evaluation of a stage, which holds what its last epoch counted."""
        return self.stages.at(stage, dataloader_idx)

    # ---- epochs: the hooks of a callback run before the module's own, and before those that monitor

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._resuming, self._interrupted = stage == TrainerFn.FITTING, False
        self._drawing.forget()
        if self._resuming:
            self.stages.reset("train")  # a run resumed mid-epoch does not call on_train_epoch_start

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Resume mid-epoch from a checkpoint; Lightning does not start such an epoch."""
        self.stages.move("train", pl_module.device)

    def epoch_start(self, trainer: Trainer, module: LightningModule, stage: Stage) -> None:
        if stage != "train" and self.stages.of(stage):
            self._repeats.look(trainer)
        self._rows.begin(stage)
        self.stages.begin(stage, 1 if stage == "train" else _loaders(trainer), module.device)

    def batch_start(
        self, trainer: Trainer, module: LightningModule, stage: Stage, batch: Any, number: int, dataloader: int
    ) -> None:
        """Forget the last epoch of training here too: after a checkpoint of its last batch, none is started."""
        if stage != "train":
            return
        before = trainer.fit_loop.epoch_loop.batch_idx
        if before == 0:
            self.stages.reset("train")
        elif self._resuming and trainer.is_global_zero:
            self._look_for_counts(trainer.current_epoch, before)
        self._resuming = False

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
        """Count a batch; in the sanity check too, to find faults early."""
        if not self.stages.of(stage):
            return
        if stage == "train" and not outputs and module.automatic_optimization:
            return  # Lightning passes an empty dict if the step returned None to skip the batch
        step = {"train": "training_step", "val": "validation_step", "test": "test_step"}[stage]
        found = self._outputs.of(outputs, batch, f"{step} of {type(module).__name__}")
        if found is not None:
            evaluation = self.stages.at(stage, dataloader)
            tensors = [tensor.to(evaluation.tally.device) for tensor in found]
            evaluation.update(*tensors, **self._rows.ids(evaluation, stage, dataloader, tensors[1], outputs))

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Draw what the last epochs left undrawn."""
        self._drawing.finish(self._boards(trainer))

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Draw what there is, and add to the error what Lightning cannot know."""
        self._interrupted = True
        self._drawing.finish(self._boards(trainer))
        names = [self._logged(name) for each in self.stages.values() for name in reported(each).values()]
        epoch_log.explain_refusal(exception, names)

    # ---- counting and logging

    def epoch_end(self, trainer: Trainer, module: LightningModule, stage: Stage) -> None:
        """Log and draw the epoch; computed on every rank, also on one without data: it is a collective."""
        names = self._logged_names(stage)
        epoch_log.refuse_taken(trainer, names)
        if trainer.sanity_checking:
            self.stages.reset(stage)
            return
        values = {self._logged(tag): value for each in self.stages.of(stage) for tag, value in each.compute().items()}
        if self._intervals:
            ends = {tag: end for each in self.stages.of(stage) for tag, end in each.interval_ends().items()}
            values |= {self._logged(tag): end for tag, end in ends.items()}
        epoch_log.log(module, values, [tag for tag, name in names.items() if name in self._prog_bar])
        if stage != "train":
            self._repeats.compare(trainer, self.stages.of(stage))
        boards = self._boards(trainer)
        for each in self.stages.of(stage) if boards else ():
            self._drawing.show(trainer, boards, stage, each)

    def _logged(self, tag: str) -> str:
        return tag.replace("/", self._separator)

    def _logged_names(self, stage: Stage) -> dict[str, str]:
        """The logged names, and each number's name without stage and prefix."""
        pairs = [(self._logged(tag), name) for each in self.stages.of(stage) for name, tag in reported(each).items()]
        names = dict(pairs)
        if len(names) < len(pairs):
            raise InputError(
                f"expected a name of its own for each number, but with separator={self._separator!r} two of them are "
                "logged under one: choose another separator."
            )
        return names

    def _boards(self, trainer: Trainer) -> list[Board]:
        """Every logger that shows images, except a TensorBoard that has its own report."""
        reports = any(isinstance(each, TensorBoardReport) for each in callbacks_of(trainer))
        own: list[Board] = [] if reports else [*tensorboards(trainer)]
        return [*own, *other_boards(trainer)] if self._figures else []

    # ---- checkpoints

    @property
    def state_key(self) -> str:
        """Tell several instances apart in a checkpoint."""
        return self._generate_state_key(**self._key)

    def state_dict(self) -> dict[str, Any]:
        """Return the counts, summed over ranks; empty if a rank has failed, because the others cannot ask it."""
        return {} if self._interrupted and rank_and_world_size()[1] > 1 else self.stages.saved()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume a training; validating or testing a checkpoint starts from nothing, under any declaration."""
        if not self._resuming:
            return
        try:
            self.stages.load(state_dict)
        except InputError as refused:
            raise InputError(f"{refused} With another prefix, {type(self).__name__} begins anew.") from refused

    def _look_for_counts(self, epoch: int, batches: int) -> None:
        if any(not each.tally.update_called for each in self.stages.of("train")):
            rank_zero_warn(
                f"{type(self).__name__} counts only what remains of epoch {epoch}: the checkpoint was saved within it, "
                f"after {batches} batches, and without their counts.",
                UserWarning,
            )


def _check(evaluation: Evaluation, stages: Sequence[str], prog_bar: Sequence[str]) -> None:
    if not isinstance(evaluation, Evaluation):
        raise DeclarationError(
            f"expected an evaluation of this package, such as BinaryEvaluation(inputs='logits'), got {evaluation!r}."
        )
    names = [*reported(evaluation)]
    for given, known, what in ((stages, STAGES, "stages"), (prog_bar, names, "prog_bar")):
        if isinstance(given, str):
            raise DeclarationError(f"expected {what} to be a list of names, got a text: write [{given!r}].")
        for name in given:
            if name not in known:
                raise DeclarationError(f"{name!r} in {what} is not known: {nearest(str(name), known)}")
    if not stages or len({*stages}) < len(stages):
        raise DeclarationError(f"expected different stages, at least one, got {list(stages)}.")


def _checked_separator(separator: Any) -> str:
    if not isinstance(separator, str) or not separator:
        raise DeclarationError(f"expected a separator of names, such as '/' or '_', got {separator!r}.")
    return separator


def _loaders(trainer: Trainer) -> int:
    """The number of dataloaders that a step can distinguish; combined loaders yield one joint batch."""
    return len(evaluation_loaders(trainer)) if reads_in_turn(trainer) else 1
