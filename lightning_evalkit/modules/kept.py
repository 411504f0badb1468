"""What a module counts of one stage and dataloader, and how that travels in a checkpoint within an epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.nn import Module, ModuleDict

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


class Kept(Module):
    """What is counted of one stage and dataloader."""

    def __init__(self, evaluation: Evaluation, worst: float | None) -> None:
        super().__init__()
        self.evaluation, self.worst = evaluation, worst
        self.losses: Any = ModuleDict({"loss": MeanLoss()})
        if worst is not None:
            self.losses["loss_of_worst"] = WorstLossShare(worst)
        self.empty = True
        self._in_work: list[str] = []  # what has counted the batch that is being worked on
        self._again: list[tuple[Tally, Totals | None]] = []

    def another(self) -> Kept:
        """The same for another dataloader, with nothing counted."""
        return Kept(self.evaluation.clone(), self.worst)

    def reset(self, postfix: str) -> None:
        """Start an epoch, reported under names that end so."""
        for tally in self._tallies().values():
            tally.reset()
        self.evaluation.postfix, self.empty = postfix, True
        self._again.clear()

    def count(self, logits: Tensor, target: Tensor, weight: Tensor | None) -> None:
        """Count a batch."""
        self._in_work.clear()
        self.evaluation.update(logits, target, weight)
        self._in_work.append("evaluation")
        self.empty = False

    def add(self, losses: Losses) -> None:
        """Add the losses of a batch that was counted."""
        for name, metric in self.losses.items():
            metric.update(losses.values.detach(), losses.weights)
            self._in_work.append(name)
        while self._again:
            self._put_back(*self._again.pop())

    def values(self) -> dict[str, Tensor]:
        """Every number over all ranks."""
        prefix, postfix = self.evaluation.prefix, self.evaluation.postfix or ""
        losses = {f"{prefix}{name}{postfix}": metric.compute() for name, metric in self.losses.items()}
        return {**losses, **self.evaluation.compute()}

    # ---- checkpoints: one file for all ranks, so it holds their sum, with which the first rank goes on

    def saved(self, in_work: bool) -> dict[str, Any]:
        """What was counted over all ranks, which all of them have to ask for; most bins of a histogram are empty."""
        entries: dict[str, Any] = {IN_WORK: list(self._in_work) if in_work else []}
        for name, tally in self._tallies().items():
            with tally.sync_context():
                saved = checkpoint.saved(tally.totals, tally.counter.task)
            entries |= {f"{name}.{key}": tensor.cpu().to_sparse() for key, tensor in saved.items()}
        return entries

    def load(self, entries: dict[str, Any], first: bool, again: bool) -> None:
        """Go on from there; a batch in work that will be given ``again`` is not counted again."""
        if not entries:
            raise InputError("it was saved without.")
        dense = {key: entry.to_dense() for key, entry in entries.items() if key != IN_WORK}
        for name, tally in self._tallies().items():
            totals = checkpoint.taken(dense, f"{name}.", tally.counter.task)
            self._put_back(tally, totals if first else None)
            if again and name in entries[IN_WORK]:
                self._again.append((tally, totals if first else None))
        self.empty = False

    def _put_back(self, tally: Tally, totals: Totals | None) -> None:
        tally.reset()
        tally.load_totals(totals)

    def _tallies(self) -> dict[str, Tally]:
        return {"evaluation": self.evaluation.tally, **self.losses}
