"""Explains the log loss of an evaluation together with its accuracy, from its sums and scores."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn.functional import softplus

from lightning_evalkit.counts import Counts
from lightning_evalkit.counts.losses import by_size
from lightning_evalkit.counts.middles import logits_of
from lightning_evalkit.counts.profile import LossSums
from lightning_evalkit.counts.temperatures import sharpened_answers, unpack
from lightning_evalkit.diagnosis import Finding, explain_confidence, explain_loss
from lightning_evalkit.errors import InputError
from lightning_evalkit.statistics import find
from lightning_evalkit.statistics.profile import profile_of

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import ScoreCounts
    from lightning_evalkit.statistics.profile import Profile

LOSSES = ("loss", "log_loss")
WORST = 0.01
"""The share of the worst samples whose part of the loss is reported."""


class Binned(NamedTuple):
    """A profile with the reported loss and accuracy, and the relative uncertainty that bins add to the rest."""

    profile: Profile
    width: float


def beside_loss(first: str | None, second: str | None, accuracy: str) -> str | None:
    """The name to explain together with "loss", by default the accuracy; None if neither name is "loss"."""
    names = [name for name in (first, second) if name is not None]
    others = [name for name in names if name not in LOSSES]
    if len(others) == len(names):
        return None
    return accuracy if len(names) == 1 else others[0] if others else second


def refused(accuracy: str, got: str) -> InputError:
    """The error about a loss together with anything but an accuracy."""
    return InputError(f"expected the loss together with {accuracy!r}, got {got!r}: only these two explain each other.")


def explained_by_scores(
    evaluation: Any, counts: Counts, accuracy: str, halfway: bool, before: Profile | None = None
) -> Finding:
    """Explain the loss of yes-or-no questions: totals come from exact sums, the shares of samples from the histogram.

    ``counts`` are those of the ``accuracy``; ``halfway`` says whether its threshold is one half.
    """
    binned = profile_of_scores(evaluation, counts)
    found = explain_loss(binned.profile, (), (), before, accuracy, halfway, binned.width)
    return replace(found, reasons=(*found.reasons, *_of_labels(evaluation, binned.profile)))


def _of_labels(evaluation: Any, profile: Profile) -> list[str]:
    """Mention the mean over labels if ignored samples give them unequal weights in the total loss."""
    _, sums = evaluation._judged()
    if len({*sums.weights.tolist()}) == 1 or not profile.samples:
        return []
    mean = (sums.log_losses / sums.weights).nanmean()
    return [f"This is the loss of all labels together; log_loss/macro, the mean of the labels' own, is {mean:.4g}."]


def profile_of_scores(evaluation: Any, counts: Counts) -> Binned:
    """The loss profile of an evaluation's scores; counts are per curve."""
    scores, sums = evaluation._judged()
    counts = Counts(*(cell.reshape(-1) for cell in counts.cells))
    samples, total = (float(part.sum()) for part in (sums.weights, sums.log_losses))
    loss = total / samples if samples else torch.nan
    low, middle, high = (logits_of(evaluation.tally.counter.bins, scores.alone, part) for part in (0.0, 0.5, 1.0))
    binned = profile_of(_sums(scores, counts, middle), ["no", "yes"], WORST)
    # The parts of the binned loss are scaled, so that they add up to the loss itself.
    refined = binned.refinement / binned.loss if 0 < binned.loss < torch.inf else 1.0
    profile = replace(
        binned,
        loss=loss,
        accuracy=float(find("accuracy")(counts.summed()).value()),
        refinement=loss * refined,
        calibration=0.0 if loss == torch.inf else loss - loss * refined,
    )
    least, most = (_total(scores, *ends) for ends in ((low, high), (high, low)))
    return Binned(profile, 0.0 if most == least else (most - least) / least if least else torch.inf)


def _total(scores: ScoreCounts, no: Tensor, yes: Tensor) -> float:
    """The sum of losses if every score were at this end of its bin, without bins of one value."""
    open_ended = ~scores.alone.cpu()
    return float(
        sum(
            torch.where((weights.cpu() > 0) & open_ended, weights.double().cpu() * softplus(logits), 0).sum()
            for weights, logits in ((scores.no, no), (scores.yes, -yes))
        )
    )


def _sums(scores: ScoreCounts, counts: Counts, logits: Tensor) -> LossSums:
    """The sums of a profile, with one logit per bin standing for its scores."""
    weights = torch.stack((scores.no, scores.yes)).double().cpu()
    there = weights > 0
    answers = torch.tensor([False, True]).view(2, 1, 1).expand(weights.shape)[there]
    values = logits.expand(weights.shape)[there]
    wrong, weight = _wrong(weights, counts)[there], weights[there]
    losses = softplus(torch.where(answers, -values, values))
    lost = torch.where(wrong > 0, losses * wrong, 0)
    both = (answers.logical_not(), answers)
    classes, classed = (torch.stack([part[each].sum() for each in both]) for part in (losses * weight, weight))
    sized = [by_size(losses, part) for part in (losses * weight, weight, lost, wrong)]
    sharpened = unpack(sharpened_answers(values, answers, weight))
    return LossSums(classes, classed, sized[0], sized[1], sized[2], sized[3], sharpened)


def _wrong(weights: Tensor, counts: Counts) -> Tensor:
    """The wrong part of every bin: the highest "no" scores and the lowest "yes" scores, as many as were counted."""
    no, yes = weights.unbind()
    wanted = [cell.double().cpu().unsqueeze(-1) for cell in (counts.fp, counts.fn)]
    above = no.flip(-1).cumsum(-1).flip(-1) - no
    below = yes.cumsum(-1) - yes
    parts = ((wanted[0] - above).clamp(min=0), (wanted[1] - below).clamp(min=0))
    return torch.stack([torch.minimum(part, cell) for part, cell in zip(parts, (no, yes), strict=True)])


def explained_by_confidence(evaluation: Any) -> Finding:
    """Explain the loss of a multiclass problem by the confidence of the predicted class."""
    (_, sums), counts = evaluation._judged(), evaluation.tally.counts
    weight, loss, confidence, hits = (
        float(part.sum()) for part in (sums.weights, sums.log_losses, sums.confidences, sums.hits)
    )
    best = evaluation.tally.counter.task.top_k
    found = explain_confidence(weight, loss, confidence, hits if best > 1 else float(counts.tp.sum()))
    if best == 1:
        return found
    note = f"Accuracy here counts the most probable class, not the {best} most probable ones."
    return replace(found, reasons=(*found.reasons, note))
