"""Explains one number of an evaluation, and an evaluation that has counted nothing."""

from __future__ import annotations

from multiprocessing.context import get_spawning_popen
from typing import TYPE_CHECKING

from lightning_evalkit.counts import Counts, Evidence
from lightning_evalkit.diagnosis import Finding, Number, baselines, told, with_intervals
from lightning_evalkit.diagnosis.many import MICRO
from lightning_evalkit.diagnosis.one_number import HOW_SURE, parts_of
from lightning_evalkit.diagnosis.value import in_words, numbered
from lightning_evalkit.evaluation.differences import difference_of
from lightning_evalkit.evaluation.readouts import Averaged, FromScores, OneTable, TopK, WholeMatrix
from lightning_evalkit.statistics import OVERALL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lightning_evalkit.evaluation.entry import Entry
    from lightning_evalkit.evaluation.intervals import Source
    from lightning_evalkit.evaluation.readouts import Readout
    from lightning_evalkit.intervals import Interval
    from lightning_evalkit.state import EvidenceTally, Tally

LEVEL = 0.95
NAMED = 5
"""The most labels that a sentence names."""
LIGHTNING_RESET = (
    "Nothing is counted: Lightning resets a logged evaluation at the end of the epoch; ask in "
    "on_validation_epoch_end, or use Evaluate."
)
ELSEWHERE = (
    "Nothing is counted here: it was counted in other processes, which a spawning strategy starts and ends. Ask in "
    "on_validation_epoch_end, where every process knows the sum of all."
)
NOTHING_YET = "Nothing is counted: call update first, or ask before reset."


class Explaining:
    """Adds the findings that all tasks share to an evaluation."""

    zero_division: float

    @property
    def tally(self) -> EvidenceTally:
        """The state that is explained."""
        raise NotImplementedError

    def _interval(self, readout: Readout) -> Interval:
        raise NotImplementedError

    def _source(self) -> Source:
        raise NotImplementedError

    def _entries(self) -> list[tuple[str, Entry]]:
        raise NotImplementedError

    def _reports(self, name: str) -> bool:
        """Whether a number is among those that were declared."""
        raise NotImplementedError

    def _reported(self, name: str) -> Readout:
        """The readout of a declared number; refuse any other."""
        raise NotImplementedError

    def _explained(self, readouts: Mapping[str, Readout]) -> dict[str, float]:
        """The values of readouts as ``compute`` reports them, but in double precision."""
        evidence = self.tally.compute()
        return {name: float(each.value(evidence, self.zero_division)) for name, each in readouts.items()}

    def _refuse_without_scores(self) -> None:
        """Refuse an evaluation that does not store scores."""
        raise NotImplementedError

    def _refuse_unkept(self, readouts: Mapping[str, Readout]) -> None:
        if any(isinstance(readout, FromScores) for readout in readouts.values()):
            self._refuse_without_scores()

    def nothing_counted(self) -> Finding | None:
        """The finding about an empty evaluation, or None; every rank must call it, as it may be a collective."""
        tally = self.tally
        joined = tally.sync_on_compute and tally.distributed_available_fn()
        if tally.update_called or (joined and bool(tally.counts.total.any())):
            return None
        sent, logged = (getattr(tally, name, False) for name in ("sent_elsewhere", "reset_by_trainer"))
        return Finding("nothing-counted", ELSEWHERE if sent else LIGHTNING_RESET if logged else NOTHING_YET)

    def _alone(self, name: str, readout: Readout, value: float, names: Sequence[str], exclusive: bool) -> Finding:
        """Explain one number of several classes or labels."""
        statistic, counts = readout.statistic, self.tally.counts
        constant = one_class_predicted(counts, names) if exclusive else ""
        tables = _tables(counts, names, exclusive, bool(constant)) if isinstance(readout, COUNTED) else {}
        if isinstance(readout, OneTable):
            tables = {**tables, **_of_one(counts, names, readout.place, exclusive)}
        values = {words: self._value_of(readout, there) for words, there in tables.items()}
        reason = readout.reason(self.tally.compute()) if value != value else ""
        number = Number(
            name,
            value,
            _formula(name, readout),
            values,
            statistic.higher_is_better,
            constant,
            _parts(readout, counts),
            () if exclusive else never_predicted(counts, names),
            hidden=(
                *(_micro(name, names) if exclusive else ()),
                *_unseen(name, readout, names),
                *([HOW_SURE] if isinstance(readout, COUNTED) else []),
            ),
            undefined=reason,
            interval=self._interval(readout),
        )
        return told(number)

    def _sure(self, finding: Finding, readouts: Mapping[str, Readout]) -> Finding:
        """Add the intervals of two numbers, and whether their difference is more than chance."""
        found = {name: self._interval(readout) for name, readout in readouts.items()}
        first, second = readouts.values()
        return with_intervals(finding, found, difference_of(first, second, self._source(), LEVEL))

    def _value_of(self, readout: Readout, counts: Counts) -> float:
        """The number for other counts."""
        return float(readout.value(Evidence(self.tally.counter.task, counts), self.zero_division))


COUNTED = (OneTable, Averaged, WholeMatrix)
"""Readouts that need only tables."""


def _tables(counts: Counts, names: Sequence[str], exclusive: bool, constant: bool) -> Mapping[str, Counts]:
    """The counts of baseline classifiers that ignore their inputs."""
    if not exclusive:
        return {
            "always saying of each label what is more frequent": baselines.always_the_frequent(counts),
            "saying each label at random, as often as here": baselines.at_random(counts),
        }
    most = int(counts.support.argmax())
    majority = {_saying(counts, names, most): baselines.always_one_class(counts, most)}
    return majority if constant else {**majority, "each class at random, as often as here": baselines.at_random(counts)}


def _of_one(counts: Counts, names: Sequence[str], place: int, exclusive: bool) -> Mapping[str, Counts]:
    """The counts of always saying a class or label, and of never saying it: another class, the most frequent."""
    if not exclusive:
        return {f"always saying {word}": baselines.always(counts, word == "yes") for word in ("yes", "no")}
    others = counts.support.clone()
    others[place] = -1
    return {_saying(counts, names, at): baselines.always_one_class(counts, at) for at in (place, int(others.argmax()))}


def _saying(counts: Counts, names: Sequence[str], place: int) -> str:
    is_majority = bool((counts.support < counts.support[place]).sum() == len(names) - 1)
    return f"always saying {names[place]}{' (the majority)' if is_majority else ''}"


def _parts(readout: Readout, counts: Counts) -> str:
    """Numerator and denominator of a number of one class, and of what is counted over all of them."""
    if isinstance(readout, OneTable):
        return parts_of(counts.at(readout.place), readout.statistic)
    if isinstance(readout, WholeMatrix) and readout.statistic.name == "accuracy":
        return f"{in_words(counts.tp.sum().item())} of {in_words(counts.support.sum().item())}"
    if isinstance(readout, Averaged) and readout.average == "micro":
        return parts_of(Counts(*(cell.sum() for cell in counts.cells)), readout.statistic)
    return ""


def never_predicted(counts: Counts, labels: Sequence[str]) -> Sequence[str]:
    """The sentence about labels that are never predicted, if there are some; and if anything is counted."""
    never = [name for name, times in zip(labels, counts.predicted_positives.tolist(), strict=True) if not times]
    if not never or not bool(counts.total.any()):
        return ()
    more = f" and {numbered(len(never) - NAMED, 'more label')}" if len(never) > NAMED else ""
    return (f"{', '.join(never[:NAMED])}{more} {'was' if len(never) == 1 else 'were'} never predicted.",)


def one_class_predicted(counts: Counts, names: Sequence[str]) -> str:
    """The sentence about a classifier that only ever predicts one class."""
    predicted = counts.predicted_positives.nonzero().flatten().tolist()
    if len(predicted) != 1 or not bool(counts.support.any()):
        return ""
    return f"Only {names[predicted[0]]} was predicted: always saying {names[predicted[0]]}"


def _formula(name: str, readout: Readout) -> str:
    """The formula in words."""
    formula = readout.statistic.formula
    if isinstance(readout, WholeMatrix):
        return f"{OVERALL[readout.statistic.name].__doc__}"
    if isinstance(readout, TopK):
        return f"Samples whose class has one of the {readout.k} largest scores, of all samples."
    formula = formula if formula[:2].isupper() else formula[0].lower() + formula[1:]
    if name == "exact_match":
        return "Samples with all their labels right, of all samples."
    if name.endswith("/samples"):
        return f"The mean over samples of: {formula}"
    if not isinstance(readout, Averaged):
        return readout.statistic.formula
    over = {
        "macro": "The mean over classes or labels, each weighing the same, of:",
        "weighted": "The mean over classes or labels, each weighing as many samples as it has, of:",
        "micro": "Over all classes or labels together:",
    }
    return f"{over[readout.average]} {formula}"


def _micro(name: str, names: Sequence[str]) -> Sequence[str]:
    """The sentence about a micro average over classes, which is mistaken for the F1 of the positive class."""
    if name == "accuracy" or name not in MICRO:
        return ()
    said = "It is the accuracy: with one target and one prediction each, micro precision, recall and F1 all are."
    usual = f" Of two classes, the usual one is {name.partition('/')[0]}/{names[-1]}, that of the positive class."
    return (said + (usual if len(names) == 2 else ""),)


def _unseen(name: str, readout: Readout, names: Sequence[str]) -> list[str]:
    """The sentence about what an average hides."""
    if name == "exact_match":
        return [
            "A sample with one wrong label counts like one with all labels wrong: hamming_accuracy tells them apart.",
            "What a classifier that ignores its inputs would reach depends on which labels occur together, and counts "
            "of single labels do not say that.",
        ]
    if isinstance(readout, OneTable):
        place = names[readout.place]
        return [f"It is about {place} alone, against everything else."]
    if isinstance(readout, Averaged) and readout.average == "macro":
        return ["A rare class moves it as much as a frequent one; per_class or per_label shows which one does."]
    if isinstance(readout, (Averaged, WholeMatrix)) and name != "mcc":
        return ["It ignores how the errors are spread: a class that is never found hardly lowers it if it is rare."]
    return []


def note_sending(tally: Tally) -> None:
    """Remember that a copy is made for another process, which will count in it."""
    if get_spawning_popen() is not None:
        tally.sent_elsewhere = True
