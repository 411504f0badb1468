"""Metrics and evaluations of every kind, and batches for them."""

from __future__ import annotations

import copy
import io
import itertools
import math
import pickle
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from lightning_evalkit import BinaryEvaluation
from lightning_evalkit.metrics import BinaryAccuracy, BinaryF1Score, BinaryRecall, BinaryStatScores

if TYPE_CHECKING:
    from collections.abc import Callable

    from lightning_evalkit.state import Tally


Metric = Any
"""A single metric or an evaluation: both have update, forward, compute, reset, clone and merge_state."""


@dataclass(frozen=True)
class Variant:
    """One way to declare a metric, and what its batches need."""

    build: Callable[[], Metric]
    thresholds: tuple[float, ...] = (0.5,)
    shape: tuple[int, ...] = (40,)
    logits: bool = False
    weighted: bool = False
    samplewise: bool = False

    def batch(self, seed: int) -> tuple[Tensor, ...]:
        """Scores and targets, and whole-number weights where declared: their sums have no rounding."""
        generator = torch.Generator().manual_seed(seed)
        scores = torch.rand(self.shape, generator=generator)
        target = torch.randint(0, 2, self.shape, generator=generator)
        weight = torch.randint(0, 5, self.shape[:1], generator=generator).double()
        scores = torch.logit(scores) if self.logits else scores
        return (scores, target, weight) if self.weighted else (scores, target)

    def expected(self, *batches: tuple[Tensor, ...]) -> list[list[list[float]]]:
        """(tp, fp, fn, tn) of every group and threshold; a group is a sample, or all of them."""
        rows = [row for batch in batches for row in self._rows(*batch)]
        groups = rows if self.samplewise else [list(itertools.chain(*rows))]
        return [[self._cells(group, threshold) for threshold in self.thresholds] for group in groups]

    def _rows(self, scores: Tensor, target: Tensor, weight: Tensor | None = None) -> list[list[tuple[float, ...]]]:
        """The elements of every sample, each as score, target and weight."""
        weights = [1] * len(scores) if weight is None else weight.tolist()
        scores, target = (tensor.reshape(len(tensor), -1).tolist() for tensor in (scores, target))
        return [
            [(*pair, w) for pair in zip(s, t, strict=True)] for s, t, w in zip(scores, target, weights, strict=True)
        ]

    def _cells(self, samples: list[tuple[float, ...]], threshold: float) -> list[float]:
        cells = [0.0] * 4
        for score, target, weight in samples:
            positive = (1 / (1 + math.exp(-score)) if self.logits else score) > threshold
            cells[{(True, 1): 0, (True, 0): 1, (False, 1): 2, (False, 0): 3}[positive, int(target)]] += weight
        return cells


CUTS = (0.25, 0.5, 0.9)
VARIANTS = {
    "guessed": Variant(BinaryAccuracy),
    "declared": Variant(lambda: BinaryF1Score(inputs="logits"), logits=True),
    "ignoring": Variant(lambda: BinaryRecall(inputs="probabilities", ignore_index=-1)),
    "weighted": Variant(lambda: BinaryStatScores(inputs="probabilities", weighted=True), weighted=True),
    "samplewise": Variant(
        lambda: BinaryStatScores(multidim_average="samplewise", inputs="probabilities"), shape=(5, 7), samplewise=True
    ),
    "samplewise_weighted": Variant(
        lambda: BinaryStatScores(multidim_average="samplewise", inputs="probabilities", weighted=True),
        shape=(5, 7),
        samplewise=True,
        weighted=True,
    ),
    "evaluation": Variant(lambda: BinaryEvaluation("logits", prefix="val/"), logits=True),
    "evaluation_cuts": Variant(lambda: BinaryEvaluation("probabilities", threshold=CUTS), thresholds=CUTS),
    "evaluation_weighted": Variant(lambda: BinaryEvaluation("probabilities", weighted=True), weighted=True),
}


def tally_of(metric: Metric) -> Tally:
    return getattr(metric, "tally", metric)


def counted(metric: Metric) -> list[list[list[float]]]:
    """The counts in the state as nested lists like ``Variant.expected``, read past every cache."""
    tally = tally_of(metric)
    cells = torch.stack(tally.counter.counts(tally.totals).cells, -1)
    return (cells if cells.ndim == 3 else cells[None]).tolist()


def snapshot(metric: Metric) -> dict[str, Any]:
    """Everything of a metric that an update may change."""
    tally = tally_of(metric)
    entries = [entry for _, entry in metric.items()] if isinstance(metric, BinaryEvaluation) else []
    return {
        "totals": [None if total is None else total.tolist() for total in tally.totals],
        "updates": tally.update_count,
        "cache": id(tally._computed),
        "forward": [id(each._forward_cache) for each in (tally, *entries)],
    }


def values(computed: Any) -> Any:
    """A result as plain numbers."""
    return (
        {name: value.tolist() for name, value in computed.items()} if isinstance(computed, dict) else computed.tolist()
    )


def filled(variant: Variant, *seeds: int) -> Metric:
    metric = variant.build()
    for seed in seeds:
        metric.update(*variant.batch(seed))
    return metric


def saved_and_loaded(state_dict: dict[str, Any]) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(state_dict, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


CASTS: dict[str, Callable[[Any], Any]] = {
    "half": lambda module: module.half(),
    "bfloat16": lambda module: module.bfloat16(),
    "double": lambda module: module.double(),
    "float": lambda module: module.float(),
    "to_bfloat16": lambda module: module.to(torch.bfloat16),
    "to_float16": lambda module: module.to(torch.float16),
    "to_device_and_dtype": lambda module: module.to("cpu", torch.float16),
    "set_dtype": lambda module: module.set_dtype(torch.float16),
}


class Around(nn.Module):
    def __init__(self, metric: Metric) -> None:
        super().__init__()
        self.layer, self.metric = nn.Linear(2, 1), metric


ONE_OF_EACH = (torch.tensor([0.9, 0.8, 0.2, 0.1]), torch.tensor([1, 0, 1, 0]))
"""A true positive, a false positive, a false negative and a true negative."""

COPIES: dict[str, Callable[[Metric], Metric]] = {
    "pickle": lambda metric: pickle.loads(pickle.dumps(metric)),
    "deepcopy": copy.deepcopy,
    "clone": lambda metric: metric.clone(),
    "in_module": lambda metric: copy.deepcopy(Around(metric)).metric,
    "to_another_process": lambda metric: pickle.loads(ForkingPickler.dumps(metric)),
}
"""The last is how torch.multiprocessing and ddp_spawn hand a model over; tensors then share memory unless copied."""
