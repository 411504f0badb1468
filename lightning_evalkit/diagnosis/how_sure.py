"""Adds intervals to a finding about two numbers, and says whether their difference is more than chance."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, Any

from lightning_evalkit.diagnosis.value import numbered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lightning_evalkit.diagnosis.finding import Finding
    from lightning_evalkit.intervals import Interval


def with_intervals(finding: Finding, found: Mapping[str, Interval], difference: Interval) -> Finding:
    """Add to a finding about two numbers the interval of each, and of the first minus the second."""
    if finding.code == "undefined":
        return finding
    evidence = {
        **finding.evidence,
        "intervals": {name: _plain(interval) for name, interval in found.items()},
        "difference": _plain(difference),
    }
    reasons = (*finding.reasons, *_each(found), _apart(" − ".join(found), difference))
    return replace(finding, reasons=reasons, evidence=evidence)


def _each(found: Mapping[str, Interval]) -> list[str]:
    known = {name: interval for name, interval in found.items() if interval.known}
    said = [
        f"{name} [{each.low:.4f}, {each.high:.4f}] from {numbered(each.n, 'sample')}" for name, each in known.items()
    ]
    unknown = [f"{name} has none: {each.reason}." for name, each in found.items() if not each.known]
    if not said:
        return []  # the difference says why
    return [" ".join([f"{next(iter(known.values())).level:.0%} intervals: {', '.join(said)}.", *unknown])]


def _apart(names: str, difference: Interval) -> str:
    """Say whether other samples of the same kind would show the difference too."""
    if not difference.known:
        return f"It is unknown whether the difference is more than chance: {difference.reason}."
    if difference.method == "identity":
        return "This does not depend on chance: they are equal for any samples."
    ends = f"{difference.level:.0%} interval [{difference.low:+.4f}, {difference.high:+.4f}]"
    if difference.value == 0:
        return f"Other samples may show a difference: {names} has the {ends}."
    if difference.low <= 0 <= difference.high:
        return f"The difference may be chance: {names} has the {ends}, which contains 0."
    return f"The difference is more than chance: {names} has the {ends}."


def _plain(interval: Interval) -> dict[str, Any]:
    """The interval as plain values for JSON, which has neither NaN nor infinity."""
    numbers = {name: getattr(interval, name) for name in ("value", "low", "high")}
    plain = {name: number if isfinite(number) else None for name, number in numbers.items()}
    why = {"reason": interval.reason} if interval.reason else {}
    return {**plain, "level": interval.level, "method": interval.method, "n": interval.n, **why}
