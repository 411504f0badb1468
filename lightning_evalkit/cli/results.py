"""The measurements of runs, one row each, explained by the identity of accuracy and F1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lightning_evalkit.counts import Counts
from lightning_evalkit.diagnosis import Table, explain

if TYPE_CHECKING:
    from lightning_evalkit.cli.training import EvalkitCLI

NEARLY = 0.02
"""True negatives and true positives that differ by less than this share of all samples are called equal."""


@dataclass(frozen=True)
class Row:
    """The measurements of one run, and their explanation by the identity."""

    scenario: str
    prevalence: float
    tp: int
    fp: int
    fn: int
    tn: int
    accuracy: float
    f1: float
    gap_measured: float
    gap_by_identity: float | None
    why: str

    @property
    def counts(self) -> Counts:
        """The four numbers."""
        return Counts(self.tp, self.fp, self.fn, self.tn)

    def cells(self) -> tuple[str, ...]:
        """The cells as texts, in the order of ``HEADINGS``."""
        numbers = (f"{self.accuracy:.4f}", f"{self.f1:.4f}", f"{self.gap_measured:+.4f}")
        identity = "undefined" if self.gap_by_identity is None else f"{self.gap_by_identity:+.4f}"
        counts = (str(cell) for cell in (self.tp, self.fp, self.fn, self.tn))
        return (self.scenario, f"{self.prevalence:g}", *counts, *numbers, identity, self.why)


HEADINGS = (
    "scenario",
    "prevalence",
    "TP",
    "FP",
    "FN",
    "TN",
    "accuracy",
    "F1",
    "gap",
    "by identity",
    "why",
)


def measured_row(scenario: str, ended: EvalkitCLI, measured: dict[str, float]) -> Row:
    """The row of a finished run, from its test."""
    counts = ended.model.evaluation("test").counts.exact()
    finding = explain(counts)
    accuracy, f1 = measured["test/accuracy"], measured["test/f1"]
    return Row(
        scenario=scenario,
        prevalence=round(counts.prevalence, 6),
        tp=counts.tp,
        fp=counts.fp,
        fn=counts.fn,
        tn=counts.tn,
        accuracy=accuracy,
        f1=f1,
        gap_measured=accuracy - f1,
        gap_by_identity=finding.evidence["gap"],
        why=_why(counts),
    )


def _why(counts: Counts) -> str:
    """The identity in a few words: the gap is (TN - TP) E / (N (2 TP + E))."""
    if not counts.errors:
        return "no errors"
    if counts.tp == counts.tn:
        return "equal: TP = TN"
    if abs(counts.tp - counts.tn) < NEARLY * counts.total:
        return "nearly equal: TP ≈ TN"
    return "TN > TP, and F1 ignores TN" if counts.tn > counts.tp else "TP > TN, and F1 counts TP twice"


def table_of(rows: list[Row]) -> Table:
    """The rows as a table to print."""
    return Table(HEADINGS, tuple(row.cells() for row in rows))
