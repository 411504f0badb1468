"""Stores every score, for curves without bins: memory grows with the data, and ranks are gathered.

A row holds the answer to each question (0 no, 1 yes, 2 ignored, 3 invalid, 4 of no weight) in a byte, its score in the
precision in which it came (half precision in single) and, where declared, its weight. One sort counts the scores that
occur: on the CPU that of keys which hold a score of single precision and its answer.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from lightning_evalkit.counts.binned_scores import ScoreCounter
from lightning_evalkit.counts.counter import Ledger, Totals
from lightning_evalkit.counts.counts import real_dtype, wide_dtype
from lightning_evalkit.counts.decisions import refuse_endless
from lightning_evalkit.counts.deferral import is_deferred
from lightning_evalkit.counts.edges import before, from_order, ordered
from lightning_evalkit.counts.layout import Cells, Layout
from lightning_evalkit.counts.score_counts import Edges, Limits, ScoreCounts
from lightning_evalkit.counts.sorted_keys import counted
from lightning_evalkit.errors import InputError
from lightning_evalkit.ranks import warn_on_rank_zero

if TYPE_CHECKING:
    from torch import Tensor

    from lightning_evalkit.inputs import Declaration

LARGE = 10_000_000
"""The number of scores, of at least 5 bytes each, that triggers a warning about memory."""
IGNORED, INVALID, WEIGHTLESS = 2, 3, 4
GUESSED_LOGITS = 8
"""Added to the answer of a score that was guessed to be a logit."""


class Occurring(NamedTuple):
    """The distinct scores in rising order, as they are shown, and the number or weight of yes and no for each."""

    values: Tensor
    shown: Tensor
    yes: Tensor
    no: Tensor


class StoredScores(ScoreCounter):
    """Stores the scores of a declaration row by row; see ``Counter`` for what the methods promise."""

    by_rows = True

    def __init__(self, task: Declaration) -> None:
        super().__init__(task)
        weights = self.num_curves if task.weighted else 0
        self.layout = Layout(Cells(answers=self.num_curves), Cells(scores=self.num_curves, weights=weights))
        self.plain, self.seen = False, 0

    def _deferred(self, preds: Tensor, target: Tensor, weight: Tensor | None) -> Totals:
        looked = self._looked(preds, target, weight)
        answers = looked.marked(looked.yes.to(torch.int8), INVALID, IGNORED, WEIGHTLESS)
        if looked.probable is not None:
            answers = torch.add(answers, looked.probable.logical_not(), alpha=GUESSED_LOGITS)
        scores = looked.scores if self.guesses else self._as_binned(looked.scores, looked.probable)
        reals = {"scores": scores.to(wide_dtype(scores.dtype)).reshape(-1, self.num_curves)}
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
        if real_dtype(reals.device) != torch.float64:
            answers, reals = answers.cpu(), reals.cpu()  # rates and areas need it
        scores = shown = self.layout.reals.read(reals, "scores")
        if self.guesses and bool((answers >= GUESSED_LOGITS).any()):
            scores, shown = self._guessed(answers, scores)
        if self.guesses:
            answers = answers & (GUESSED_LOGITS - 1)
        columns = [answers.unbind(-1), scores.unbind(-1), shown.unbind(-1)]
        if self.task.weighted:
            weights = self.layout.reals.read(reals, "weights")
            refuse_endless(weights.T)
            columns.append(weights.unbind(-1))
        return [self._table(k, *column) for k, column in enumerate(zip(*columns, strict=True))]

    def _guessed(self, answers: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities in double precision for ranking, and in single precision as torchmetrics' thresholds."""
        logits, single, scores = answers >= GUESSED_LOGITS, scores.float(), scores.double()
        ranked = torch.where(logits, self._squashed(scores), scores)
        return ranked, torch.where(logits, self._squashed(single), single)

    def _table(
        self, question: int, answers: Tensor, scores: Tensor, shown: Tensor, weights: Tensor | None = None
    ) -> ScoreCounts:
        used = answers < IGNORED
        if not bool(used.all()):
            answers, scores, shown = answers[used], scores[used], shown[used]
            weights = None if weights is None else weights[used]
        if weights is None and scores.is_cpu and scores.dtype == torch.float32:
            found = _by_keys(answers, scores)
        else:
            found = _by_order(answers, scores, shown, weights)
        error = len(scores) * torch.finfo(torch.float64).eps / 2 if self.task.weighted else 0.0
        return ScoreCounts(
            found.yes.unsqueeze(0),
            found.no.unsqueeze(0),
            partial(self._limits, found.values, found.shown),
            error=error,
            unasked=(0,) if question in self.unasked else (),
            without_empty=True,
        )

    def _limits(self, values: Tensor, shown: Tensor) -> Limits:
        """Every score is a bin of its own, and a threshold just below it is the number before, if there is one."""
        values, shown, logits = values.double(), shown.double(), self.score_kind == "logits"
        if self.guesses:
            shown = shown.float().double()
        lowest = shown.sigmoid() if logits else shown.clamp(min=0)
        cut = torch.where(values > (-torch.inf if logits else 0.0), before(values), torch.nan)
        alone = torch.ones(len(values), dtype=torch.bool, device=values.device)
        return Limits(alone, lowest, lowest, Edges(values, cut, logits))

    def scores(self, totals: Totals) -> ScoreCounts:
        """The scores of one question."""
        tables = self.tables(totals)
        if len(tables) > 1:
            raise InputError("exact scores of several questions are several tables.")
        return tables[0]

    def ledger(self, totals: Totals) -> Ledger:
        """The bookkeeping of the stored rows; the number of batches is not stored."""
        answers: Any = totals.integers & (GUESSED_LOGITS - 1)
        per_sample = self.num_curves if self.is_multiclass else 1
        ignored, invalid = (int((answers == kind).count_nonzero()) // per_sample for kind in (IGNORED, INVALID))
        return Ledger(int(answers.numel() > 0), ignored, invalid, guessed_logits=0, guessed_probabilities=0)


def _by_keys(answers: Tensor, scores: Tensor) -> Occurring:
    """Count by sorting integer keys, which have the order of single-precision scores."""
    keys = ordered(scores.numpy()).astype(np.int64)
    keys *= 2
    keys += answers.numpy()
    places, yes, no = counted(keys)
    values = torch.from_numpy(from_order(places.astype(np.int32)))
    return Occurring(values, values, torch.from_numpy(yes), torch.from_numpy(no))


def _by_order(answers: Tensor, scores: Tensor, shown: Tensor, weights: Tensor | None) -> Occurring:
    """Count by sorting the scores, with their answers and weights in the same order."""
    order = torch.from_numpy(scores.numpy().argsort()) if scores.is_cpu else scores.argsort()
    scores, answers = scores[order], answers[order]
    new = torch.ones_like(answers, dtype=torch.bool)
    new[1:] = scores[1:] != scores[:-1]
    begins, places = new.nonzero().squeeze(-1), new.cumsum(0) - 1
    ones = torch.ones_like(places) if weights is None else weights[order]
    nothing = torch.zeros(len(begins), dtype=ones.dtype, device=ones.device)
    yes, no = (nothing.index_add(0, places, torch.where(answers == kind, ones, 0)) for kind in (1, 0))
    return Occurring(scores[begins], shown[order[begins]], yes, no)
