"""The counts of a module in one stage and dataloader, and their state in a checkpoint mid-epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.nn import Module, ModuleDict, ModuleList

from lightning_evalkit.errors import InputError
from lightning_evalkit.metrics import MeanLoss, WorstLossShare
from lightning_evalkit.state import checkpoint

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import Totals
    from lightning_evalkit.evaluation.base import Evaluation
    from lightning_evalkit.modules.losses import Losses
    from lightning_evalkit.state import Tally

IN_WORK = "in_work"


class Evaluations(ModuleList):
    """The metrics of one stage, by dataloader: a single line in Lightning's model summary."""


class StageMetrics(Module):
    """The evaluation and the losses of one stage and dataloader."""

    def __init__(self, evaluation: Evaluation, worst: float | None, intervals: bool = False) -> None:
        super().__init__()
        self.evaluation, self.worst, self.intervals = evaluation, worst, intervals
        self.losses: Any = ModuleDict({"loss": MeanLoss()})
        if worst is not None:
            self.losses["loss_of_worst"] = WorstLossShare(worst)
        self._loaded: dict[str, int] = {}  # batches of each tally that come from a checkpoint
        self._again: list[tuple[Tally, Totals | None]] = []

    def another(self) -> StageMetrics:
        """Return the same for another dataloader, with nothing counted."""
        return StageMetrics(self.evaluation.clone(), self.worst, self.intervals)

    def reset(self, postfix: str) -> None:
        """Start an epoch whose names have this postfix."""
        for tally in self._tallies().values():
            tally.reset()
        self.evaluation.postfix = postfix
        self._loaded, self._again = {}, []

    def add(self, losses: Losses) -> None:
        """Add the losses of a batch."""
        for metric in self.losses.values():
            metric.update(losses.values.detach(), losses.weights)

    def values(self) -> dict[str, Tensor]:
        """Compute every number over all ranks."""
        prefix, postfix = self.evaluation.prefix, self.evaluation.postfix or ""
        losses = {f"{prefix}{name}{postfix}": metric.compute() for name, metric in self.losses.items()}
        ends = self.evaluation.interval_ends() if self.intervals else {}
        return {**losses, **self.evaluation.compute(), **ends}

    # ---- checkpoints: one file for all ranks, so it holds their sum, from which the first rank resumes

    @property
    def resumed(self) -> bool:
        """Whether it resumed from a checkpoint."""
        return bool(self._loaded)

    def saved(self, done: int | None) -> dict[str, Any]:
        """Return the counts over all ranks, sparsely; every rank must call it.

        ``done`` is the number of batches before the one in progress, which some metrics may have counted already.
        """
        entries: dict[str, Any] = {IN_WORK: [] if done is None else self._beyond(done)}
        for name, tally in self._tallies().items():
            with tally.sync_context():
                saved = checkpoint.saved(tally.totals, tally.counter)
            entries |= {f"{name}.{key}": tensor.cpu().to_sparse() for key, tensor in saved.items()}
        return entries

    def _beyond(self, done: int) -> list[str]:
        tallies = self._tallies().items()
        return [name for name, tally in tallies if tally.update_count > self._loaded.get(name, 0) + done]

    def load(self, entries: dict[str, Any], first: bool, again: bool) -> None:
        """Resume from saved counts; if the batch in progress comes ``again``, its second count is undone."""
        if not entries:
            raise InputError("it was saved without.")
        dense = {key: entry.to_dense() for key, entry in entries.items() if key != IN_WORK}
        for name, tally in self._tallies().items():
            totals = checkpoint.unpack(dense, f"{name}.", tally.counter)
            tally.load_totals(totals if first else None)
            twice = again and name in entries[IN_WORK]
            self._again += [(tally, totals if first else None)] * twice
            self._loaded[name] = tally.update_count - twice

    def put_back(self) -> None:
        """After a batch that is yielded again, undo what it added twice."""
        while self._again:
            tally, totals = self._again.pop()
            tally.reset()
            tally.load_totals(totals)

    def _tallies(self) -> dict[str, Tally]:
        return {"evaluation": self.evaluation.tally, **self.losses}
