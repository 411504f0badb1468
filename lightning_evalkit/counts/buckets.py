"""Counts in buckets: the totals of a task, and of every bucket of samples, chosen by the hash of their ids.

The variation between buckets estimates the variation of any number, and two states that counted the same samples in the
same buckets can be compared sample by sample, almost as if all predictions had been stored.

Totals: the counts of all buckets (see ``slices``) and their scores (see ``bucket_scores``), the fingerprint of the
samples and how many of them were counted by cluster, then the totals of the task.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.counts.bucket_scores import BucketScores
from lightning_evalkit.counts.counter import Ledger, Totals, in_a_row
from lightning_evalkit.counts.counts import real_dtype
from lightning_evalkit.counts.deferral import is_deferred
from lightning_evalkit.counts.hashing import buckets_of, fingerprint, hashed, ids_of
from lightning_evalkit.counts.layout import Cells, Layout
from lightning_evalkit.counts.numpy_path import BLOCK
from lightning_evalkit.counts.slices import SliceCounter
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from lightning_evalkit.counts.evidence import CountCounter, Evidence, EvidenceCounter


MARK = Cells(fingerprint=1, clustered=1)


class BucketCounter:
    """Counts a task, and the samples of every bucket in a separate row."""

    def __init__(self, counter: EvidenceCounter, counts: CountCounter, buckets: int) -> None:
        self.task: Any = counter.task
        self.counter, self.counts, self.rows = counter, counts, SliceCounter(counts, buckets)
        self.scores = None if self.task.binning is None else BucketScores(self.task, buckets)
        scores = Layout(Cells()) if self.scores is None else self.scores.layout
        self.parts = (self.rows.layout, scores, Layout(MARK), counter.layout)
        names = ("buckets", "bucket_scores", "samples", "all")
        integers, reals = (
            sum((part[place].under(name) for part, name in zip(self.parts, names, strict=True)), start=Cells())
            for place in (0, 1)
        )
        self.layout = Layout(integers, reals)

    # ---- adding

    def count(
        self, preds: Tensor, target: Tensor, sample_weight: Tensor | None, sample: Any = None, cluster: Any = None
    ) -> Totals:
        """The totals of one batch; samples go to the buckets of their clusters, or else of their own ids."""
        given = {name: ids for name, ids in (("cluster", cluster), ("sample", sample)) if ids is not None}
        if not given:
            raise InputError(
                f"declared buckets={self.rows.task.num_groups}, so update needs the ids of the samples (sample=ids), "
                "or of the groups that depend on each other (cluster=ids)."
            )
        whole = self.counter.count(preds, target, sample_weight).tensors()
        ids = [ids_of(name, each, target) for name, each in given.items()]
        parts = [_empty(part, target.device) for part in self.parts[:3]]
        memory = None if is_deferred(preds) else torch.empty(min(len(target), BLOCK), dtype=torch.int64)
        for block in _blocks(preds, target, sample_weight, *ids):
            self._add(parts, memory, *block)
        if cluster is not None:
            parts[2].integers.narrow(0, 1, 1).add_(len(target))
        integers = torch.cat([part.integers for part in (*parts, whole)])
        reals = [part.reals for part in (*parts, whole) if part.reals is not None]
        before = sum(len(part.integers) for part in parts)
        places = None if whole.increments is None else whole.increments + before
        return Totals(integers, in_a_row(reals), places)

    def _add(
        self,
        parts: list[Totals],
        memory: Tensor | None,
        preds: Tensor,
        target: Tensor,
        weight: Tensor | None,
        *ids: Tensor,
    ) -> None:
        """Add samples to the buckets of the first ids; the last ids enter the fingerprint."""
        rows, scores, mark = parts
        hashes = hashed(ids[-1], memory)
        mark.integers.narrow(0, 0, 1).add_(fingerprint(hashes, target))
        hashes = hashes if len(ids) == 1 else hashed(ids[0], memory)
        buckets = buckets_of(hashes, self.rows.task.num_groups, memory)
        self.rows.add(rows, preds, target, buckets, weight)
        if self.scores is not None:
            with torch.no_grad():
                self.scores.add(scores, *self.rows.task.arranged(preds, target, buckets, weight))

    # ---- reading

    def _split(self, totals: Totals) -> list[Totals]:
        totals = totals.dense(self.layout.integers.width)
        integers = totals.integers.split([part.integers.width for part in self.parts])
        if totals.reals is None:
            return [Totals(part) for part in integers]
        reals = totals.reals.split([part.reals.width for part in self.parts])
        return [Totals(one, other if other.numel() else None) for one, other in zip(integers, reals, strict=True)]

    def evidence(self, totals: Totals) -> Evidence:
        """The evidence of the task, and its buckets."""
        rows, scores, mark, whole = self._split(totals)
        return replace(self.counter.evidence(whole), buckets=Buckets(self, rows, scores, mark.integers))

    def ledger(self, totals: Totals) -> Ledger:
        """The bookkeeping of the task."""
        return self.counter.ledger(self._split(totals)[3])


@dataclass(frozen=True, eq=False)
class Buckets:
    """The counts of every bucket of samples, and the samples' fingerprint."""

    counter: BucketCounter
    rows: Totals
    scores: Totals
    mark: Tensor

    @property
    def number(self) -> int:
        """The number of buckets, empty ones included."""
        return self.counter.rows.task.num_groups

    @cached_property
    def samples(self) -> int:
        """The number of samples in all buckets."""
        return int(self.counter.rows.sizes(self.rows).sum())

    @cached_property
    def fingerprint(self) -> int:
        """Equal for equal samples and targets, counted equally often, in any order and on any ranks."""
        return int(MARK.one(self.mark, "fingerprint"))

    @cached_property
    def clustered(self) -> bool:
        """Whether some samples were counted by cluster, so that they depend on each other."""
        return int(MARK.one(self.mark, "clustered")) > 0

    @cached_property
    def without_each(self) -> Evidence:
        """The evidence without each bucket that has samples; these buckets are the first dimension.

        Histograms and sums over probabilities have one dimension for buckets and questions together.
        """
        rows = self.counter.rows.by_group(self.rows)
        filled = (rows.integers != 0).any(-1)
        integers = (rows.integers.sum(0) - rows.integers)[filled]
        reals = None
        if rows.reals is not None:  # rounding may leave a negative rest
            reals = (rows.reals.sum(0) - rows.reals)[filled].clamp(min=0)
        found: Evidence = self.counter.rows.each.evidence(Totals(integers, reals))
        if self.counter.scores is None:
            return found
        scores, calibration = self.counter.scores.without_each(self.scores, filled)
        return replace(found, scores=scores, calibration=calibration)


def _empty(layout: Layout, device: torch.device) -> Totals:
    reals = torch.zeros(layout.reals.width, dtype=real_dtype(device), device=device) if layout.reals.width else None
    return Totals(torch.zeros(layout.integers.width, dtype=torch.int64, device=device), reals)


def _blocks(preds: Tensor, target: Tensor, weight: Tensor | None, *ids: Tensor) -> Iterator[tuple[Any, ...]]:
    """Split a large batch on the CPU into parts that fit its caches; elsewhere return the batch."""
    size = max(BLOCK * len(target) // max(target.numel(), 1), 1)
    if is_deferred(preds) or len(target) <= size:
        yield (preds, target, weight, *ids)
        return
    for start in range(0, len(target), size):
        parts = (preds, target, weight, *ids)
        yield tuple(None if part is None else part[start : start + size] for part in parts)
