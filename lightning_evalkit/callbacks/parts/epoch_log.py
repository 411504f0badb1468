"""Logs the numbers of an epoch, already computed across ranks, through ``self.log`` under unused names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmetrics import Metric

from lightning_evalkit.errors import InputError
from lightning_evalkit.trainer import is_misconfiguration, logged_names

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from torch import Tensor

    from lightning_evalkit.trainer import LightningModule, Trainer

OTHERWISE = (
    "Evaluate logs it too: give its evaluation a prefix (prefix='mine_' is logged as 'val/mine_accuracy'), or log "
    "something else there."
)


class Precomputed(Metric):
    """A number that is already computed across ranks.

    For a plain tensor Lightning would advise ``sync_dist=True``, and would silently average two of the same name.
    """

    def __init__(self, value: Tensor) -> None:
        super().__init__(sync_on_compute=False)
        self.value = value
        self.update()  # or computing would warn

    def update(self) -> None:
        """Add nothing."""

    def compute(self) -> Tensor:
        return self.value


def log(module: LightningModule, values: Mapping[str, Tensor], shown: Collection[str]) -> None:
    """Log once per epoch; names include the suffix of their dataloader already."""
    for name, value in values.items():
        module.log(
            name,
            Precomputed(value),
            prog_bar=name in shown,
            add_dataloader_idx=False,
            batch_size=1,  # Lightning needs a batch size if a step takes an iterator
            metric_attribute="Evaluate",  # for a metric that is not an attribute of the module
        )


def refuse_taken(trainer: Trainer, names: Collection[str]) -> None:
    """Refuse names that something else has logged in this epoch; Lightning would keep the last of the two."""
    taken = sorted((name, hook) for name, hook in logged_names(trainer) if name in names)
    if taken:
        raise InputError(f"{taken[0][0]!r} was logged in {taken[0][1]}, and {OTHERWISE}")


def explain_refusal(exception: BaseException, names: Collection[str]) -> None:
    """Add the remedy to Lightning's error about a name that the module logs later in the same hook."""
    text = str(exception)
    if is_misconfiguration(exception) and any(f"self.log({name}," in text for name in names):
        exception.args = (f"{text}: {OTHERWISE}",)
