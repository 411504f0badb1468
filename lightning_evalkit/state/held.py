"""A state that a metric holds: read, reset, merged, moved and saved.

It replaces the handling of states in torchmetrics' base class: casts do not touch the state, a checkpoint holds it
once, and everything but an update replaces it.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import torch
from torchmetrics.utilities.exceptions import TorchMetricsUserError

from lightning_evalkit.counts import Counter, PendingBatches, Totals, pending_for, real_dtype
from lightning_evalkit.errors import InputError
from lightning_evalkit.inputs.declaration import refuse_large
from lightning_evalkit.state import checkpoint
from lightning_evalkit.state.declared import Declared
from lightning_evalkit.state.storage import RowStorage, Storage, SumStorage
from lightning_evalkit.state.unscripted import Unscripted

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor
    from torchmetrics import Metric
    from typing_extensions import Self


class HeldState(Unscripted, Declared):
    """The totals of one declaration in the attributes of a metric."""

    is_differentiable = False
    full_state_update = False
    _computed: Any
    _forward_cache: Any
    _pending: PendingBatches | None = None

    def __init__(self, counter: Counter, title: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.counter = counter
        self.title = title or type(self).__name__
        refuse_large(counter.layout.size, f"{self.title} of {counter.task}")
        by_rows = counter.task.samplewise or getattr(counter, "by_rows", False)
        self.storage: Storage = (RowStorage if by_rows else SumStorage)(counter)
        self._local: dict[str, Any] | None = None
        with torch.inference_mode(False):  # a state born in inference mode could not be changed outside of it
            for name, default in self.storage.empty(self._device).items():
                self.add_state(name, default, dist_reduce_fx=self.storage.reduction)
        self._device = self.totals.integers.device  # the default device may lack its index
        self.__dict__["_pending"] = pending_for(counter)

    @property
    def totals(self) -> Totals:
        """The state (this rank's, or all ranks' between ``sync`` and ``unsync``)."""
        self.count_pending()
        return self.storage.read(self.__dict__)

    def count_pending(self) -> None:
        """Count the batches that were only copied so far. Whatever reads or replaces the state calls this first."""
        if self._pending:
            with self._pending.lock:  # a thread may read while another updates
                self._pending.count_into(lambda: self.storage.read(self.__dict__)[:2])

    @property
    def _defaults(self) -> dict[str, Any]:
        """The empty states by name; torchmetrics lists the names before it reads states, so pending batches count."""
        self.count_pending()
        defaults: dict[str, Any] = self.__dict__["_defaults"]
        return defaults

    @_defaults.setter
    def _defaults(self, defaults: dict[str, Any]) -> None:
        self.__dict__["_defaults"] = defaults

    def __setattr__(self, name: str, value: Any) -> None:
        """Count pending batches into the state that is replaced, as a stock MetricCollection does for its groups."""
        if self._pending and name in self.storage.names:
            self.count_pending()
        super().__setattr__(name, value)

    def _states(self) -> dict[str, Any]:
        self.count_pending()
        return {name: self.__dict__[name] for name in self.storage.names}

    @property
    def update_count(self) -> int:
        """The number of updates since the last reset, compiled ones included (read from the device)."""
        return self.storage.updates(self.__dict__) + len(self._pending or ())

    @property
    def update_called(self) -> bool:
        """Whether there was an update since the last reset."""
        return self.update_count > 0

    # ---- synchronising by hand

    def sync(
        self,
        dist_sync_fn: Callable[..., list[Tensor]] | None = None,
        process_group: Any = None,
        should_sync: bool = True,
        distributed_available: Callable[[], bool] | None = None,
    ) -> None:
        """Make the state that of all ranks, by one collective, until ``unsync``."""
        if self._is_synced and should_sync:
            raise TorchMetricsUserError("The Metric has already been synced.")
        available = distributed_available or self.distributed_available_fn
        if should_sync and available():
            group, gather = process_group or self.process_group, dist_sync_fn or self.dist_sync_fn
            joined = self.storage.over_ranks(self.totals, group, gather)
            self._local, self._is_synced, self._computed = self._states(), True, None
            with torch.inference_mode(False):
                self.storage.write(self.__dict__, cloned(joined, self._device))

    def unsync(self, should_unsync: bool = True) -> None:
        """Make the state this rank's again."""
        if not should_unsync:
            return
        if self._local is None:
            raise TorchMetricsUserError("The Metric has already been un-synced.")
        self.__dict__.update(self._local)
        self._local, self._is_synced, self._computed = None, False, None

    # ---- the monoid

    def reset(self) -> None:
        """Start a new, empty state; references to the old one keep its counts."""
        self._forget_pending()
        with torch.inference_mode(False):
            self.__dict__.update(self.storage.empty(self._device))
        self._forget()

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add the counts of another metric of the same declaration, or its ``metric_state``."""
        if self._is_synced:
            raise TorchMetricsUserError("The Metric is synced: call unsync() before merge_state().")
        if isinstance(incoming_state, HeldState):
            if incoming_state.counter.task != self.counter.task:
                found, expected = (each.counter.task.described() for each in (incoming_state, self))
                differences = "; ".join(checkpoint.described_differences(found, expected, "there"))
                raise InputError(
                    f"expected a state of {self.counter.task}, got one of {incoming_state.counter.task}: "
                    f"only counts of one declaration can be merged ({differences})."
                )
            layouts = (each.counter.layout.described() for each in (incoming_state, self))
            checkpoint.refuse_other_layout(incoming_state.title, *layouts)
            incoming = incoming_state.totals
        elif isinstance(incoming_state, dict) and incoming_state.keys() == self._defaults.keys():
            incoming = self.storage.read(incoming_state)
            self._refuse_unfit(incoming)
        else:
            raise InputError(
                "expected a metric of this package or the metric_state of one with this declaration, "
                f"got {type(incoming_state).__name__}."
            )
        self.count_pending()
        with torch.inference_mode(False):
            added = self.storage.empty(self._device)
            self.storage.add(added, cloned(incoming, self._device))
            self.__dict__.update(self.storage.sum(self.__dict__, added))
        self._computed = None

    def __getstate__(self) -> dict[str, Any]:
        """A copy has a place of its own for pending batches; those of the original are counted."""
        self.count_pending()
        return {**super().__getstate__(), "_pending": pending_for(self.counter)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Give a copy its own state: not shared with another process, and never made in inference mode."""
        super().__setstate__(state)
        with torch.inference_mode(False):
            self.__dict__.update(self.storage.sum(self.storage.empty(self._device), self.__dict__))
            self._local = self._local and self.storage.moved(self._local, self._device)

    def clone(self) -> Self:
        """Return a copy with its own state."""
        with torch.inference_mode(False):
            return deepcopy(self)

    def reading(self, totals: Totals) -> Self:
        """Return a copy that reads these totals, asks no other rank, and copies no counts."""
        copy = type(self).__new__(type(self))
        super(HeldState, copy).__setstate__(self.__getstate__())
        copy._refuse_unfit(totals)
        copy.storage.write(copy.__dict__, totals)
        copy._forget()
        copy.sync_on_compute = False
        return copy

    def load_totals(self, totals: Totals | None) -> None:
        """Resume from saved totals; keep the current state if there are none."""
        if totals is not None:
            self._refuse_unfit(totals)
            self._forget_pending()
            with torch.inference_mode(False):
                self.storage.write(self.__dict__, cloned(totals, self._device))
            self._forget()

    def _refuse_unfit(self, totals: Totals) -> None:
        found = [0 if part is None else part.shape[-1] if part.ndim else 1 for part in totals[:2]]
        expected = [cells.width for cells in self.counter.layout]
        if found != expected or totals.integers.is_floating_point():
            raise InputError(
                f"expected a state of {expected[0]} integers and {expected[1]} reals for {self.title}, got {found[0]} "
                f"({totals.integers.dtype}) and {found[1]}: it was not saved by this metric, or was changed since."
            )

    def _forget_pending(self) -> None:
        if self._pending:
            with self._pending.lock:
                self._pending.clear()

    def _forget(self) -> None:
        self._forward_cache = self._computed = self._local = None
        self._is_synced = False

    # ---- moving and saving

    def _apply(self, fn: Callable[[Tensor], Tensor], *_: Any, **__: Any) -> Self:
        """Follow a move to another device, never a cast: counts are exact whatever the model's precision."""
        device = fn(torch.empty(0, dtype=torch.int64, device=self._device)).device
        if device != self._device:
            with torch.inference_mode(False):
                self._defaults.update(self.storage.empty(device))  # by now nothing is pending
                self.__dict__.update(self.storage.moved(self.__dict__, device))
                self._local = None if self._local is None else self.storage.moved(self._local, device)
            self._device = device
            self._computed = self._forward_cache = None
        return self

    def set_dtype(self, dst_type: str | torch.dtype) -> Self:
        """Do nothing: counts are int64 and weighted sums float64, whatever the model's precision."""
        return self

    def state_dict(  # type: ignore[override]
        self, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """The state, if ``persistent``, under stable names and with its declaration."""
        entries: dict[str, Any] = torch.nn.Module.state_dict(
            self,
            destination=destination,  # type: ignore[arg-type]  # which is optional
            prefix=prefix,
            keep_vars=keep_vars,
        )
        if any(self._persistent.values()):
            saved = checkpoint.saved(self.totals, self.counter)
            entries.update({prefix + name: entry for name, entry in saved.items()})
        return entries

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        try:
            self.load_totals(checkpoint.unpack(state_dict, prefix, self.counter))
        except InputError as refused:
            error_msgs.append(str(refused))
        torch.nn.Module._load_from_state_dict(
            self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


def cloned(totals: Totals, device: torch.device | None = None) -> Totals:
    """A copy, on another device in the precision of that device."""
    integers, reals = totals.integers, totals.reals
    if reals is not None:
        reals = reals.to(device or reals.device, real_dtype(device or reals.device), copy=True)
    return Totals(integers.to(device or integers.device, copy=True), reals)
