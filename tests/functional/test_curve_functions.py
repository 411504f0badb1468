"""Functions and facades of the metrics of scores: torchmetrics' names, arguments, order of arguments and results."""

import inspect
import warnings
from typing import Any

import pytest
import torch
import torchmetrics.classification as peer_metrics
import torchmetrics.functional.classification as peer_functions
from versions import EER, UNDEFINED, compared

from lightning_evalkit import functional, metrics
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.metrics.base import CountMetric
from lightning_evalkit.metrics.facade import Facade

OF_SCORES = ("calibration", "curves", "points")
FUNCTIONS = [name for name in functional.__all__ if getattr(functional, name).__module__.endswith(OF_SCORES)]
FACADES = [
    name
    for name in metrics.__all__
    if Facade in getattr(metrics, name).__mro__
    and not issubclass(getattr(metrics, name).tasks["multiclass"], CountMetric)
]
BOUNDS = {"min_precision": 0.6, "min_recall": 0.6, "min_specificity": 0.6, "min_sensitivity": 0.6}
TASKS = ("binary", "multiclass", "multilabel")
K, ROWS = 3, 300


def batch(task: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Every class occurs, and scores differ in no more than two decimals, so that there are ties."""
    generator = torch.Generator().manual_seed(3)
    scores = torch.randint(1, 100, (ROWS, K), generator=generator) / 100
    if task == "binary":
        return scores[:, 0], torch.randint(0, 2, (ROWS,), generator=generator)
    if task == "multilabel":
        return scores, torch.randint(0, 2, (ROWS, K), generator=generator)
    return (scores / scores.sum(1, keepdim=True)), torch.randint(0, K, (ROWS,), generator=generator)


def task_of(name: str) -> str:
    return name.partition("_")[0]


def required(task: str, names: Any) -> dict[str, Any]:
    numbers = {"multiclass": {"num_classes": K}, "multilabel": {"num_labels": K}}.get(task, {})
    averages = {"average": None} if {"fpr_range", "average"} <= {*names} else {}  # whose default differs, as there
    return numbers | averages | {name: value for name, value in BOUNDS.items() if name in names}


def assert_close(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_close(one, other)
        return
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6, equal_nan=True, check_dtype=False)


def quietly(call: Any, *args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torchmetrics, about memory and missing classes
        return call(*args, **kwargs)


@EER.since()
def test_none_is_forgotten():
    families = {name.removeprefix("Binary") for name in metrics.__all__ if name.startswith("Binary")}
    of_scores = {name for name in families if not issubclass(getattr(metrics, f"Binary{name}"), CountMetric)}
    assert set(FACADES) == of_scores - {"Fairness", "GroupStatRates"}  # which have no other tasks
    assert len(FACADES) == 12
    assert len(FUNCTIONS) == 32
    assert all(hasattr(peer_functions, name) for name in FUNCTIONS)


# ---- functions


@pytest.mark.parametrize("thresholds", [None, 7, [0.0, 0.2, 0.9], [0.3, 0.6]], ids=str)
@pytest.mark.parametrize("name", compared([name for name in FUNCTIONS if "calibration" not in name], EER, UNDEFINED))
def test_a_function_has_the_results_of_torchmetrics(name: str, thresholds: Any):
    function, peer = getattr(functional, name), getattr(peer_functions, name)
    options = required(task_of(name), inspect.signature(function).parameters) | {"thresholds": thresholds}
    assert_close(function(*batch(task_of(name)), **options), quietly(peer, *batch(task_of(name)), **options))


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize("task", TASKS[:2])
def test_calibration_errors_are_those_of_torchmetrics(task: str, norm: str):
    name = f"{task}_calibration_error"
    options = required(task, ()) | {"n_bins": 7, "norm": norm}
    assert_close(
        getattr(functional, name)(*batch(task), **options),
        quietly(getattr(peer_functions, name), *batch(task), **options),
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_its_metric_on_one_batch(name: str):
    words = "".join(word.capitalize() for word in name.split("_"))
    of = {each.lower(): each for each in metrics.__all__}
    options = required(task_of(name), inspect.signature(getattr(functional, name)).parameters)
    exact = {} if "calibration" in name else {"thresholds": None}
    metric = getattr(metrics, of[words.lower()])(**options, **exact)
    assert_close(getattr(functional, name)(*batch(task_of(name)), **options), metric(*batch(task_of(name))))


def test_weights_equal_repetition():
    scores, target = batch("binary")
    times = torch.arange(ROWS) % 3
    repeated = scores.repeat_interleave(times), target.repeat_interleave(times)
    weighted = functional.binary_auroc(scores, target, sample_weight=times.float())
    assert_close(weighted, functional.binary_auroc(*repeated))


# As with any function of Python, and those of torchmetrics: arguments that there are not, or missing, are TypeErrors.
@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            lambda: functional.binary_eer(*batch("binary"), tresholds=5),
            r"^binary_eer\(\) got an unexpected keyword argument 'tresholds'; expected preds, target, thresholds, ",
        ),
        (lambda: functional.multiclass_roc(*batch("multiclass")), r"^multiclass_roc\(\) missing .* 'num_classes'; "),
        (lambda: functional.binary_roc(*batch("binary"), 5, None, True, 1), r"^binary_roc\(\) too many positional"),
        (
            lambda: functional.binary_recall_at_fixed_precision(*batch("binary")),
            r"^binary_recall_at_fixed_precision\(\) missing .* 'min_precision'$",
        ),
        (lambda: functional.binary_accuracy(*batch("binary"), treshold=1), "binary_accuracy.* 'treshold'; expected"),
    ],
)
def test_arguments_that_a_function_does_not_have_are_told(call: Any, expected: str):
    with pytest.raises(TypeError, match=expected):
        call()


def test_an_error_of_the_batch_itself_is_not_taken_for_one_of_the_arguments():
    with pytest.raises(InputError, match="got str as preds: pass the numbers themselves"):
        functional.binary_accuracy("0.5", torch.tensor([1]))


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: functional.binary_calibration_error(*batch("binary"), norm="l3"), "'l1', 'l2' or 'max', got 'l3'"),
        (lambda: functional.binary_calibration_error(*batch("binary"), n_bins=0), "n_bins .* at least 1, got 0"),
        (lambda: functional.multiclass_calibration_error(*batch("multiclass"), 3, n_bins=True), "n_bins .* got True"),
        (lambda: functional.binary_auroc(*batch("binary"), max_fpr=0), r"max_fpr to be a number in \(0, 1\], got 0"),
        (lambda: functional.binary_auroc(*batch("binary"), max_fpr=1.5), "max_fpr to be a number"),
        (lambda: functional.multiclass_auroc(*batch("multiclass"), 3, "makro"), "average to be one of macro, weighted"),
        (lambda: functional.multiclass_auroc(*batch("multiclass"), 3, "micro"), "average to be one of macro, weighted"),
        (lambda: functional.multilabel_auroc(*batch("multilabel"), 3, "makro"), "average to be one of micro, macro"),
        (lambda: functional.multiclass_roc(*batch("multiclass"), 3, average="none"), "average to be one of micro, ma"),
        (lambda: functional.multiclass_eer(*batch("multiclass"), 3, average="weighted"), "average to be one of micro"),
        (lambda: functional.binary_recall_at_fixed_precision(*batch("binary"), 2), r"min_precision .* in \[0, 1\]"),
        (lambda: functional.multilabel_precision_at_fixed_recall(*batch("multilabel"), 3, -1), "min_recall .* got -1"),
    ],
)
def test_wrong_options_are_refused_as_the_metrics_refuse_them(call: Any, expected: str):
    with pytest.raises(DeclarationError, match=expected):
        call()


def test_wrong_scores_are_told():
    with pytest.raises(InputError, match="expected every preds to be a number"):
        functional.binary_auroc(torch.tensor([float("nan"), 0.5]), torch.tensor([0, 1]))


# ---- facades


def tasks_of(name: str) -> tuple[str, ...]:
    return TASKS[:2] if name in ("CalibrationError", "HingeLoss") else TASKS


@pytest.mark.parametrize("how", ["by_name", "by_position"])
@pytest.mark.parametrize("name", compared(FACADES, EER, UNDEFINED))
def test_a_facade_is_that_of_torchmetrics(name: str, how: str):
    facade, peer = getattr(metrics, name), getattr(peer_metrics, name)
    given = BOUNDS | {"thresholds": 9, "num_classes": K, "num_labels": K, "average": "macro", "max_fpr": None}
    given |= {"n_bins": 7, "norm": "l2", "ignore_index": None, "validate_args": True}
    given |= {"fpr_range": (0.05, 0.9), "squared": True, "multiclass_mode": "one-vs-all"}
    order = [each for each in inspect.signature(peer.__new__).parameters if each in given]
    for task in tasks_of(name):
        options = {each: given[each] for each in order}
        if name == "EER":
            options["average"] = "macro" if task == "multiclass" else None
        if how == "by_name":
            ours, theirs = facade(task, **options), quietly(peer, task, **options)
        else:
            ours, theirs = facade(task, *options.values()), quietly(peer, task, *options.values())
        assert type(ours).__name__ == type(theirs).__name__
        assert_close(ours(*batch(task)), quietly(theirs, *batch(task)))


@pytest.mark.parametrize("name", FACADES)
def test_a_facade_refuses_unknown_tasks_and_missing_numbers(name: str):
    facade = getattr(metrics, name)
    with pytest.raises(DeclarationError, match=r"expected task to be one of 'binary', .*got 'regression'"):
        facade("regression")
    with pytest.raises(DeclarationError, match="expected num_classes for task='multiclass', got None"):
        facade("multiclass", **required("", inspect.signature(facade).parameters))
