"""A linter for the numbers of a run: reports misused metrics and misleading values while Lightning trains."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning_evalkit.callbacks.diagnosing.watch import Watch
from lightning_evalkit.callbacks.parts.restoring import RestoringCallback
from lightning_evalkit.callbacks.parts.stage_hooks import StageHooks
from lightning_evalkit.diagnosis.accepted import accepted
from lightning_evalkit.diagnosis.numbers import seen_counts
from lightning_evalkit.diagnosis.report import Diagnosis, about_subject, joined, judged, without_known
from lightning_evalkit.diagnosis.seen import SANITY, Owner
from lightning_evalkit.reports.loggers import tensorboards
from lightning_evalkit.reports.soft_failures import SoftFailures
from lightning_evalkit.sinks.files import write_json
from lightning_evalkit.sinks.terminal import show_diagnosis
from lightning_evalkit.trainer import steps_done

if TYPE_CHECKING:
    from collections.abc import Collection

    from lightning_evalkit.counts import Counts
    from lightning_evalkit.diagnosis.seen import SeenRun
    from lightning_evalkit.evaluation.stages import Stage
    from lightning_evalkit.trainer import LightningModule, Trainer

FAILED = 3
"""The exit code of a strict run that has errors."""


class Diagnose(StageHooks, RestoringCallback):
    """Finds metrics that are shared, not reset, logged as values, merged, padded or misread, and names the remedy.

    It changes no number and waits for no device within an epoch. At the end of validation or test it prints its
    findings, and prints them again only if they have changed. ``diagnosis`` holds the last findings; they are also
    written to diagnosis.json in the log folder (with ``sarif=True`` to diagnosis.sarif too) and to TensorBoard's text
    tab.

    ``ignore`` lists codes of rules (``evalkit rules`` shows all). ``baseline`` is a JSON file of accepted findings: a
    list of fingerprints, or a diagnosis.json. With ``strict=True`` a run that has errors is saved and then ends with
    exit code 3. ``hints=True`` also prints hints, which may be wrong.
    """

    def __init__(
        self,
        ignore: Collection[str] = (),
        baseline: str | Path | None = None,
        strict: bool = False,
        hints: bool = False,
        sarif: bool = False,
    ) -> None:
        self.ignore, self.strict, self.hints, self.sarif = tuple(ignore), strict, hints, sarif
        self.known = accepted(baseline) if baseline else ()
        self.diagnosis = Diagnosis(())
        self._watch: Watch | None = None
        self._said: tuple[str, ...] = ()
        self._failures = SoftFailures("Diagnose")

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Start to watch; the module has all its metrics by now."""
        self.leave(trainer)
        with self._failures.going_on("watch the run"):
            self._watch = Watch(trainer, pl_module)
            self._watch.enter()

    def leave(self, trainer: Trainer) -> None:
        if self._watch is not None:
            self._watch.leave()
            self._watch = None

    # ---- steps

    def batch_start(
        self, trainer: Trainer, module: LightningModule, stage: Stage, batch: Any, number: int, dataloader: int
    ) -> None:
        if self._watch is not None:
            self._watch.begin(stage)

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
        if self._watch is not None:
            owner = Owner(SANITY if trainer.sanity_checking else stage, dataloader, trainer.current_epoch)
            self._watch.end(owner, batch, number == 0)

    # ---- epochs

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._start(trainer, "val")

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._start(trainer, "test")

    def _start(self, trainer: Trainer, stage: str) -> None:
        if self._watch is not None:
            with self._failures.going_on("look at the loaders"):
                self._watch.mark(stage)
                self._watch.look_at_loaders(stage)

    def epoch_start(self, trainer: Trainer, module: LightningModule, stage: Stage) -> None:
        """Notice resets between epochs of training."""
        if self._watch is not None and stage == "train":
            self._watch.rest()

    def epoch_end(self, trainer: Trainer, module: LightningModule, stage: Stage) -> None:
        """Read the states of validation or test before the module's own hook, or Lightning, resets them."""
        if self._watch is not None and stage != "train":
            with self._failures.going_on("read the states"):
                self._watch.read()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.sanity_checking:
            self._judge(trainer)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._judge(trainer)

    def _judge(self, trainer: Trainer) -> None:
        if self._watch is None:
            return
        with self._failures.going_on("judge the run"):
            self._watch.reported()
            self._watch.rest()
            self.diagnosis = self._judged(self._watch.seen)
            shown = (*self.diagnosis.issues, *(self.diagnosis.tips if self.hints else ()))
            said = tuple(sorted(finding.fingerprint for finding in shown))
            if trainer.is_global_zero and said != self._said:
                self._said = said
                self._show(trainer)

    def _judged(self, seen: SeenRun) -> Diagnosis:
        """Apply the rules on runs once, and the rules on numbers to every table that the metrics hold."""
        found = [judged(seen, "run", self.ignore, self.known)]
        tables: list[Counts] = []
        for metric in seen.metrics.values():
            if metric.table is not None and metric.table not in tables:
                tables.append(metric.table)
                numbers = judged(seen_counts(metric.table), "numbers", self.ignore)
                found.append(about_subject(numbers, metric.path))
        return without_known(joined(found), self.known)

    def _show(self, trainer: Trainer) -> None:
        text = Diagnosis(self.diagnosis.findings if self.hints else self.diagnosis.issues, self.diagnosis.passed)
        print("\nDiagnose: " if trainer.progress_bar_callback else "Diagnose: ", end="")  # below the bar
        show_diagnosis(text)
        for board in tensorboards(trainer):
            board.text("diagnosis", text.markdown(), steps_done(trainer))
        if (folder := _folder(trainer)) is not None:
            write_json(Path(folder) / "diagnosis.json", self.diagnosis.to_dict())
            if self.sarif:
                write_json(Path(folder) / "diagnosis.sarif", self.diagnosis.sarif())

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Put everything back; a strict run with errors ends here, after it has been saved."""
        super().teardown(trainer, pl_module, stage)
        if self.strict and self.diagnosis.errors:
            raise SystemExit(FAILED)


def _folder(trainer: Trainer) -> str | None:
    """The folder of the first logger; ``trainer.log_dir`` is a collective, and only one rank is here."""
    folder = getattr(trainer.logger, "log_dir", None) or getattr(trainer.logger, "save_dir", None)
    return folder if isinstance(folder, str) else None
