"""What ``ignore_index`` leaves out is decided by value: no target type wraps or rounds it into another number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit import metrics as own
from lightning_evalkit.errors import InputError
from lightning_evalkit.evaluation import Slices
from lightning_evalkit.inputs.declaration import holds

if TYPE_CHECKING:
    from collections.abc import Callable

CLASSES = 300
"""More than a byte can name."""
WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.bool)
TYPES = {
    "binary": (*WHOLE, torch.float16, torch.bfloat16, torch.float32, torch.float64),
    "multilabel": (*WHOLE, torch.float16, torch.bfloat16, torch.float32, torch.float64),
    "multiclass": WHOLE,
}
WAYS: dict[str, dict[str, Any]] = {
    "counts": {},
    "weighted": {"weighted": True},
    "curves": {"curves": True, "resolution": 8},
    "weighted_curves": {"curves": True, "resolution": 8, "weighted": True},
}
MARKS = st.one_of(
    st.sampled_from([-100, -1, 255, 256, 257, 156, 128, -129, 2049, 2**24 + 1, 70_000, 2**40]), st.integers(-600, 600)
)


def evaluation_of(task: str, mark: int, **options: Any) -> Any:
    if task == "multiclass":
        return MulticlassEvaluation("logits", CLASSES, ignore_index=mark, **options)
    if task == "multilabel":
        return MultilabelEvaluation("logits", 2, ignore_index=mark, **options)
    return BinaryEvaluation("logits", ignore_index=mark, **options)


@st.composite
def targets(draw: Any, task: str, mark: int, kind: torch.dtype) -> Tensor:
    """Values that are allowed and that this type holds as they are."""
    allowed = [*range(CLASSES)] if task == "multiclass" else [0, 1]
    values = st.sampled_from([value for value in (*allowed, mark) if holds(kind, value)])
    flat = draw(st.lists(values, min_size=8, max_size=8))
    return torch.tensor(flat).reshape(4, 2) if task == "multilabel" else torch.tensor(flat)


def binning_of(task: str) -> Tensor:
    shape = {"binary": (8,), "multilabel": (4, 2), "multiclass": (8, CLASSES)}[task]
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def state(metric: Any) -> list[Tensor]:
    return [part for part in getattr(metric, "tally", metric).totals if part is not None]


def assert_equal_states(build: Callable[[], Any], first: tuple[Any, ...], second: tuple[Any, ...]) -> None:
    pair = build(), build()
    for metric, batch in zip(pair, (first, second), strict=True):
        metric.update(*batch)
    torch.testing.assert_close(*map(state, pair), rtol=0, atol=0)


@pytest.mark.parametrize("task", TYPES)
@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
@given(st.data(), st.booleans())
def test_the_type_of_targets_changes_no_count(task: str, options: dict[str, Any], data: Any, deferred: bool) -> None:
    """Sixty-four bits hold every number as it is, so what they give is what every type has to give."""
    mark, kind = data.draw(MARKS), data.draw(st.sampled_from(TYPES[task]))
    target = data.draw(targets(task, mark, kind))
    weight = [torch.arange(len(target)) % 3] if options.get("weighted") else []

    def build() -> Any:
        evaluation = evaluation_of(task, mark, **options)
        if deferred:
            for counter in vars(evaluation.tally.counter).values():
                if hasattr(counter, "plain"):
                    counter.plain = False
            evaluation.tally.counter.plain = False
        return evaluation

    scores = binning_of(task)
    assert_equal_states(build, (scores, target.to(kind), *weight), (scores, target, *weight))


MORE: dict[str, tuple[str, Callable[[int], Any]]] = {
    "binary_profile": ("binary", lambda mark: own.LossProfile(ignore_index=mark)),
    "profile_of_classes": ("multiclass", lambda mark: own.LossProfile(CLASSES, ignore_index=mark)),
    "profile_of_labels": ("multilabel", lambda mark: own.LossProfile(num_labels=2, ignore_index=mark)),
    "binary_slices": ("binary", lambda mark: Slices(evaluation_of("binary", mark), 2)),
    "slices_of_classes": ("multiclass", lambda mark: Slices(evaluation_of("multiclass", mark), 2)),
    "slices_of_labels": ("multilabel", lambda mark: Slices(evaluation_of("multilabel", mark), 2)),
    "exact_scores": ("multiclass", lambda mark: own.MulticlassROC(CLASSES, None, ignore_index=mark)),
    "guessed_scores": ("binary", lambda mark: own.BinaryAUROC(ignore_index=mark)),
    "several_marks": ("multiclass", lambda mark: own.MulticlassRecall(CLASSES, ignore_index=(mark, -7))),
}


@pytest.mark.parametrize("name", MORE)
@given(st.data())
def test_no_metric_wraps_a_mark(name: str, data: Any) -> None:
    task, build = MORE[name]
    mark, kind = data.draw(MARKS), data.draw(st.sampled_from(TYPES[task]))
    target = data.draw(targets(task, mark, kind))
    groups = [torch.arange(len(target)) % 2] if "slices" in name else []
    scores = binning_of(task)
    assert_equal_states(lambda: build(mark), (scores, target.to(kind), *groups), (scores, target, *groups))


def test_a_byte_is_no_negative_number() -> None:
    evaluation = MulticlassEvaluation("labels", 200, ignore_index=-100)
    evaluation.update(torch.tensor([156, 3, 3, 0]), torch.tensor([156, 156, 3, 0], dtype=torch.uint8))
    assert float(evaluation.compute()["accuracy"]) == 0.75


@pytest.mark.parametrize(("kind", "value"), [(torch.uint8, 255), (torch.int8, -100)])
def test_a_complaint_names_the_value_that_is_wrong(kind: torch.dtype, value: int) -> None:
    evaluation = MulticlassEvaluation("labels", 200, ignore_index=-1)
    with pytest.raises(InputError, match=rf"target to be a class from 0 to 199 or ignore_index=-1, got {value} at pos"):
        evaluation.update(torch.tensor([1, 2]), torch.tensor([1, value], dtype=kind))


def test_a_byte_below_300_classes_is_not_complained_about() -> None:
    """299 among bytes would be 43, and the wrong target, not this one, has to be named."""
    evaluation = MulticlassEvaluation("labels", CLASSES)
    with pytest.raises(InputError, match=r"preds to be a class from 0 to 299, got 400 at position 1 \(1 of 2"):
        evaluation.update(torch.tensor([1, 400]), torch.tensor([100, 200], dtype=torch.uint8))


@given(st.sampled_from([*WHOLE, torch.float16, torch.bfloat16, torch.float32]), st.integers(-(2**30), 2**30))
def test_a_type_holds_what_it_gives_back(kind: torch.dtype, number: int) -> None:
    stored = torch.tensor(number, dtype=torch.float64 if kind.is_floating_point else torch.int64).to(kind)
    assert holds(kind, number) == (int(stored.double().clamp(-(2.0**60), 2.0**60)) == number)
