"""The numbers of this package's evaluations in a run: what they computed is kept, and judged when the epoch is over.

Nothing is asked of other ranks: an evaluation that is computed has joined them already, and its totals are remembered.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lightning_evalkit.callbacks.parts.changed_evaluations import evaluations
from lightning_evalkit.diagnosis.numbers import seen_counts
from lightning_evalkit.diagnosis.report import about_subject, judged
from lightning_evalkit.diagnosis.rules import OF_THRESHOLDS
from lightning_evalkit.evaluation.diagnosing import candidates_of, seen_numbers
from lightning_evalkit.evaluation.plots import thresholds_listed
from lightning_evalkit.inputs.threshold import names_of
from lightning_evalkit.reports.snapshot import reported

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from lightning_evalkit.callbacks.parts.method_patch import MethodPatches
    from lightning_evalkit.counts import Totals
    from lightning_evalkit.diagnosis.numbers import SeenNumbers
    from lightning_evalkit.diagnosis.report import Diagnosis
    from lightning_evalkit.evaluation.base import Evaluation
    from lightning_evalkit.trainer import LightningModule, Trainer


class OwnNumbers:
    """The totals that evaluations computed at the end of a validation or test, by their path."""

    def __init__(self, patches: MethodPatches, in_step: Callable[[], bool]) -> None:
        self._patches, self._in_step, self._listening = patches, in_step, False
        self._computed: dict[str, tuple[Evaluation, Totals]] = {}

    def begin(self, is_evaluating: bool) -> None:
        """Listen to a validation or test; not to training, whose numbers are of a model that changes."""
        self._listening = is_evaluating
        self._computed.clear()

    def look(self, trainer: Trainer, module: LightningModule) -> None:
        """Follow every evaluation, also those that ``Evaluate`` made for another dataloader."""
        for path, each in evaluations(trainer, module).items():
            self._patches.place(each.tally, "compute", self._remembering(path, each))

    def _remembering(self, path: str, evaluation: Evaluation) -> Callable[..., Any]:
        def compute(compute: Callable[[], Any]) -> Any:
            value = compute()
            joined = evaluation.tally._computed  # with compute_with_cache=False nothing is kept, and nothing judged
            if self._listening and joined is not None and not self._in_step():
                self._computed[path] = (evaluation, joined.totals)
            return value

        return compute

    def judged(self, ignore: Collection[str], monitored: Mapping[str, list[float]]) -> Iterator[Diagnosis]:
        """What the rules on numbers say of each, with the values of earlier epochs of what is monitored."""
        for path, (evaluation, totals) in self._computed.items():
            copy = evaluation.clone()
            copy.tally.sync_on_compute = False
            copy.tally.load_totals(totals)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # said when the run computed it
                unasked = () if getattr(copy, "threshold", 0.5) == 0.5 else OF_THRESHOLDS
                for name, numbers in _numbers(path, copy, monitored):
                    yield about_subject(judged(numbers, "numbers", ignore, unasked=unasked), name)


def _numbers(
    path: str, evaluation: Evaluation, monitored: Mapping[str, list[float]]
) -> Iterator[tuple[str, SeenNumbers]]:
    """The facts of an evaluation; of one with several thresholds those of each."""
    cuts = thresholds_listed(evaluation)
    if not cuts:
        logged = {name.replace("/", "_"): values for name, values in monitored.items()}  # Evaluate(separator="_")
        tags = {name: tag.replace("/", "_") for name, tag in reported(evaluation).items()}
        values = {name: logged[tag] for name, tag in tags.items() if tag in logged}
        yield path, replace(seen_numbers(evaluation), candidates=candidates_of(evaluation, values))
    for place, cut in enumerate(names_of(cuts)):
        yield f"{path}@{cut}", seen_counts(evaluation.counts.at(place))
