"""What a histogram of scores cannot hold is refused, and nothing is lost."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import torch
from device import tally_of
from score_batches import (
    EVALUATIONS,
    INF,
    NAN,
    SUMMED,
    VARIANTS,
    Batch,
    Variant,
    _assert_same_results,
    _updated,
    assert_same_counts,
    binary,
    classes,
    every_summed,
    every_variant,
    labels,
    metric,
    scores_in,
    without_doubt,
)

from lightning_evalkit.errors import InputError
from lightning_evalkit.metrics import (
    BinaryAUROC,
)

if TYPE_CHECKING:
    from collections.abc import Callable


every_evaluation = pytest.mark.parametrize("variant", EVALUATIONS.values(), ids=EVALUATIONS)


def rows(batch: Batch, places: Any) -> Batch:
    return tuple(tensor[places] for tensor in batch)


@every_summed
def test_order_batches_and_merging_do_not_matter(variant: Variant) -> None:
    batch = variant.batch(60)
    together, shuffled, split, merged, other = (variant.fresh() for _ in range(5))
    together.update(*batch)
    shuffled.update(*rows(batch, torch.randperm(60)))
    for start, end in pairwise((0, 1, 20, 20, 60)):
        split.update(*rows(batch, slice(start, end)))
    merged.update(*rows(batch, slice(25, None)))
    other.update(*rows(batch, slice(25)))
    merged.merge_state(other)
    for counting in (shuffled, split, merged):
        assert_same_counts(counting, together)
        _assert_same_results(counting.compute(), together.compute())


@every_variant
def test_duplicates_change_no_result(variant: Variant) -> None:
    once, twice = variant.fresh(), variant.fresh()
    batch = variant.batch(40)
    once.update(*batch)
    twice.update(*batch)
    twice.update(*(torch.cat((each, each)) for each in batch))
    _assert_same_results(twice.compute(), once.compute())


@pytest.mark.parametrize("name", [name for name, each in VARIANTS.items() if not each.weighted])
def test_whole_weights_are_repetitions_and_no_weight_is_absence(name: str) -> None:
    variant = VARIANTS[name]
    preds, target = variant.batch(40)
    weight = torch.randint(0, 4, (40,))
    weighted, repeated = variant.fresh(weighted=True), variant.fresh()
    weighted.update(preds, target, weight.double())
    places = torch.arange(40).repeat_interleave(weight)
    repeated.update(preds[places], target[places])
    _assert_same_results(weighted.compute(), repeated.compute())
    if name in EVALUATIONS:
        one, other = (scores_in(each)[0] for each in (weighted, repeated))
        assert torch.equal(one.yes, other.yes.double())
        assert torch.equal(one.no, other.no.double())


@every_evaluation
def test_an_ignored_element_is_as_if_it_were_not_there(variant: Variant) -> None:
    """Also where its score is no number."""
    if variant.marked is not None:
        pytest.skip("already ignores")
    preds, target, *weight = variant.batch(40)
    away = torch.rand(target.shape) < 0.3
    ignoring, without = variant.fresh(ignore_index=-7), variant.fresh(ignore_index=-7)
    spoilt = preds.clone()
    spoilt[away] = NAN
    for way in ("at_once", "deferred"):
        _updated(ignoring, (spoilt, torch.where(away, -7, target), *weight), way)
    if target.ndim == 1:
        kept = rows((preds, target, *weight), ~away)
        without.update(*kept)
        without.update(*kept)
        one, other = (scores_in(each)[0] for each in (ignoring, without))
        assert torch.equal(one.yes, other.yes)
        assert torch.equal(one.no, other.no)
    scores = scores_in(ignoring)[0]
    questions = 4 if variant.kind.startswith("classes") else 1
    unit = (weight[0].reshape(-1, *[1] * (target.ndim - 1)) if weight else 1) * torch.ones(target.shape)
    assert float((scores.yes + scores.no).sum()) == 2 * questions * float(unit[~away].sum())
    assert ignoring.tally.counter.ledger(ignoring.tally.totals).ignored == 2 * int((away & (unit != 0)).sum())


@every_variant
def test_an_empty_batch_adds_nothing(variant: Variant) -> None:
    for way in ("at_once", "deferred"):
        full, also = variant.fresh(), variant.fresh()
        full.update(*variant.batch(20))
        _updated(also, rows(variant.batch(20), slice(0, 0)), way)
        also.update(*variant.batch(20))
        _assert_same_results(also.compute(), full.compute())


@every_summed
def test_more_dimensions_are_more_samples(variant: Variant) -> None:
    """Images: one row of pixels after the other."""
    preds, target, *weight = variant.batch(24)
    flat, images = variant.fresh(), variant.fresh()
    flat.update(preds, target, *weight)
    preds = preds.reshape(4, 2, 3, *preds.shape[1:])
    target = target.reshape(4, 2, 3, *target.shape[1:])
    if variant.kind.startswith("classes"):
        preds = preds.movedim(-1, 1)
    elif variant.kind.startswith("labels"):
        preds, target = preds.movedim(-1, 1), target.movedim(-1, 1)
        if weight:
            pytest.skip("whole samples have one weight")
    images.update(preds, target, *(each.reshape(4, 2, 3) for each in weight))
    assert_same_counts(images, flat)


@every_summed
def test_the_order_in_memory_does_not_matter(variant: Variant) -> None:
    rows, columns, batch = variant.fresh(), variant.fresh(), variant.batch(40)
    rows.update(*batch)
    columns.update(
        *(torch.stack((each, each), -1).movedim(0, -1).contiguous().movedim(-1, 0)[..., 0] for each in batch)
    )
    assert_same_counts(columns, rows)


@every_variant
def test_counting_later_is_counting_at_once(variant: Variant) -> None:
    at_once, later = variant.fresh(), variant.fresh()
    for seed, size in enumerate((40, 1, 7, 0)):
        batch = variant.batch(size, seed)
        at_once.update(*batch)
        _updated(later, batch, "deferred")
    if variant.options.get("thresholds", 0) is not None:
        assert_same_counts(at_once, later)
    _assert_same_results(at_once.compute(), later.compute())


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("truth", [torch.uint8, torch.int32, torch.float32], ids=str)
@pytest.mark.parametrize("name", SUMMED)
def test_counting_later_reads_every_type_as_counting_at_once(name: str, kind: torch.dtype, truth: torch.dtype) -> None:
    """Rounded probabilities fall on thresholds and on the edges of calibration bins."""
    variant = SUMMED[name]
    if truth == torch.float32 and variant.kind.startswith("classes"):
        pytest.skip("class numbers are integers")
    at_once, later = variant.fresh(), variant.fresh()
    preds, target, *weight = variant.batch(64)
    if variant.kind in ("binary", "labels"):
        preds = (preds * 30).round() / 30
    target = target.clamp(min=0) if truth == torch.uint8 else target
    for way, counting in (("at_once", at_once), ("deferred", later)):
        _updated(counting, (preds.to(kind), target.to(truth), *weight), way)
    one, other = (tally_of(each).totals for each in (at_once, later))
    assert without_doubt(at_once).tolist() == without_doubt(later).tolist()
    if one.reals is not None:
        torch.testing.assert_close(one.reals, other.reals, rtol=1e-6, atol=1e-6)


WRONG: dict[str, tuple[Callable[..., Any], Batch, str, int]] = {
    "nan": (binary("logits"), (torch.tensor([1.0, NAN, -1.0]), torch.tensor([1, 1, 0])), "preds to be a number", 1),
    "above": (
        binary("probabilities"),
        (torch.tensor([0.5, 1.5, -0.1]), torch.tensor([1, 1, 0])),
        "preds to be a probability in",
        2,
    ),
    "infinite": (
        binary("probabilities"),
        (torch.tensor([0.5, INF, -INF]), torch.tensor([1, 1, 0])),
        "preds to be a probability in",
        2,
    ),
    "target": (binary("logits"), (torch.tensor([1.0, 2.0]), torch.tensor([0, 3])), "target to be 0 or 1, got 3", 1),
    "soft": (
        metric(BinaryAUROC),
        (torch.tensor([0.2, 0.7, 0.4]), torch.tensor([0.0, 0.5, 0.9])),
        "target to be 0 or 1, got 0.5",
        2,
    ),
    "exact_soft": (
        lambda **options: BinaryAUROC(thresholds=None, **options),
        (torch.tensor([0.2, 0.7]), torch.tensor([0.0, 0.5])),
        "target to be 0 or 1, got 0.5",
        1,
    ),
    "no_target": (
        metric(BinaryAUROC),
        (torch.tensor([0.2, 0.7, 0.4]), torch.tensor([NAN, INF, 1.0])),
        "target to be 0 or 1, got nan",
        2,
    ),
    "infinite_target": (
        metric(BinaryAUROC),
        (torch.tensor([0.2, 0.7, 0.4]), torch.tensor([-INF, INF, 1.0])),
        "target to be 0 or 1, got -inf",
        2,
    ),
    "guessed_nan": (metric(BinaryAUROC), (torch.tensor([0.2, NAN]), torch.tensor([0, 1])), "preds to be a number", 1),
    "class": (
        classes("logits"),
        (torch.zeros(3, 4), torch.tensor([0, 4, -1])),
        "target to be a class from 0 to 3, got 4",
        2,
    ),
    "class_nan": (
        classes("logits"),
        (torch.tensor([[0.0, 1, 2, NAN], [0, 1, 2, 3]]), torch.tensor([0, 1])),
        "preds to be a number",
        1,
    ),
    "class_below": (
        classes("probabilities"),
        (torch.tensor([[-0.5, 0.7, 0.8, 0], [0.1, 0.2, 0.3, 0.4]]), torch.tensor([0, 1])),
        "preds to be a probability in",
        1,
    ),
    "no_softmax": (
        classes("logits"),
        (torch.tensor([[INF, INF, 0, 0], [-INF] * 4, [0, 1, 2, -INF]]), torch.tensor([0, 1, 2])),
        "expected every preds",
        2,
    ),
    "labels": (
        labels("probabilities"),
        (torch.tensor([[0.5, NAN, 2.0]]), torch.tensor([[1, 1, 7]])),
        "target to be 0 or 1, got 7",
        2,
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values_raise_on_the_cpu_and_leave_the_state(name: str) -> None:
    build, bad, words, _ = WRONG[name]
    counting = build()
    good = bad[0].nan_to_num(0.5, 0.5, 0.5).clamp(0, 1), torch.zeros_like(bad[1])
    counting.update(*good)
    before = [total.clone() for total in tally_of(counting).totals if total is not None]
    with pytest.raises(InputError, match=words):
        counting.update(*bad)
    for kept, total in zip(before, tally_of(counting).totals, strict=False):
        assert torch.equal(kept, total)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values_elsewhere_are_counted_as_invalid_and_compute_raises(name: str) -> None:
    build, bad, _, invalid = WRONG[name]
    counting = _updated(build(), bad, "deferred")
    for _ in range(2):
        with pytest.raises(InputError, match=rf"^{invalid} samples counted by \w+ were not what was declared"):
            counting.compute()
    per_sample = 4 if name.startswith(("class", "no_softmax")) else 1
    assert (
        sum(int((table.yes + table.no).sum()) for table in scores_in(counting))
        == (bad[1].numel() - invalid) * per_sample
    )


@pytest.mark.parametrize("thresholds", ["fine", "bfloat16", 7, None], ids=str)
def test_wrong_weights_are_found_out(thresholds: Any) -> None:
    counting = BinaryAUROC(thresholds=thresholds, weighted=True, inputs="probabilities")
    batch = torch.tensor([0.2, 0.7, 0.6, 0.1]), torch.tensor([0, 1, 1, 0])
    with pytest.raises(InputError, match="sample_weight to be finite and not negative, got -1"):
        counting.update(*batch, torch.tensor([1.0, 1, -1, NAN]))
    with pytest.raises(InputError, match=r"target to be 0 or 1, got 0\.5"):
        counting.update(batch[0], torch.tensor([0, 0.5, 1, 0]), torch.ones(4))
    _updated(counting, (*batch, torch.tensor([1.0, 1, -1, NAN])), "deferred")
    with pytest.raises(InputError, match=r"^2 samples counted"):
        counting.compute()
