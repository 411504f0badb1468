"""A progress bar that stays on one line of a terminal of 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightning.pytorch.callbacks import ProgressBar, RichProgressBar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lightning.pytorch import Callback, LightningModule, Trainer


BAR = 10
"""Columns of the bar itself, which say less than the numbers behind it."""


class OneLineProgressBar(RichProgressBar):
    """Shows the loss and what validation found, cut off where the terminal ends."""

    def configure_columns(self, trainer: Trainer) -> list[Any]:
        """Lightning's columns with a short bar."""
        columns: list[Any] = super().configure_columns(trainer)
        for column in columns:
            if hasattr(column, "bar_width"):
                column.bar_width = BAR
        return columns

    def _init_progress(self, trainer: Trainer) -> None:
        super()._init_progress(trainer)
        numbers: Any = self._metric_component
        if numbers is not None:
            numbers.render = lambda task: _cut_off(type(numbers).render(numbers, task))

    def get_metrics(self, trainer: Trainer, pl_module: LightningModule) -> dict[str, Any]:
        """Validation first: training's numbers are in its favour. The number of the version is in the run's folder."""
        shown: dict[str, Any] = super().get_metrics(trainer, pl_module)
        shown.pop("v_num", None)
        first = [name for name in shown if name.startswith("val")]
        return {name: shown[name] for name in [*first, *(name for name in shown if name not in first)]}


def _cut_off(text: Any) -> Any:
    """The same text of rich, which would be broken into as many lines as it needs."""
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def progress_bars(config: Mapping[str, Any]) -> list[Callback]:
    """This bar, for a trainer of such a configuration; none where it has another, or is to have none."""
    given = config.get("callbacks") or []
    has_one = any(isinstance(each, ProgressBar) for each in (given if isinstance(given, list) else [given]))
    unwanted = config.get("enable_progress_bar") is False or config.get("barebones")
    return [] if has_one or unwanted else [OneLineProgressBar()]
