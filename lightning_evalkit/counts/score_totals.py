"""The layout of scores in a state, and how to read it: numbers, a histogram per question, sums over probabilities.

The histogram holds the bins of "no" and then those of "yes" for each question, weighted if declared. ``doubtful``
counts elements whose bin is in doubt; with bfloat16 bins, those that no bfloat16 represents.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lightning_evalkit.counts import calibration_sums
from lightning_evalkit.counts.bins import BFloat16Bins, Bins, bins_of
from lightning_evalkit.counts.counter import Ledger
from lightning_evalkit.counts.counts import real_dtype
from lightning_evalkit.counts.decisions import refuse_endless
from lightning_evalkit.counts.layout import Cells, Layout
from lightning_evalkit.counts.odds import reach
from lightning_evalkit.counts.score_counts import Edges, Limits, LimitsAt, ScoreCounts
from lightning_evalkit.counts.sorted_keys import counted
from lightning_evalkit.inputs import Multiclass, Multilabel

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts.counter import Totals
    from lightning_evalkit.counts.numpy_path import Array
    from lightning_evalkit.inputs import Binning, Declaration


class ScoreTotals:
    """The layout of the scores of a declaration, and readers of its totals."""

    task: Any

    def __init__(self, task: Declaration) -> None:
        assert task.binning is not None  # declared with curves
        self.task, self.kind = task, task.binning.kind
        self.is_multiclass, self.labels = isinstance(task, Multiclass), isinstance(task, Multilabel)
        self.num_curves = (
            task.classes if isinstance(task, Multiclass) else task.num_labels if isinstance(task, Multilabel) else 1
        )
        self.judged = 1 if self.is_multiclass else self.num_curves
        self.guesses = task.inputs == "auto"
        self.unasked = tuple(k for k in task.ignored if self.is_multiclass and 0 <= k < self.num_curves)
        # Guessed scores are stored as probabilities; logits of classes as log-odds.
        self.score_kind = "logits" if task.inputs == "logits" else "probabilities"
        self.bins: Bins = bins_of(task.binning, self.score_kind)
        self.computed = self.is_multiclass and self.score_kind == "logits"
        self.cells = 2 * self.num_curves * self.bins.number
        doubts, weighted = int(self.computed or self.kind == "bfloat16"), int(task.weighted)
        self.leading = Cells(doubtful=doubts, guessed=2 * self.guesses)  # others are counted with the histogram
        self.books = self.leading + Cells(valid=weighted, weightless=weighted, ignored=1, invalid=1, updates=1)
        bins = task.binning.calibration_bins
        self.sums = calibration_sums.cells_of(self.judged, bins) if task.binning.sums else Cells()
        weighed = self.cells if task.weighted else 0
        integers = self.books + Cells(histogram=self.cells - weighed)
        self.layout = Layout(integers, Cells(histogram=weighed) + self.sums)

    def scores(self, totals: Totals) -> ScoreCounts:
        """The histograms; for a single batch only the filled bins, unless a user gave them."""
        valid = doubt = updates = 0
        if self.leading.sizes["doubtful"] or self.task.weighted:
            valid, doubt, updates = map(sum, self.books.numbers(totals.integers, "valid", "doubtful", "updates"))
        device, places = totals.integers.device, None
        if totals.increments is None or self.kind == "cuts":
            no, yes = self._histograms(totals.dense(self.layout.integers.width))
        else:
            places, no, yes = self._filled(totals.increments)
        unit = torch.finfo(real_dtype(device)).eps / 2
        apart = 0 if not doubt else reach(self.num_curves, self.bins.number, unit) if self.kind == "fine" else 1
        return ScoreCounts(
            yes,
            no,
            partial(self._limits_at, self.kind == "bfloat16" and doubt > 0, histogram_device(device), places),
            given=self.kind == "cuts",
            reach=0 if self.kind == "bfloat16" else apart,
            error=(valid + updates) * unit if self.task.weighted else 0.0,
            unasked=self.unasked,
            without_empty=places is not None,
        )

    def _limits_at(self, others: bool, device: torch.device, places: Tensor | None) -> Limits | LimitsAt:
        limits = limits_of(self.task.binning, self.score_kind, others, device)
        return limits if places is None else limits.at(places)

    def _histograms(self, totals: Totals) -> tuple[Tensor, ...]:
        """The numbers of no and yes in each bin, of shape (questions, bins)."""
        if self.task.weighted and totals.reals is not None:
            kept = self.layout.reals.read(totals.reals, "histogram")
            refuse_endless(kept.unflatten(-1, (-1, 2 * self.bins.number)))
        else:
            kept = self.layout.integers.read(totals.integers, "histogram")
        parts: tuple[Tensor, ...] = kept.to(histogram_device(kept.device)).view(-1, 2, self.bins.number).unbind(1)
        return parts

    def _filled(self, increments: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The filled bins of a batch in rising order, and the numbers of no and yes in each."""
        places = increments.numpy() - self.books.width
        if self.num_curves == 1:
            return self._of_one_question(places)
        rows, bins = np.divmod(places, self.bins.number)
        occur = np.zeros(self.bins.number, dtype=np.bool_)
        occur[bins] = True
        found = np.flatnonzero(occur)
        number = np.empty(self.bins.number, dtype=np.int64)  # of each bin among those
        number[found] = np.arange(len(found))
        cells = np.bincount(rows * len(found) + number[bins], minlength=2 * self.num_curves * len(found))
        of_no, of_yes = torch.from_numpy(cells).view(self.num_curves, 2, len(found)).unbind(1)
        return torch.from_numpy(found), of_no, of_yes

    def _of_one_question(self, places: Array) -> tuple[Tensor, Tensor, Tensor]:
        """The same by a sort, as most of the bins are empty."""
        keys = places * 2
        keys -= (places >= self.bins.number) * (2 * self.bins.number - 1)  # those of yes lie behind all of no
        filled, *parts = counted(keys)
        of_yes, of_no = (torch.from_numpy(part.reshape(1, -1)) for part in parts)
        return torch.from_numpy(filled), of_no, of_yes

    def tables(self, totals: Totals) -> list[ScoreCounts]:
        """All questions in one table."""
        return [self.scores(totals)]

    def calibration(self, totals: Totals) -> calibration_sums.Calibration:
        """The sums over probabilities."""
        assert totals.reals is not None  # declared
        return calibration_sums.unpack(totals.reals, self.layout.reals)

    def ledger(self, totals: Totals) -> Ledger:
        """The bookkeeping, in samples."""
        guessed, ignored, invalid, updates = self.books.numbers(
            totals.integers, "guessed", "ignored", "invalid", "updates"
        )
        probabilities, logits = guessed or (0, 0)
        per_sample = self.num_curves if self.is_multiclass else 1
        return Ledger(
            updates=sum(updates),
            ignored=sum(ignored) // per_sample,
            invalid=sum(invalid) // per_sample,
            guessed_logits=logits,
            guessed_probabilities=probabilities,
        )


def histogram_device(device: torch.device) -> torch.device:
    """The device to read histograms on: rates and areas need double precision."""
    return device if real_dtype(device) == torch.float64 else torch.device("cpu")


@lru_cache(maxsize=8)
def limits_of(binning: Binning, score_kind: str, others: bool, device: torch.device) -> Limits:
    """The limits of bins on a device; with ``others``, bfloat16 bins may hold other numbers too."""
    bins = BFloat16Bins(score_kind, others=True) if others else bins_of(binning, score_kind)
    with torch.inference_mode(False):  # they are used outside of inference mode too
        alone, lowest = bins.alone().to(device), bins.lowest().to(device)
        following = torch.cat((bins.below()[1:], torch.ones(1, dtype=torch.float64))).to(device)
        first, cut = (part.to(device) for part in bins.ends())
    return Limits(alone, lowest, torch.where(alone, lowest, following), Edges(first, cut, score_kind == "logits"))
