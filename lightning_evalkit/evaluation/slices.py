"""An evaluation for each of many groups inside one run: countries, devices, users."""

from __future__ import annotations

from itertools import accumulate
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch

from lightning_evalkit.counts import SliceCounter, Totals
from lightning_evalkit.diagnosis import Table
from lightning_evalkit.diagnosis.literal import literal, one_line
from lightning_evalkit.diagnosis.value import numbered
from lightning_evalkit.errors import DeclarationError, InputError, nearest, required
from lightning_evalkit.evaluation.base import Evaluation
from lightning_evalkit.evaluation.binary import BinaryEvaluation
from lightning_evalkit.evaluation.group_intervals import GroupInterval, Groups, checked_end
from lightning_evalkit.evaluation.looking import LISTED, WIDTH, first_few, written
from lightning_evalkit.evaluation.names import checked_class_names
from lightning_evalkit.inputs.declaration import checked_number, names_given
from lightning_evalkit.state import GroupTally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from lightning_evalkit.counts import Counts

GAP = 2
"""The characters between columns of a table."""


class Group(NamedTuple):
    """One group: its name, its number of samples, and the value of a statistic."""

    name: str
    size: int
    value: float


class Slices(GroupTally):
    """The numbers of an evaluation for every group of samples, from one count of every batch.

    ``evaluation`` is a template: it declares what to count and report, and stays unchanged. ``update`` also takes the
    group of each sample, a number from 0 to ``num_groups`` - 1; the elements of a sample (pixels, tokens) are in its
    group. ``compute`` returns one tensor per statistic with a value for each group. The value is NaN if the group has
    fewer than ``minimum`` samples (``sizes``) or the statistic is 0/0, unless the template has a ``zero_division``.

    The state is one tensor, summed over ranks in one all-reduce. A group takes 8 bytes for each of 4 T numbers (T
    thresholds), 3 C (C classes; C² with ``confusion_matrix=True``) or 4 L + 1 (L labels), as much again if weighted,
    and a few more for statistics of samples: 3.2 MB for 100,000 groups of a binary problem. More than 2 GiB are
    refused. Call ``update`` in steps: unlike ``forward``, it touches only the groups in the batch. Curves cannot be
    sliced.

    >>> slices = Slices(BinaryEvaluation("labels", statistics=["accuracy", "recall"]), 3, ["de", "fr", "it"])
    >>> predicted, target = torch.tensor([1, 0, 1, 0]), torch.tensor([1, 1, 1, 0])
    >>> slices.update(predicted, target, groups=torch.tensor([0, 0, 2, 2]))
    >>> slices.compute()
    {'accuracy': tensor([0.5000,    nan, 1.0000]), 'recall': tensor([0.5000,    nan, 1.0000])}
    >>> slices.worst("recall", 1)
    [Group(name='de', size=2, value=0.5)]
    """

    def __init__(
        self,
        evaluation: Evaluation,
        num_groups: int,
        group_names: Sequence[str] | None = None,
        minimum: int = 1,
        **kwargs: Any,
    ) -> None:
        checked_number("minimum", minimum, least=1)
        names = None if group_names is None else tuple(checked_class_names("group", group_names, num_groups))
        called = None if names is None else names_given(names)
        counter: Any = SliceCounter(_sliceable(evaluation).tally.counter, num_groups, called)
        super().__init__(counter, **kwargs)
        self.num_groups, self.group_names, self.minimum = num_groups, names, minimum
        entries = evaluation._entries()
        self.readouts = {name: entry.readout for name, entry in entries}
        self.zero_division = entries[0][1].zero_division
        self._reported = {entry.name: name for name, entry in entries}  # with prefix and postfix
        self._of = evaluation._declared_as()
        self._one_table = isinstance(evaluation, BinaryEvaluation) and isinstance(evaluation.threshold, (int, float))

    def value_of(self, totals: Totals) -> dict[str, Tensor]:
        """Every statistic of every group."""
        evidence, few = self.counter.evidence(totals), self.counter.sizes(totals) < self.minimum
        values = {name: readout.value(evidence, self.zero_division) for name, readout in self.readouts.items()}
        return {name: value.float().masked_fill(few, torch.nan) for name, value in values.items()}

    # ---- looking: never waits for other ranks, as with evaluations

    def __repr__(self) -> str:
        if "readouts" not in self.__dict__:  # while it is made
            return type(self).__name__
        groups = numbered(self.num_groups, "group")
        return f"{type(self).__name__}({groups} of {self._of}): {self._counted()}"

    def __str__(self) -> str:
        if not self.update_called:
            return repr(self)
        table, note = self._shown()
        return "\n\n".join([repr(self), table.text(), *(["\n".join(wrap(note, WIDTH))] if note else [])])

    def _repr_markdown_(self) -> str:
        if not self.update_called:
            return f"**{self!r}**"
        table, note = self._shown()
        return "\n\n".join([f"**{self!r}**", table.markdown(), *([literal(note)] if note else [])])

    def _at_hand(self) -> Totals:
        """The totals of all ranks if known since the last update, or else this rank's."""
        return self.totals if self._computed is None else self._computed.totals

    def _counted(self) -> str:
        if not self.update_called:
            return "nothing counted"
        sizes = self.counter.sizes(self._at_hand())
        local = self._computed is None and self.sync_on_compute and self.distributed_available_fn()
        counted = f"{numbered(int(sizes.sum()), 'sample')} in {int((sizes > 0).sum()):,} of them"
        return counted + (" on this rank" if local else "")

    def _shown(self) -> tuple[Table, str]:
        """The first groups with enough samples and the first statistics that fit, and a note that names the others."""
        totals = self._at_hand()
        sizes, values = self.counter.sizes(totals).tolist(), self.value_of(totals)
        enough = [place for place, size in enumerate(sizes) if size >= self.minimum]
        places, hidden = enough[:LISTED], len(enough) - LISTED
        more, blank = ([f"… {hidden:,} more"], [""]) if hidden > 0 else ([], [])
        groups = ["group", *map(self._name, places), *more]
        counted = ["n", *(f"{sizes[place]:,}" for place in places), *blank]
        columns = [[name, *map(written, value[places].tolist()), *blank] for name, value in values.items()]
        shown = _number_that_fits(columns, WIDTH + GAP - _width(groups) - _width(counted))
        headings, *rows = zip(groups, *columns[:shown], counted, strict=True)
        left_out = [name for name, *_ in columns[shown:]]
        notes = [f"not shown: {first_few(left_out)}; table() has them all"] if left_out else []
        if small := sum(0 < size < self.minimum for size in sizes):
            notes.append(f"{numbered(small, 'group')} of fewer than {self.minimum:,} samples left out")
        return Table(headings, tuple(rows)), "; ".join(notes)

    # ---- asking

    @property
    def counts(self) -> Counts:
        """The counts over all ranks as those of the evaluation, with the groups as first dimension."""
        counts = self.counter.counts(self.global_totals)
        return counts.at(0) if self._one_table else counts

    @property
    def confusion_matrix(self) -> Tensor:
        """The matrix of every group, (G, C, C), if the evaluation keeps it: targets in rows, predictions in columns."""
        declared = getattr(self.counter.task.of, "matrix", False)
        matrix = self.counter.evidence(self.global_totals).matrix if declared else None
        if matrix is None:
            raise DeclarationError(
                "no confusion matrix was kept: construct a MulticlassEvaluation with confusion_matrix=True, or read "
                "the four cells of other evaluations from .counts."
            )
        return matrix

    @property
    def sizes(self) -> Tensor:
        """The number of samples of every group over all ranks, without ignored ones."""
        return self.counter.sizes(self.global_totals)

    def table(self) -> list[dict[str, Any]]:
        """Name, size and every statistic of the groups that have at least ``minimum`` samples."""
        sizes, values = self.sizes.tolist(), {name: value.tolist() for name, value in self.compute().items()}
        return [
            {"group": self._name(place), "size": size, **{name: value[place] for name, value in values.items()}}
            for place, size in enumerate(sizes)
            if size >= self.minimum
        ]

    def to_pandas(self) -> Any:
        """The rows of ``table`` as a DataFrame, by group."""
        with required("pandas"):
            import pandas as pd  # type: ignore[import-untyped]

        return pd.DataFrame(self.table(), columns=["group", "size", *self.readouts]).set_index("group")

    def intervals(
        self, level: float = 0.95, method: str = "auto", adjust: Literal["holm"] | None = None
    ) -> dict[str, list[GroupInterval]]:
        """Every statistic of every group with its interval, for groups of at least ``minimum`` samples.

        The ``p_value`` tests whether a group differs from all others together. Among many groups some p-values are
        always small by chance; ``adjust="holm"`` corrects for the number of groups.
        """
        return {name: self._intervals(name, level, method, adjust) for name in self.readouts}

    def _intervals(self, name: str, level: float, method: str, adjust: str | None) -> list[GroupInterval]:
        sizes = self.sizes.tolist()
        places = [place for place, size in enumerate(sizes) if size >= self.minimum]
        rows = self.counter.by_group(self.global_totals)
        rows = Totals(rows.integers.cpu(), None if rows.reals is None else rows.reals.cpu())
        groups = Groups(self.counter, rows, places, self.zero_division)
        found = groups.against_others(self.readouts[name], level, method, adjust)
        return [
            GroupInterval(self._name(place), sizes[place], *each) for place, each in zip(places, found, strict=True)
        ]

    def worst(self, statistic: str, n: int = 10, by: Literal["value", "high", "low"] = "value") -> list[Group]:
        """The groups with the worst values of a statistic, the worst first; groups without a value are left out.

        Tiny groups are often worst by chance. ``by="high"`` ranks by the upper end of the interval (``by="low"`` if
        lower is better), so that groups that are certainly bad come first.
        """
        name = self._reported.get(statistic, statistic)
        if name not in self.readouts:
            raise DeclarationError(f"there is no entry {statistic!r}: {nearest(statistic, self._reported)}")
        higher_is_better = self.readouts[name].statistic.higher_is_better
        if higher_is_better is None:
            raise InputError(f"expected a statistic of which more is better or worse, got {statistic!r}.")
        if checked_end(by, higher_is_better, statistic) != "value":
            found = [each for each in self._intervals(name, 0.95, "auto", None) if each.interval.known]
            found.sort(key=lambda each: getattr(each.interval, by), reverse=not higher_is_better)
            return [Group(each.name, each.size, each.interval.value) for each in found[:n]]
        values, sizes = self.compute()[name], self.sizes
        known = values.isnan().logical_not().nonzero().flatten()
        order = known[values[known].argsort(descending=not higher_is_better, stable=True)]
        return [Group(self._name(place), int(sizes[place]), float(values[place])) for place in order[:n].tolist()]

    def _name(self, place: int) -> str:
        return str(place) if self.group_names is None else self.group_names[place]


def _number_that_fits(columns: Sequence[Sequence[str]], width: int) -> int:
    """How many of the first columns fit side by side, at least one."""
    return max(1, sum(taken <= width for taken in accumulate(map(_width, columns))))


def _width(column: Sequence[str]) -> int:
    """The width of a column of a table, with the gap beside it."""
    return max(map(len, map(one_line, column))) + GAP


def _sliceable(evaluation: Evaluation) -> Evaluation:
    if not isinstance(evaluation, Evaluation):
        raise DeclarationError(
            "expected a BinaryEvaluation, MulticlassEvaluation or MultilabelEvaluation that declares what to count in "
            f"each group, got {type(evaluation).__name__}."
        )
    if evaluation.tally.counter.task.buckets is not None:
        raise DeclarationError("expected an evaluation without buckets, because groups are not divided further.")
    if evaluation.tally.counter.task.binning is not None:
        raise DeclarationError(
            "expected an evaluation without curves, because a histogram of scores for each group would be too large: "
            "construct it with curves=False, and use another evaluation with curves=True next to the slices."
        )
    return evaluation
