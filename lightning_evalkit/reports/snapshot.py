"""What there is to show of an evaluation at the end of an epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lightning_evalkit.evaluation.plots import thresholds_listed
from lightning_evalkit.inputs.threshold import names_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from lightning_evalkit.evaluation.base import Evaluation
    from lightning_evalkit.evaluation.score_snapshot import ScoreSnapshot

HEADLINES = ("accuracy", "exact_match", "hamming_accuracy", "f1", "f1/micro", "f1/macro")
"""The numbers that belong into one chart."""


@dataclass(frozen=True)
class Snapshot:
    """Plain values, which stay when the evaluation is reset."""

    start: str
    end: str
    """What tags begin and end with."""
    epoch: str
    step: int
    matrix_labels: Sequence[str]
    matrix: Tensor | None
    explanation: str | None
    scores: ScoreSnapshot | None

    def tag(self, what: str) -> str:
        """Where something of this evaluation is shown."""
        return f"{self.start}{what}{self.end}"


def reported(evaluation: Evaluation) -> dict[str, str]:
    """Its names without prefix and postfix, and as they are reported."""
    names = [str(entry.name) for entry in evaluation.values()]
    return {name: f"{evaluation.prefix or ''}{name}{evaluation.postfix or ''}" for name in names}


def headlines(evaluation: Evaluation) -> list[str]:
    """The names of its accuracy and F1 as they are reported, at every threshold."""
    return [tag for name, tag in reported(evaluation).items() if name.partition("@")[0] in HEADLINES]


def explanation(evaluation: Any) -> str:
    """Why its accuracy and F1 are what they are, in Markdown."""
    parts = [
        f"#### threshold {cut}\n\n{evaluation._explained_at(place).markdown()}"
        for place, cut in enumerate(names_of(thresholds_listed(evaluation)))
    ]
    return "\n\n".join(parts) or str(evaluation.explain().markdown())
