"""A snapshot of an evaluation at the end of an epoch."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.evaluation.plots import thresholds_listed
from lightning_evalkit.inputs.threshold import names_of

if TYPE_CHECKING:
    from lightning_evalkit.counts import Totals
    from lightning_evalkit.evaluation.base import Evaluation

HEADLINES = ("accuracy", "exact_match", "hamming_accuracy", "f1", "f1/micro", "f1/macro")
"""The numbers that belong into one chart."""


@dataclass(frozen=True)
class Snapshot:
    """The counts of all ranks in an epoch; they survive a reset of the evaluation and are read only if drawn."""

    start: str
    end: str
    """The prefix and postfix of tags."""
    epoch: str
    step: int
    evaluation: Evaluation
    totals: Totals

    def tag(self, what: str) -> str:
        """The tag of a figure or text of this evaluation."""
        return f"{self.start}{what}{self.end}"

    @property
    def title(self) -> str:
        """The title of its figures."""
        return f"{self.start.rstrip('/')}{self.end}{self.epoch}"

    @cached_property
    def counted(self) -> Evaluation:
        """An evaluation that holds these counts and needs no other rank."""
        tally = self.evaluation.tally
        with torch.inference_mode(False):
            return deepcopy(self.evaluation, {id(tally): tally.reading(self.totals)})


def reported(evaluation: Evaluation) -> dict[str, str]:
    """Its names without prefix and postfix, mapped to the reported names."""
    names = [str(entry.name) for entry in evaluation.values()]
    return {name: f"{evaluation.prefix or ''}{name}{evaluation.postfix or ''}" for name in names}


def headlines(evaluation: Evaluation) -> dict[str, str]:
    """The names of its accuracy and F1, at every threshold, by the tags they are reported as."""
    return {tag: name for name, tag in reported(evaluation).items() if name.partition("@")[0] in HEADLINES}


def explanation(evaluation: Any) -> str:
    """The explanation of its accuracy and F1, in Markdown."""
    parts = [
        f"#### threshold {cut}\n\n{evaluation._explained_at(place).markdown()}"
        for place, cut in enumerate(names_of(thresholds_listed(evaluation)))
    ]
    return "\n\n".join(parts) or str(evaluation.explain().markdown())
