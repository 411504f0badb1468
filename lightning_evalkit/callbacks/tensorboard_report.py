"""What a training shows in TensorBoard besides its scalars, read from the counts that its evaluations hold anyway."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.trainer.states import TrainerFn
from torchmetrics.utilities import rank_zero_warn

from lightning_evalkit.callbacks.curves import KeptScores, kept_scores
from lightning_evalkit.callbacks.observed import STAGES, Observed, evaluations
from lightning_evalkit.callbacks.panels import panels
from lightning_evalkit.callbacks.reading import Reading, explanation, headlines, rows
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.sinks import figures, tensorboard

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lightning.pytorch import LightningModule, Trainer

    from lightning_evalkit.evaluation.base import Evaluation

CATEGORY = "accuracy and F1"
ADD_LOGGER = (
    "add --trainer.logger TensorBoardLogger --trainer.logger.save_dir FOLDER on the command line, "
    "or Trainer(logger=TensorBoardLogger(FOLDER))."
)


class TensorBoardReport(Callback):
    """Confusion matrices, curves, explanations, charts of accuracy and F1, hyperparameters, for any LightningModule.

    Every evaluation that is an attribute of the module, or in a ModuleDict or ModuleList, is shown under its prefix at
    the end of each epoch that counted something in it. ``every_n_epochs`` shows fewer figures, curves and explanations,
    but always the last. The charts are in the tab "Custom Scalars" and hold what the module itself logs. ``curves`` are
    those of evaluations with ``curves=True``: in the tab "PR Curves", up to ten classes or labels, and as a figure.
    """

    def __init__(
        self, every_n_epochs: int = 1, figures: bool = True, explanations: bool = True, curves: bool = True
    ) -> None:
        if not isinstance(every_n_epochs, int) or every_n_epochs < 1:
            raise DeclarationError(f"expected every_n_epochs to be a whole number from 1 on, got {every_n_epochs!r}.")
        self.every_n_epochs, self.figures, self.explanations, self.curves = (
            every_n_epochs,
            figures,
            explanations,
            curves,
        )
        self._said: set[tuple[str, str]] = set()
        self._ended: dict[str, bool] = {}  # whether the run is over, by the folder of its hyperparameters
        self._forget()

    def _forget(self) -> None:
        self._observed = Observed()
        self._waiting: dict[str, Reading] = {}  # by tag
        self._headlines: dict[str, list[str]] = {}  # names by stage
        self._charts: dict[str, list[str]] = {}  # of these, the tags that were logged

    # ---- the trainer's hooks: those of a callback run before the module's own

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Write the hyperparameters, and keep Lightning from writing a metric beside them that nobody measured."""
        if stage == TrainerFn.FITTING:
            self._forget()
        # fast_dev_run puts a logger that writes nothing in the place of any.
        if not _loggers(trainer) and not getattr(trainer, "fast_dev_run", 0):
            kinds = ", ".join(type(logger).__name__ for logger in trainer.loggers) or "none"
            self._warn("draw anything", f"expected a TensorBoardLogger, got {kinds}: {ADD_LOGGER}")
        for logger in _loggers(trainer):
            logger._default_hp_metric = False
            if trainer.is_global_zero and stage != TrainerFn.PREDICTING and logger.log_dir not in self._ended:
                with self._going_on("write the hyperparameters"):
                    tensorboard.start_session(logger.experiment, _hyperparameters(trainer, pl_module))
                    self._ended[logger.log_dir] = False

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Note what was counted before."""
        self._begin(trainer, pl_module, "train")

    def on_validation_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Note what was counted before."""
        self._begin(trainer, pl_module, "val")

    def on_test_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Note what was counted before."""
        self._begin(trainer, pl_module, "test")

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Show what training counted."""
        self._show(trainer, pl_module, "train")

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Show what validation counted."""
        self._show(trainer, pl_module, "val")

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Show what the test counted."""
        self._show(trainer, pl_module, "test")

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Arrange charts of what the last epoch logged, which was after its hooks."""
        self._arrange(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Arrange charts of what training logged."""
        self._arrange(trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Arrange charts of what validation logged."""
        self._arrange(trainer)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Arrange charts of what the test logged."""
        self._arrange(trainer)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Show what the last epochs have not shown."""
        self._finish(trainer, succeeded=True)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Show what there is of a run that was interrupted."""
        self._finish(trainer, succeeded=False)

    # ---- figures and explanations: read on every rank, as that joins them, and drawn on one

    def _begin(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        if _loggers(trainer):
            self._observed.begin(module, stage)

    def _show(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        if not _loggers(trainer):
            return
        counted = self._observed.end(trainer, module, stage)
        if trainer.sanity_checking:
            return
        if not evaluations(module):
            self._warn(
                "find an evaluation", f"make one an attribute of {type(module).__name__}, or remove the callback."
            )
        namesakes = Counter((each.prefix, each.postfix) for each in counted.values())
        for name, each in counted.items():
            known = self._headlines.setdefault(stage, [])
            known += [key for key in headlines(each) if key not in known]
            reading = self._read(trainer, stage, each, f"/{name}" if namesakes[each.prefix, each.postfix] > 1 else "")
            if trainer.is_global_zero:
                self._draw_in_time(trainer, reading)

    def _read(self, trainer: Trainer, stage: str, evaluation: Evaluation, distinction: str) -> Reading:
        start, end = evaluation.prefix or f"{stage}/", f"{evaluation.postfix or ''}{distinction}"
        matrix = text = scores = None
        if self.figures:
            with self._going_on("draw the confusion matrix", start):
                matrix = evaluation.confusion_matrix.cpu()
        if self.explanations:
            with self._going_on("write the explanation", start):
                text = explanation(evaluation)
        if self.curves:
            with self._going_on("read the curves", start):
                scores = kept_scores(evaluation)
        # The step of this epoch's scalars, which Lightning logs after the hooks.
        step = trainer.fit_loop.epoch_loop._batches_that_stepped - (stage == "train")
        epoch = f" · epoch {trainer.current_epoch}" if trainer.state.fn == TrainerFn.FITTING else ""
        return Reading(start, end, epoch, step, rows(evaluation), matrix, text, scores)

    def _draw_in_time(self, trainer: Trainer, reading: Reading) -> None:
        """Now, or at the end of the run if no later epoch is drawn."""
        self._waiting[reading.tag("")] = reading
        if (trainer.current_epoch + 1) % self.every_n_epochs == 0:
            self._draw(trainer, self._waiting.pop(reading.tag("")))

    def _draw(self, trainer: Trainer, reading: Reading) -> None:
        if reading.matrix is not None:
            with self._going_on("draw the confusion matrix", reading.start):
                tag = reading.tag("confusion_matrix")
                draw = figures.confusion_matrix if reading.matrix.ndim == 2 else figures.label_counts
                image = figures.pixels(draw(reading.matrix, reading.rows, tag + reading.epoch))
                for logger in _loggers(trainer):
                    tensorboard.add_image(logger.experiment, _tag(logger, tag), image, reading.step)
        if reading.explanation is not None:
            with self._going_on("write the explanation", reading.start):
                tag = reading.tag("explanation")
                for logger in _loggers(trainer):
                    tensorboard.add_text(logger.experiment, _tag(logger, tag), reading.explanation, reading.step)
        if reading.scores is not None:
            with self._going_on("draw the curves", reading.start):
                self._draw_curves(trainer, reading, reading.scores)

    def _draw_curves(self, trainer: Trainer, reading: Reading, scores: KeptScores) -> None:
        for name, counts in scores.pr_curves():
            tag = reading.tag(f"pr_curve/{name}" if name else "pr_curve")
            for logger in _loggers(trainer):
                tensorboard.add_pr_curve(logger.experiment, _tag(logger, tag), counts, reading.step)
        if self.figures:
            tag = reading.tag("curves")
            image = figures.pixels(figures.panels(panels(scores), tag + reading.epoch))
            for logger in _loggers(trainer):
                tensorboard.add_image(logger.experiment, _tag(logger, tag), image, reading.step)

    def _finish(self, trainer: Trainer, succeeded: bool) -> None:
        if not trainer.is_global_zero:
            return
        for reading in self._waiting.values():
            self._draw(trainer, reading)
        self._waiting.clear()
        for logger in _loggers(trainer):
            if self._ended.get(logger.log_dir) is False:
                with self._going_on("write how the run ended"):
                    tensorboard.end_session(logger.experiment, succeeded)
                    self._ended[logger.log_dir] = True

    # ---- charts

    def _arrange(self, trainer: Trainer) -> None:
        """Write the layout again whenever a tag was logged that belongs into it."""
        if trainer.sanity_checking or not _loggers(trainer):
            return
        new = False
        logged = list(trainer.logged_metrics)  # on every rank, as this may join them
        for stage, names in self._headlines.items():
            known = self._charts.setdefault(stage, [])
            found = [tag for name in names for tag in logged if _is_logged_as(name, tag) and tag not in known]
            known += found
            new |= bool(found)
        if new and trainer.is_global_zero:
            with self._going_on("arrange charts"):
                self._write_charts(trainer)

    def _write_charts(self, trainer: Trainer) -> None:
        charts = {stage: self._charts[stage] for stage in STAGES if self._charts.get(stage)}
        if len(charts) > 1:
            charts["all stages"] = [tag for tags in charts.values() for tag in tags]
        for logger in _loggers(trainer):
            tagged = {title: [_tag(logger, tag) for tag in tags] for title, tags in charts.items()}
            tensorboard.add_charts(logger.experiment, CATEGORY, tagged)

    # ---- a report never ends a run, and never fails in silence

    @contextmanager
    def _going_on(self, doing: str, prefix: str = "") -> Iterator[None]:
        try:
            yield
        except Exception as failure:
            kind = "" if isinstance(failure, DeclarationError) else f"{type(failure).__name__}: "
            self._warn(doing, f"{kind}{failure}", f" under {prefix!r}" if prefix else "")

    def _warn(self, doing: str, reason: str, where: str = "") -> None:
        """Once for each reason."""
        if (doing, reason) not in self._said:
            self._said.add((doing, reason))
            rank_zero_warn(f"TensorBoardReport could not {doing}{where}: {reason}", UserWarning)


def _loggers(trainer: Trainer) -> list[TensorBoardLogger]:
    return [logger for logger in trainer.loggers if isinstance(logger, TensorBoardLogger)]


def _tag(logger: TensorBoardLogger, tag: str) -> str:
    """As the logger names its scalars."""
    return f"{logger._prefix}{logger.LOGGER_JOIN_CHAR}{tag}" if logger._prefix else tag


def _is_logged_as(name: str, tag: str) -> bool:
    """Whether Lightning makes this tag of a name."""
    return re.fullmatch(rf"{re.escape(name)}(_epoch)?(/dataloader_idx_\d+)?", tag) is not None


def _hyperparameters(trainer: Trainer, module: LightningModule) -> dict[str, Any]:
    """Those of the module, and those of the data by names of their own, which Lightning would want to be equal."""
    data = getattr(trainer, "datamodule", None)
    found: dict[str, Any] = {"model": type(module).__name__}
    if module._log_hyperparams:
        found |= _own(module.hparams_initial)
    if data is not None:
        found["data"] = type(data).__name__
        found |= {f"data/{name}": value for name, value in _own(data.hparams_initial).items()}
    return found


def _own(hyperparameters: Any) -> dict[str, Any]:
    """Without names that begin with an underscore, which are the command line's."""
    return {name: value for name, value in hyperparameters.items() if not name.startswith("_")}
