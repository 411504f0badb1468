"""A state that no machine holds is refused with its size before anything of it is made."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
import torch

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation, functional, metrics
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.evaluation import Slices

if TYPE_CHECKING:
    from collections.abc import Callable

HUGE = 10**9
PAIR = torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
SUMS = (
    "MulticlassCalibrationError",
    "MulticlassHingeLoss",
    "MultilabelCoverageError",
    "MultilabelRankingAveragePrecision",
    "MultilabelRankingLoss",
)
"""A few sums each, whatever the number of classes or labels."""
BUILDS: dict[str, Callable[[], Any]] = {
    "classes": lambda: MulticlassEvaluation("labels", HUGE),
    "named_later": lambda: MulticlassEvaluation("logits", HUGE, per_class=True),
    "curves_of_classes": lambda: MulticlassEvaluation("logits", HUGE, curves=True),
    "labels": lambda: MultilabelEvaluation("logits", HUGE),
    "curves_of_labels": lambda: MultilabelEvaluation("logits", HUGE, curves=True),
    "bins": lambda: BinaryEvaluation("logits", curves=True, resolution=HUGE),
    "bins_of_classes": lambda: MulticlassEvaluation("logits", 1000, curves=True, resolution=2**20),
    "groups": lambda: Slices(BinaryEvaluation("logits"), HUGE),
    "groups_of_classes": lambda: Slices(MulticlassEvaluation("logits", 1000), 10**6),
    "thresholds": lambda: metrics.BinaryROC(thresholds=HUGE),
    "thresholds_of_classes": lambda: metrics.MulticlassROC(10**6, thresholds=10**4),
    "calibration": lambda: metrics.BinaryCalibrationError(n_bins=HUGE),
    "matrix": lambda: metrics.MulticlassConfusionMatrix(HUGE),
    "profile": lambda: metrics.LossProfile(num_classes=HUGE),
    "profile_of_labels": lambda: metrics.LossProfile(num_labels=HUGE),
    "hardest": lambda: metrics.LossProfile(hardest=HUGE),
    "facade": lambda: metrics.Accuracy("multiclass", num_classes=HUGE),
    "function": lambda: functional.multiclass_accuracy(*PAIR, num_classes=HUGE),
    "function_of_labels": lambda: functional.multilabel_roc(
        torch.zeros(1, 2), torch.zeros(1, 2), num_labels=2, thresholds=HUGE
    ),
    **{
        name: lambda kind=kind: kind(HUGE)
        for name in metrics.__all__
        for kind in [getattr(metrics, name)]
        if isinstance(kind, type)
        and name.startswith(("Multiclass", "Multilabel"))
        and "Fixed" not in name
        and "FBeta" not in name
        and "At" not in name
        and name not in SUMS
    },
}


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_a_huge_state_is_refused_with_its_size(build: Callable[[], Any]) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DeclarationError, match=r"(got |\()[\d,.]+ GiB.*:"):
            build()
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    finally:
        tracemalloc.stop()


def test_a_large_state_is_not_huge() -> None:
    assert MulticlassEvaluation("labels", 100_000).tally.totals.integers.numel() > 300_000
