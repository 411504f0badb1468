"""Why an evaluation's log loss is what it is beside its accuracy, from the scores that it keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.diagnosis import Finding, explain_confidence, explain_loss
from lightning_evalkit.errors import InputError
from lightning_evalkit.metrics.loss_profile import LossProfile

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.counts import ScoreCounts
    from lightning_evalkit.statistics.profile import Profile

LOSSES = ("loss", "log_loss")
LEAST = 1e-300
"""Of a probability whose logarithm is taken."""
NEAR = 20.0
"""Logits up to which probabilities tell them from each other on both sides."""


def asks_for_loss(first: str, second: str, accuracy: str) -> bool:
    """Whether a pair is a loss and the accuracy; a loss beside anything else is refused."""
    names = {first, second}
    if not names & set(LOSSES):
        return False
    if accuracy not in names or not names <= {*LOSSES, accuracy}:
        other = next((name for name in (first, second) if name not in LOSSES), second)
        raise InputError(f"expected the loss beside {accuracy!r}, got {other!r}: their numbers say nothing together.")
    return True


def explained_by_scores(evaluation: Any, before: Any = None) -> Finding:
    """Of yes-or-no questions: every bin of the histogram stands for its scores, to the width of a bin."""
    found = explain_loss(profile_of_scores(evaluation), before=None if before is None else profile_of_scores(before))
    thresholds = evaluation.tally.counter.task.thresholds
    if all(each == 0.5 for each in thresholds):
        return found
    own = ", ".join(f"{each:g}" for each in thresholds)
    return _noted(found, f"Accuracy is here that of a threshold of 0.5; this evaluation decides at {own}.")


def _noted(finding: Finding, note: str) -> Finding:
    return replace(finding, reasons=(*finding.reasons, note))


def profile_of_scores(evaluation: Any) -> Profile:
    """The losses of all scores that an evaluation keeps."""
    scores: ScoreCounts = evaluation._scores()
    logits = _middles(scores).expand_as(scores.yes)
    counts = torch.stack((scores.no, scores.yes)).double().cpu()
    occurring = counts > 0
    target = torch.tensor([0, 1]).view(2, 1, 1).expand(counts.shape)
    profile = LossProfile(weighted=True, hardest=1, sync_on_compute=False)
    given = (part[occurring] for part in (logits.cpu().expand(counts.shape), target, counts))
    values, truth, weights = given
    profile.update(values, truth, sample_weight=weights)
    return profile.profile()


def _middles(scores: ScoreCounts) -> Tensor:
    """A logit for every bin: of its own value, or halfway to the next bin.

    Probabilities next to 1 are equal where those next to 0 are not: where one half of the bins is the mirror image of
    the other, logits that large are read from there.
    """
    middles = _halfway(scores.lowest.logit(eps=1e-16), scores.alone)
    near = middles.abs() < NEAR
    if not torch.allclose(middles[near], -middles.flip(0)[near], rtol=0.01, atol=0.01):
        return middles
    small = _halfway(scores.lowest.clamp(min=LEAST).log(), scores.alone)  # where 1 - p is 1
    return torch.where(middles < -NEAR, small, torch.where(middles > NEAR, -small.flip(0), middles))


def _halfway(values: Tensor, alone: Tensor) -> Tensor:
    following = torch.cat((values[1:], values[-1:]))
    return torch.where(alone, values, (values + following) / 2)


def explained_by_confidence(evaluation: Any) -> Finding:
    """Of one class among many: by the confidence of the predicted class."""
    evaluation._scores()  # which says if they are not kept
    counter, totals = evaluation.tally.counter, evaluation.tally.compute()
    sums = counter.calibration(totals)
    weight, loss, confidence, hits = (
        float(part.sum()) for part in (sums.weights, sums.log_losses, sums.confidences, sums.hits)
    )
    found = explain_confidence(weight, loss, confidence, hits)
    best = counter.task.top_k
    return found if best == 1 else _noted(found, f"Accuracy is here that of the most probable class, not of {best}.")
