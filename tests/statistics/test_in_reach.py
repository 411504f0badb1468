"""Statistics on the CPU go through NumPy, elsewhere through torch: both give the same numbers."""

from __future__ import annotations

import pytest
import torch

from lightning_evalkit.counts import Counts
from lightning_evalkit.statistics import OVERALL, STATISTICS, find
from lightning_evalkit.statistics.averages import mean

NAMES = (*STATISTICS, "f3", "f0.25")
ZERO_DIVISIONS = (float("nan"), 0.0, 1.0)


def tables(weighted: bool) -> Counts:
    """Of any kind, with empty cells, rows and columns; weights of very different sizes."""
    cells = torch.randint(0, 5, (4, 60), generator=torch.Generator().manual_seed(0))
    cells[:, 0] = 0
    if weighted:
        cells = cells * torch.logspace(-200, 200, 60, dtype=torch.float64)
    return Counts(*cells)


@pytest.mark.parametrize("zero_division", ZERO_DIVISIONS)
@pytest.mark.parametrize("weighted", [False, True], ids=["counted", "weighted"])
@pytest.mark.parametrize("name", NAMES)
def test_arrays_and_tensors_give_one_number(name: str, weighted: bool, zero_division: float) -> None:
    counts, statistic = tables(weighted), find(name)
    by_tensors = statistic(counts).value(zero_division)
    by_arrays = statistic.value(counts, zero_division)
    torch.testing.assert_close(by_arrays, by_tensors, rtol=1e-15, atol=0, equal_nan=True)
    for place in (0, 7):
        alone = statistic.value(counts.at(place), zero_division)
        torch.testing.assert_close(alone, by_arrays[place], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("zero_division", ZERO_DIVISIONS)
@pytest.mark.parametrize("name", list(OVERALL))
def test_whole_tables_too(name: str, zero_division: float) -> None:
    matrix = torch.randint(0, 9, (5, 5), generator=torch.Generator().manual_seed(1))
    tp = matrix.diag()
    fp, fn = matrix.sum(0) - tp, matrix.sum(1) - tp
    for counts in (Counts(tp, fp, fn, matrix.sum() - tp - fp - fn), Counts.empty(5)):
        by_tensors, by_arrays = (OVERALL[name](each).value(zero_division) for each in (counts, counts.in_reach()))
        torch.testing.assert_close(by_arrays, by_tensors, equal_nan=True)


def test_means_are_followed_by_gradients_and_leave_out_what_weighs_nothing() -> None:
    values = torch.tensor([0.5, float("nan"), 1.0], dtype=torch.float64)
    weights = torch.tensor([1.0, 0.0, 3.0], dtype=torch.float64)
    assert mean(values, weights, 0.0) == (0.5 + 3.0) / 4
    assert mean(values, 0 * weights, -1.0) == -1.0
    followed = values.nan_to_num(0.0).requires_grad_()
    mean(followed, weights, 0.0).backward()
    assert followed.grad is not None
    assert followed.grad.tolist() == [0.25, 0.0, 0.75]


def test_numbers_of_python_stay_exact() -> None:
    large = 10**30
    counts = Counts(tp=large, fp=0, fn=1, tn=0)
    assert counts.in_reach() is counts
    assert find("recall").value(counts) == 1.0  # as a float
