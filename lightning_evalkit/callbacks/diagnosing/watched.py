"""Watches one metric of a run: who updates it, with which inputs, and which values it returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torchmetrics.wrappers import Running

from lightning_evalkit.callbacks.diagnosing.epoch_state import EpochState
from lightning_evalkit.callbacks.diagnosing.given import Given
from lightning_evalkit.callbacks.diagnosing.owners import Owners
from lightning_evalkit.counts import Counts
from lightning_evalkit.diagnosis.rules.scores import GUESSING, RANKING
from lightning_evalkit.diagnosis.seen import SeenAbsence, SeenLastLoader, SeenMetric
from lightning_evalkit.evaluation.base import Evaluation
from lightning_evalkit.state import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torchmetrics import Metric

    from lightning_evalkit.callbacks.diagnosing.given import Facts
    from lightning_evalkit.callbacks.diagnosing.values import ReturnedValues
    from lightning_evalkit.callbacks.parts.method_patch import MethodPatches

OPTIONS = ("average", "threshold", "ignore_index", "top_k", "num_classes", "num_labels", "thresholds")
LOW = (torch.float16, torch.bfloat16)
EXTREMES = {"dim_zero_max", "dim_zero_min"}


class WatchedMetric:
    """Hooks around one metric; ``leave`` removes them."""

    def __init__(
        self,
        path: str,
        metric: Metric | Evaluation,
        values: ReturnedValues,
        facts: Mapping[bool, Facts],
        in_step: Callable[[], bool],
    ) -> None:
        self.metric, self._values, self._in_step = metric, values, in_step
        options = {name: getattr(metric, name) for name in OPTIONS if hasattr(metric, name)}
        self.seen = SeenMetric(path, type(metric).__name__, options, lasting=_is_lasting(metric))
        self._inside = False
        self._given = Given(facts[self.seen.kind.endswith(RANKING)])
        self._handles: list[Any] = []
        self._epoch: EpochState | None = None
        self._loader: tuple[int, EpochState] | None = None
        self.shape: tuple[int, ...] = ()
        """Of what was computed last, if it was several values."""
        self.owners: Owners

    def enter(self, patches: MethodPatches) -> None:
        """Watch, until the patches are removed and ``leave`` is called."""
        self.owners = Owners(self.metric, patches)
        self._handles = [
            self.metric.register_forward_pre_hook(self._before_forward),
            self.metric.register_forward_hook(self._after_forward, always_call=True),
        ]
        patches.place(self.metric, "compute", self._compute)
        if self.seen.kind.startswith(GUESSING) and not isinstance(self.metric, Evaluation | Tally):
            patches.place(self.metric, "update", self._given.update)

    def leave(self) -> None:
        """Take the hooks off."""
        while self._handles:
            self._handles.pop().remove()

    def _before_forward(self, *_: Any) -> None:
        self._inside = True

    def _after_forward(self, _: Any, __: Any, value: Any) -> None:
        self._inside = False
        self.seen.forwards += 1
        self._values.remember(self.seen.path, value)

    def _compute(self, compute: Callable[[], Any]) -> Any:
        value = compute()
        if not self._inside:
            self.seen.computes += 1
            self.seen.computed_in_steps += self._in_step()
            self.shape = tuple(value.shape) if isinstance(value, torch.Tensor) and value.numel() != 1 else ()
            self._values.remember(self.seen.path, value)
        return value

    # ---- at the start and, once, at the end of an epoch

    def mark(self) -> None:
        """An epoch begins: note the state, except of our own metrics, which count on the device."""
        self._epoch = None if isinstance(self.metric, Evaluation | Tally) else EpochState(self.metric)
        self._loader = None

    def mark_loader(self, dataloader: int) -> None:
        """Another dataloader begins; what it will count is told apart only if something was counted before."""
        if not isinstance(self.metric, Evaluation | Tally) and self.metric._update_count:
            self._loader = (dataloader, EpochState(self.metric))

    def read(self, alone: bool, is_logged_as_value: bool) -> None:
        """Read the state before its reset; on a single rank also the value of this epoch alone."""
        self.seen.together = self.owners.together
        self.seen.scores = self._given.read() or self.seen.scores
        if isinstance(self.metric, Evaluation | Tally):
            return
        states = {name: getattr(self.metric, name) for name in self.metric._defaults}
        tensors = {name: state for name, state in states.items() if isinstance(state, torch.Tensor)}
        self.seen.low_precision = tuple(name for name, state in tensors.items() if state.dtype in LOW)
        lists = [part for state in states.values() if isinstance(state, list) for part in state]
        self.seen.list_bytes = max(self.seen.list_bytes, sum(part.numel() * part.element_size() for part in lists))
        if alone and self._epoch is not None:
            if self.seen.together or is_logged_as_value:
                self.seen.truth = _number(self._epoch.value())
            if self._loader is not None and (value := _number(self._loader[1].value())) is not None:
                self.seen.last_loader = SeenLastLoader(self._loader[0], value)
            self._look_for_absent_classes(self._epoch)
            self.seen.table = _table(self._epoch)

    def _look_for_absent_classes(self, epoch: EpochState) -> None:
        present = _present(epoch.states, self.seen.options)
        if present is None or bool(present.all()):
            return
        each, whole = epoch.value(average="none"), _number(epoch.value())
        if each is None or whole is None or each.shape != present.shape:
            return
        truth = float(each[present].float().mean())
        if abs(truth - whole) > 1e-6:
            absent = tuple(torch.nonzero(~present).flatten().tolist())
            self.seen.absent = SeenAbsence(absent, whole, truth)


def _is_lasting(metric: Metric | Evaluation) -> bool:
    """Whether a metric is meant to outlive an epoch: running extremes, and windows over the last updates.

    MinMaxMetric is not: its extremes survive a reset, and without one its inner metric counts all epochs together.
    """
    if isinstance(metric, Evaluation):
        return False
    reductions = {getattr(each, "__name__", "") for each in metric._reductions.values()}
    return isinstance(metric, Running) or (bool(reductions) and reductions <= EXTREMES)


def _number(value: torch.Tensor | None) -> float | None:
    return float(value) if value is not None and value.numel() == 1 else None


def _table(epoch: EpochState) -> Counts | None:
    """The counts of a stock metric of one yes-or-no question."""
    try:
        states = epoch.states()
    except ValueError:
        return None
    cells = [states.get(name) for name in ("tp", "fp", "fn", "tn")]
    if not all(isinstance(cell, torch.Tensor) and cell.numel() == 1 for cell in cells):
        return None
    table = Counts(*(int(cell) for cell in cells if cell is not None))
    return table if table.total else None


def _present(states_of: Callable[[], dict[str, Any]], options: dict[str, Any]) -> torch.Tensor | None:
    """The classes that occur as targets of a macro-averaged metric; None if unknown."""
    classes = options.get("num_classes")
    if options.get("average") != "macro" or not isinstance(classes, int) or options.get("ignore_index") is not None:
        return None
    try:
        states = states_of()
    except ValueError:
        return None
    if {"tp", "fn"} <= states.keys() and isinstance(states["tp"], torch.Tensor) and states["tp"].ndim == 1:
        targets_of: torch.Tensor = states["tp"] + states["fn"]
        return targets_of > 0
    targets = states.get("target")
    if isinstance(targets, list) and targets:
        found = torch.cat([part.flatten() for part in targets]).long().clamp(0, classes - 1)
        return torch.bincount(found, minlength=classes) > 0
    return None
