"""Saves the counts of validation and test, by row in buckets, so that runs can be compared later."""

from __future__ import annotations

from inspect import ismethod, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.callbacks.parts.row_ids import RowIds
from lightning_evalkit.callbacks.parts.stage_hooks import StageHooks
from lightning_evalkit.callbacks.parts.step_outputs import StepOutputs
from lightning_evalkit.evaluation.base import Evaluation
from lightning_evalkit.evaluation.saved import saved
from lightning_evalkit.inputs.declaration import checked_number
from lightning_evalkit.sinks.files import replaced
from lightning_evalkit.trainer import TrainerFn

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.evaluation.stages import Stage
    from lightning_evalkit.trainer import LightningModule, Trainer

MOST = 2**22
"""The most numbers that buckets may take (32 MB); larger problems are saved without buckets."""


class KeepCounts(StageHooks):
    """Writes ``counts_val.pt`` and ``counts_test.pt`` into the folder of a run, for ``evalkit compare``.

    Works with this package's modules, and with any module that has an ``evaluation(stage, dataloader_idx)`` and returns
    "logits" and "target" from its steps. It counts every row a second time, in ``buckets`` by row number, so that two
    runs on the same data are compared row by row. ``counts_val.pt`` holds the counts of the best checkpoint, or of the
    last epoch if there is none. The command line adds this callback to every run.
    """

    def __init__(self, buckets: int = 1024) -> None:
        checked_number("buckets", buckets, least=2)
        self.buckets = buckets
        self._rows, self._saved = RowIds(), dict[str, Any]()  # the counts of the last epoch of each stage
        self._counting: dict[tuple[str, int], Evaluation] = {}  # those of the running epoch
        self._made: dict[tuple[str, int], tuple[Evaluation, Any, Evaluation]] = {}  # the module's, its task, our own

    # ---- epochs

    def epoch_start(self, trainer: Trainer, module: LightningModule, stage: Stage) -> None:
        self._rows.begin(stage)
        self._counting = {key: each for key, each in self._counting.items() if key[0] != stage}

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
        """Count a batch of validation or test."""
        if stage != "train" and not trainer.sanity_checking:
            self._count(module, stage, outputs, dataloader)

    def epoch_end(self, trainer: Trainer, module: LightningModule, stage: Stage) -> None:
        """Keep the counts of validation or test."""
        if stage != "train" and not trainer.sanity_checking:
            self._end(module, stage, len(trainer.num_test_batches if stage == "test" else trainer.num_val_batches))

    def _count(self, module: LightningModule, stage: str, outputs: Any, place: int) -> None:
        evaluation = self._of(module, stage, place)
        if evaluation is None or not isinstance(outputs, dict) or "target" not in outputs:
            return
        task: Any = evaluation.tally.counter.task
        weights = "sample_weight" if task.weighted else None
        found = StepOutputs(task.inputs, task.weighted, None, "target", weights, None, "KeepCounts").of(
            outputs, None, f"the {stage} step"
        )
        assert found is not None  # by its keys
        evaluation.update(*found, **self._rows.ids(evaluation, stage, place, found[1], outputs))

    def _of(self, module: Any, stage: str, place: int) -> Evaluation | None:
        """Begin the evaluation at the first batch, after other callbacks have set their thresholds."""
        if (stage, place) not in self._counting and _tells_evaluations(module):
            declared = module.evaluation(stage, place)
            if isinstance(declared, Evaluation):
                self._counting[stage, place] = self._empty((stage, place), declared).to(module.device)
        return self._counting.get((stage, place))

    def _empty(self, key: tuple[str, int], declared: Evaluation) -> Evaluation:
        """The evaluation of the last epoch without its counts, or a new one if the module's has changed."""
        of, task, own = self._made.get(key) or (None, None, declared)
        if of is not declared or task != declared.tally.counter.task:
            own = self._declared(declared)
            self._made[key] = declared, declared.tally.counter.task, own
        own.reset()
        return own

    def _declared(self, evaluation: Evaluation) -> Evaluation:
        """The same declaration with buckets, without the confusion matrix that each bucket would repeat."""
        tables = max(getattr(evaluation, name, 1) for name in ("num_classes", "num_labels"))
        own: dict[str, Any] = {"prefix": None, "postfix": None}
        if hasattr(evaluation, "num_classes"):
            own["confusion_matrix"] = False
        return evaluation.replace(buckets=self.buckets if 4 * tables * self.buckets <= MOST else None, **own)

    def _end(self, module: LightningModule, stage: str, loaders: int) -> None:
        """Compute on every rank, also on one without data: it is a collective."""
        evaluations = [self._of(module, stage, place) for place in range(loaders)]
        self._saved = {key: entry for key, entry in self._saved.items() if not key.startswith(f"{stage}.")}
        for place, each in enumerate(evaluations):
            if each is not None:
                self._saved |= saved(each, f"{stage}.{place}")

    # ---- files

    def state_dict(self) -> dict[str, Any]:
        """Return the counts of the last validation, which belong to the checkpoint."""
        return {key: entry for key, entry in self._saved.items() if key.startswith("val.")}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the counts; the next validation replaces them."""
        self._saved |= state_dict

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Write the last counts of each stage."""
        name = "test" if stage == TrainerFn.TESTING else "val"
        folder = trainer.log_dir if trainer.loggers else None  # every rank is asked
        written = stage in (TrainerFn.FITTING, TrainerFn.VALIDATING, TrainerFn.TESTING)
        if not written or folder is None or not trainer.is_global_zero or getattr(trainer, "fast_dev_run", False):
            return
        kept = self._of_best(trainer) if stage == TrainerFn.FITTING else {}
        kept = kept or {key: entry for key, entry in self._saved.items() if key.startswith(f"{name}.")}
        if kept:
            with replaced(Path(folder) / f"counts_{name}.pt") as temporary:
                torch.save(kept, temporary)

    def _of_best(self, trainer: Trainer) -> dict[str, Tensor]:
        """Return the counts stored in the best checkpoint; empty if there is none."""
        best = Path(getattr(trainer.checkpoint_callback, "best_model_path", "") or "none")
        if not best.is_file():
            return {}
        states = torch.load(best, map_location="cpu", weights_only=True, mmap=True).get("callbacks", {})
        found: dict[str, Tensor] = states.get(self.state_key, {})
        return found


def _tells_evaluations(module: Any) -> bool:
    """Whether a module has the ``evaluation`` method of our modules, and not another attribute of that name."""
    own = getattr(module, "evaluation", None)
    return ismethod(own) and {"stage", "dataloader_idx"} <= {*signature(own).parameters}
