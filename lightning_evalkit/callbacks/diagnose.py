"""A linter for the numbers of a run: reports misused metrics and misleading values while Lightning trains."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning_evalkit.callbacks.diagnosing.folders import result_folders
from lightning_evalkit.callbacks.diagnosing.watch import Watch
from lightning_evalkit.callbacks.parts.restoring import RestoringCallback
from lightning_evalkit.callbacks.parts.stage_hooks import StageHooks
from lightning_evalkit.diagnosis.accepted import accepted
from lightning_evalkit.diagnosis.report import Diagnosis, about_subject, joined, judged, without_known
from lightning_evalkit.diagnosis.seen import SANITY, Owner, SeenRun
from lightning_evalkit.reports.loggers import tensorboards
from lightning_evalkit.reports.soft_failures import SoftFailures
from lightning_evalkit.sinks.files import write_json
from lightning_evalkit.sinks.terminal import show_diagnosis
from lightning_evalkit.trainer import steps_done

if TYPE_CHECKING:
    from collections.abc import Collection

    from lightning_evalkit.diagnosis.seen import SeenWait
    from lightning_evalkit.evaluation.stages import Stage
    from lightning_evalkit.trainer import LightningModule, Trainer

FAILED = 3
"""The exit code of a strict run that has errors."""


class Diagnose(StageHooks, RestoringCallback):
    """Finds metrics that are shared, not reset, logged as values, merged, padded or misread, and names the remedy.

    It changes no number and waits for no device within an epoch. At the end of validation or test it prints its
    findings, and prints them again only if there are new ones. ``diagnosis`` holds the last findings; they are also
    written to TensorBoard's text tab and to diagnosis.json, in the logger's folder and beside the checkpoints if the
    run saves any. A run without both writes no file, unless ``sarif=True`` asks for diagnosis.sarif. The rules on
    numbers look at what this package's evaluations computed in validation and test, and at the counts of single binary
    metrics.

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
        self._said: set[str] = set()
        self._found: set[str] = set()
        self._written: set[Path] = set()
        self._failures = SoftFailures("Diagnose")

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Begin a run; the module's own ``setup``, which may make metrics, comes later."""
        self.leave(trainer)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin to watch, once the module has all its metrics."""
        self._enter(trainer, pl_module)

    def _enter(self, trainer: Trainer, module: LightningModule) -> None:
        if self._watch is not None:
            return
        with self._failures.going_on("watch the run"):
            watch = Watch(trainer, module, lambda wait: self._waits(trainer, wait))
            self._watch = watch
            watch.enter()
            if watch.seen.guards:  # before the run waits for ever
                self._add(trainer, SeenRun(guards=watch.seen.guards, ranks=watch.seen.ranks))

    def leave(self, trainer: Trainer) -> None:
        if self._watch is not None:
            self._watch.leave()
            self._watch = None

    # ---- runs that hang or fail

    def _waits(self, trainer: Trainer, wait: SeenWait) -> None:
        """Say that this rank waits in vain; a thread of its own calls this."""
        if self._watch is not None:
            self._watch.seen.waits.append(wait)
            self._add(trainer, SeenRun(waits=[wait], ranks=self._watch.seen.ranks), on_any_rank=True)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Say what the exception shows, and put everything back."""
        if self._watch is not None:
            with self._failures.going_on("judge the exception"):
                self._add(trainer, self._watch.failed(exception), on_any_rank=True)
        super().on_exception(trainer, pl_module, exception)

    def _add(self, trainer: Trainer, seen: SeenRun, on_any_rank: bool = False) -> None:
        """Show what was seen between two judgements, and what was found before."""
        found = judged(seen, "run", self.ignore, self.known)
        new = tuple(each for each in found.findings if each.fingerprint not in self._said)
        if new:
            self.diagnosis = joined([self.diagnosis, replace(found, findings=new)])
            self._said |= {finding.fingerprint for finding in new}
            if on_any_rank or trainer.is_global_zero:
                self._show(trainer)

    # ---- steps

    def batch_start(
        self, trainer: Trainer, module: LightningModule, stage: Stage, batch: Any, number: int, dataloader: int
    ) -> None:
        if self._watch is not None:
            place = SANITY if trainer.sanity_checking else stage
            self._watch.begin(Owner(place, dataloader, trainer.current_epoch))

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
            self._watch.end(batch, number == 0)

    # ---- epochs

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._start(trainer, pl_module, "val")

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._start(trainer, pl_module, "test")

    def _start(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        self._enter(trainer, module)
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
            self.diagnosis = self._judged(self._watch)
            self._watch.over()
            shown = (*self.diagnosis.issues, *(self.diagnosis.tips if self.hints else ()))
            found = {finding.fingerprint for finding in shown}
            if trainer.is_global_zero and (found != self._found or (found and self._writes_elsewhere(trainer))):
                self._show(trainer, is_new=not found <= self._said)
            self._said, self._found = self._said | found, found

    def _judged(self, watch: Watch) -> Diagnosis:
        """Apply the rules on runs once, and the rules on numbers to every evaluation and table of the run."""
        found = [judged(watch.seen, "run", self.ignore, self.known)]
        for each in watch.numbers():
            of_numbers = judged(each.numbers, "numbers", self.ignore, unasked=each.unasked)
            found.append(about_subject(of_numbers, each.path))
        return without_known(joined(found), self.known)

    def _show(self, trainer: Trainer, is_new: bool = True) -> None:
        """Print what is new, and write everything that holds now."""
        text = Diagnosis(self.diagnosis.findings if self.hints else self.diagnosis.issues, self.diagnosis.passed)
        if is_new:
            print("\nDiagnose: " if trainer.progress_bar_callback else "Diagnose: ", end="")  # below the bar
            show_diagnosis(text)
        if not trainer.is_global_zero:
            return
        for board in tensorboards(trainer):
            board.text("diagnosis", text.markdown(), steps_done(trainer))
        for folder in self._folders(trainer):
            self._written.add(folder)
            write_json(folder / "diagnosis.json", self.diagnosis.to_dict())
            if self.sarif:
                write_json(folder / "diagnosis.sarif", self.diagnosis.sarif())

    def _writes_elsewhere(self, trainer: Trainer) -> bool:
        """Whether this run has folders in which the findings of an earlier one are not written yet."""
        return not self._written.issuperset(self._folders(trainer))

    def _folders(self, trainer: Trainer) -> list[Path]:
        return result_folders(trainer) or ([Path(trainer.default_root_dir)] if self.sarif else [])

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Put everything back; a strict run with errors ends here, after it has been saved."""
        super().teardown(trainer, pl_module, stage)
        if self.strict and self.diagnosis.errors:
            raise SystemExit(FAILED)
