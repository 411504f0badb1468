"""What a metric declares when it is made is fixed: its counts would mean something else halfway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from torchmetrics import Metric

from lightning_evalkit.errors import DeclarationError

if TYPE_CHECKING:
    from lightning_evalkit.state.storage import Storage

FIXED = frozenset(
    (
        *("threshold", "thresholds", "ignore_index", "top_k", "beta", "squared", "normalization", "n_bins"),
        *("max_fpr", "fpr_range", "multiclass_mode", "multidim_average", "num_classes", "num_labels", "num_groups"),
        *("min_precision", "min_recall", "min_sensitivity", "min_specificity"),
    )
)
"""The arguments that decide what is counted, or that a metric has turned into something else."""


class Declared(Metric):
    """Refuses attributes and states that a metric would ignore in silence."""

    own_states: ClassVar[tuple[str, ...]] = ()
    """The states of a class that it resets, merges and saves itself."""
    storage: Storage

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIXED and name in self.__dict__:
            kind = type(self).__name__
            raise DeclarationError(
                f"expected {name} when the metric is made, got it afterwards: what was counted would mean something "
                f"else. Make another metric: {kind}(..., {name}={value!r})."
            )
        if name.startswith(("integers_", "reals_")) and name not in self.storage.names:
            raise DeclarationError(
                f"{type(self).__name__} was given the state of a metric that counts otherwise: leave compute_groups "
                "of the MetricCollection out, and metrics that can share a state find each other."
            )
        super().__setattr__(name, value)

    def add_state(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Add a state of this package; others would be missing in resets, merges, checkpoints and over ranks."""
        if name not in (*self.storage.names, *self.own_states):
            raise DeclarationError(
                f"expected no further state, got {name!r}: {type(self).__name__} has one state for all it counts. Put "
                f"{name!r} into a torchmetrics.Metric of your own that holds this metric."
            )
        super().add_state(name, *args, **kwargs)
