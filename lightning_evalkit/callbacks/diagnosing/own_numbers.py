"""Keeps the totals that this package's evaluations computed in a run, to judge them when the epoch is over.

This adds no collective: an evaluation that is computed has already synchronised the ranks.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lightning_evalkit.callbacks.diagnosing.training_shares import MetricNumbers
from lightning_evalkit.callbacks.parts.changed_evaluations import evaluations
from lightning_evalkit.diagnosis.numbers import seen_counts
from lightning_evalkit.diagnosis.rules import OF_THRESHOLDS
from lightning_evalkit.evaluation.diagnosing import candidates_of, seen_numbers
from lightning_evalkit.evaluation.plots import thresholds_listed
from lightning_evalkit.inputs.threshold import names_of
from lightning_evalkit.reports.snapshot import reported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lightning_evalkit.callbacks.parts.method_patch import MethodPatches
    from lightning_evalkit.counts import Totals
    from lightning_evalkit.diagnosis.numbers import SeenNumbers
    from lightning_evalkit.evaluation.base import Evaluation
    from lightning_evalkit.trainer import LightningModule, Trainer


class OwnNumbers:
    """The totals that evaluations computed at the end of a validation or test, by their path."""

    def __init__(
        self, patches: MethodPatches, in_step: Callable[[], bool], on_training: Callable[[Evaluation, Totals], None]
    ) -> None:
        self._patches, self._in_step, self._on_training, self._listening = patches, in_step, on_training, False
        self._computed: dict[str, tuple[Evaluation, Totals]] = {}

    def begin(self, is_evaluating: bool) -> None:
        """Listen to a validation or test; in training, the model changes while its numbers are counted."""
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
            if joined is not None and not self._in_step():
                if self._listening:
                    self._computed[path] = (evaluation, joined.totals)
                else:
                    self._on_training(evaluation, joined.totals)
            return value

        return compute

    def numbers(
        self, monitored: Mapping[str, list[float]], dataloaders: Callable[[Evaluation], frozenset[int]]
    ) -> list[MetricNumbers]:
        """The numbers of each evaluation, with the values that monitored entries had in earlier epochs."""
        found = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the run itself warned when it computed
            for path, (evaluation, totals) in self._computed.items():
                copy = evaluation.clone()
                copy.tally.sync_on_compute = False
                copy.tally.load_totals(totals)
                unasked = () if getattr(copy, "threshold", 0.5) == 0.5 else OF_THRESHOLDS
                for name, numbers in _numbers(path, copy, monitored):
                    found.append(MetricNumbers(name, numbers, unasked, dataloaders(evaluation)))
        return found


def _numbers(
    path: str, evaluation: Evaluation, monitored: Mapping[str, list[float]]
) -> Iterator[tuple[str, SeenNumbers]]:
    """The facts of an evaluation, for each threshold if it has several."""
    cuts = thresholds_listed(evaluation)
    if not cuts:
        logged = {name.replace("/", "_"): values for name, values in monitored.items()}  # Evaluate(separator="_")
        tags = {name: tag.replace("/", "_") for name, tag in reported(evaluation).items()}
        values = {name: logged[tag] for name, tag in tags.items() if tag in logged}
        yield path, replace(seen_numbers(evaluation), candidates=candidates_of(evaluation, values))
    for place, cut in enumerate(names_of(cuts)):
        yield f"{path}@{cut}", seen_counts(evaluation.counts.at(place))
