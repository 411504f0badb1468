"""Finds the evaluations of a stage: those that it changes. No name is interpreted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from lightning_evalkit.evaluation.base import Evaluation
from lightning_evalkit.evaluation.stages import StageEvaluations
from lightning_evalkit.trainer import callbacks_of

if TYPE_CHECKING:
    from lightning_evalkit.trainer import LightningModule, Trainer


def evaluations(trainer: Trainer, module: LightningModule) -> dict[str, Evaluation]:
    """The evaluations of a module, by attribute path, and those of callbacks that count."""
    found = {name: each for name, each in module.named_modules() if isinstance(each, Evaluation)}
    owned = [getattr(callback, "stages", None) for callback in callbacks_of(trainer)]
    for number, stages in enumerate(each for each in owned if isinstance(each, StageEvaluations)):
        found |= {f"evaluate_{number}.{name}": each for name, each in stages.items()}
    return found


class ChangedEvaluations:
    """Compares evaluations before the first batch of an epoch with those at its end."""

    def __init__(self) -> None:
        self._before: dict[str, dict[str, int]] = {}
        self._validated: set[str] = set()

    def begin(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        """Note the counts before the first batch; by then every hook that may reset them has run."""
        if stage not in self._before:
            self._before[stage] = _updates(evaluations(trainer, module))

    def end(self, trainer: Trainer, module: LightningModule, stage: str) -> dict[str, Evaluation]:
        """Return what the stage changed on any rank; call it before the module's own hook resets.

        Reading an evaluation is a collective, so every rank reads the same ones, also a rank that got no batch.
        """
        found = evaluations(trainer, module)
        after = _updates(found)
        before = self._before.pop(stage, after)
        # Validation runs inside a training epoch: what it changed is not the training's.
        others = self._validated if stage == "train" else set()
        changed = [count != before.get(name, 0) and name not in others for name, count in after.items()]
        flags = torch.tensor(changed, dtype=torch.int64, device=trainer.strategy.root_device)
        ranks = trainer.strategy.reduce(flags, reduce_op="sum").tolist() if changed else []
        counted = {name: each for (name, each), n in zip(found.items(), ranks, strict=True) if n}
        if stage == "val":
            self._validated |= counted.keys()
        return counted


def _updates(found: dict[str, Evaluation]) -> dict[str, int]:
    return {name: each.tally.update_count for name, each in found.items()}
