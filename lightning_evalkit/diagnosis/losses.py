"""Why a log loss is what it is, beside an accuracy: which samples carry it, how sure they are, what would help."""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING, Any

from lightning_evalkit.diagnosis.finding import Finding, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lightning_evalkit.statistics.profile import Profile

LARGE = 0.1
"""The part of a loss from which on its calibration is worth a word."""


def explain_loss(
    profile: Profile, hardest: Sequence[Any] = (), names: Sequence[str] = (), before: Profile | None = None
) -> Finding:
    """Say where a log loss comes from; with an earlier profile also what has changed since, and what has not.

    ``hardest`` are samples with the largest losses, whose groups are numbers of ``names``.
    """
    if not profile.samples:
        return Finding("no-samples", "No samples were counted, so there is no loss to explain.")
    before = before if before is not None and before.samples else None
    code, headline = _verdict(profile, before)
    reasons = [*_change(profile, before), *_carried(profile), *_remedy(profile)]
    rows = tuple(
        (str(each.sample), f"{each.loss:.4g}", f"{each.chance:.2g}", names[each.group] if names else str(each.group))
        for each in hardest
    )
    table = Table(("sample", "log loss", "probability given to the truth", "truth"), rows) if rows else None
    evidence = {
        name: getattr(profile, name)
        for name in ("loss", "accuracy", "refinement", "calibration", "temperature", "of_worst", "of_wrong")
    }
    return Finding(code, headline, tuple(reasons), table, evidence)


def _verdict(now: Profile, before: Profile | None) -> tuple[str, str]:
    numbers = f"log loss {now.loss:.4g}, accuracy {now.accuracy:.4g}"
    if before is not None and now.loss > before.loss * (1 + LARGE):
        share = min((now.calibration - before.calibration) / (now.loss - before.loss), 1.0)
        moved = abs(now.accuracy - before.accuracy) > 0.25 * max(1 - before.accuracy, 1e-9)
        said = (
            f"went from {before.accuracy:.4g} to {now.accuracy:.4g}" if moved else f"stands still at {now.accuracy:.4g}"
        )
        risen = f"The loss has risen from {before.loss:.4g} to {now.loss:.4g} while accuracy {said}"
        if share > 0.5 and 1 - now.accuracy < 1.5 * (1 - before.accuracy):
            return "loss-rises-by-confidence", f"{risen}: {share:.0%} of the rise is false confidence."
        return "loss-rises", f"{risen}: the model knows less than before."
    if now.calibration > LARGE * now.loss and not now.at_the_end:
        side = "sure" if now.temperature > 1 else "cautious"
        return f"too-{side}", f"The predictions are too {side}: {numbers}."
    return "loss-and-accuracy", f"Accuracy counts which side, log loss how sure: {numbers}."


def _change(now: Profile, before: Profile | None) -> list[str]:
    if before is None:
        return []
    return [
        f"At the best temperature of each, the loss went from {before.refinement:.4g} to {now.refinement:.4g} "
        f"(refinement: what is known), the rest from {before.calibration:.4g} to {now.calibration:.4g} (calibration: "
        "how far confidence is off)."
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
            f"A wrong prediction costs {mean:.4g} on average: as if the truth had been given a probability of "
            f"{exp(-mean):.2g}. Accuracy counts each of them once, however sure it was."
        )
    return said


def _remedy(now: Profile) -> list[str]:
    if now.at_the_end:
        why = "every prediction is right" if now.accuracy == 1 else "the order of the scores says little"
        return [f"No temperature between 1/16 and 16 is best: {why}."]
    if now.calibration <= LARGE * now.loss:
        return [
            f"A temperature would change little: {now.temperature:.3g} is best, with a loss of {now.refinement:.4g}."
        ]
    return [
        f"Dividing the logits by {now.temperature:.3g} (TemperatureScaling) brings the loss to {now.refinement:.4g}, "
        f"{now.calibration / now.loss:.0%} less, and leaves every prediction, and so the accuracy, as it is."
    ]


def explain_confidence(samples: float, loss: float, confidence: float, hits: float) -> Finding:
    """Say how sums of log losses, confidences and hits of a multiclass problem belong together."""
    if not samples:
        return Finding("no-samples", "No samples were counted, so there is no loss to explain.")
    loss, confidence, accuracy = loss / samples, confidence / samples, hits / samples
    gap = confidence - accuracy
    side = "too sure" if gap > 0.01 else "too cautious" if gap < -0.01 else "as sure as they are right"
    reasons = (
        f"The predicted class is given a probability of {confidence:.4g} on average and is right in {accuracy:.4g} of "
        f"the cases: the predictions are {side}" + (f", by {abs(gap):.4g}." if abs(gap) > 0.01 else "."),
        f"A log loss of {loss:.4g} is what giving every truth a probability of {exp(-loss):.2g} would cost. Accuracy "
        "only asks whether the truth has the highest one: it stands still while errors are made with more confidence.",
        "LossProfile says which samples carry the loss, and what a temperature would do.",
    )
    code = {"too sure": "too-sure", "too cautious": "too-cautious"}.get(side, "loss-and-accuracy")
    evidence = {"loss": loss, "accuracy": accuracy, "confidence": confidence}
    return Finding(
        code, f"Log loss {loss:.4g}, accuracy {accuracy:.4g}: predictions are {side}.", reasons, None, evidence
    )
