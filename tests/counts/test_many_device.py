"""Updates of classes and labels on an accelerator wait for nothing and add in a fixed order, compiled or not.

Shown without a GPU as for binary metrics; the way of counting used there is compared with the one used on the CPU, and
two and three real processes are joined by one collective.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import ranks
import torch
from device import (
    DEVICE,
    OrderedOperators,
    deferred,
    pretend_on_device,
    synchronisation_is_an_error,
    tally_of,
)
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from versions import compiles

from lightning_evalkit import MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.errors import InputError
from lightning_evalkit.metrics import (
    MulticlassAccuracy,
    MulticlassCohenKappa,
    MulticlassConfusionMatrix,
    MulticlassExactMatch,
    MulticlassF1Score,
    MulticlassMatthewsCorrCoef,
    MulticlassStatScores,
    MultilabelConfusionMatrix,
    MultilabelExactMatch,
    MultilabelF1Score,
    MultilabelStatScores,
)

if TYPE_CHECKING:
    from collections.abc import Callable

Batch = tuple[Tensor, ...]
CLASSES, LABELS = 4, 3


@dataclass(frozen=True)
class Variant:
    """A declaration and the kind of tensors it takes."""

    build: Callable[[], Any]
    kind: str
    extra: tuple[int, ...] = ()
    weighted: bool = False
    marked: int | None = None
    """A target that marks what is ignored, besides the classes."""

    def batch(self, size: int = 16, seed: int = 0) -> Batch:
        generator = torch.Generator().manual_seed(seed)
        preds, target = getattr(self, f"_{self.kind}")(size, generator)
        if self.marked is not None:
            target = torch.where(torch.rand(target.shape, generator=generator) < 0.2, self.marked, target)
        weight = torch.rand(size, generator=generator, dtype=torch.float64)
        return (preds, target, weight) if self.weighted else (preds, target)

    def pretended(self) -> Batch:
        return tuple(torch.zeros(each.shape, dtype=each.dtype, device=DEVICE) for each in SHAPES_OF[self])

    def _class_labels(self, size: int, generator: torch.Generator) -> Batch:
        shape = (size, *self.extra)
        return torch.randint(CLASSES, shape, generator=generator), torch.randint(CLASSES, shape, generator=generator)

    def _class_scores(self, size: int, generator: torch.Generator) -> Batch:
        scores = torch.rand(size, CLASSES, *self.extra, generator=generator)
        return scores, torch.randint(CLASSES, (size, *self.extra), generator=generator)

    def _labels(self, size: int, generator: torch.Generator) -> Batch:
        shape = (size, LABELS, *self.extra)
        return torch.randint(2, shape, generator=generator), torch.randint(2, shape, generator=generator)

    def _scores(self, size: int, generator: torch.Generator) -> Batch:
        shape = (size, LABELS, *self.extra)
        return torch.rand(shape, generator=generator), torch.randint(2, shape, generator=generator)


def of_classes(inputs: str = "logits", **options: Any) -> Callable[[], Any]:
    return lambda: MulticlassEvaluation(inputs, CLASSES, zero_division=0.0, **options)  # type: ignore[arg-type]


def of_labels(inputs: str = "logits", **options: Any) -> Callable[[], Any]:
    return lambda: MultilabelEvaluation(inputs, LABELS, zero_division=0.0, **options)  # type: ignore[arg-type]


def metric(kind: type, *args: Any, **options: Any) -> Callable[[], Any]:
    return lambda: kind(*args, **options)


ROWS = {"multidim_average": "samplewise"}
WEIGHTED = {"weighted": True}
HITS = {"statistics": ["accuracy", "top_2_accuracy", "top_3_accuracy", "f1/macro"]}
CUTS = (0.2, 0.5, 0.8)
CLASS_VARIANTS = {
    "labels": Variant(of_classes("labels"), "class_labels"),
    "logits": Variant(of_classes(), "class_scores"),
    "probabilities": Variant(of_classes("probabilities"), "class_scores"),
    "images": Variant(of_classes(), "class_scores", (2, 3)),
    "images_of_labels": Variant(of_classes("labels"), "class_labels", (2, 3)),
    "ignoring_outside": Variant(of_classes(ignore_index=-1), "class_scores", marked=-1),
    "ignoring_inside": Variant(of_classes(ignore_index=1), "class_scores"),
    "ignoring_several": Variant(of_classes("labels", ignore_index=(0, 2, -5)), "class_labels", marked=-5),
    "hits": Variant(of_classes(**HITS), "class_scores"),
    "hits_ignoring": Variant(of_classes(ignore_index=0, **HITS), "class_scores", (3,)),
    "top_k": Variant(metric(MulticlassAccuracy, CLASSES, top_k=2, inputs="logits"), "class_scores"),
    "top_k_images": Variant(metric(MulticlassF1Score, CLASSES, top_k=3), "class_scores", (3,)),
    "guessed": Variant(metric(MulticlassMatthewsCorrCoef, CLASSES), "class_scores"),
    "guessed_labels": Variant(metric(MulticlassCohenKappa, CLASSES), "class_labels"),
    "without_number": Variant(metric(MulticlassAccuracy, average="micro"), "class_labels"),
    "matrix": Variant(metric(MulticlassConfusionMatrix, CLASSES), "class_scores"),
    "matrix_ignoring": Variant(metric(MulticlassConfusionMatrix, CLASSES, ignore_index=2), "class_labels", (3,)),
    "weighted": Variant(of_classes(**WEIGHTED), "class_scores", weighted=True),
    "weighted_labels": Variant(of_classes("labels", ignore_index=1, **WEIGHTED), "class_labels", (3,), weighted=True),
    "weighted_hits": Variant(of_classes(**WEIGHTED, **HITS), "class_scores", weighted=True),
    "weighted_matrix": Variant(
        metric(MulticlassCohenKappa, CLASSES, weights="linear", **WEIGHTED), "class_labels", weighted=True
    ),
    "samplewise": Variant(metric(MulticlassStatScores, CLASSES, **ROWS), "class_labels", (5,)),
    "samplewise_scores": Variant(metric(MulticlassStatScores, CLASSES, **ROWS, ignore_index=0), "class_scores", (5,)),
    "samplewise_top_k": Variant(metric(MulticlassStatScores, CLASSES, 2, **ROWS), "class_scores", (2, 3)),
    "samplewise_weighted": Variant(
        metric(MulticlassStatScores, CLASSES, **ROWS, **WEIGHTED), "class_scores", (5,), weighted=True
    ),
    "exact": Variant(metric(MulticlassExactMatch, CLASSES), "class_labels", (2,)),
    "exact_scores": Variant(metric(MulticlassExactMatch, CLASSES, ignore_index=-1), "class_scores", (2,), marked=-1),
    "exact_samplewise": Variant(metric(MulticlassExactMatch, CLASSES, **ROWS), "class_labels", (2,)),
    "exact_weighted": Variant(metric(MulticlassExactMatch, CLASSES, **WEIGHTED), "class_labels", (2,), weighted=True),
}
LABEL_VARIANTS = {
    "logits": Variant(of_labels(), "scores"),
    "probabilities": Variant(of_labels("probabilities"), "scores"),
    "labels": Variant(of_labels("labels"), "labels"),
    "images": Variant(of_labels("probabilities"), "scores", (2, 3)),
    "without_rows": Variant(of_labels("probabilities", statistics=["f1/macro"]), "scores"),
    "thresholds": Variant(of_labels("probabilities", threshold=CUTS), "scores"),
    "logit_thresholds": Variant(of_labels(threshold=CUTS), "scores"),
    "thresholds_images": Variant(of_labels("probabilities", threshold=CUTS), "scores", (2,)),
    "ignoring_outside": Variant(of_labels("probabilities", ignore_index=-1), "scores", marked=-1),
    "ignoring_zero": Variant(of_labels("probabilities", ignore_index=0), "scores"),
    "ignoring_one": Variant(of_labels("labels", ignore_index=1), "labels"),
    "guessed": Variant(metric(MultilabelF1Score, LABELS), "scores"),
    "guessed_thresholds": Variant(metric(MultilabelF1Score, LABELS, threshold=CUTS, ignore_index=-1), "scores"),
    "guessed_labels": Variant(metric(MultilabelConfusionMatrix, LABELS), "labels"),
    "weighted": Variant(of_labels("probabilities", **WEIGHTED), "scores", weighted=True),
    "weighted_ignoring": Variant(
        of_labels("probabilities", threshold=CUTS, ignore_index=-1, **WEIGHTED), "scores", weighted=True, marked=-1
    ),
    "weighted_images": Variant(of_labels("labels", **WEIGHTED), "labels", (4,), weighted=True),
    "samplewise": Variant(metric(MultilabelStatScores, LABELS, **ROWS, inputs="probabilities"), "scores", (5,)),
    "samplewise_guessed": Variant(metric(MultilabelStatScores, LABELS, threshold=CUTS, **ROWS), "scores", (5,)),
    "samplewise_weighted": Variant(
        metric(MultilabelStatScores, LABELS, **ROWS, **WEIGHTED), "scores", (5,), weighted=True
    ),
    "exact": Variant(metric(MultilabelExactMatch, LABELS), "labels"),
    "exact_samplewise": Variant(metric(MultilabelExactMatch, LABELS, **ROWS), "labels", (5,)),
    "exact_weighted": Variant(metric(MultilabelExactMatch, LABELS, **WEIGHTED), "scores", weighted=True),
}
VARIANTS = {f"classes_{name}": variant for name, variant in CLASS_VARIANTS.items()}
VARIANTS |= {f"labels_{name}": variant for name, variant in LABEL_VARIANTS.items()}
SHAPES_OF = {variant: variant.batch() for variant in VARIANTS.values()}
every_variant = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)


# ---- no waiting, and sums in a fixed order


@every_variant
def test_an_update_reads_nothing_back_and_adds_in_order(variant: Variant) -> None:
    counting = variant.build()
    with FakeTensorMode():
        pretend_on_device(counting)
        batch = variant.pretended()
        with OrderedOperators() as operators:
            counting.update(*batch)
            counting.update(*batch)
    assert operators.names
    assert operators.waiting == []
    assert operators.without_order == []


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("truth", [torch.uint8, torch.int32], ids=str)
@pytest.mark.parametrize("samples", [0, 5])
def test_every_type_of_tensor_stays_on_the_device(kind: torch.dtype, truth: torch.dtype, samples: int) -> None:
    for counting, shape in (
        (of_classes(ignore_index=1, **HITS)(), (samples,)),
        (of_labels(ignore_index=1)(), (samples, LABELS)),
    ):
        with FakeTensorMode():
            pretend_on_device(counting)
            scores = (samples, CLASSES) if len(shape) == 1 else shape
            preds = torch.zeros(scores, dtype=kind, device=DEVICE, requires_grad=True)
            with OrderedOperators() as operators:
                counting.update(preds, torch.zeros(shape, dtype=truth, device=DEVICE))
        assert operators.waiting == operators.without_order == []
        assert not any(total.requires_grad for total in counting.tally.totals if total is not None)


NOT_ORDERED: dict[str, Callable[[Tensor], Any]] = {
    "scatter": lambda x: torch.zeros_like(x).scatter_add_(0, torch.zeros_like(x, dtype=torch.int64), x),
    "running_sum": lambda x: x.cumsum(0),
    "histogram": lambda x: torch.histc(x, 4, 0, 1),
    "reduction": lambda x: torch.zeros_like(x).scatter_reduce_(0, torch.zeros_like(x, dtype=torch.int64), x, "sum"),
}


@pytest.mark.parametrize("adds", NOT_ORDERED.values(), ids=NOT_ORDERED)
def test_sums_without_an_order_are_noticed(adds: Callable[[Tensor], Any]) -> None:
    with FakeTensorMode():
        x = torch.zeros(4, device=DEVICE)
        with OrderedOperators() as operators:
            adds(x)
    assert operators.without_order


def test_a_running_sum_of_integers_is_in_order() -> None:
    with FakeTensorMode():
        x = torch.zeros(4, dtype=torch.int64, device=DEVICE)
        with OrderedOperators() as operators:
            x.cumsum(0)
    assert operators.without_order == []


# ---- the same counts in both ways


def assert_same_totals(one: Any, other: Any) -> None:
    ours, theirs = tally_of(one).totals, tally_of(other).totals
    assert ours.integers.tolist() == theirs.integers.tolist()
    assert (ours.reals is None) == (theirs.reals is None)
    if ours.reals is not None:
        torch.testing.assert_close(ours.reals, theirs.reals, rtol=1e-12, atol=1e-12)


@every_variant
def test_counting_later_is_counting_at_once(variant: Variant) -> None:
    at_once, later = variant.build(), variant.build()
    for seed, size in enumerate((16, 1, 7, 40)):
        batch = variant.batch(size, seed)
        at_once.update(*batch)
        with deferred():
            later.update(*batch)
    assert tally_of(at_once).totals.integers.any()
    assert_same_totals(at_once, later)
    ours, theirs = at_once.compute(), later.compute()
    if not isinstance(ours, dict):
        ours, theirs = {"value": ours}, {"value": theirs}
    for name, value in ours.items():
        torch.testing.assert_close(value, theirs[name])


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("truth", [torch.uint8, torch.int8, torch.int32], ids=str)
@pytest.mark.parametrize("way", ["classes_logits", "classes_hits", "labels_thresholds", "labels_guessed_thresholds"])
def test_counting_later_reads_every_type_as_counting_at_once(kind: torch.dtype, truth: torch.dtype, way: str) -> None:
    """Low precision makes ties and scores right on a cut."""
    at_once, later = VARIANTS[way].build(), VARIANTS[way].build()
    for seed in range(3):
        preds, target = VARIANTS[way].batch(50, seed)
        preds, target = (preds * 20).round().div(20).to(kind), target.to(truth)
        at_once.update(preds, target)
        with deferred():
            later.update(preds, target)
    assert_same_totals(at_once, later)


@pytest.mark.parametrize("way", ["labels", "weighted_labels"])
@pytest.mark.parametrize(("classes", "kind"), [(128, torch.int8), (256, torch.uint8), (300, torch.uint8)])
def test_counting_later_knows_more_classes_than_a_type_holds(way: str, classes: int, kind: torch.dtype) -> None:
    labels = torch.tensor([0, 1, 100, 127]).to(kind)
    weighted = way == "weighted_labels"
    evaluation = MulticlassEvaluation("labels", classes, weighted=weighted, statistics=["accuracy"])
    with deferred():
        evaluation.update(labels, labels, *([torch.ones(4)] if weighted else []))
    assert evaluation.compute()["accuracy"] == 1
    assert int(evaluation.counts.support.sum()) == 4


# ---- bad samples are found out

NAN = math.nan
BAD_CLASSES: dict[str, tuple[Callable[[], Any], Batch]] = {
    "labels": (of_classes("labels"), (torch.tensor([0, 1, 9, -1, 2, 3]), torch.tensor([0, 2, 1, 1, 7, -3]))),
    "ignoring": (
        of_classes("labels", ignore_index=-3),
        (torch.tensor([0, 1, 9, -1, 2, 99]), torch.tensor([0, 2, 1, 4, 7, -3])),
    ),
    "logits": (
        of_classes(),
        (torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, NAN, 0], [NAN] * 4]), torch.tensor([0, 2, 1, 4])),
    ),
    "hits": (
        of_classes(**HITS),
        (torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, NAN, 0], [NAN] * 4]), torch.tensor([0, 2, 1, 4])),
    ),
    "probabilities": (
        of_classes("probabilities"),
        (torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1.5, 0], [NAN] * 4]), torch.tensor([0, 2, 1, 1])),
    ),
    "weights": (
        of_classes("labels", weighted=True),
        (
            torch.tensor([0, 1, 1, 1, 1]),
            torch.tensor([0, 2, 1, 1, 1]),
            torch.tensor([1.0, 1.0, NAN, -1.0, math.inf]),
        ),
    ),
}
INVALID_CLASSES = {"labels": 4, "ignoring": 3, "logits": 2, "hits": 2, "probabilities": 2, "weights": 3}


@pytest.mark.parametrize("name", BAD_CLASSES)
def test_good_samples_of_classes_count_and_bad_ones_are_reported(name: str) -> None:
    """The first two samples are good: class 0 found, class 2 taken for 1."""
    build, bad = BAD_CLASSES[name]
    evaluation = build()
    with deferred():
        evaluation.update(*bad)
    for _ in range(2):
        with pytest.raises(InputError, match=rf"^{INVALID_CLASSES[name]} samples counted by \w+ were not what was"):
            evaluation.compute()
    assert [cell.tolist() for cell in evaluation.counts.cells] == [
        [1, 0, 0, 0],
        [0, 1, 0, 0],
        [0, 0, 1, 0],
        [1, 1, 1, 2],
    ]
    with pytest.raises(InputError, match="expected every"):
        evaluation.update(*bad)
    evaluation.reset()
    evaluation.update(*(tensor[:2] for tensor in bad))
    assert evaluation.compute()["accuracy"] == 0.5


def test_good_labels_count_and_bad_ones_are_reported() -> None:
    """Five of nine values are bad: a NaN, a score above 1, targets of 3 and -2, and a score below 0."""
    scores = torch.tensor([[0.9, NAN, 0.2], [1.5, 0.8, 0.1], [0.7, -0.1, 0.6]])
    target = torch.tensor([[1, 1, 3], [0, 0, 0], [-2, 0, -1]])
    evaluation = of_labels("probabilities", ignore_index=-1)()
    with deferred():
        evaluation.update(scores, target)
    with pytest.raises(InputError, match=r"^5 samples counted by \w+ were not what was declared"):
        evaluation.compute()
    assert [cell.tolist() for cell in evaluation.counts.cells] == [[1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1]]
    with pytest.raises(InputError, match="expected every target to be 0 or 1 or ignore_index=-1, got 3 at position 2"):
        evaluation.update(scores, target)
    evaluation.reset()
    evaluation.update(scores[:1, [0, 0, 0]], target[:1, [0, 0, 0]])
    assert evaluation.compute()["exact_match"] == 1


# ---- compiled


@pytest.fixture
def _no_graph_of_another_test() -> None:
    torch._dynamo.reset()


COMPILED = {
    "classes_labels": torch.enable_grad,
    "classes_ignoring_outside": torch.inference_mode,
    "classes_hits": torch.enable_grad,
    "classes_weighted": torch.inference_mode,
    "classes_exact": torch.enable_grad,
    "labels_probabilities": torch.inference_mode,
    "labels_guessed_thresholds": torch.enable_grad,
    "labels_weighted_ignoring": torch.inference_mode,
}
"""A graph of each kind in one mode; the state, which the modes are about, is that of test_compile in every mode."""


@compiles
@pytest.mark.slow
@pytest.mark.usefixtures("_no_graph_of_another_test")
@pytest.mark.parametrize(("name", "mode"), COMPILED.items())
def test_equal_batches_are_one_graph(name: str, mode: Callable[[], Any]) -> None:
    from torch._dynamo.testing import CompileCounter  # late: ranks load this file

    variant, graphs = VARIANTS[name], CompileCounter()
    compiled, eager = variant.build(), variant.build()

    def update(*batch: Tensor) -> None:
        compiled.update(*batch)

    step = torch.compile(update, fullgraph=True, backend=graphs)
    with mode():
        for seed in range(20):
            step(*variant.batch(16, seed))
            eager.update(*variant.batch(16, seed))
    assert graphs.frame_count == 1
    assert_same_totals(compiled, eager)
    with mode():
        for size in (7, 16, 7):  # a last batch may add one
            step(*variant.batch(size, size))
            eager.update(*variant.batch(size, size))
    assert graphs.frame_count <= 2
    assert_same_totals(compiled, eager)


# ---- ranks

JOINED = {
    "classes": Variant(of_classes(per_class=True), "class_scores"),
    "weighted_classes": Variant(of_classes(ignore_index=0, **WEIGHTED, **HITS), "class_scores", weighted=True),
    "labels": Variant(of_labels("probabilities", per_label=True), "scores"),
    "weighted_labels": Variant(of_labels("probabilities", threshold=CUTS, **WEIGHTED), "scores", weighted=True),
    "labels_without_rows": Variant(of_labels("probabilities", statistics=["f1/macro", "f1/micro"]), "scores"),
}
LAYOUTS = ("uneven", "empty_last")


class Joined:
    """What one rank computes, and by which collectives."""

    def __init__(self, name: str, layout: str) -> None:
        self.name, self.layout = name, layout

    def __call__(self, rank: int, world: int) -> Any:
        evaluation = filled(self.name, ranks.shards(self.layout, world)[rank])
        with ranks.recorded() as collectives:
            values = ranks.plain(evaluation.compute())
        with ranks.recorded() as afterwards:
            totals = evaluation.tally.global_totals
            again = {name: entry.compute().item() for name, entry in evaluation.items()}
            evaluation.explain(*list(values)[:2])
            evaluation.averaged_over()
        return {
            "values": values,
            "again": again,
            "integers": totals.integers.tolist(),
            "reals": None if totals.reals is None else totals.reals.tolist(),
            "collectives": collectives,
            "afterwards": afterwards,
        }


def filled(name: str, batches: list[range]) -> Any:
    evaluation = JOINED[name].build()
    for batch in batches:
        evaluation.update(*ranks.rows(JOINED[name].batch(ranks.SAMPLES), batch))
    return evaluation


SCENES = {f"{name}-{layout}": Joined(name, layout) for name in JOINED for layout in LAYOUTS}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> ranks.Found:
    """What every rank returned; the processes run once for all tests, also where tests run in several processes."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder = folder / "many_classes_and_labels"
    folder.mkdir(exist_ok=True)
    return ranks.run_once(SCENES, folder)


@pytest.mark.slow
@pytest.mark.parametrize("world", ranks.WORLDS, ids="{}_ranks".format)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", JOINED)
def test_ranks_are_joined_once_to_the_counts_of_one_process(
    found: ranks.Found, world: int, layout: str, name: str
) -> None:
    shards = ranks.shards(layout, world)
    alone = filled(name, [batch for rank in shards for batch in rank])
    assert [] in shards or len({sum(map(len, rank)) for rank in shards}) > 1
    totals, values = alone.tally.totals, ranks.plain(alone.compute())
    results = found[world][f"{name}-{layout}"]
    assert len(results) == world
    for result in results:
        assert not isinstance(result, str), result
        assert result["integers"] == totals.integers.tolist()
        assert result["collectives"] == ["all_reduce"]
        assert result["afterwards"] == []
        assert result["again"] == result["values"] == pytest.approx(values, rel=1e-6)
        if totals.reals is not None:
            assert result["reals"] == pytest.approx(totals.reals.tolist(), rel=1e-12)


# ---- on a real device


@pytest.mark.gpu
@every_variant
def test_an_update_on_a_device_does_not_synchronise(variant: Variant) -> None:
    counting, reference = variant.build().to(DEVICE), variant.build()
    on_device = [tensor.to(DEVICE) for tensor in variant.batch()]
    counting.update(*on_device)
    with synchronisation_is_an_error():
        counting.update(*on_device)
    for _ in range(2):
        reference.update(*variant.batch())
    for on_gpu, on_cpu in zip(tally_of(counting).totals, tally_of(reference).totals, strict=True):
        assert (on_gpu is None and on_cpu is None) or torch.allclose(on_gpu.cpu(), on_cpu)
