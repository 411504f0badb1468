"""The state of a declaration: adds batches on the device, and merges ranks once.

A failed update changes nothing, and a compiled update needs one graph.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torchmetrics.utilities import rank_zero_warn
from torchmetrics.utilities.exceptions import TorchMetricsUserError

from lightning_evalkit.counts import is_deferred
from lightning_evalkit.errors import InputError, MixedScoresWarning
from lightning_evalkit.inputs.arrays import as_tensors
from lightning_evalkit.state.global_totals import GlobalTotals
from lightning_evalkit.state.held import HeldState

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from lightning_evalkit.counts import BatchTotals, Counter, Counts, Ledger, Totals


class Tally(HeldState):
    """Counts of one declaration; ``compute`` returns their ``Totals`` over all ranks.

    A metric derives from it and overrides only ``value_of``.
    """

    without_counts: ClassVar[str] = "nothing is counted here: an evaluation has counts."
    _computes_otherwise: ClassVar[bool] = False
    """Whether a class derived from a metric overrides ``compute`` without ``value_of``."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        owner = next(each for each in cls.__mro__ if "compute" in vars(each))  # perhaps a class that is no metric
        cls._computes_otherwise = "value_of" not in vars(owner)

    def __init__(self, counter: Counter, title: str | None = None, **kwargs: Any) -> None:
        super().__init__(counter, title, **kwargs)
        self._batches: list[BatchTotals] | None = None  # forward collects them here, not in the state

    @property
    def counts(self) -> Counts:
        """The counts over all ranks, readable also when ``compute`` raises; refused if nothing is counted."""
        raise InputError(self.without_counts)

    @property
    def global_totals(self) -> Totals:
        """The totals over all ranks; readable also when ``compute`` raises because of invalid samples."""
        return self._globally().totals

    @property
    def global_ledger(self) -> Ledger:
        """The bookkeeping over all ranks."""
        return self._globally().ledger

    def value_of(self, totals: Totals) -> Any:
        """Compute the value of totals."""
        return totals

    # ---- adding

    def update(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> None:
        """Count a batch. If it raises, nothing of the batch was counted."""
        if preds.device != self._device:
            self.refuse_elsewhere(preds)
        if is_deferred(preds) or not self._put_off(preds, target, sample_weight):
            self.keep(self.counter.count(preds, target, sample_weight))

    def _put_off(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None) -> bool:
        """Add a batch to the pending ones, if that is possible and nothing else sees the state."""
        pending = self._pending
        if pending is None or sample_weight is not None or self._batches is not None:
            return False
        with pending.lock:
            batch = pending.copied(preds, target) if self.storage.is_unheld(self.__dict__) else None
            if batch is not None:
                self.__dict__["_computed"] = None  # first, as the run may be interrupted anywhere
                pending.add(batch)
        if batch is None or pending.is_full:
            self.count_pending()
        return batch is not None

    def keep(self, totals: BatchTotals) -> None:
        """Add the totals of a batch to the state, or pass them to ``forward``, which adds them itself."""
        if self._batches is None:
            self.storage.add(self.__dict__, totals)
        else:
            self._batches.append(totals)

    def refuse_elsewhere(self, preds: Tensor) -> None:
        """Refuse a batch on another device than the state's."""
        if preds.device != self._device:
            raise InputError(
                f"expected tensors on {self._device}, where the metric is, got {preds.device}: "
                f"call .to({str(preds.device)!r}) on the metric, or make it an attribute of the LightningModule."
            )

    def _wrap_update(self, update: Callable[..., None]) -> Callable[..., None]:
        """Do torchmetrics' bookkeeping after success instead of before, and none while a graph is traced."""

        @functools.wraps(update)
        def wrapped(*args: Any, **kwargs: Any) -> None:
            if self._is_synced:
                raise TorchMetricsUserError("The Metric is synced: call unsync() before update().")
            if torch.compiler.is_compiling():
                update(*args, **kwargs)
            else:
                tensors = None
                try:
                    update(*args, **kwargs)
                except Exception as failure:
                    tensors = as_tensors(update, failure, self.counter.task, self._device, *args, **kwargs)
                    if tensors is None:
                        raise
                if tensors is not None:  # arrays or lists
                    wrapped(*tensors.args, **tensors.kwargs)
            self.__dict__["_computed"] = None

        return wrapped

    @torch.jit.unused
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Count a batch and return the value of this batch alone."""
        totals = self.batch_totals(*args, **kwargs)
        if self._computes_otherwise:
            value = self.reading(totals.dense(self.counter.layout.integers.width)).compute()
        else:
            value = self.value_of(totals)
        self.__dict__["_forward_cache"] = value
        return value

    def batch_totals(self, *args: Any, **kwargs: Any) -> Totals:
        """Count a batch and return the totals of this batch alone (over all ranks with ``dist_sync_on_step``)."""
        batches: list[BatchTotals] = []
        self.__dict__["_batches"] = batches
        try:
            self.update(*args, **kwargs)
        finally:
            self.__dict__["_batches"] = None
        with torch.inference_mode(False):
            for each in batches:
                self.storage.add_unheld(self.__dict__, each)
            totals = batches[0].tensors() if len(batches) == 1 else self._sum(batches)
        synced = self.dist_sync_on_step and self.distributed_available_fn()
        if synced or is_deferred(totals.integers):  # only CPU code reads values from increments
            totals = totals.dense(self.counter.layout.integers.width)
        return self.storage.over_ranks(totals, self.process_group, self.dist_sync_fn) if synced else totals

    def _sum(self, batches: list[BatchTotals]) -> Totals:
        """The totals of a derived class's update, which may count several batches or none."""
        states = {"_device": self._device, **self.storage.empty(self._device)}
        for each in batches:
            self.storage.add(states, each)
        return self.storage.read(states)

    # ---- reading

    def compute(self) -> Any:
        """The value over all ranks."""
        return self.value_of(self._valid().totals)

    def _valid(self) -> GlobalTotals:
        """The totals over all ranks; raise if samples of any rank were not as declared."""
        joined = self._globally()
        if joined.ledger.invalid:
            raise InputError(
                f"{joined.ledger.invalid} samples counted by {self.title} were not what was declared "
                f"({self.counter.task}): NaN scores, values or targets out of range. They are in no count; .counts has "
                "the others. Move a batch to the CPU and update there to see which, or call reset() to start again."
            )
        return joined

    def _wrap_compute(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        """Do not wrap: ``compute`` merges ranks itself, without touching this rank's state."""
        return compute

    def _globally(self) -> GlobalTotals:
        """The totals and bookkeeping over all ranks, merged once between two updates (torchmetrics' cache)."""
        if self._computed is not None:
            found: GlobalTotals = self._computed
            return found
        totals = self._over_ranks(self.sync_on_compute)
        joined = GlobalTotals(totals, self.counter.ledger(totals))
        self._warn(joined.ledger)
        if self.compute_with_cache:
            self._computed = joined
        return joined

    def _over_ranks(self, should_sync: bool) -> Totals:
        if should_sync and not self._is_synced and self.distributed_available_fn():
            return self.storage.over_ranks(self.totals, self.process_group, self.dist_sync_fn)
        self.count_pending()
        return self.storage.copied(self.__dict__)

    def _warn(self, ledger: Ledger) -> None:
        if ledger.guessed_logits and ledger.guessed_probabilities:
            rank_zero_warn(
                f"{self.title} guessed that scores are logits in {ledger.guessed_logits} batches and probabilities in "
                f"{ledger.guessed_probabilities}, so they were cut at different places: declare inputs='logits' or "
                "inputs='probabilities'.",
                MixedScoresWarning,
            )
        if not ledger.updates and not self.update_called:
            rank_zero_warn(
                f"The ``compute`` method of metric {self.title} was called before any ``update``: nothing was counted.",
                UserWarning,
            )
