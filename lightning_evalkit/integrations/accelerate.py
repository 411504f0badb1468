"""Accelerate: every process counts its own rows, and one all-reduce sums them; nothing is gathered.

Accelerate fills up the last batch with repeats, so that all processes get batches of one size. Its
``gather_for_metrics`` cuts them off after gathering every prediction; here each process leaves out its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightning_evalkit.errors import InputError
from lightning_evalkit.integrations.counting import Counting

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.evaluation.base import Evaluation


class AcceleratorMetrics:
    """An evaluation in an Accelerate loop: ``update`` with every batch of a prepared loader, ``compute`` at its end.

    It leaves out the rows that Accelerate repeats in the last batch, so the numbers equal those of one process. Call
    ``compute`` on all processes: it returns plain floats and takes one all-reduce. The next ``update`` begins the next
    evaluation. Call ``reset`` after an interrupted evaluation.
    """

    def __init__(self, evaluation: Evaluation, accelerator: Any) -> None:
        self._counting = Counting(evaluation, over_ranks=True)
        self._counting.evaluation.to(accelerator.device)
        self._accelerator = accelerator

    @property
    def evaluation(self) -> Evaluation:
        """The counts of the last evaluation, or of the current one so far."""
        return self._counting.evaluation

    def update(self, preds: Tensor, target: Tensor, *sample_weight: Tensor) -> None:
        """Count the rows of this process."""
        rows = len(target)
        if self._accelerator.num_processes > 1:
            rows = self._own_rows(rows)
        self._counting.count(preds, target, *sample_weight, rows=rows)

    def compute(self) -> dict[str, float]:
        """Every number over all processes, by one collective."""
        return self._counting.values()

    def reset(self) -> None:
        """Forget all counts."""
        self._counting.reset()

    def _own_rows(self, rows: int) -> int:
        """The number of rows of this process's batch that are not repeats, which come last over all processes."""
        loader = self._accelerator.gradient_state.active_dataloader
        if loader is None:
            raise InputError(
                "expected batches of a loader that accelerator.prepare has returned: with another one, every process "
                "counts all rows."
            )
        if not loader.end_of_dataloader:
            return rows
        real = self._last_rows(loader, rows * self._accelerator.num_processes)
        before = int(self._accelerator.process_index) * rows
        return min(max(real - before, 0), rows)

    def _last_rows(self, loader: Any, together: int) -> int:
        """The number of rows in the last batch of all processes that are not repeats."""
        sampler, dataset = getattr(loader, "batch_sampler", None), loader.dataset
        if loader.remainder > 0 and not hasattr(sampler, "even_batches"):  # one process reads and hands out
            return int(loader.remainder)
        if getattr(sampler, "drop_last", False) or not getattr(sampler, "even_batches", True):
            return together
        source: Any = (
            dataset.dataset if hasattr(dataset, "num_processes") else getattr(sampler, "batch_sampler", sampler)
        )
        try:
            return len(getattr(source, "sampler", source)) % together or together
        except (TypeError, NotImplementedError):
            self._counting.warn_once(
                "expected a data set with a length: without one the repeated rows of the last batch are unknown and "
                "are counted. Prepare with dispatch_batches=True, or give the data set a length."
            )
            return together
