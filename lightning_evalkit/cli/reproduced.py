"""The results of ``evalkit reproduce``: a figure, a report, numbers, and curves in TensorBoard."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lightning_evalkit.cli.results import Row, table_of
from lightning_evalkit.counts import Counts
from lightning_evalkit.intervals import at_prevalence, crossing_interval
from lightning_evalkit.sinks.files import write_json, write_text
from lightning_evalkit.sinks.panels import Line, Panel
from lightning_evalkit.sinks.terminal import show_line, show_table
from lightning_evalkit.statistics import find

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lightning_evalkit.diagnosis import Finding
    from lightning_evalkit.intervals import Interval

CURVE = [place / 200 for place in range(1, 200)]
NAMES = {"accuracy": "accuracy", "f1": "F1"}
FIGURE = "accuracy_equals_f1.png"
SHARES_FOLDER = "over_share_of_positives"
"""The TensorBoard run whose steps are the share of positives in per cent."""
CATEGORY = "% of positives"
"""The charts over the share of positives; TensorBoard sorts by name, so they come first."""
ONE, BEST = "one classifier", "best possible"

Values = dict[str, list[float]]


@dataclass
class Reproduced:
    """The measured rows, and the conclusions from them."""

    scenarios: list[Row] = field(default_factory=list)
    findings: dict[str, Finding] = field(default_factory=dict)
    shifted: list[Row] = field(default_factory=list)
    """One classifier, tested at each share of positives."""
    trained: list[Row] = field(default_factory=list)
    """The classifiers trained at each share."""
    made: Any = None
    """The data modules of these classifiers."""

    @property
    def rows(self) -> list[Row]:
        """All rows measured so far."""
        return [*self.scenarios, *self.shifted, *self.trained]

    @property
    def pooled(self) -> Counts:
        """All tests of the one classifier together: its rates per class do not depend on the prevalence."""
        return sum((row.counts for row in self.shifted), Counts.empty())

    @property
    def crossing(self) -> Interval | None:
        """The share at which accuracy and F1 of the one classifier are equal; None before all its tests."""
        return crossing_interval(self.pooled) if self.trained else None

    def projected(self) -> Values:
        """Accuracy and F1 along the curve, with the recall and specificity of the one classifier."""
        tables = [at_prevalence(self.pooled, share) for share in CURVE]
        return {name: [float(find(name)(counts).value()) for counts in tables] for name in NAMES}

    def best(self) -> Values:
        """Accuracy and F1 along the curve, of the best possible classifier at each share."""
        values = [self._best(share) for share in CURVE]
        return {name: [each[name] for each in values] for name in NAMES}

    def _best(self, share: float) -> dict[str, float]:
        from lightning_evalkit.data.gaussian import best_rates

        recall, specificity = best_rates(share, self.made.separability, self.made.label_noise)
        parts = Counts(share * recall, (1 - share) * (1 - specificity), share * (1 - recall), (1 - share) * specificity)
        return {name: float(find(name)(parts.real()).value(0.0)) for name in NAMES}

    # ---- files

    def write(self, out: Path) -> None:
        """Write everything."""
        from lightning_evalkit.sinks import figures, thumbnails

        projected, best = self.projected(), self.best()
        shown = self._panels(projected, best)
        figures.save(figures.panels(shown), out / FIGURE)
        write_json(out / "results.json", self.plain())
        write_text(out / "report.md", self._markdown())
        images = [thumbnails.panel(panel) for panel in shown]
        self._log(out / "logs" / SHARES_FOLDER, images, projected, best)

    def plain(self) -> dict[str, Any]:
        """Return all numbers as plain values for JSON."""
        crossing = self.crossing
        return {
            "scenarios": [asdict(row) for row in self.scenarios],
            "one_classifier": [asdict(row) for row in self.shifted],
            "crossing_prevalence": None if crossing is None else crossing.value,
            "crossing_interval": None if crossing is None else [crossing.low, crossing.high],
            "trained_at_each_prevalence": [
                asdict(row) | {f"best_{name}": value for name, value in self._best(row.prevalence).items()}
                for row in self.trained
            ],
            "findings": {name: finding.to_dict() for name, finding in self.findings.items()},
        }

    def _markdown(self) -> str:
        parts = ["# Why does accuracy equal F1?", "", f"![Accuracy and F1 over the share of positives]({FIGURE})"]
        parts += ["", table_of(self.rows).markdown(), "", self.sentence()]
        for name, finding in self.findings.items():
            parts += ["", f"## {name}", "", finding.markdown()]
        return "\n".join(parts) + "\n"

    def sentence(self) -> str:
        """The sentence on where the two cross, in theory and as measured."""
        crossing = self.crossing
        if crossing is None:
            return "One classifier: accuracy and F1 do not cross."
        return (
            f"One classifier: accuracy and F1 cross where s/(r + s) = {crossing.value:.4f} of the samples are "
            f"positive, 95 % interval [{crossing.low:.4f}, {crossing.high:.4f}]{self._seen()}."
        )

    def _seen(self) -> str:
        """The shares between which the measured difference changes its sign."""
        rows = sorted(self.shifted, key=lambda row: row.prevalence)
        ends = [
            f"; measured, they cross between {one.prevalence:g} and {other.prevalence:g}"
            for one, other in pairwise(rows)
            if one.gap_measured > 0 >= other.gap_measured
        ]
        return ends[0] if len(ends) == 1 else ""

    # ---- figure

    def _panels(self, projected: Values, best: Values) -> list[Panel]:
        axes = ("share of positives", "accuracy and F1 on test data")
        left = _lines_and_points(projected, "recall and specificity kept", self.shifted)
        crossing = self.crossing
        if crossing is not None:
            ends = crossing.low, crossing.high
            left.insert(0, Line(ends, ends, f"95% interval [{crossing.low:.3f}, {crossing.high:.3f}]", "band"))
            at = (crossing.value, crossing.value)
            left.insert(0, Line(at, (0, 1), f"equal at s/(r + s) = {crossing.value:.3f}", "dotted"))
        right = _lines_and_points(best, "best possible", self.trained)
        one, many = "One classifier, other mixtures of classes", "Trained anew at each share of positives"
        return [Panel(one, *axes, left), Panel(many, *axes, right)]

    # ---- TensorBoard

    def _log(self, folder: Path, images: Sequence[Any], projected: Values, best: Values) -> None:
        """Log the figures, the sentence, and every curve as a chart with one line for accuracy and one for F1."""
        from lightning_evalkit.sinks import tensorboard

        lines = tensorboard.SubRuns(str(folder))
        # Not the few points that were measured: TensorBoard smooths what it shows, and would move the crossing.
        for title, values in ((ONE, projected), (BEST, best)):
            _add(lines, title, CURVE[1::2], {name: points[1::2] for name, points in values.items()})
        lines.close()
        with tensorboard.opened(str(folder)) as writer:
            for title, image in zip((ONE, BEST), images, strict=True):
                tensorboard.add_image(writer, f"{CATEGORY}/{title}, figure", image, 0)
            tensorboard.add_text(writer, "findings/crossing", self.sentence(), 0)

    # ---- terminal

    def show(self, out: Path) -> None:
        """Print the table, the conclusions, and the paths of all files."""
        show_table(table_of(self.rows))
        for name, finding in self.findings.items():
            show_line(f"{name}: {finding.headline} {finding.reasons[0] if finding.reasons else ''}")
        show_line(self.sentence())
        print(f"\nFigure:  {out / FIGURE}\nReport:  {out / 'report.md'}\nNumbers: {out / 'results.json'}")
        print(f"Curves:  tensorboard --logdir {out / 'logs'}")
        sys.stdout.flush()


def _lines_and_points(lines: Values, how: str, rows: Sequence[Row]) -> list[Line]:
    """Theory as lines, and measurements as points with their intervals."""
    drawn, shares = [], [row.prevalence for row in rows]
    for number, (name, label) in enumerate(NAMES.items()):
        found = [row.counts.intervals(name)[name] for row in rows]
        ends = [each.low for each in found], [each.high for each in found]
        values = [getattr(row, name) for row in rows]
        drawn.append(Line(CURVE, lines[name], f"{label}, {how}", number=number))
        drawn.append(Line(shares, values, f"{label}, measured, 95% intervals", "mark", number, ends=ends))
    return drawn


def _add(lines: Any, chart: str, shares: Sequence[float], values: Values) -> None:
    for name, points in values.items():
        for share, value in zip(shares, points, strict=True):
            lines.add_scalar(name, f"{CATEGORY}/{chart}", value, round(100 * share))
