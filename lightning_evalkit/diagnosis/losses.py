"""Explains a log loss beside an accuracy: which samples carry it, how confident they are, and what would lower it."""

from __future__ import annotations

from math import exp, inf, isfinite
from typing import TYPE_CHECKING, Any

from lightning_evalkit.diagnosis.finding import Finding, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lightning_evalkit.statistics.profile import Profile

LARGE = 0.1
"""The share of a loss above which its calibration part is reported."""


def explain_loss(
    profile: Profile,
    hardest: Sequence[Any] = (),
    names: Sequence[str] = (),
    before: Profile | None = None,
    accuracy: str = "accuracy",
    halfway: bool = True,
    width: float = 0.0,
) -> Finding:
    """Explain where a log loss comes from and, given an earlier profile, what has changed since.

    ``hardest`` are samples with the largest losses, whose groups are numbers of ``names``. ``accuracy`` is the name of
    the profile's accuracy, ``halfway`` says whether it decides where both answers are equally probable. ``width`` is
    the share of the loss that is unknown because single losses are read from bins.
    """
    if not profile.samples:
        return Finding("no-samples", "No samples were counted, so there is no loss to explain.")
    before = before if before is not None and before.samples else None
    numbers = f"log loss {profile.loss:.4g}, {accuracy} {profile.accuracy:.4g}"
    rows = tuple(
        (str(each.sample), f"{each.loss:.4g}", f"{each.chance:.2g}", names[each.group] if names else str(each.group))
        for each in hardest
    )
    table = Table(("sample", "log loss", "probability given to the truth", "truth"), rows) if rows else None
    evidence = {"loss": profile.loss, "accuracy": profile.accuracy}
    if width > LARGE:
        code, headline, reasons = "loss-and-accuracy", f"{HOW_SURE}: {numbers}.", [TOO_WIDE]
    else:
        code, headline = _verdict(profile, before, accuracy, numbers)
        reasons = [
            *_change(profile, before),
            *_carried(profile),
            *_remedy(profile, accuracy, halfway),
            *_left_open(width),
        ]
        told = ("refinement", "calibration", "temperature", "of_worst", "of_wrong")
        evidence |= {name: getattr(profile, name) for name in told}
    if profile.loss == inf:
        code, headline = "infinite-loss", f"The loss is infinite because a prediction was certain and wrong: {numbers}."
        reasons = [*_infinite(profile), *([TOO_WIDE] if width > LARGE else [])]
    plain = {name: value if isfinite(value) else None for name, value in evidence.items()}
    return Finding(code, headline, tuple(reasons), table, plain)


HOW_SURE = "Accuracy counts right predictions, log loss also measures their confidence"
TOO_WIDE = (
    "The bins of this evaluation are too wide to say which samples carry the loss, or what a temperature would do: "
    "raise its resolution, or use LossProfile, which looks at every sample."
)


def _left_open(width: float) -> list[str]:
    """Say how much of the loss is unknown, if it was read from bins."""
    if width < 0.001:
        return []
    return [f"Shares and temperatures are read from bins of scores, which leave {width:.1%} of the loss unknown."]


def _infinite(now: Profile) -> list[str]:
    number = f"{now.infinite:,.6g}" if now.infinite else "Some"  # which share a bin with others
    said = [
        f"{number} of {now.samples:,.6g} samples gave the truth a probability of 0: one is enough to make the mean of "
        "-ln(probability) infinite, and no temperature changes that.",
    ]
    if 0 < now.infinite < now.samples:
        said.append(f"The mean log loss of all others is {now.otherwise:.4g}.")
    return [
        *said,
        "Probabilities of exactly 0 or 1 come from logits too large for their precision: evaluate logits in at "
        "least single precision, or keep probabilities away from 0 and 1.",
    ]


def _verdict(now: Profile, before: Profile | None, accuracy: str, numbers: str) -> tuple[str, str]:
    if before is not None and now.loss > before.loss * (1 + LARGE):
        share = min((now.calibration - before.calibration) / (now.loss - before.loss), 1.0)
        moved = abs(now.accuracy - before.accuracy) > 0.25 * max(1 - before.accuracy, 1e-9)
        said = f"went from {before.accuracy:.4g} to {now.accuracy:.4g}" if moved else f"stayed near {now.accuracy:.4g}"
        risen = f"The loss has risen from {before.loss:.4g} to {now.loss:.4g} while {accuracy} {said}"
        if share > 0.5 and 1 - now.accuracy < 1.5 * (1 - before.accuracy):
            return "loss-rises-by-confidence", f"{risen}: {share:.0%} of the rise is false confidence."
        return "loss-rises", f"{risen}: the predictions themselves have become worse."
    if now.calibration > LARGE * now.loss and not now.at_the_end:
        side = "sure" if now.temperature > 1 else "cautious"
        return f"too-{side}", f"The predictions are too {side}: {numbers}."
    return "loss-and-accuracy", f"{HOW_SURE}: {numbers}."


def _change(now: Profile, before: Profile | None) -> list[str]:
    if before is None:
        return []
    return [
        f"At the best temperature of each, the loss went from {before.refinement:.4g} to {now.refinement:.4g} "
        f"(refinement: the loss that no temperature removes), and the rest from {before.calibration:.4g} to "
        f"{now.calibration:.4g} (calibration: the loss that wrong confidence adds)."
    ]


def _carried(now: Profile) -> list[str]:
    if not now.loss:
        return ["No sample has any loss."]
    errors = now.samples * (1 - now.accuracy)
    said = [
        f"The worst {now.worst:.0%} of the samples carry {now.of_worst:.1%} of the loss; "
        f"the {errors:,.6g} wrong predictions ({1 - now.accuracy:.1%}) carry {now.of_wrong:.1%}."
    ]
    if errors:
        mean = now.of_wrong * now.loss / (1 - now.accuracy)
        said.append(
            f"A wrong prediction costs {mean:.4g} on average, as much as giving the truth a probability of "
            f"{exp(-mean):.2g}. Accuracy counts each of them once, however confident it was."
        )
    return said


def _remedy(now: Profile, accuracy: str, halfway: bool) -> list[str]:
    if now.at_the_end:
        end, large = ("above 16", "large") if now.temperature > 1 else ("below 1/16", "small")
        why = "every prediction is right" if now.accuracy == 1 else f"the logits are much too {large}"
        why += ", or the order of the scores says little" if now.temperature > 1 else ""
        return [f"The best temperature is {end}, outside of the range that is searched: {why}."]
    if now.calibration <= LARGE * now.loss:
        return [
            f"Temperature scaling would change little: the best temperature is {now.temperature:.3g}, with a loss of "
            f"{now.refinement:.4g}."
        ]
    kept = (
        f"leaves every prediction, and so the {accuracy}, as it is"
        if halfway
        else "leaves the order of the scores as it is; a threshold other than 0.5 has to move with the logits"
    )
    return [
        f"Dividing the logits by {now.temperature:.3g} (TemperatureScaling) lowers the loss to {now.refinement:.4g}, "
        f"by {now.calibration / now.loss:.0%}, and {kept}."
    ]


def explain_confidence(samples: float, loss: float, confidence: float, hits: float) -> Finding:
    """Explain a multiclass log loss beside confidence and accuracy, from the sums of losses, confidences and hits."""
    if not samples:
        return Finding("no-samples", "No samples were counted, so there is no loss to explain.")
    loss, confidence, accuracy = loss / samples, confidence / samples, hits / samples
    gap = confidence - accuracy
    side = "too sure" if gap > 0.01 else "too cautious" if gap < -0.01 else "as confident as they are accurate"
    cost = (
        "The log loss is infinite: at least one true class was given a probability of 0, and one is enough."
        if loss == inf
        else f"A log loss of {loss:.4g} is as high as if every true class had a probability of {exp(-loss):.2g}."
    )
    reasons = (
        f"The predicted class has a probability of {confidence:.4g} on average and is right in {accuracy:.4g} of "
        f"the cases: the predictions are {side}" + (f", by {abs(gap):.4g}." if abs(gap) > 0.01 else "."),
        f"{cost} Accuracy only asks whether the true class has the highest probability: it does not change when errors "
        "become more confident.",
        "LossProfile shows which samples carry the loss, and what a temperature would do.",
    )
    code = {"too sure": "too-sure", "too cautious": "too-cautious"}.get(side, "loss-and-accuracy")
    evidence = {"loss": loss if isfinite(loss) else None, "accuracy": accuracy, "confidence": confidence}
    return Finding(
        "infinite-loss" if loss == inf else code,
        f"Log loss {loss:.4g}, accuracy {accuracy:.4g}: predictions are {side}.",
        reasons,
        None,
        evidence,
    )
