"""Adds figures, charts, texts and hyperparameters to TensorBoard, read from the counts of a training's evaluations."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from lightning_evalkit.callbacks.parts.changed_evaluations import ChangedEvaluations, evaluations
from lightning_evalkit.callbacks.parts.stage_hooks import StageHooks
from lightning_evalkit.errors import DeclarationError, nearest
from lightning_evalkit.evaluation.stages import STAGES
from lightning_evalkit.reports.drawing import Drawing
from lightning_evalkit.reports.loggers import tensorboards
from lightning_evalkit.reports.snapshot import headlines
from lightning_evalkit.reports.soft_failures import SoftFailures
from lightning_evalkit.sinks import tensorboard
from lightning_evalkit.trainer import TrainerFn, logs_hyperparameters, steps_done, without_default_metric

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lightning_evalkit.evaluation.stages import Stage
    from lightning_evalkit.reports.loggers import TensorBoard
    from lightning_evalkit.trainer import LightningModule, Trainer

CATEGORY = "accuracy and F1"
ADD_LOGGER = (
    "add --trainer.logger TensorBoardLogger --trainer.logger.save_dir FOLDER on the command line, "
    "or Trainer(logger=TensorBoardLogger(FOLDER))."
)


class TensorBoardReport(StageHooks):
    """Confusion matrices, curves, explanations, charts of accuracy and F1, hyperparameters, for any LightningModule.

    It draws every evaluation that the module (as an attribute, or in a ModuleDict or ModuleList) or an ``Evaluate``
    callback has, under the evaluation's prefix, for the given ``stages``. It draws at the end of the run, and at a few
    earlier epochs as long as drawing takes at most a twentieth of the run's time; with ``every_n_epochs`` it draws
    every n-th epoch instead. The explanation of the last epoch is a text under "findings". One chart per stage shows
    accuracy and F1 as lines of different colours; the sub-runs "accuracy" and "f1" of the run hold these lines.
    ``curves`` adds the curves of evaluations with ``curves=True``: figures, and up to ten classes or labels in the tab
    "PR Curves". It warns if there is no evaluation or no TensorBoardLogger, unless it is ``optional``.
    """

    def __init__(
        self,
        every_n_epochs: int | None = None,
        figures: bool = True,
        explanations: bool = True,
        curves: bool = True,
        stages: Sequence[str] = ("val", "test"),
        optional: bool = False,
    ) -> None:
        for stage in stages:
            if stage not in STAGES:
                raise DeclarationError(f"{stage!r} in stages is not known: {nearest(str(stage), STAGES)}")
        self._failures, self._optional = SoftFailures(type(self).__name__), optional
        self._drawing = Drawing(self._failures, every_n_epochs, figures, explanations, curves, stages)
        self._ended: dict[str, bool] = {}  # folder of the hyperparameters: whether the run is over
        self._lines: dict[str, tensorboard.SubRuns] = {}  # of charts, by the folder of the run
        self._forget()

    def _forget(self) -> None:
        self._observed = ChangedEvaluations()
        self._drawing.forget()
        self._headlines: dict[str, dict[str, str]] = {}  # stage: names by the tags they are reported as
        self._charts: dict[str, list[str]] = {}  # stage: tags
        self._steps: dict[str, int] = {}  # of the last epoch of each stage
        self._written: dict[str, int] = {}  # the step up to which a tag is in a chart
        self._bands: list[str] = []  # tags logged with their intervals
        self._arranged: dict[str, tuple[str, ...]] = {}  # charts and bands in the layout, by stage

    # ---- the trainer's hooks: those of a callback run before the module's own

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Write the hyperparameters, and stop Lightning from adding the placeholder metric "hp_metric"."""
        if stage == TrainerFn.FITTING:
            self._forget()
        boards = tensorboards(trainer)
        # fast_dev_run replaces every logger by one that writes nothing; a prediction draws nothing.
        is_expected = not self._optional and stage != TrainerFn.PREDICTING
        if not boards and is_expected and not getattr(trainer, "fast_dev_run", 0):
            kinds = ", ".join(type(logger).__name__ for logger in trainer.loggers) or "none"
            self._failures.warn("draw anything", f"expected a TensorBoardLogger, got {kinds}: {ADD_LOGGER}")
        for board in boards:
            without_default_metric(board.logger)
            if trainer.is_global_zero and stage != TrainerFn.PREDICTING and board.logger.log_dir not in self._ended:
                with self._failures.going_on("write the hyperparameters"):
                    tensorboard.start_session(board.writer, _hyperparameters(trainer, pl_module))
                    self._ended[board.logger.log_dir] = False

    def epoch_start(self, trainer: Trainer, module: LightningModule, stage: Stage) -> None:
        """Arrange charts of training's last epoch, whose scalars Lightning logs after that epoch's hooks."""
        if stage == "train":
            self._arrange(trainer)

    def batch_start(
        self, trainer: Trainer, module: LightningModule, stage: Stage, batch: Any, number: int, dataloader: int
    ) -> None:
        """Note the counts before the first batch."""
        if tensorboards(trainer):
            self._observed.begin(trainer, module, stage)

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
        """Draw what the schedule has left out so far."""
        self._finish(trainer, succeeded=True)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Draw the counts of an interrupted run."""
        self._finish(trainer, succeeded=False)

    # ---- figures and explanations

    def epoch_end(self, trainer: Trainer, module: LightningModule, stage: Stage) -> None:
        """Draw the evaluations that counted in this epoch."""
        boards = tensorboards(trainer)
        if not boards:
            return
        counted = self._observed.end(trainer, module, stage)
        if trainer.sanity_checking:
            return
        if not self._optional and not evaluations(trainer, module):
            self._failures.warn(
                "find an evaluation", f"make one an attribute of {type(module).__name__}, or remove the callback."
            )
        self._steps[stage] = steps_done(trainer) - (stage == "train")
        namesakes = Counter((each.prefix, each.postfix) for each in counted.values())
        for name, each in counted.items():
            self._headlines.setdefault(stage, {}).update(headlines(each))
            distinction = f"/{name}" if namesakes[each.prefix, each.postfix] > 1 else ""
            self._drawing.show(trainer, boards, stage, each, distinction)

    def _finish(self, trainer: Trainer, succeeded: bool) -> None:
        if not trainer.is_global_zero:
            return
        boards = tensorboards(trainer)
        self._drawing.finish(boards)
        for board in boards:
            if self._ended.get(board.logger.log_dir) is False:
                with self._failures.going_on("write how the run ended"):
                    tensorboard.end_session(board.writer, succeeded)
                    self._ended[board.logger.log_dir] = True
        for lines in self._lines.values():
            lines.close()

    # ---- charts

    def _arrange(self, trainer: Trainer) -> None:
        """Add the last scalars to their charts, and write the layout again if there is a new chart."""
        boards = tensorboards(trainer)
        if trainer.sanity_checking or not boards:
            return
        logged = dict(trainer.logged_metrics)  # on every rank, as this may join them
        if trainer.is_global_zero:
            with self._failures.going_on("arrange charts"):
                for stage, names in self._headlines.items():
                    for tag, value in logged.items():
                        for key, name in names.items():
                            if _is_logged_as(key, tag) and self._written.get(tag) != self._steps[stage]:
                                if tag not in self._written and {f"{tag}/low", f"{tag}/high"} <= logged.keys():
                                    self._bands.append(tag)
                                self._written[tag] = self._steps[stage]
                                self._add(boards, stage, _chart(stage, key, name, tag), name, float(value))

    def _add(self, boards: Sequence[TensorBoard], stage: str, chart: str, name: str, value: float) -> None:
        charts = self._charts.setdefault(stage, [])
        for board in boards:
            folder = board.logger.log_dir
            lines = self._lines.setdefault(folder, tensorboard.SubRuns(folder))
            lines.add_scalar(name, board.tag(chart), value, self._steps[stage])
        if chart not in charts:
            charts.append(chart)
        arranged = (*charts, *self._bands)
        if arranged != self._arranged.get(stage):
            self._arranged[stage] = arranged
            self._write_charts(boards)

    def _write_charts(self, boards: Sequence[TensorBoard]) -> None:
        charts = {stage: self._charts[stage] for stage in STAGES if self._charts.get(stage)}
        for board in boards:
            tagged = {title: [board.tag(chart) for chart in tags] for title, tags in charts.items()}
            tensorboard.add_charts(board.writer, CATEGORY, tagged, map(board.tag, self._bands))


def _chart(stage: str, reported: str, name: str, tag: str) -> str:
    """The title of a number's chart: one chart per prefix, postfix and dataloader."""
    place = reported.replace(name, "", 1).strip("/_") or stage
    loader = re.search(r"/dataloader_idx_\d+$", tag)
    return f"{CATEGORY}/{place}{loader[0] if loader and not place.endswith(loader[0]) else ''}"


def _is_logged_as(name: str, tag: str) -> bool:
    """Whether Lightning logs this name under this tag."""
    return re.fullmatch(rf"{re.escape(name)}(_epoch)?(/dataloader_idx_\d+)?", tag) is not None


def _hyperparameters(trainer: Trainer, module: LightningModule) -> dict[str, Any]:
    """The module's and the data's hyperparameters, prefixed: Lightning refuses equal names with different values."""
    data = getattr(trainer, "datamodule", None)
    found: dict[str, Any] = {"model": type(module).__name__}
    if logs_hyperparameters(module):
        found |= _own(module.hparams_initial)
    if data is not None:
        found["data"] = type(data).__name__
        found |= {f"data/{name}": value for name, value in _own(data.hparams_initial).items()}
    return found


def _own(hyperparameters: Any) -> dict[str, Any]:
    """Drop names that begin with an underscore: the command line adds those."""
    return {name: value for name, value in hyperparameters.items() if not name.startswith("_")}
