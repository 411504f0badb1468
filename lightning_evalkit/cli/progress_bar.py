"""A progress bar that stays on one line of a terminal of 80 columns."""

from __future__ import annotations

from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from lightning.pytorch.callbacks import ProgressBar, RichProgressBar
from lightning.pytorch.callbacks.progress.rich_progress import ProcessingSpeedColumn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lightning.pytorch import Callback, LightningModule, Trainer


BAR, WIDE = 10, 100
"""The width of the bar, which says less than the numbers, and of a terminal with room for everything."""


class OneLineProgressBar(RichProgressBar):
    """Shows validation's numbers, then the loss, cut off where the terminal ends."""

    def configure_columns(self, trainer: Trainer) -> list[Any]:
        """Lightning's columns with a short bar; a narrow terminal has room for the numbers instead of the speed."""
        columns: list[Any] = super().configure_columns(trainer)
        if get_terminal_size().columns < WIDE:
            columns = [column for column in columns if not isinstance(column, ProcessingSpeedColumn)]
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
        """Put validation first, as training's numbers are optimistic; drop the version, which names the folder."""
        shown: dict[str, Any] = super().get_metrics(trainer, pl_module)
        shown.pop("v_num", None)
        return {
            name: shown[name] for name in sorted(shown, key=lambda name: (not name.startswith("val"), "loss" in name))
        }


def _cut_off(text: Any) -> Any:
    """Cut a rich text off, which would otherwise wrap into several lines."""
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def progress_bars(config: Mapping[str, Any]) -> list[Callback]:
    """This bar as a list, or an empty list if the configuration has another one or disables it."""
    given = config.get("callbacks") or []
    has_one = any(isinstance(each, ProgressBar) for each in (given if isinstance(given, list) else [given]))
    unwanted = config.get("enable_progress_bar") is False or config.get("barebones")
    return [] if has_one or unwanted else [OneLineProgressBar()]
