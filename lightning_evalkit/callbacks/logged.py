"""The numbers of an epoch through ``self.log``: joined over ranks already, and under names that nobody else logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightning.fabric.utilities.exceptions import MisconfigurationException
from torchmetrics import Metric

from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lightning.pytorch import LightningModule, Trainer
    from torch import Tensor

OTHERWISE = (
    "Evaluate logs it too: give its evaluation a prefix (prefix='mine_' is logged as 'val/mine_accuracy'), or log "
    "something else there."
)


class Joined(Metric):
    """A number over all ranks.

    Of plain tensors Lightning would advise to join them once more, and would average two of one name in silence.
    """

    def __init__(self, value: Tensor) -> None:
        super().__init__(sync_on_compute=False)
        self.value = value
        self.update()  # or computing would warn

    def update(self) -> None:
        """Nothing is added."""

    def compute(self) -> Tensor:
        """The number."""
        return self.value


def log(module: LightningModule, values: Mapping[str, Tensor], shown: Collection[str]) -> None:
    """Log once per epoch, and show some in the progress bar; names have the suffix of their dataloader already."""
    for name, value in values.items():
        module.log(
            name,
            Joined(value),
            prog_bar=name in shown,
            add_dataloader_idx=False,
            batch_size=1,  # which Lightning wants to be told where a step takes an iterator
            metric_attribute="Evaluate",  # of a metric that is no attribute of the module
        )


def refuse_taken(trainer: Trainer, names: Collection[str]) -> None:
    """Names that something else has logged in this epoch are refused; Lightning would keep the last of the two."""
    results: Any = trainer._results
    for logged in results.values():
        if not logged.has_reset and (taken := {*results._forked_name(logged, on_step=False)} & {*names}):
            raise InputError(f"{min(taken)!r} was logged in {logged.meta.fx.partition('.')[0]}, and {OTHERWISE}")


def explain_refusal(exception: BaseException, names: Collection[str]) -> None:
    """Names that the module logs later in the same hook are refused by Lightning, which cannot say who was first."""
    text = str(exception)
    if isinstance(exception, MisconfigurationException) and any(f"self.log({name}," in text for name in names):
        exception.args = (f"{text}: {OTHERWISE}",)
