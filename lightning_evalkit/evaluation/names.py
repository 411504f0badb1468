"""Names of entries: one name, one meaning, whatever the number of classes or labels."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, get_args

from lightning_evalkit.errors import DeclarationError, nearest
from lightning_evalkit.evaluation.readouts import Averaged, FromScores, OneTable, Readout, SampleMean, TopK, WholeMatrix
from lightning_evalkit.inputs.declaration import checked_number, refuse_large
from lightning_evalkit.inputs.numbers import listed
from lightning_evalkit.statistics import OVERALL, SCORE_STATISTICS, STATISTICS, Average, Statistic, exists, find

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

AVERAGES = tuple(average for average in get_args(Average) if average != "none")
ONE_VS_REST = "one_vs_rest_accuracy"
MEANINGS = (
    "'accuracy' has several meanings for many labels: say 'exact_match' (all labels of a sample right), "
    "'hamming_accuracy' (labels right of all) or 'accuracy/<label>'."
)
WHOLE_SAMPLES = ("exact_match", "hamming_accuracy", "hamming_distance")
"""Names of multilabel statistics that need no average."""
NUMBERS = {"class": "num_classes", "label": "num_labels", "group": "num_groups"}
_TOP = re.compile(r"top_(\d+)_accuracy")


def number_named(kind: str, number: int | None, names: Sequence[str] | None) -> int:
    """The declared number of classes or labels, or else the number of their names."""
    if number is None and names is None:
        argument = NUMBERS[kind]
        raise DeclarationError(f"expected {argument}, or {kind}_names, whose number it is: got neither.")
    return len(listed(f"{kind}_names", names or ())) if number is None else number


def checked_class_names(kind: str, given: Sequence[str] | None, number: int) -> dict[str, int]:
    """The index of every class or label by name: different strings, no averages; by default their numbers."""
    argument = NUMBERS[kind]
    checked_number(argument, number, least=1 if kind == "group" else 2)
    refuse_large(3 * number, f"{argument}={number:,}")  # at least three numbers each; refused before names are made
    names = tuple(map(str, range(number))) if given is None else listed(f"{kind}_names", given)
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


def sample_sums_of(names: Sequence[str]) -> tuple[str, ...]:
    """The sums over samples that names need: whole samples first, then the means; empty if none."""
    means = [name for name in names if name.endswith("/samples")]
    return ("samples", "exact_match", *means) if means or "exact_match" in names else ()


def multiclass_readout(name: str, classes: Mapping[str, int]) -> Readout:
    """The readout of a name for a multiclass table."""
    base, _, over = name.partition("/")
    if base in SCORE_STATISTICS:
        return score_readout(name, {} if SCORE_STATISTICS[base].needs == "calibration" else classes)
    if top := _TOP.fullmatch(name):
        return TopK(int(top[1]))
    if name == "balanced_accuracy":
        return Averaged(find("recall"), "macro", occurring=True)
    if name in OVERALL:
        return WholeMatrix(find(name))
    if base == "accuracy" and over:
        raise DeclarationError(
            f"{name!r} has two meanings: say {ONE_VS_REST}/{over} (correct of all, one class against the rest) or "
            f"recall/{over} (correct of that class)."
        )
    if base != ONE_VS_REST and not exists(base):
        raise _unknown(base, name, _multiclass_names(over if over in {*AVERAGES, *classes} else "macro"))
    statistic = find("accuracy" if base == ONE_VS_REST else base)
    return _averaged_or_single(name, statistic.name, over, classes, AVERAGES)


def _multiclass_names(over: str) -> list[str]:
    """Candidates for a name that ends in this average or class."""
    whole = [name for name in SCORE_STATISTICS if SCORE_STATISTICS[name].needs == "calibration"]
    ranked = [name for name in SCORE_STATISTICS if name not in whole and over != "micro"]
    each = [*(name for name in STATISTICS if name != "accuracy"), *ranked]
    return [*OVERALL, "balanced_accuracy", *whole, *(f"{base}/{over}" for base in (*each, ONE_VS_REST))]


def binary_statistic(name: str) -> Statistic:
    """The statistic of a name for one table; errors offer statistics of scores too."""
    if exists(name):
        return find(name)
    raise _unknown(name, name, [*STATISTICS, *SCORE_STATISTICS])


def _unknown(base: str, name: str, known: Sequence[str]) -> DeclarationError:
    return DeclarationError(f"there is no statistic {base!r}: {nearest(name, known)}")


def multilabel_readout(name: str, labels: Mapping[str, int]) -> Readout:
    """The readout of a name for multilabel tables."""
    base, _, over = name.partition("/")
    if base in SCORE_STATISTICS:
        return score_readout(name, labels)
    if name == "exact_match":
        return SampleMean(name, find("accuracy"))
    if name in WHOLE_SAMPLES:
        return Averaged(find("accuracy" if name == "hamming_accuracy" else name), "micro")
    if name == "accuracy":
        raise DeclarationError(MEANINGS)
    if not exists(base):
        raise _unknown(base, name, _multilabel_names(over if over in {*AVERAGES, *labels, "samples"} else "macro"))
    if over == "samples":
        return SampleMean(name, find(base))
    return _averaged_or_single(name, find(base).name, over, labels, (*AVERAGES, "samples"))


def _multilabel_names(over: str) -> list[str]:
    """Candidates for a name that ends in this average or label."""
    scored = [name for name in SCORE_STATISTICS if over not in ("micro", "samples")]
    return [*WHOLE_SAMPLES, *(f"{base}/{over}" for base in (*STATISTICS, *scored))]


def score_readout(name: str, places: Mapping[str, int]) -> FromScores:
    """The readout of a name for scores: of a binary problem, of one of ``places``, or averaged over them."""
    base, _, over = name.partition("/")
    if not places and not over:
        return FromScores(SCORE_STATISTICS[base])
    if over in ("macro", "weighted") and places:
        return FromScores(SCORE_STATISTICS[base], over)  # type: ignore[arg-type]
    if over in places:
        return FromScores(SCORE_STATISTICS[base], None, places[over])
    known = [f"{base}/{each}" for each in ("macro", "weighted", *places)] if places else [base]
    raise DeclarationError(f"{name!r} is no statistic of scores here: {nearest(name, known)}")


def of_each(bases: Sequence[str], places: Mapping[str, int]) -> dict[str, Readout]:
    """Statistics of scores for every class or label by its name."""
    return {f"{base}/{name}": score_readout(f"{base}/{name}", places) for base in bases for name in places}


def _averaged_or_single(
    name: str, base: str, over: str, places: Mapping[str, int], averages: tuple[str, ...]
) -> OneTable | Averaged:
    if not over:
        choices = " or ".join(repr(f"{name}/{average}") for average in averages)
        if len(places) == 2 and "samples" not in averages:
            choices = f"{name + '/' + [*places][-1]!r} for the positive class, or {choices}"
        raise DeclarationError(f"{name!r} of many classes or labels needs an average: say {choices}.")
    if over in AVERAGES:
        return Averaged(STATISTICS[base] if base in STATISTICS else find(base), over)  # type: ignore[arg-type]
    if over in places:
        return OneTable(find(base), places[over])
    known = [f"{name.partition('/')[0]}/{each}" for each in (*averages, *places)]
    raise DeclarationError(f"{name!r} ends in no average, class or label: {nearest(name, known)}")
