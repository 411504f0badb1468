"""Cells by name: in whatever order a counter declares them, every number stays the same, and no state is mistaken."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.counts import Cells
from lightning_evalkit.errors import InputError
from lightning_evalkit.evaluation.slices import Slices
from lightning_evalkit.metrics import (
    BinaryAUROC,
    BinaryCalibrationError,
    BinaryStatScores,
    LossProfile,
    MeanLoss,
    MulticlassAUROC,
    MulticlassExactMatch,
    MultilabelAveragePrecision,
)
from lightning_evalkit.state import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLES, CLASSES = 60, 4


def test_cells_lie_behind_each_other_and_none_that_is_not_kept() -> None:
    cells = Cells(tp=2, ignored=0, fp=1) + Cells(updates=1)
    row = torch.tensor([10, 11, 12, 13])
    assert cells.width == 4
    assert cells.read(row, "tp").tolist() == [10, 11]
    assert cells.read(row.expand(3, 4), "fp").tolist() == [[12]] * 3
    assert cells.one(row, "tp", 1) == 11
    assert cells.numbers(row, "updates", "ignored", "tp") == [[13], [], [10, 11]]
    assert cells.flat(updates=(4,), tp=(1, 2), ignored=(9,), fp=(3,)) == [1, 2, 3, 4]
    assert cells.parts(updates="d", tp="ab", ignored="", fp="c") == ["ab", "c", "d"]


def test_cells_are_equal_in_one_order_and_size_only() -> None:
    cells = Cells(tp=2, fp=1)
    assert cells == Cells(tp=2, ignored=0, fp=1)
    assert cells != Cells(fp=1, tp=2)
    assert cells != Cells(tp=1, fp=2)
    assert repr(cells.under("counts") + Cells(tp=1).repeated("groups", 3)) == (
        "counts.tp 2, counts.fp 1, groups of (tp 1) 3"
    )


declared = Cells.__init__


def turn_round(patch: pytest.MonkeyPatch) -> None:
    """Let every declaration of cells be read from its end; those made of others keep the order of their parts."""

    def made_of(sizes: dict[str, int]) -> Cells:
        cells = Cells.__new__(Cells)
        declared(cells, **sizes)
        return cells

    patch.setattr(Cells, "__init__", lambda self, **sizes: declared(self, **dict(reversed(sizes.items()))))
    patch.setattr(Cells, "__add__", lambda self, other: made_of(self.sizes | other.sizes))
    patch.setattr(Cells, "under", lambda self, prefix: made_of({f"{prefix}.{k}": n for k, n in self.sizes.items()}))


def binary(seed: int = 0) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(0, 3, (SAMPLES,), generator=generator)
    return torch.randn(SAMPLES, generator=generator), torch.where(target == 2, -1, target)


def classes() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(SAMPLES, CLASSES, generator=generator), torch.randint(
        0, CLASSES, (SAMPLES,), generator=generator
    )


def labels() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(2)
    target = torch.randint(0, 2, (SAMPLES, CLASSES), generator=generator)
    return torch.randn(SAMPLES, CLASSES, generator=generator), target


def weighed(batch: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return (*batch, torch.arange(SAMPLES) % 4 / 2)


def sliced() -> Slices:
    return Slices(MultilabelEvaluation("logits", CLASSES, weighted=True), num_groups=3)


CASES: dict[str, tuple[Any, Any]] = {
    "binary": (lambda: BinaryEvaluation("logits", [0.2, 0.5], ignore_index=-1), binary),
    "binary_weighted": (
        lambda: BinaryEvaluation("logits", [0.2, 0.5], ignore_index=-1, weighted=True),
        lambda: weighed(binary()),
    ),
    "binary_guessed": (lambda: BinaryStatScores(ignore_index=-1), binary),
    "binary_curves": (lambda: BinaryEvaluation("logits", ignore_index=-1, curves=True), binary),
    "binary_curves_weighted": (
        lambda: BinaryEvaluation("logits", ignore_index=-1, curves=True, weighted=True),
        lambda: weighed(binary()),
    ),
    "guessed_scores": (lambda: BinaryAUROC(ignore_index=-1), binary),
    "stored_scores": (
        lambda: BinaryAUROC(thresholds=None, ignore_index=-1, weighted=True, inputs="logits"),
        lambda: weighed(binary()),
    ),
    "calibration": (lambda: BinaryCalibrationError(ignore_index=-1), binary),
    "classes": (
        lambda: MulticlassEvaluation("logits", CLASSES, statistics=["accuracy", "f1/macro", "top_2_accuracy"]),
        classes,
    ),
    "classes_at_once": (lambda: MulticlassEvaluation("logits", CLASSES, curves=True, per_class=True), classes),
    "classes_weighted": (
        lambda: MulticlassEvaluation("logits", CLASSES, curves=True, weighted=True, confusion_matrix=True),
        lambda: weighed(classes()),
    ),
    "many_classes": (lambda: MulticlassEvaluation("logits", 70), lambda: (torch.eye(70), torch.arange(70) // 2)),
    "whole_samples": (
        lambda: MulticlassExactMatch(num_classes=CLASSES),
        lambda: (torch.arange(12).view(4, 3) % 4, torch.arange(12).view(4, 3) // 4),
    ),
    "class_scores": (lambda: MulticlassAUROC(num_classes=CLASSES, thresholds=50), classes),
    "labels": (lambda: MultilabelEvaluation("logits", CLASSES, per_label=True, curves=True), labels),
    "labels_weighted": (
        lambda: MultilabelEvaluation("logits", CLASSES, curves=True, weighted=True),
        lambda: weighed(labels()),
    ),
    "label_scores": (lambda: MultilabelAveragePrecision(num_labels=CLASSES), labels),
    "groups": (sliced, lambda: (*labels(), torch.arange(SAMPLES) % 3, torch.arange(SAMPLES) % 4 / 2)),
    "losses": (MeanLoss, lambda: (torch.arange(6.0), torch.arange(6.0) % 3)),
    "loss_profile": (lambda: LossProfile(num_classes=CLASSES, weighted=True), lambda: profile_batch()),
}
every_case = pytest.mark.parametrize(("build", "batch"), CASES.values(), ids=CASES)


def profile_batch() -> tuple[Any, ...]:
    preds, target, weight = weighed(classes())
    return preds, target, None, weight


def filled(build: Callable[[], Any], batch: Callable[[], Any]) -> Any:
    metric = build()
    for _ in range(2):
        metric.update(*batch())
    return metric


def read(metric: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return metric.compute()


@every_case
def test_no_number_depends_on_the_order_of_cells(
    build: Callable[[], Any], batch: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = filled(build, batch)
    turn_round(monkeypatch)
    other = filled(build, batch)
    assert tally(other).counter.layout != tally(usual).counter.layout or tally(usual).counter.layout.size < 3
    assert tally(other).update_count == tally(usual).update_count == 2
    torch.testing.assert_close(read(other), read(usual), rtol=0, atol=0, equal_nan=True)


def tally(metric: Any) -> Any:
    return getattr(metric, "tally", metric)


@every_case
def test_a_state_with_its_cells_in_another_order_is_refused(
    build: Callable[[], Any], batch: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = filled(build, batch)
    usual.persistent(True)
    saved, before = usual.state_dict(), tally(usual).totals.integers.clone()
    turn_round(monkeypatch)
    other = build()
    if tally(other).counter.layout == tally(usual).counter.layout:
        pytest.skip("one cell has no other order")
    with pytest.raises(RuntimeError, match=r"keeps other cells, or the same in another order: .* there, .* here"):
        other.load_state_dict(saved)
    with pytest.raises(InputError, match="keeps other cells, or the same in another order"):
        tally(other).merge_state(tally(usual))
    assert not tally(other).update_called
    assert tally(usual).totals.integers.equal(before)


def test_a_state_of_another_width_is_refused() -> None:
    metric = filled(*CASES["binary"])
    metric.persistent(True)
    for width in (3, 100):
        saved = metric.state_dict() | {"integers": torch.ones(width, dtype=torch.int64)}
        with pytest.raises(RuntimeError, match=rf"expected a state of 9 integers and 0 reals .* got {width} "):
            CASES["binary"][0]().load_state_dict(saved)
    states = {name: torch.ones(3, dtype=torch.int64) for name in metric.tally.metric_state}
    with pytest.raises(InputError, match=r"expected a state of 9 integers and 0 reals .* got 3 "):
        metric.tally.merge_state(states)


def test_a_state_of_another_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = filled(*CASES["binary"])
    metric.persistent(True)
    monkeypatch.setattr(checkpoint, "FORMAT", checkpoint.FORMAT + 1)
    with pytest.raises(RuntimeError, match=r"has format 3, and this version reads format 4: .*persistent\(False\)"):
        CASES["binary"][0]().load_state_dict(metric.state_dict() | saved_before(metric))


def saved_before(metric: Any) -> dict[str, Any]:
    """What the version before had saved."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(checkpoint, "FORMAT", 3)
        return dict(metric.state_dict())
