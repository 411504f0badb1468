"""Every function takes arrays, data frames and lists, and gives what it gives for tensors."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import torch

from lightning_evalkit import functional

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

SAMPLES, NUMBER = 40, 3
TASKS = ("binary", "multiclass", "multilabel")
FORMS: dict[str, Callable[[Tensor], Any]] = {
    "array": lambda given: given.numpy(),
    "array that may not be written to": lambda given: np.frombuffer(
        given.numpy().tobytes(), given.numpy().dtype
    ).reshape(given.shape),
    "pandas": lambda given: (pd.Series if given.ndim == 1 else pd.DataFrame)(given.numpy()),
    "list": lambda given: given.tolist(),
}
NAMES = [name for name in functional.__all__ if name.startswith(TASKS) or name in ("accuracy", "calibration_error")]


def batch(task: str) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    shape = (SAMPLES,) if task == "binary" else (SAMPLES, NUMBER)
    scores = torch.rand(shape, generator=generator)
    if task == "multiclass":
        return scores.softmax(1), torch.randint(0, NUMBER, (SAMPLES,), generator=generator)
    return scores, torch.randint(0, 2, shape, generator=generator)


def options(name: str, task: str, form: Callable[[Tensor], Any]) -> dict[str, Any]:
    known: dict[str, Any] = {
        "task": "all" if name == "binary_fairness" else task,
        "num_classes": NUMBER,
        "num_labels": NUMBER,
        **dict.fromkeys(("beta", "min_recall", "min_precision", "min_sensitivity", "min_specificity"), 0.5),
        "groups": form(torch.arange(SAMPLES) % 2),
        "num_groups": 2,
    }
    return {option: known[option] for option in signature(getattr(functional, name)).parameters if option in known}


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        found, expected = found.values(), expected.values()
    if isinstance(expected, torch.Tensor):
        # A list holds double precision.
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7, equal_nan=True, check_dtype=False)
        return
    for one, other in zip(found, expected, strict=True):
        same(one, other)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore:.* is 0/0")
def test_other_forms_give_what_tensors_give(name: str, form: Callable[[Tensor], Any]) -> None:
    task = next((task for task in TASKS if name.startswith(task)), "binary")
    preds, target = batch(task)
    function = getattr(functional, name)
    expected = function(preds, target, **options(name, task, lambda given: given))
    same(function(form(preds), form(target), **options(name, task, form)), expected)
