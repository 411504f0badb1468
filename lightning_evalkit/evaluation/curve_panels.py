"""Turns scores into the lines of a figure: ROC, precision and recall, thresholds, reliability.

Curves are read at evenly spaced places, nearer than pixels: drawing takes the same time for any number of samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from lightning_evalkit.evaluation.score_snapshot import MAX_NAMED
from lightning_evalkit.inputs.threshold import names_of
from lightning_evalkit.intervals import auroc_interval, share_interval
from lightning_evalkit.sinks.panels import Line, Panel, RightAxis, shortened
from lightning_evalkit.statistics import curves, ratio
from lightning_evalkit.statistics.score_statistics import calibration_error
from lightning_evalkit.statistics.thresholds import best_threshold, mean_cost

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from lightning_evalkit.counts import Counts
    from lightning_evalkit.evaluation.score_snapshot import ScoreSnapshot
    from lightning_evalkit.statistics.curves import Bounded
    from lightning_evalkit.statistics.thresholds import Choice

FEW = 3
"""The most classes or labels with lines of precision and recall over the threshold."""
PLACES = torch.linspace(0, 1, 501, dtype=torch.float64)
ENDS = (0.0, 1.0)
SEEN = 0.001
"""From this width on, the legend shows the uncertainty of bins."""
ENOUGH, SHARE = 20, 0.01
"""The fewest samples of a reliability bin, or the least share of all weights; bins with less are merged."""
ROUND = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0)
"""The steps of an axis, in powers of ten."""


def panels(snapshot: ScoreSnapshot) -> list[Panel]:
    """All panels of an evaluation."""
    return [roc(snapshot), precision_recall(snapshot), thresholds(snapshot), reliability(snapshot)]


def roc(snapshot: ScoreSnapshot) -> Panel:
    """True-positive over false-positive rate."""
    area = curves.auroc(snapshot.scores)
    rates = zip(*(part.numpy() for part in curves.rates(curves.reached(snapshot.scores))), strict=True)
    # The last of several rates at one place is read, but a line begins at the origin.
    y = torch.from_numpy(np.stack([np.append(0.0, np.interp(PLACES, fpr, tpr)) for fpr, tpr in rates]))
    family = Family(
        snapshot, "AUROC", torch.cat((PLACES[:1], PLACES)), _where(y, area.value), area.value, _texts(snapshot, area)
    )
    lines = [Line(ENDS, ENDS, "chance", "dotted"), *family.lines()]
    return family.panel("ROC", "false-positive rate", "true-positive rate", lines)


def precision_recall(snapshot: ScoreSnapshot) -> Panel:
    """Precision over recall, in steps whose area is the average precision."""
    area = curves.average_precision(snapshot.scores)
    precision, recall = curves.precisions(curves.reached(snapshot.scores))
    # The precision at which a recall is first reached; a recall of 0 needs no prediction.
    wanted = PLACES.clamp(min=1e-9).repeat(len(recall), 1)
    places = torch.searchsorted(recall.nan_to_num(0.0), wanted).clamp(max=recall.shape[1] - 1)
    y = _where(precision.gather(1, places), area.value)
    family = Family(snapshot, "average precision", PLACES, y, area.value, _texts(None, area))
    return family.panel("Precision and recall", "recall", "precision", [*_prevalences(snapshot), *family.lines()])


def thresholds(snapshot: ScoreSnapshot, costs: Mapping[str, float] | None = None) -> Panel:
    """F1 over the threshold with its best point; precision and recall if there is room; the mean of ``costs``."""
    best = best_threshold(snapshot.scores, "f1")
    cuts = torch.cat((PLACES, best.threshold[~best.threshold.isnan()])).unique()
    counts = snapshot.counts_at(cuts).real()
    recall = counts.tp / counts.positives
    f1 = _where(2 * counts.tp / (counts.positives + counts.predicted_positives), recall[:, 0])
    texts = [f"{value:.4f} at {cut.shown(4)}" for cut, value in zip(best.thresholds, best.value.tolist(), strict=True)]
    family = Family(snapshot, "best F1", cuts, f1, best.value, texts)
    lines, marks = family.lines(), _marks(snapshot, best)
    if len(snapshot.names) > FEW:
        return family.panel("Thresholds", "threshold", "F1", lines + marks)
    if snapshot.unnamed:  # the number is at its mark
        lines, marks[-1] = [lines[0]._replace(label="F1")], marks[-1]._replace(label=lines[0].label)
        marks += _declared(snapshot)
    step = 1 if snapshot.unnamed else 0  # colours are free if they do not distinguish classes or labels
    precision = _where(counts.tp / counts.predicted_positives, recall[:, 0])
    lines += [Line(cuts, y, "" if k else "precision", "dashed", k + step) for k, y in enumerate(precision)]
    lines += [Line(cuts, y, "" if k else "recall", "dotted", k + 2 * step) for k, y in enumerate(recall)]
    panel = family.panel("Thresholds", "threshold", "F1, precision, recall", lines + marks)
    return panel if costs is None or not snapshot.unnamed else _with_cost(panel, snapshot, counts, cuts, costs)


def _declared(snapshot: ScoreSnapshot) -> list[Line]:
    """Lines at the declared thresholds."""
    cuts = [float(cut) for cut in snapshot.declared]
    said = f"declared: {', '.join(map(str, names_of(snapshot.declared)))}"
    return [Line((cut, cut), ENDS, "" if place else said, "dashed") for place, cut in enumerate(cuts)]


def _with_cost(
    panel: Panel, snapshot: ScoreSnapshot, counts: Counts, cuts: Tensor, costs: Mapping[str, float]
) -> Panel:
    """Add the mean cost and its minimum, on an axis of its own."""
    least = best_threshold(snapshot.scores, costs=costs)
    mean = mean_cost(counts, costs)[0]
    lines = [Line(cuts, mean, "mean cost (right axis)", "solid", 3, right=True)]
    if not least.value[0].isnan():  # as where all samples are of one class
        said = f"least cost {float(least.value[0]):.4g} at {least.thresholds[0].shown(4)}"
        lines.append(Line(least.threshold[:1], least.value[:1], said, "mark", 3, right=True))
    axis = RightAxis("mean cost", *_round_ends(float(mean.min()), float(mean.max())), number=3)
    return panel._replace(lines=[*panel.lines, *lines], right=axis)


def _round_ends(low: float, high: float) -> tuple[float, float]:
    """The ends of an axis that holds 0 and both values, in five steps of round numbers."""
    low, high = min(low, 0.0), max(high, 0.0)
    if not low < high < math.inf:  # nothing was counted, or nothing costs anything
        return ENDS
    power = 10.0 ** math.floor(math.log10((high - low) / 5))
    steps = (power * times for times in ROUND)
    return next(
        (first, first + 5 * step) for step in steps if (first := math.floor(low / step) * step) + 5 * step >= high
    )


def _marks(snapshot: ScoreSnapshot, best: Choice) -> list[Line]:
    """Points at the best thresholds of named curves; a single one also gets a mark on the axis."""
    points = [Line(best.threshold[k, None], best.value[k, None], "", "mark", n) for n, k in enumerate(snapshot.named)]
    if snapshot.unnamed:
        points.insert(0, Line(best.threshold.expand(2), torch.stack((0 * best.value[0], best.value[0])), "", "dotted"))
    return points


def _where(values: Tensor, defined: Tensor) -> Tensor:
    """Replace rows without a value by NaN."""
    return values.where(~defined[:, None].isnan(), torch.nan)


def _texts(ranked: ScoreSnapshot | None, area: Bounded) -> list[str]:
    """Values as texts, with intervals if ``ranked``, and with the bounds of bins if they are visible."""
    said = []
    for place, (low, value, high) in enumerate(zip(*(part.tolist() for part in area), strict=True)):
        interval = _interval(ranked, place)
        open_ended = f", bins leave {low:.4f} to {high:.4f} open" if high - low >= SEEN else ""
        said.append("" if math.isnan(value) else f"{value:.4f}{interval}{open_ended}")
    return said


def _interval(ranked: ScoreSnapshot | None, place: int) -> str:
    if ranked is None or ranked.weighted or place not in ranked.named:
        return ""
    found = auroc_interval(ranked.scores.only(place), 0.95, "auto")
    return f" [{found.low:.3f}, {found.high:.3f}]" if found.known else ""


def _heading(snapshot: ScoreSnapshot, what: str) -> str:
    """The heading of a legend."""
    return "" if snapshot.unnamed else what if len(snapshot.names) <= MAX_NAMED else f"{what}, where AUROC is lowest"


def _prevalences(snapshot: ScoreSnapshot) -> list[Line]:
    """The level of chance: of each curve, or the mean of many."""
    shares = snapshot.positives / (snapshot.positives + snapshot.negatives)
    if len(snapshot.names) > MAX_NAMED:
        return [Line(ENDS, shares.nanmean().expand(2), "mean prevalence", "dotted")]
    label = f"prevalence {shares[0]:.4f}" if snapshot.unnamed and shares[0] >= 0 else "prevalence"
    return [Line(ENDS, share.expand(2), "" if k else label, "dotted", k) for k, share in enumerate(shares)]


@dataclass(frozen=True)
class Family:
    """Curves of all classes or labels over one axis, and a number that belongs to each; NaN where undefined."""

    snapshot: ScoreSnapshot
    what: str
    x: Tensor
    y: Tensor
    values: Tensor
    texts: Sequence[str]

    def lines(self) -> list[Line]:
        """One line each; of many curves, some have a colour and a name, the others are thin, with their mean."""
        named, total = self.snapshot.named, len(self.values)
        shown = [Line(self.x, self.y[k], self._label(k), number=number) for number, k in enumerate(named)]
        if total <= MAX_NAMED:
            return shown
        defined = (~self.values.isnan()).nonzero().flatten().tolist()
        others = [k for k in defined if k not in named]
        mean = f"mean of {len(defined)} of {total}: {self.values.nanmean():.4f}"
        thin = [Line(self.x, self.y[others].T, f"{len(others)} others", "thin")] if others else []
        return [*thin, *shown, Line(self.x, self.y.nanmean(0), mean, "mean")]

    def _label(self, place: int) -> str:
        undefined = f"undefined, {self.snapshot.missing(place)}"
        text = undefined if self.values[place].isnan() else self.texts[place]
        return f"{self.what} {text}" if self.snapshot.unnamed else f"{shortened(self.snapshot.names[place])}: {text}"

    def panel(self, title: str, x_label: str, y_label: str, lines: Sequence[Line]) -> Panel:
        """The curves with their marks, or the reason why there are none."""
        reasons = sorted({self.snapshot.missing(place) for place in range(len(self.values))})
        note = f"undefined: {', '.join(reasons)}" if self.y.isnan().all() else ""
        title = f"{title}, each class against the rest" if self.snapshot.exclusive else title
        return Panel(title, x_label, y_label, lines, _heading(self.snapshot, self.what), note)


# ---- reliability


def reliability(snapshot: ScoreSnapshot) -> Panel:
    """Observed over predicted frequency by bin of confidence; one line per label, or one for all classes."""
    errors = calibration_error(snapshot.sums)
    lines = [Line(ENDS, ENDS, "calibrated", "dotted")]
    lines += _one_reliability(snapshot) if len(errors) == 1 else _reliabilities(snapshot, errors)
    undefined = bool(errors.isnan().all())
    mean = "" if undefined else f" · {'mean ' if len(errors) > 1 else ''}calibration error {errors.nanmean():.4f}"
    axes = ("mean predicted probability", "share of positives")
    if snapshot.exclusive:
        axes = ("mean probability of the predicted class", "share of right predictions")
    heading = _heading(snapshot, "calibration error") if len(errors) > 1 else ""
    return Panel(f"Reliability{mean}", *axes, lines, heading, "undefined: no samples" if undefined else "")


def _one_reliability(snapshot: ScoreSnapshot) -> list[Line]:
    shares = snapshot.sums.bin_weights[0] / snapshot.sums.weights[0]
    middles = (torch.arange(len(shares)) + 0.5) / len(shares)
    error_bars = "" if snapshot.weighted else ", 95% intervals"
    return [Line(middles, shares, "share of samples", "bars"), _bins(snapshot, 0, f"bins{error_bars}", 0)]


def _reliabilities(snapshot: ScoreSnapshot, errors: Tensor) -> list[Line]:
    named = snapshot.named
    others = [k for k in range(len(errors)) if k not in named]
    thin = [
        _bins(snapshot, k, "" if n else f"{len(others)} others")._replace(kind="thin", sizes=None, ends=None)
        for n, k in enumerate(others)
    ]
    said = [f"{error:.4f}" if error == error else "undefined, no samples" for error in errors.tolist()]
    return thin + [_bins(snapshot, k, f"{shortened(snapshot.names[k])}: {said[k]}", n) for n, k in enumerate(named)]


def _bins(snapshot: ScoreSnapshot, place: int, label: str, number: int | None = None) -> Line:
    """The bins that hold samples; neighbours are merged until they hold enough."""
    sums = [part[place] for part in snapshot.sums[3:]]
    weights, confidences, hits = _merged(SHARE * float(sums[0].sum()) if snapshot.weighted else ENOUGH, *sums)
    ends = None
    if not snapshot.weighted and len(snapshot.sums.weights) <= FEW:
        pairs = zip(hits.round().int().tolist(), weights.round().int().tolist(), strict=True)
        found = [share_interval(ratio(hit, whole), "share", 0.95, "auto") for hit, whole in pairs]
        ends = [each.low for each in found], [each.high for each in found]
    return Line(confidences / weights, hits / weights, label, "solid", number, weights / weights.sum(), ends)


def _merged(enough: float, weights: Tensor, *sums: Tensor) -> list[Tensor]:
    """Sums of bins with at least so much weight; the last takes the rest."""
    groups: list[list[int]] = [[]]
    for place in range(len(weights)):
        if groups[-1] and weights[groups[-1]].sum() >= enough and weights[place:].sum() >= enough:
            groups.append([])
        groups[-1].append(place)
    full = [group for group in groups if weights[group].sum() > 0]
    return [torch.stack([part[group].sum() for group in full]) if full else part[:0] for part in (weights, *sums)]
