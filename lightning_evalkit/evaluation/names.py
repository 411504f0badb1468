"""Names of entries: one name, one meaning, whatever the number of classes or labels."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, get_args

from lightning_evalkit.errors import DeclarationError, nearest
from lightning_evalkit.evaluation.readings import At, Hits, OfScores, Over, Reading, Samples, Whole
from lightning_evalkit.statistics import OVERALL, SCORED, STATISTICS, Average, find

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

AVERAGES = tuple(average for average in get_args(Average) if average != "none")
ONE_VS_REST = "one_vs_rest_accuracy"
_TOP = re.compile(r"top_(\d+)_accuracy")


def checked_class_names(kind: str, given: Sequence[str] | None, number: int) -> dict[str, int]:
    """The place of every class or label by its name: different strings, no averages; by default their numbers."""
    names = tuple(map(str, range(number))) if given is None else tuple(given)
    if len(names) != number:
        raise DeclarationError(f"expected {number} {kind} names, got {len(names)}.")
    if any(not isinstance(name, str) or not name for name in names):
        raise DeclarationError(f"expected {kind} names to be text that is not empty, got {list(names)!r}.")
    double = sorted(name for name, times in Counter(names).items() if times > 1)
    if double:
        raise DeclarationError(f"expected different {kind} names, got {', '.join(map(repr, double))} more than once.")
    taken = sorted({*AVERAGES, "samples"} & set(names))
    if taken:
        raise DeclarationError(f"expected {kind} names that are no averages, got {', '.join(map(repr, taken))}.")
    return {name: place for place, name in enumerate(names)}


def hits_of(names: Sequence[str]) -> tuple[int, ...]:
    """The k of every top_<k>_accuracy among the names."""
    return tuple(sorted({int(match[1]) for match in map(_TOP.fullmatch, names) if match}))


def rows_of(names: Sequence[str]) -> tuple[str, ...]:
    """The sums over samples that names need: whole samples first, then the means; none if no name needs any."""
    means = [name for name in names if name.endswith("/samples")]
    return ("samples", "exact_match", *means) if means or "exact_match" in names else ()


def multiclass_reading(name: str, classes: Mapping[str, int]) -> Reading:
    """What a name means for a multiclass table."""
    base, _, over = name.partition("/")
    if base in SCORED:
        return scored_reading(name, {} if SCORED[base].needs == "calibration" else classes)
    if top := _TOP.fullmatch(name):
        return Hits(int(top[1]))
    if name == "balanced_accuracy":
        return Over(find("recall"), "macro", occurring=True)
    if name in OVERALL:
        return Whole(find(name))
    if base == "accuracy" and over:
        raise DeclarationError(
            f"{name!r} has two meanings: say {ONE_VS_REST}/{over} (correct of all, one class against the rest) or "
            f"recall/{over} (correct of that class)."
        )
    statistic = find("accuracy" if base == ONE_VS_REST else base)
    return _averaged_or_single(name, statistic.name, over, classes, AVERAGES)


def multilabel_reading(name: str, labels: Mapping[str, int]) -> Reading:
    """What a name means for multilabel tables."""
    base, _, over = name.partition("/")
    if base in SCORED:
        return scored_reading(name, labels)
    if name == "exact_match":
        return Samples(name, find("accuracy"))
    if name in ("hamming_accuracy", "hamming_distance"):
        return Over(find("accuracy" if name == "hamming_accuracy" else name), "micro")
    if name == "accuracy":
        raise DeclarationError(
            "'accuracy' has several meanings for many labels: say 'exact_match' (all labels of a sample right), "
            "'hamming_accuracy' (labels right of all) or 'accuracy/<label>'."
        )
    if over == "samples":
        return Samples(name, find(base))
    return _averaged_or_single(name, find(base).name, over, labels, (*AVERAGES, "samples"))


def scored_reading(name: str, places: Mapping[str, int]) -> OfScores:
    """What a name means for scores: of one question, of one of ``places``, or averaged over those."""
    base, _, over = name.partition("/")
    if not places and not over:
        return OfScores(SCORED[base])
    if over in ("macro", "weighted") and places:
        return OfScores(SCORED[base], over)  # type: ignore[arg-type]
    if over in places:
        return OfScores(SCORED[base], None, places[over])
    known = [f"{base}/{each}" for each in ("macro", "weighted", *places)] if places else [base]
    raise DeclarationError(f"{name!r} is no statistic of scores here: {nearest(name, known)}")


def of_each(bases: Sequence[str], places: Mapping[str, int]) -> dict[str, Reading]:
    """Statistics of scores for every class or label by its name."""
    return {f"{base}/{name}": scored_reading(f"{base}/{name}", places) for base in bases for name in places}


def _averaged_or_single(
    name: str, base: str, over: str, places: Mapping[str, int], averages: tuple[str, ...]
) -> At | Over:
    if not over:
        choices = " or ".join(repr(f"{name}/{average}") for average in averages)
        raise DeclarationError(f"{name!r} of many classes or labels needs an average: say {choices}.")
    if over in AVERAGES:
        return Over(STATISTICS[base] if base in STATISTICS else find(base), over)  # type: ignore[arg-type]
    if over in places:
        return At(find(base), places[over])
    raise DeclarationError(f"{name!r} ends in no average, class or label: {nearest(over, (*averages, *places))}")
