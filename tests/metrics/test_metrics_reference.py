"""Binary metrics and functions with a name of torchmetrics give its results, degenerate data and arguments included.

They also behave as its metrics do (collections, trackers, composition, plots), but never share a state by accident.
"""

from __future__ import annotations

import inspect
import math
import pickle
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
import torch
import torchmetrics
from sklearn.metrics import balanced_accuracy_score
from torch import Tensor
from torchmetrics import MetricCollection, MetricTracker
from torchmetrics import classification as peer_metrics
from torchmetrics.functional import classification as peer_functions

from lightning_evalkit import functional, metrics
from lightning_evalkit.metrics.binary import BinaryMetric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

mpl.use("Agg")
pytestmark = pytest.mark.filterwarnings(
    # torchmetrics, of its own matrix when a class is absent; and of what it hands to matplotlib.
    "ignore:.* NaN values found in confusion matrix:UserWarning",
    "ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning",
)


class Peer(NamedTuple):
    """How torchmetrics' function is called, and which arguments class and function have besides the common ones."""

    function: str
    samplewise: bool = True
    class_has_zero_division: bool = False
    function_has_zero_division: bool = False
    options: tuple[dict[str, Any], ...] = ({},)


WEIGHTS = tuple({"weights": weights} for weights in (None, "none", "linear", "quadratic"))
NORMALIZE = tuple({"normalize": normalize} for normalize in (None, "none", "true", "pred", "all"))
BETA = tuple({"beta": beta} for beta in (0.5, 1.0, 2.0, 3.7))

PEERS = {
    "BinaryStatScores": Peer("binary_stat_scores"),
    "BinaryAccuracy": Peer("binary_accuracy"),
    "BinaryPrecision": Peer("binary_precision", True, True, True),
    "BinaryRecall": Peer("binary_recall", True, True, True),
    "BinarySpecificity": Peer("binary_specificity"),
    # The class takes zero_division and does not use it.
    "BinaryNegativePredictiveValue": Peer("binary_negative_predictive_value", True, False, True),
    "BinaryF1Score": Peer("binary_f1_score", True, True, True),
    "BinaryFBetaScore": Peer("binary_fbeta_score", True, True, True, BETA),
    "BinaryHammingDistance": Peer("binary_hamming_distance"),
    "BinaryJaccardIndex": Peer("binary_jaccard_index", False, True, True),
    "BinaryMatthewsCorrCoef": Peer("binary_matthews_corrcoef", False),
    "BinaryCohenKappa": Peer("binary_cohen_kappa", False, options=WEIGHTS),
    "BinaryConfusionMatrix": Peer("binary_confusion_matrix", False, options=NORMALIZE),
}


def shares(truth: Tensor, said: Tensor) -> tuple[float, float, float]:
    """Recall, specificity and precision of samples."""
    return said[truth == 1].mean().item(), (1 - said[truth == 0]).mean().item(), truth[said == 1].mean().item()


def balanced(truth: Tensor, said: Tensor, adjusted: bool = False) -> float:
    return float(balanced_accuracy_score(truth, said, adjusted=adjusted))


# Names that torchmetrics does not have: function, and definition on samples.
OWN: dict[str, tuple[str, Callable[[Tensor, Tensor], float]]] = {
    "BinaryBalancedAccuracy": ("binary_balanced_accuracy", balanced),
    "BinaryInformedness": ("binary_informedness", lambda truth, said: balanced(truth, said, adjusted=True)),
    "BinaryMarkedness": ("binary_markedness", lambda truth, said: balanced(said, truth, adjusted=True)),
    "BinaryGeometricMean": (
        "binary_geometric_mean",
        lambda truth, said: math.sqrt(shares(truth, said)[0] * shares(truth, said)[1]),
    ),
    "BinaryFowlkesMallows": (
        "binary_fowlkes_mallows",
        lambda truth, said: math.sqrt(shares(truth, said)[0] * shares(truth, said)[2]),
    ),
}
ALL = (*PEERS, *OWN)


def made(name: str, **options: Any) -> Any:
    """A metric of this name; F-beta needs its beta."""
    return getattr(metrics, name)(**({"beta": 2.0} if name == "BinaryFBetaScore" else {}), **options)


def assert_same(ours: Tensor, theirs: Tensor, note: object = None) -> None:
    torch.testing.assert_close(
        ours,
        theirs,
        rtol=1e-6,
        atol=1e-6,
        equal_nan=True,
        check_dtype=False,
        msg=lambda text: f"{note}\n{text}",
    )


# ---- none is forgotten


def test_every_binary_metric_has_a_row() -> None:
    exported = {name: getattr(metrics, name) for name in metrics.__all__}
    classes = {name for name, each in exported.items() if isinstance(each, type) and issubclass(each, BinaryMetric)}
    assert classes == set(ALL)
    assert {name for name in ALL if hasattr(peer_metrics, name)} == PEERS.keys()


def test_every_binary_function_has_a_row() -> None:
    of_counts = [name for name in functional.__all__ if getattr(functional, name).__module__.endswith(".binary")]
    functions = {name for name in of_counts if name.startswith("binary_")}
    shared = {peer.function for peer in PEERS.values()}
    assert functions == shared | {function for function, _ in OWN.values()}
    assert {name for name in functions if hasattr(peer_functions, name)} == shared


# ---- generated batches

READINGS = ("probabilities", "logits", "labels")
KINDS = ("mixed", "only positives", "only negatives", "all said positive", "all said negative", "right", "wrong")
THRESHOLDS = (0.5, 0.2, 0.85)
SHAPES = ((7,), (7, 5), (7, 3, 2))
SCORE_TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
LABEL_TYPES = (torch.int64, torch.int32, torch.uint8, torch.bool)
TARGET_TYPES = (torch.int64, torch.int32, torch.float32)


class Case(NamedTuple):
    """One combination of arguments and data."""

    reading: str
    kind: str
    ignore_index: int | None
    threshold: float
    shape: tuple[int, ...]
    preds_type: torch.dtype
    target_type: torch.dtype
    multidim_average: str
    zero_division: int
    options: dict[str, Any]

    def arguments(self, multidim: bool, zero_division: bool) -> dict[str, Any]:
        """What class or function is called with."""
        arguments = {"threshold": self.threshold, "ignore_index": self.ignore_index, **self.options}
        if multidim:
            arguments["multidim_average"] = self.multidim_average
        if zero_division:
            arguments["zero_division"] = self.zero_division
        return arguments

    def batch(self) -> tuple[Tensor, Tensor]:
        """Predictions and targets; logits leave [0, 1], so that every batch is read in one way."""
        said, truth = torch.randint(2, self.shape), torch.randint(2, self.shape)
        said, truth = {
            "mixed": (said, truth),
            "only positives": (said, torch.ones_like(truth)),
            "only negatives": (said, torch.zeros_like(truth)),
            "all said positive": (torch.ones_like(said), truth),
            "all said negative": (torch.zeros_like(said), truth),
            "right": (truth, truth),
            "wrong": (1 - truth, truth),
        }[self.kind]
        preds = said if self.reading == "labels" else self.scores(said)
        if self.ignore_index == -1:
            truth = torch.where(torch.rand(self.shape) < 0.2, -1, truth)
        return preds.to(self.preds_type), truth.to(self.target_type)

    def scores(self, said: Tensor) -> Tensor:
        """Scores clearly on their side of the threshold, where a sigmoid's rounding cannot matter, or right on it."""
        size = 0.05 + 0.95 * torch.rand(self.shape)
        if self.reading == "probabilities":
            below = torch.where(size > 0.9, self.threshold, self.threshold * (1 - size))
            return torch.where(said == 1, self.threshold + (1 - self.threshold) * size, below)
        size.view(-1)[0] = 2.0
        cut = math.log(self.threshold / (1 - self.threshold))
        return cut + 4 * size * (2 * said - 1)


def cases(name: str) -> Iterator[Case]:
    """Every reading, kind of data and ignored index; the other arguments are drawn."""
    draw, peer = Random(name), PEERS[name]
    for reading in READINGS:
        for kind in KINDS:
            for ignore_index in (None, -1, 0, 1):
                shape, average = draw.choice(SHAPES), draw.choice(("global", "samplewise"))
                yield Case(
                    reading,
                    kind,
                    ignore_index,
                    draw.choice(THRESHOLDS),
                    shape,
                    draw.choice(LABEL_TYPES if reading == "labels" else SCORE_TYPES),
                    draw.choice(TARGET_TYPES),
                    average if len(shape) > 1 and peer.samplewise else "global",
                    draw.choice((0, 1)),
                    draw.choice(peer.options),
                )


@pytest.mark.parametrize("name", PEERS)
def test_the_class_gives_the_results_of_torchmetrics(name: str) -> None:
    peer = PEERS[name]
    for case in cases(name):
        arguments = case.arguments(peer.samplewise, peer.class_has_zero_division)
        metric, other = getattr(metrics, name)(**arguments), getattr(peer_metrics, name)(**arguments)
        batch = case.batch()
        assert_same(metric(*batch), other(*batch), case)
        batch = case.batch()
        metric.update(*batch)
        other.update(*batch)
        assert metric.update_count == other.update_count or case.multidim_average == "samplewise"
        assert_same(metric.compute(), other.compute(), case)


@pytest.mark.parametrize("name", PEERS)
def test_the_function_gives_the_results_of_torchmetrics(name: str) -> None:
    peer = PEERS[name]
    ours, theirs = getattr(functional, peer.function), getattr(peer_functions, peer.function)
    for case in cases(name):
        arguments, batch = case.arguments(peer.samplewise, peer.function_has_zero_division), case.batch()
        result = ours(*batch, **arguments)
        assert_same(result, theirs(*batch, **arguments), case)
        assert_same(ours(*batch, **arguments, inputs=case.reading), result, case)


def test_the_cases_reach_every_argument_and_data() -> None:
    """Otherwise the comparison could pass by leaving out."""
    drawn = [case for name in PEERS for case in cases(name)]
    assert len(drawn) == len(PEERS) * 3 * 7 * 4
    assert {case.threshold for case in drawn} == set(THRESHOLDS)
    assert {case.shape for case in drawn if case.multidim_average == "samplewise"} == set(SHAPES[1:])
    assert {case.preds_type for case in drawn} == {*SCORE_TYPES, *LABEL_TYPES}
    for name, peer in PEERS.items():
        own = list(cases(name))
        assert all(option in [case.options for case in own] for option in peer.options)
        assert {case.zero_division for case in own} == {0, 1}


@pytest.mark.parametrize("name", [name for name, peer in PEERS.items() if not peer.samplewise])
@pytest.mark.parametrize("shape", [(0,), (0, 3)])
def test_an_empty_batch_gives_the_result_of_torchmetrics(name: str, shape: tuple[int, ...]) -> None:
    """Only where torchmetrics counts a table: its other metrics cannot reshape nothing."""
    batch = torch.empty(shape), torch.empty(shape, dtype=torch.int64)
    for option in PEERS[name].options:
        assert_same(getattr(metrics, name)(**option)(*batch), getattr(peer_metrics, name)(**option)(*batch), option)


@pytest.mark.parametrize("name", PEERS)
def test_an_empty_batch_in_between_changes_nothing(name: str) -> None:
    batch = torch.rand(20), torch.randint(2, (20,))
    metric, other = made(name), made(name)
    metric.update(*batch)
    metric.update(torch.empty(0), torch.empty(0))
    other.update(*batch)
    assert torch.equal(metric.compute(), other.compute())


# What torchmetrics 1.9 returns for tables in which a marginal is empty, where the formula is 0/0.
MATTHEWS = {
    "one right positive": ([1], [1], 1.0),
    "one right negative": ([0], [0], 1.0),
    "only wrong": ([1, 1], [0, 0], -1.0),
    "both ways wrong": ([1, 0], [0, 1], -1.0),
}


@pytest.mark.parametrize("kind", MATTHEWS)
def test_matthews_keeps_the_odd_values_of_its_name(kind: str) -> None:
    preds, target, expected = MATTHEWS[kind]
    batch = torch.tensor(preds), torch.tensor(target)
    assert metrics.BinaryMatthewsCorrCoef()(*batch) == expected
    assert peer_metrics.BinaryMatthewsCorrCoef()(*batch) == expected
    assert functional.binary_matthews_corrcoef(*batch) == expected


# ---- signatures


def parameters(callable_: Any) -> dict[str, inspect.Parameter]:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {name: one for name, one in inspect.signature(callable_).parameters.items() if one.kind in kinds}


def assert_signature(ours: Any, theirs: Any) -> None:
    expected, actual = parameters(theirs), parameters(ours)
    assert [name for name in actual if name in expected] == list(expected)
    for name in expected.keys() - {"zero_division"}:  # None here, which stands for the 0 of there
        assert actual[name].default == expected[name].default, name


@pytest.mark.parametrize("name", PEERS)
def test_the_constructor_has_the_arguments_of_torchmetrics(name: str) -> None:
    assert_signature(getattr(metrics, name), getattr(peer_metrics, name))


@pytest.mark.parametrize("name", [peer.function for peer in PEERS.values()])
def test_the_function_has_the_arguments_of_torchmetrics(name: str) -> None:
    assert_signature(getattr(functional, name), getattr(peer_functions, name))


BY_POSITION = {"threshold": 0.3, "multidim_average": "global", "ignore_index": 7, "validate_args": False, "beta": 2.0}


@pytest.mark.parametrize("name", PEERS)
def test_arguments_by_position_mean_the_same(name: str) -> None:
    values = {**BY_POSITION, "zero_division": 1, "normalize": "all", "weights": "linear"}
    names = list(parameters(getattr(peer_metrics, name)))
    metric = getattr(metrics, name)(*(values[each] for each in names))
    assert {each: getattr(metric, each) for each in names} == {each: values[each] for each in names}
    function = PEERS[name].function
    order = list(parameters(getattr(peer_functions, function)))[2:]
    batch = torch.rand(30), torch.tensor([0, 1, 7]).repeat(10)
    arguments = [values[each] for each in order]
    assert_same(
        getattr(functional, function)(*batch, *arguments), getattr(peer_functions, function)(*batch, *arguments)
    )


# ---- names of our own


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("seed", range(5))
def test_own_metrics_equal_their_definition(name: str, seed: int) -> None:
    torch.manual_seed(seed)
    preds, target = torch.rand(40), torch.randint(2, (40,)).float()
    function, definition = OWN[name]
    expected = definition(target, (preds > 0.3).float())
    metric = getattr(metrics, name)(threshold=0.3)
    metric.update(preds[:11], target[:11])
    metric.update(preds[11:], target[11:])
    assert metric.compute().item() == pytest.approx(expected, abs=1e-6)
    assert getattr(functional, function)(preds, target, threshold=0.3).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", OWN)
def test_own_metrics_are_nan_where_undefined_unless_told_otherwise(name: str) -> None:
    nothing_positive = torch.zeros(3), torch.zeros(3)
    function = getattr(functional, OWN[name][0])
    assert getattr(metrics, name)()(*nothing_positive).isnan()
    assert function(*nothing_positive).isnan()
    assert not getattr(metrics, name)(zero_division=0.0)(*nothing_positive).isnan()
    assert not function(*nothing_positive, zero_division=0.0).isnan()


@pytest.mark.parametrize("name", OWN)
def test_own_metrics_count_sample_by_sample_too(name: str) -> None:
    preds, target = torch.rand(6, 40), torch.randint(2, (6, 40))
    metric = getattr(metrics, name)(multidim_average="samplewise")
    rows = [getattr(metrics, name)()(*row) for row in zip(preds, target, strict=True)]
    assert_same(metric(preds, target), torch.stack(rows))


# ---- weights


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("seed", range(4))
def test_whole_weights_are_repetitions_and_zero_is_removal(name: str, seed: int) -> None:
    torch.manual_seed(seed)
    weighted, plain = made(name, weighted=True), made(name)
    for size in (1, 5, 30):
        preds, target, weight = torch.rand(size), torch.randint(2, (size,)), torch.randint(4, (size,))
        repeated = preds.repeat_interleave(weight), target.repeat_interleave(weight)
        assert_same(weighted(preds, target, weight.float()), plain(*repeated))
    assert_same(weighted.compute(), plain.compute())


@pytest.mark.parametrize("name", ALL)
def test_functions_weigh_like_metrics(name: str) -> None:
    function = getattr(functional, PEERS[name].function if name in PEERS else OWN[name][0])
    options = {"beta": 2.0} if name == "BinaryFBetaScore" else {}
    preds, target, weight = torch.rand(50), torch.randint(2, (50,)), torch.rand(50)
    result = function(preds, target, **options, sample_weight=weight)
    assert_same(result, made(name, weighted=True)(preds, target, sample_weight=weight))
    assert_same(function(preds, target, **options, sample_weight=torch.ones(50)), function(preds, target, **options))
    assert not torch.equal(result, function(preds, target, **options))


@pytest.mark.parametrize("name", [name for name in ALL if name in OWN or PEERS[name].samplewise])
def test_samples_counted_one_by_one_are_weighted_too(name: str) -> None:
    preds, target, weight = torch.rand(4, 9), torch.randint(2, (4, 9)), torch.rand(4, 9)
    metric = made(name, weighted=True, multidim_average="samplewise")
    rows = [made(name, weighted=True)(*row) for row in zip(preds, target, weight, strict=True)]
    assert_same(metric(preds, target, weight), torch.stack(rows))


# ---- a metric like any other


@pytest.mark.parametrize("name", ALL)
def test_direction(name: str) -> None:
    open_ = ("BinaryStatScores", "BinaryConfusionMatrix")
    expected = {"BinaryHammingDistance": False, **dict.fromkeys(open_)}.get(name, True)
    if name in PEERS:  # which leaves it open for more of them
        assert getattr(peer_metrics, name).higher_is_better in (expected, None)
    assert getattr(metrics, name).higher_is_better is expected
    assert made(name).higher_is_better is expected
    assert made(name).is_differentiable is False


@pytest.mark.parametrize("name", ALL)
def test_forward_gives_the_batch_and_keeps_all(name: str) -> None:
    metric, alone = made(name), made(name)
    batches = [(torch.rand(30), torch.randint(2, (30,))) for _ in range(3)]
    for batch in batches:
        alone.reset()
        alone.update(*batch)
        assert torch.equal(metric(*batch), alone.compute())
    together = made(name)
    together.update(torch.cat([preds for preds, _ in batches]), torch.cat([target for _, target in batches]))
    assert torch.equal(metric.compute(), together.compute())
    assert metric.update_count == 3


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_pickled_metric_goes_on_counting(name: str, weighted: bool) -> None:
    metric = made(name, weighted=weighted)
    batch = torch.rand(30), torch.randint(2, (30,)), *([torch.rand(30)] if weighted else [])
    metric.update(*batch)
    restored = pickle.loads(pickle.dumps(metric))
    assert torch.equal(restored.compute(), metric.compute())
    restored.update(*batch)
    assert (restored.update_count, metric.update_count) == (2, 1)
    metric.update(*batch)
    assert torch.equal(restored.compute(), metric.compute())


@pytest.mark.parametrize("name", ALL)
def test_plot_draws_a_figure(name: str) -> None:
    metric = made(name)
    first = metric(torch.rand(30), torch.randint(2, (30,)))
    drawn = [metric.plot()]
    if name != "BinaryConfusionMatrix":  # of which torchmetrics draws one
        drawn.append(metric.plot([first, metric(torch.rand(30), torch.randint(2, (30,)))]))
    for figure, axes in drawn:
        assert isinstance(figure, plt.Figure)
        assert axes is not None
        plt.close(figure)


@pytest.mark.parametrize(("name", "better"), [("BinaryF1Score", max), ("BinaryHammingDistance", min)])
def test_a_tracker_finds_the_best_epoch(name: str, better: Callable[[list[float]], float]) -> None:
    tracker, values = MetricTracker(made(name), maximize=None), []  # the default from torchmetrics 1.7 on
    for _ in range(4):
        tracker.increment()
        batch = torch.rand(25), torch.randint(2, (25,))
        tracker.update(*batch)
        values.append(made(name)(*batch).item())
    assert tracker.compute_all().tolist() == pytest.approx(values)
    best, epoch = tracker.best_metric(return_step=True)
    assert best == pytest.approx(better(values))
    assert values[epoch] == better(values)


def test_arithmetic_of_metrics() -> None:
    recall, specificity = metrics.BinaryRecall(), metrics.BinarySpecificity()
    mean = (recall + specificity) / 2
    batch = torch.rand(40), torch.randint(2, (40,))
    assert_same(mean(*batch), metrics.BinaryBalancedAccuracy()(*batch))
    more = torch.rand(40), torch.randint(2, (40,))
    mean.update(*more)
    balanced_accuracy = metrics.BinaryBalancedAccuracy()
    balanced_accuracy.update(*batch)
    balanced_accuracy.update(*more)
    assert_same(mean.compute(), balanced_accuracy.compute())
    mean.reset()
    assert recall.update_count == specificity.update_count == 0


# ---- in a stock MetricCollection


def test_metrics_of_one_declaration_share_a_group() -> None:
    names = [name for name in ALL if name != "BinaryFBetaScore"]
    collection = MetricCollection([made(name, threshold=0.3) for name in names])
    batches = [(torch.rand(30), torch.randint(2, (30,))) for _ in range(3)]
    for batch in batches:
        collection.update(*batch)
    assert [sorted(group) for group in collection.compute_groups.values()] == [sorted(names)]
    values = collection.compute()
    for name in names:
        alone = made(name, threshold=0.3)
        for batch in batches:
            alone.update(*batch)
        assert torch.equal(values[name], alone.compute()), name


SEPARATED = torch.tensor([0.99, 0.95, 0.02, 0.03]), torch.tensor([1, 1, 0, 0])


@pytest.mark.parametrize(
    "declarations",
    [
        [{"threshold": threshold} for threshold in (0.1, 0.5, 0.9)],
        [{"ignore_index": index} for index in (None, -1, 5)],
        [{"inputs": inputs} for inputs in ("auto", "probabilities")],
    ],
    ids=["threshold", "ignore_index", "inputs"],
)
def test_metrics_of_different_declarations_never_share(declarations: list[dict[str, Any]]) -> None:
    collection = MetricCollection(
        {f"{place}": metrics.BinaryRecall(**given) for place, given in enumerate(declarations)}
    )
    collection.update(*SEPARATED)
    assert len(collection.compute_groups) == len(declarations)


def test_a_first_batch_that_separates_cleanly_does_not_join_thresholds() -> None:
    """torchmetrics compares states after the first batch, and from then on reports one threshold's number for all."""
    thresholds = {"low": 0.1, "middle": 0.5, "high": 0.9}
    target = torch.randint(2, (2000,))
    scores = torch.sigmoid(torch.randn(2000) * 1.5 + 2 * target - 1)

    def reported(precision: Any) -> list[float]:
        collection = MetricCollection({name: precision(threshold=cut) for name, cut in thresholds.items()})
        collection.update(*SEPARATED)
        collection.compute()
        collection.reset()
        collection.update(scores, target)
        return [collection.compute()[name].item() for name in thresholds]

    truth = [target[scores > cut].float().mean().item() for cut in thresholds.values()]
    assert truth[0] + 0.1 < truth[1] < truth[2] - 0.1
    theirs = reported(torchmetrics.classification.BinaryPrecision)
    assert theirs == [theirs[0]] * 3
    assert theirs != pytest.approx(truth)
    assert reported(metrics.BinaryPrecision) == pytest.approx(truth)


@pytest.mark.parametrize("multidim_average", ["global", "samplewise"])
def test_update_and_forward_of_a_collection_may_be_mixed(multidim_average: str) -> None:
    """Members of one group are handed one state by update, and forward then runs each of them: still counted once."""
    names = ("BinaryAccuracy", "BinaryRecall", "BinaryStatScores")
    collection, expected = (
        MetricCollection([getattr(source, name)(multidim_average=multidim_average) for name in names])
        for source in (metrics, peer_metrics)
    )
    for call in ("update", "forward", "update", "forward", "forward"):
        batch = torch.rand(8, 6), torch.randint(2, (8, 6))
        ours, theirs = getattr(collection, call)(*batch), getattr(expected, call)(*batch)
        if call == "forward":
            for name in names:
                assert_same(ours[name], theirs[name], (call, name))
        ours, theirs = collection.compute(), expected.compute()
        for name in names:
            assert_same(ours[name], theirs[name], (call, name))


def test_a_clone_and_a_second_epoch_of_a_collection_start_from_nothing() -> None:
    collection = MetricCollection([metrics.BinaryAccuracy(), metrics.BinaryF1Score()], prefix="val/")
    collection.update(torch.rand(30), torch.randint(2, (30,)))
    other = collection.clone(prefix="test/")
    collection.reset()
    other.reset()
    batch = torch.rand(30), torch.randint(2, (30,))
    other.update(torch.rand(50), torch.randint(2, (50,)))
    collection.update(*batch)
    expected = {f"val/{name}": made(name)(*batch) for name in ("BinaryAccuracy", "BinaryF1Score")}
    assert collection.compute() == expected
    assert set(other.compute()) == {"test/BinaryAccuracy", "test/BinaryF1Score"}
    assert other["BinaryAccuracy"].counts.total == 50
