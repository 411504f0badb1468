"""Stores every score, for curves without bins: memory grows with the data, and ranks are gathered.

A row holds the answer to each question (0 no, 1 yes, 2 ignored, 3 invalid, 4 of no weight), its score and, where
declared, its weight.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.counts.binned_scores import ScoreCounter
from lightning_evalkit.counts.counter import Ledger, Totals
from lightning_evalkit.counts.counts import real_dtype
from lightning_evalkit.counts.deferral import is_deferred
from lightning_evalkit.counts.layout import Cells, Layout
from lightning_evalkit.counts.score_counts import Edges, ScoreCounts
from lightning_evalkit.errors import InputError
from lightning_evalkit.ranks import warn_on_rank_zero

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.inputs import Declaration

LARGE = 10_000_000
"""The number of scores, of 16 bytes each, that triggers a warning about memory."""
IGNORED, INVALID, WEIGHTLESS = 2, 3, 4
GUESSED_LOGITS = 8
"""Added to the answer of a score that was guessed to be a logit."""


class StoredScores(ScoreCounter):
    """Stores the scores of a declaration row by row; see ``Counter`` for what the methods promise."""

    by_rows = True

    def __init__(self, task: Declaration) -> None:
        super().__init__(task)
        weights = self.num_curves if task.weighted else 0
        self.layout = Layout(Cells(answers=self.num_curves), Cells(scores=self.num_curves, weights=weights))
        self.plain, self.seen = False, 0

    def _deferred(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> Totals:
        looked, kind = self._looked(preds, target, weight), real_dtype(preds.device)
        answers = looked.marked(looked.yes.long(), INVALID, IGNORED, WEIGHTLESS)
        if looked.probable is not None:
            answers = answers + torch.where(looked.probable, 0, GUESSED_LOGITS)
        scores = looked.scores if self.guesses else self._as_binned(looked.scores, looked.probable)
        reals = {"scores": scores.to(kind).reshape(-1, self.num_curves)}
        if looked.weight is not None:
            reals["weights"] = looked.weight.expand(scores.shape).reshape(-1, self.num_curves)
        self._notice(preds)
        return Totals(answers.view(-1, self.num_curves), torch.cat(self.layout.reals.parts(**reals), -1))

    def _notice(self, preds: Tensor) -> None:
        if torch.compiler.is_compiling() or (is_deferred(preds) and not preds.is_cuda):
            return
        before, self.seen = self.seen, self.seen + preds.numel()
        if before < LARGE <= self.seen:
            warn_on_rank_zero(
                f"{self.seen:,} scores are kept, because thresholds=None asks for exact curves: memory grows with the "
                "data. thresholds='fine' keeps a histogram of fixed size, with a certain bound of its error.",
            )

    def tables(self, totals: Totals) -> list[ScoreCounts]:
        """One table for each question, with a bin for every score that occurs."""
        assert totals.reals is not None  # always kept
        answers, reals = totals.integers, totals.reals
        if reals.dtype != torch.float64:
            answers, reals = answers.cpu(), reals.cpu().double()  # rates and areas need it
        scores = shown = self.layout.reals.read(reals, "scores")
        if self.guesses:
            scores, shown = self._guessed(answers, scores)
            answers = answers % GUESSED_LOGITS
        weights = self.layout.reals.read(reals, "weights") if self.task.weighted else None
        parts = (answers, scores, shown, torch.ones_like(scores) if weights is None else weights)
        columns = zip(*(part.unbind(-1) for part in parts), strict=True)
        found = [self._table(*column) for column in columns]
        return [replace(table, unasked=(0,)) if k in self.unasked else table for k, table in enumerate(found)]

    def _guessed(self, answers: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities in double precision for ranking, and in single precision as torchmetrics' thresholds."""
        logits, single = answers >= GUESSED_LOGITS, scores.float()
        ranked = torch.where(logits, self._squashed(scores), scores)
        return ranked, torch.where(logits, self._squashed(single), single).double()

    def _table(self, answers: Tensor, scores: Tensor, shown: Tensor, weights: Tensor) -> ScoreCounts:
        used = answers < IGNORED
        values, places = scores[used].unique(return_inverse=True)
        ones = weights[used] if self.task.weighted else torch.ones_like(places)
        parts = [
            torch.zeros(len(values), dtype=ones.dtype, device=ones.device).index_add_(
                0, places, torch.where(answers[used] == kind, ones, 0)
            )
            for kind in (1, 0)
        ]
        alone = torch.ones(len(values), dtype=torch.bool, device=values.device)
        seen = torch.zeros_like(values).scatter(0, places, shown[used])
        lowest = seen.sigmoid() if self.score_kind == "logits" else seen.clamp(min=0)
        edges = Edges(values, self._cuts(values), self.score_kind == "logits")
        error = len(places) * torch.finfo(weights.dtype).eps / 2 if self.task.weighted else 0.0
        return ScoreCounts(parts[0].unsqueeze(0), parts[1].unsqueeze(0), alone, lowest, lowest, edges, error=error)

    def _cuts(self, values: Tensor) -> Tensor:
        """The number before each score, if there is one."""
        least = -torch.inf if self.score_kind == "logits" else 0.0
        before = torch.nextafter(values, torch.full_like(values, -torch.inf))
        return torch.where(values > least, before, torch.nan)

    def scores(self, totals: Totals) -> ScoreCounts:
        """The scores of one question."""
        tables = self.tables(totals)
        if len(tables) > 1:
            raise InputError("exact scores of several questions are several tables.")
        return tables[0]

    def ledger(self, totals: Totals) -> Ledger:
        """The bookkeeping; the number of batches is not stored."""
        answers: Any = totals.integers % GUESSED_LOGITS
        per_sample = self.num_curves if self.is_multiclass else 1
        ignored, invalid = (int((answers == kind).sum()) // per_sample for kind in (IGNORED, INVALID))
        return Ledger(int(answers.numel() > 0), ignored, invalid, guessed_logits=0, guessed_probabilities=0)
