"""One reported number of an evaluation: a view of the shared tally, without its own state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torchmetrics import Metric
from torchmetrics.utilities import rank_zero_warn
from torchmetrics.utilities.plot import plot_single_or_multi_val

from lightning_evalkit.counts import real_dtype
from lightning_evalkit.errors import InputError, UndefinedWarning
from lightning_evalkit.evaluation.explaining import note_sending
from lightning_evalkit.evaluation.readouts import FromScores
from lightning_evalkit.state.unscripted import Unscripted

NEAR_0, NEAR_1 = 1e-300, 1 - 1e-9
"""Between these values, probabilities distinguish logits of single precision."""

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from lightning_evalkit.counts import Evidence
    from lightning_evalkit.evaluation.readouts import Readout
    from lightning_evalkit.state import EvidenceTally


class Entry(Unscripted, Metric):
    """A number read from the tally; Lightning may log it like any metric."""

    full_state_update = False
    is_differentiable = False
    _forward_cache: Any

    def __init__(self, name: str, tally: EvidenceTally, readout: Readout, zero_division: float) -> None:
        super().__init__(compute_with_cache=False)
        self.is_threshold = isinstance(readout, FromScores) and readout.statistic.is_threshold
        self.name, self.tally, self.readout, self.zero_division = name, tally, readout, zero_division

    def value_of(self, evidence: Evidence) -> Tensor:
        """The value for this evidence of the tally."""
        return self.in_its_precision(self.readout.value(evidence, self.zero_division))

    def in_its_precision(self, value: Tensor) -> Tensor:
        """Single precision, except for a threshold, which that would move to the other side of a score."""
        kind = real_dtype(self.tally.device) if self.is_threshold else torch.float32
        return value.to(kind, copy=True)  # the evidence keeps what it found, and a caller may change what it got

    def compute(self) -> Tensor:
        """The value over all ranks; the first computed entry synchronises for all."""
        evidence = self.tally.compute()
        value = self.value_of(evidence)
        if bool(value.isnan()):
            self.warn_undefined(evidence)
        if self.is_threshold:
            self.warn_if_untold(value, evidence)
        return value

    def warn_undefined(self, evidence: Evidence) -> None:
        """Warn once per evaluation why a value is NaN."""
        if not self.tally.warned_undefined:
            self.tally.warned_undefined = True
            rank_zero_warn(
                f"{self.name} is NaN, because it is 0/0: {self.readout.reason(evidence)}. "
                f"({self.readout.statistic.formula}) EarlyStopping with check_finite=True stops on NaN; "
                "zero_division=0.0 reports 0 instead, as torchmetrics does. This is said once per evaluation.",
                UndefinedWarning,
            )

    def warn_if_untold(self, value: Tensor, evidence: Evidence) -> None:
        """Warn once per evaluation that no probability represents a threshold's logit."""
        readout = self.readout
        if self.tally.warned_untold or not isinstance(readout, FromScores):
            return
        if not NEAR_0 < float(value) < NEAR_1 and not readout.is_told(evidence):
            self.tally.warned_untold = True
            rank_zero_warn(
                f"{self.name} is {float(value)!r}, a probability that several logits share: best_threshold(...) keeps "
                "the logit, and can be declared as a threshold.",
                UserWarning,
            )

    def update(self, *_: Any, **__: Any) -> None:
        """Refuse: the evaluation counts once for all its entries."""
        raise InputError(
            f"{self.name!r} is one entry of an evaluation, and all entries share one state: call update (or forward) "
            "on the evaluation, and make it a separate attribute instead of putting it into a MetricCollection."
        )

    @torch.jit.unused
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse, as ``update`` does."""
        self.update(*args, **kwargs)

    def reset(self) -> None:
        """Reset the shared state: Lightning resets every logged entry at the end of an epoch."""
        self._forward_cache = None
        if self.tally.update_called:
            self.tally.reset_by_trainer = True
        self.tally.reset()

    def __getstate__(self) -> dict[str, Any]:
        note_sending(self.tally)
        return super().__getstate__()

    def _wrap_compute(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        return compute  # the tally caches and synchronises

    def _wrap_update(self, update: Callable[..., Any]) -> Callable[..., Any]:
        return update

    def _apply(self, fn: Callable[[Tensor], Tensor], *_: Any, **__: Any) -> Entry:
        self.tally._apply(fn)
        return self

    def set_dtype(self, dst_type: str | torch.dtype) -> Entry:
        """Do nothing: there is no state to cast."""
        return self

    @property
    def device(self) -> torch.device:
        """The device of the tally."""
        return self.tally.device

    @property
    def update_count(self) -> int:
        """The number of updates of the evaluation."""
        return self.tally.update_count

    @property
    def update_called(self) -> bool:
        """Whether the evaluation was updated."""
        return self.tally.update_called

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override]
        """The direction from the statistics table."""
        return self.readout.statistic.higher_is_better

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Draw one value or several with torchmetrics' own plot."""
        low, high = self.readout.statistic.bounds
        return plot_single_or_multi_val(
            self.compute() if val is None else val,
            ax=ax,
            higher_is_better=self.higher_is_better,
            name=self.name.replace("$", r"\$"),  # a name is text, not mathematics
            lower_bound=low,
            upper_bound=high if high < float("inf") else None,
        )

    def extra_repr(self) -> str:
        """The reported statistic."""
        return self.name
