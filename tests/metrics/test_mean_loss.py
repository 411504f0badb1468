"""The loss of an epoch is that of one batch; the share of the loss that the worst samples carry."""

from __future__ import annotations

import copy
import io
import math
import pickle
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch
from classifiers import CASES, Case, every_task, loader, trainer, values
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from versions import compiles

from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.metrics import MeanLoss, WorstLossShare
from lightning_evalkit.modules import BinaryClassifier

if TYPE_CHECKING:
    from collections.abc import Callable


pytestmark = [
    # About the tiny trainers of these tests.
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no `val_dataloader`"),
]


# ---- compiled


# ---- the mean of losses


numbers = st.lists(
    st.tuples(st.integers(-1_000, 1_000), st.integers(0, 16), st.integers(0, 3)), min_size=1, max_size=30
)
"""Losses in eighths, weights in quarters, and the batch of each: sums without rounding."""


def added(triples: list[tuple[float, float]], metric: MeanLoss | None = None) -> MeanLoss:
    metric = metric or MeanLoss()
    metric.update(*torch.tensor(triples, dtype=torch.float64).reshape(-1, 2).unbind(1))
    return metric


def sums(metric: MeanLoss) -> list[Any]:
    return metric.totals.reals.tolist()


@given(numbers)
def test_a_mean_does_not_depend_on_order_batches_or_merging(drawn: list[tuple[int, int, int]]) -> None:
    pairs = [(loss / 8, weight / 4) for loss, weight, _ in drawn]
    whole = added(pairs)
    expected = [sum(loss * weight for loss, weight in pairs), sum(weight for _, weight in pairs)]
    assert sums(whole) == sums(added(pairs[::-1])) == expected
    batched, merged = MeanLoss(), MeanLoss()
    for place in range(4):
        part = [pair for pair, (*_, batch) in zip(pairs, drawn, strict=True) if batch == place]
        added(part, batched)
        merged.merge_state(added(part))
    assert sums(batched) == sums(merged) == expected
    there = sum(weight > 0 for _, weight in pairs)  # what weighs nothing is not
    assert batched.totals.integers.tolist() == merged.totals.integers.tolist() == [there, 4]
    mean = expected[0] / expected[1] if expected[1] else math.nan
    assert whole.compute().item() == pytest.approx(mean, rel=1e-6, nan_ok=True)


@given(numbers)
def test_a_weight_is_a_number_of_repetitions(drawn: list[tuple[int, int, int]]) -> None:
    repeated = [(loss / 8, 1.0) for loss, weight, _ in drawn for _ in range(weight)]
    weighted = [(loss / 8, float(weight)) for loss, weight, _ in drawn]
    assert sums(added(weighted)) == sums(added(repeated))
    plain = MeanLoss()
    plain.update(torch.tensor([loss for loss, _ in repeated], dtype=torch.float64))
    assert sums(plain) == sums(added(weighted))


@pytest.mark.parametrize("lost", [1e30, math.inf, -math.inf, math.nan])
def test_what_weighs_nothing_is_not_there(lost: float) -> None:
    assert sums(added([(2.0, 1.0), (lost, 0.0), (4.0, 3.0)])) == [14.0, 4.0]


@pytest.mark.parametrize("lost", [math.inf, -math.inf, math.nan])
def test_losses_that_are_no_numbers_show(lost: float) -> None:
    metric = added([(2.0, 1.0), (lost, 1.0)])
    added([(2.0, 1.0)], metric)
    assert metric.compute().item() == pytest.approx(lost, nan_ok=True)
    metric.reset()
    assert added([(2.0, 1.0)], metric).compute().item() == 2.0


def test_a_loss_that_is_no_number_shows_in_an_epoch() -> None:
    class Breaking(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.where(x[:, 0] > 0, math.inf, 0.5) * x[:, 1]

    case, running = CASES["binary"], trainer()
    module, rows = case.build(network=Breaking()), case.rows(1)
    running.validate(module, loader(rows), verbose=False)
    assert math.isnan(case.expected_loss(module, rows))  # infinity less infinity, in torch too
    assert math.isnan(values(running, "val")["loss"])


def test_many_small_losses_are_all_added() -> None:
    """A float32 sum of a hundred thousand tenths is off by more than 1e-5; sums of 2**24 ones stop growing."""
    metric = MeanLoss()
    for _ in range(100):
        metric.update(torch.full((1_000,), 0.1))
    assert metric.totals.reals[0].item() == pytest.approx(1e5 * float(torch.tensor(0.1)), rel=1e-12)
    metric.update(torch.ones(2), torch.tensor([2.0**24, 1.0]))
    assert metric.totals.reals[1].item() == 1e5 + 2**24 + 1


@pytest.mark.parametrize(
    "cast",
    [
        lambda metric: metric.to(torch.bfloat16),
        lambda metric: metric.half(),
        lambda metric: metric.bfloat16(),
        lambda metric: metric.set_dtype(torch.float16),
        lambda metric: nn.ModuleList([metric]).to(torch.bfloat16)[0],
    ],
)
def test_a_cast_does_not_touch_the_sums(cast: Callable[[MeanLoss], MeanLoss]) -> None:
    metric = cast(added([(1.001, 257.0)]))
    for _ in range(300):
        metric.update(torch.ones(1, dtype=torch.bfloat16))
    assert metric.totals.reals.dtype == torch.float64
    assert sums(metric) == [pytest.approx(1.001 * 257 + 300, rel=1e-12), 557.0]


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_losses_of_any_precision_and_shape_are_added(kind: torch.dtype) -> None:
    metric = MeanLoss()
    metric.update(torch.full((2, 3), 0.5, dtype=kind), torch.ones(2, 3, dtype=torch.int64))
    metric.update(torch.tensor(4.0, dtype=kind))
    metric.update(torch.zeros(0, dtype=kind))
    assert sums(metric) == [7.0, 7.0]
    assert metric.compute() == torch.tensor(1.0)
    assert metric.compute().dtype == torch.float32


@pytest.mark.parametrize(
    ("given_losses", "said"),
    [
        ((torch.ones(3, dtype=torch.int64),), r"expected losses of a floating-point type, got torch\.int64\.$"),
        (
            (torch.ones(3), torch.ones(2)),
            r"expected a weight for every loss, shape \(3,\) on cpu, got \(2,\) on cpu: "
            r"use the loss function's reduction='none'\.$",
        ),
        ((torch.tensor(1.0), torch.ones(2)), r"shape \(\) on cpu, got \(2,\) on cpu"),
        ((torch.ones(3), torch.ones(3, 1)), r"shape \(3,\) on cpu, got \(3, 1\) on cpu"),
        ((torch.ones(3), torch.ones(3, device="meta")), r"shape \(3,\) on cpu, got \(3,\) on meta"),
        (
            (torch.ones(3, device="meta"),),
            r"expected tensors on cpu, where the metric is, got meta: call \.to",
        ),
    ],
)
def test_wrong_losses_are_refused_and_change_nothing(given_losses: tuple[Tensor, ...], said: str) -> None:
    metric = added([(2.0, 1.0)])
    before = sums(metric), metric.update_count
    with pytest.raises(InputError, match=said):
        metric.update(*given_losses)
    assert (sums(metric), metric.update_count) == before
    assert metric.compute().item() == 2.0


def test_losses_are_not_counted() -> None:
    with pytest.raises(InputError, match=r"losses are added up, not counted: an evaluation has counts\.$"):
        _ = added([(2.0, 1.0)]).counts


def test_a_mean_of_nothing_is_undefined_and_says_so() -> None:
    with pytest.warns(UserWarning, match="``compute`` method of metric MeanLoss was called before any ``update``"):
        assert math.isnan(MeanLoss().compute().item())


def test_forward_gives_the_batch_and_keeps_the_sum() -> None:
    metric = added([(2.0, 1.0)])
    assert metric(torch.tensor([5.0, 7.0]), torch.tensor([1.0, 3.0])).item() == 6.5
    assert sums(metric) == [28.0, 5.0]


def test_no_graph_is_kept_alive() -> None:
    metric, losses = MeanLoss(), torch.ones(3, requires_grad=True)
    metric.update(losses * 2)
    assert not metric.totals.reals.requires_grad
    with torch.inference_mode():
        metric.update(torch.ones(3))
    metric.update(torch.ones(3))
    assert sums(metric) == [12.0, 9.0]


def test_sums_go_through_copies_and_checkpoints() -> None:
    metric = added([(2.0, 1.0), (4.0, 3.0)])
    for duplicate in (copy.deepcopy(metric), metric.clone(), pickle.loads(pickle.dumps(metric))):
        added([(1.0, 1.0)], duplicate)
        assert sums(duplicate) == [15.0, 5.0]
    assert metric.state_dict() == {}
    metric.persistent(True)
    file, loaded = io.BytesIO(), MeanLoss()
    torch.save(metric.state_dict(), file)
    file.seek(0)
    loaded.load_state_dict(torch.load(file, weights_only=True))
    assert sums(loaded) == sums(metric) == [14.0, 4.0]
    assert loaded.compute().item() == 3.5


@compiles
@pytest.mark.slow
@pytest.mark.usefixtures("_no_graph_of_another_test")
def test_losses_are_added_in_one_graph() -> None:
    from torch._dynamo.testing import CompileCounter

    metric, graphs = MeanLoss(), CompileCounter()

    @partial(torch.compile, fullgraph=True, backend=graphs)
    def step(losses: Tensor, weights: Tensor) -> None:
        metric.update(losses, weights)

    for number in range(20):
        step(torch.full((8,), float(number)), torch.ones(8))
        metric.compute()
    assert graphs.frame_count == 1
    assert sums(metric) == [8.0 * sum(range(20)), 160.0]


def test_a_lower_loss_is_better() -> None:
    assert MeanLoss.higher_is_better is False


# ---- the share of the worst


def carried(losses: Tensor, weights: Tensor, worst: float) -> tuple[float, float]:
    """The share of the loss that the worst carry, sample by sample, and how far a histogram may be off.

    Where the share ends within a bin, its losses are taken to be equal: they are within 1/128 of each other.
    """
    left, taken, last = worst * float(weights.sum()), 0.0, 0.0
    for place in losses.argsort(descending=True).tolist():
        part = min(left, float(weights[place]))
        if part > 0:
            taken, left, last = taken + part * float(losses[place]), left - part, float(losses[place])
    total = float((losses * weights).sum())
    return taken / total, worst * float(weights.sum()) * last / 128 / total


@pytest.mark.parametrize("worst", [0.001, 0.01, 0.3, 1.0])
@pytest.mark.parametrize("spread", [0.1, 3.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_worst_carry_their_share(worst: float, spread: float, weighted: bool) -> None:
    losses = (torch.randn(1_000) * spread).exp()
    weights = torch.randint(0, 4, (1_000,)).double() if weighted else torch.ones(1_000).double()
    metric, other = WorstLossShare(worst), WorstLossShare(worst)
    for part in range(0, 500, 125):
        metric.update(losses[part : part + 125], weights[part : part + 125])
    other.update(losses[500:], weights[500:])
    metric.merge_state(other)
    share, uncertain = carried(losses.double(), weights, worst)
    assert metric.compute().item() == pytest.approx(share, abs=uncertain + 1e-6)
    mean = float((losses.double() * weights).sum() / weights.sum())
    assert metric.counter.mean(metric.totals).item() == pytest.approx(mean, rel=1e-12)


def test_an_outlier_carries_the_loss() -> None:
    """Two of three samples are predicted with 0.9, one with 0.1: it carries ln 10 of ln 10 - 2 ln 0.9."""
    metric = WorstLossShare(worst=1 / 3)
    metric.update(-torch.tensor([0.9, 0.1, 0.9]).double().log())
    assert metric.compute().item() == pytest.approx(math.log(10) / (math.log(10) + 2 * -math.log(0.9)), rel=1e-6)


@every_task
def test_a_module_reports_the_share_of_the_worst(case: Case) -> None:
    module, running, rows = case.build(worst=0.1), trainer(), case.rows(1)
    running.validate(module, [loader(rows, 7), loader(rows, 64)], verbose=False)
    found = module.loss(module.arranged(case.logits(module, rows[0])), rows[1])
    share, uncertain = carried(found.values, found.weights, 0.1)
    for place in range(2):
        reported = values(running, "val")[f"loss_of_worst/dataloader_idx_{place}"]
        assert reported == pytest.approx(share, abs=uncertain + 1e-6)
    assert "loss_of_worst" not in values(running, "train")


@pytest.mark.parametrize("worst", [0.0, -0.1, 1.5, math.nan])
def test_a_share_of_more_than_all_or_of_nothing_is_refused(worst: float) -> None:
    said = rf"expected worst, a share of the samples, to be a number in \(0, 1\], got {worst}\.$"
    with pytest.raises(DeclarationError, match=said):
        WorstLossShare(worst)
    with pytest.raises(DeclarationError, match=said):
        BinaryClassifier(num_features=2, worst=worst)
