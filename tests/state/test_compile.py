"""``update`` inside a compiled step: one graph for equal batches in every mode, the same counts, nothing lost."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.testing import CompileCounter
from versions import compiles, has

from lightning_evalkit import BinaryEvaluation
from lightning_evalkit.errors import InputError
from lightning_evalkit.metrics import BinaryF1Score, BinaryStatScores

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.slow, compiles]

MODES = {"grad": torch.enable_grad, "no_grad": torch.no_grad, "inference": torch.inference_mode}


@pytest.fixture(autouse=True)
def _no_graph_of_another_test() -> None:
    torch._dynamo.reset()


@dataclass(frozen=True)
class Variant:
    """A declaration and the tensors it takes."""

    build: Callable[[], Any]
    labels: bool = False
    weighted: bool = False

    def batch(self, size: int, seed: int = 0) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(seed)
        target = torch.randint(0, 2, (size,), generator=generator)
        preds = (
            torch.randint(0, 2, (size,), generator=generator) if self.labels else torch.rand(size, generator=generator)
        )
        weight = torch.randint(0, 4, (size,), generator=generator).float()
        return (preds, target, weight) if self.weighted else (preds, target)


VARIANTS = {
    "evaluation": Variant(lambda: BinaryEvaluation("logits", zero_division=0.0)),
    "evaluation_probabilities": Variant(lambda: BinaryEvaluation("probabilities", threshold=[0.2, 0.8])),
    "evaluation_labels": Variant(lambda: BinaryEvaluation("labels", ignore_index=0, zero_division=0.0), labels=True),
    "evaluation_weighted": Variant(
        lambda: BinaryEvaluation("probabilities", weighted=True, ignore_index=-1), weighted=True
    ),
    "metric": Variant(lambda: BinaryF1Score(inputs="probabilities")),
    "metric_guessing": Variant(lambda: BinaryStatScores(ignore_index=-1)),
}
every_variant = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)


def compiled(metric: Any, backend: Any = "eager") -> Callable[..., None]:
    def step(*batch: Tensor) -> None:
        metric.update(*batch)

    return torch.compile(step, fullgraph=True, backend=backend)


def totals(metric: Any) -> list[Any]:
    """The state as plain numbers."""
    return [None if total is None else total.tolist() for total in getattr(metric, "tally", metric).totals]


# ---- graphs


def eagerly(variant: Variant, batches: list[tuple[Tensor, ...]]) -> list[Any]:
    """The totals of the same batches, not compiled."""
    eager = variant.build()
    for batch in batches:
        eager.update(*batch)
    return totals(eager)


@every_variant
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_equal_batches_are_one_graph_and_a_last_batch_another(variant: Variant, mode: Callable[[], Any]) -> None:
    """Reading and resetting make none: one graph is looked at all along, as it takes long to make."""
    metric, graphs = variant.build(), CompileCounter()
    step = compiled(metric, graphs)
    with mode():
        for seed in range(50):
            step(*variant.batch(16, seed))
    assert graphs.frame_count == 1
    assert totals(metric) == eagerly(variant, [variant.batch(16, seed) for seed in range(50)])
    with mode():
        for _ in range(3):  # epochs
            metric.reset()
            step(*variant.batch(16, 1))
            metric.compute()
            step(*variant.batch(16, 2))
            metric(*variant.batch(16, 3))
            step(*variant.batch(16, 4))
            metric.compute()
    assert graphs.frame_count == 1
    with mode():
        for size in (7, 16, 7, 9):
            step(*variant.batch(size, size))
    assert graphs.frame_count == 2
    last = [variant.batch(16, seed) for seed in (1, 2, 3, 4)] + [variant.batch(n, n) for n in (7, 16, 7, 9)]
    assert totals(metric) == eagerly(variant, last)


@every_variant
def test_batches_made_before_inference_mode_are_one_graph_in_it(variant: Variant) -> None:
    metric, graphs = variant.build(), CompileCounter()
    step = compiled(metric, graphs)
    batches = [variant.batch(16, seed) for seed in range(50)]
    with torch.inference_mode():
        for batch in batches:
            step(*batch)
    assert graphs.frame_count == 1
    assert totals(metric) == eagerly(variant, batches)


def test_changing_modes_make_one_graph_each() -> None:
    variant = VARIANTS["evaluation"]
    metric, graphs = variant.build(), CompileCounter()
    step = compiled(metric, graphs)
    for mode in (*MODES.values(), *MODES.values()):
        with mode():
            step(*variant.batch(16))
            metric.compute()
            metric.reset()
    assert graphs.frame_count == len(MODES)


def test_changes_of_the_state_make_no_graph() -> None:
    variant = VARIANTS["evaluation_weighted"]
    metric, other, graphs = variant.build(), variant.build(), CompileCounter()
    other.update(*variant.batch(16, 9))
    other.persistent(True)
    step = compiled(metric, graphs)
    step(*variant.batch(16, 1))
    for change in (
        lambda: metric.merge_state(other),
        lambda: metric.load_state_dict(other.state_dict()),
        lambda: metric.to(torch.bfloat16),
        lambda: metric.state_dict(),
        lambda: metric.clone(),
    ):
        change()
        step(*variant.batch(16, 2))
    assert graphs.frame_count == 1


def test_a_clone_made_in_inference_mode_compiles_outside() -> None:
    variant = VARIANTS["evaluation"]
    with torch.inference_mode():
        metric = variant.build()
        metric.update(*variant.batch(16, 1))
        duplicate = metric.clone()
        metric.reset()
    for each, seeds in ((metric, (2,)), (duplicate, (1, 2))):
        compiled(each)(*variant.batch(16, 2))
        eager = variant.build()
        for seed in seeds:
            eager.update(*variant.batch(16, seed))
        assert totals(each) == totals(eager)


def test_a_model_and_its_metric_are_one_graph() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.metric = nn.Linear(3, 1), BinaryEvaluation("logits")

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            scores = self.layer(x).squeeze(-1)
            self.metric.update(scores, y)
            return nn.functional.binary_cross_entropy_with_logits(scores, y.float())

    model, graphs = Model(), CompileCounter()
    step = torch.compile(model, fullgraph=True, backend=graphs)
    x, y = torch.randn(8, 3), torch.randint(0, 2, (8,))
    for _ in range(4):
        step(x, y).backward()
    assert graphs.frame_count == 1
    assert model.layer.weight.grad is not None
    decided = model.layer(x).squeeze(-1) > 0
    assert int(model.metric.counts.tp) == 4 * int((decided & (y == 1)).sum())
    assert int(model.metric.counts.total) == 32


@pytest.mark.parametrize(
    ("inputs", "options"),
    [
        ("logits", {}),
        ("probabilities", {}),
        ("labels", {}),
        ("logits", {"ignore_index": -1}),
        ("labels", {"ignore_index": 1}),
    ],
)
def test_a_graph_has_at_most_fifteen_operators(inputs: Any, options: dict[str, Any]) -> None:
    graphs: list[int] = []

    def count(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        graphs.append(sum(node.op == "call_function" for node in graph.graph.nodes))
        return graph.forward

    metric = BinaryEvaluation(inputs, **options)
    step = compiled(metric, aot_autograd(fw_compiler=count))
    step(*Variant(lambda: metric, labels=inputs == "labels").batch(16))
    assert len(graphs) == 1
    assert 5 < graphs[0] <= 15


def test_samplewise_rows_are_right_in_a_compiled_step() -> None:
    """Rows are kept in a list, whose length is part of the graph: the counts are right, the graphs are many."""
    metric = BinaryStatScores(multidim_average="samplewise", inputs="probabilities")
    eager = BinaryStatScores(multidim_average="samplewise", inputs="probabilities")
    step = compiled(metric)
    for seed in range(3):
        torch.manual_seed(seed)
        batch = torch.rand(4, 5), torch.randint(0, 2, (4, 5))
        step(*batch)
        eager.update(*batch)
    assert metric.compute().tolist() == eager.compute().tolist()


# ---- nothing is lost

SCORES = torch.tensor([0.9, math.nan, 0.2, 1.5, 0.8, 0.1, 0.7])
TARGET = torch.tensor([1, 1, 1, 0, 0, 0, 3])
GOOD = [1, 1, 1, 1]
"""The first, third, fifth and sixth are one of each cell; a NaN, a score above 1 and a target of 3 are invalid."""


def assert_found_out(metric: Any, times: int) -> None:
    assert [int(cell) for cell in metric.counts.cells] == [times * cell for cell in GOOD]
    for _ in range(2):
        with pytest.raises(InputError, match=f"^{3 * times} samples counted"):
            metric.compute()
    metric.reset()
    good = [0, 2, 4, 5]
    metric.update(SCORES[good], TARGET[good])
    metric.compute()
    assert [int(cell) for cell in metric.counts.cells] == GOOD


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_bad_samples_of_compiled_updates_are_counted_as_invalid(mode: Callable[[], Any]) -> None:
    metric = BinaryEvaluation("probabilities")
    step = compiled(metric)
    with mode():
        step(SCORES, TARGET)
        step(SCORES, TARGET)
    assert_found_out(metric, times=2)


def test_negative_weights_of_compiled_updates_are_counted_as_invalid() -> None:
    metric = BinaryEvaluation("labels", weighted=True)
    weight = torch.tensor([1.5, -1.0, math.nan, math.inf, 0.0])
    compiled(metric)(torch.ones(5), torch.ones(5), weight)
    assert float(metric.counts.tp) == 1.5
    with pytest.raises(InputError, match=r"^3 samples counted"):
        metric.compute()


def test_wrong_shapes_raise_while_compiling_and_leave_the_state() -> None:
    metric = BinaryEvaluation("logits")
    metric.update(torch.zeros(3), torch.ones(3))
    before = totals(metric)
    words = r"squeeze\(-1\)" if has("torch", "2.13") else None  # torch 2.7 does not pass the message on
    with pytest.raises(Exception, match=words):
        compiled(metric)(torch.zeros(3, 1), torch.zeros(3))
    assert totals(metric) == before


needs_a_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")


@needs_a_compiler
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_optimised_code_still_finds_bad_samples(weighted: bool) -> None:
    """An optimiser may assume that x == x; the check for NaN must survive it."""
    metric = BinaryEvaluation("probabilities", weighted=weighted)
    step = compiled(metric, "inductor")
    for _ in range(2):
        step(SCORES, TARGET, torch.ones(7)) if weighted else step(SCORES, TARGET)
    assert [int(cell) for cell in metric.counts.cells] == [2 * cell for cell in GOOD]
    with pytest.raises(InputError, match=r"^6 samples counted"):
        metric.compute()


@needs_a_compiler
def test_optimised_code_counts_a_last_batch_of_another_size() -> None:
    metric, eager = (BinaryEvaluation("logits", ignore_index=-1) for _ in range(2))
    step = compiled(metric, "inductor")
    for size in (1000, 1000, 77, 1000):
        scores, target = torch.randn(size), torch.randint(-1, 2, (size,))
        scores[:3] = torch.tensor([0.0, math.inf, -math.inf])
        scores[target == -1] = math.nan
        step(scores, target)
        eager.update(scores, target)
    assert totals(metric) == totals(eager)
    step(torch.full((5,), math.nan), torch.ones(5))
    with pytest.raises(InputError, match=r"^5 samples counted"):
        metric.compute()
