"""Arguments of all functions, metrics and facades beside those of torchmetrics: names, order, defaults, no others."""

import copy
import inspect
import os
import pickle
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch
import torchmetrics
import torchmetrics.classification as peer_metrics
import torchmetrics.functional.classification as peer_functions
from jsonargparse import ArgumentParser
from torch import nn
from torchmetrics.utilities.enums import ClassificationTask
from torchmetrics.wrappers import MinMaxMetric
from versions import EER, NORMALIZATION, compared

import lightning_evalkit
from lightning_evalkit import functional, metrics
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.metrics.facade import Facade

FUNCTIONS = sorted(functional.__all__)
FACADES = sorted(name for name in metrics.__all__ if Facade in getattr(metrics, name).__mro__)
METRICS = sorted(set(metrics.__all__) - set(FACADES))
OWN = {"LossProfile", "MeanLoss", "WorstLossShare"} | {
    f"Binary{name}" for name in ("BalancedAccuracy", "FowlkesMallows", "GeometricMean", "Informedness", "Markedness")
}
OWN_FUNCTIONS = {f"binary_{name}" for name in ("balanced_accuracy", "fowlkes_mallows", "geometric_mean")} | {
    "binary_informedness",
    "binary_markedness",
}
# Where defaults differ, and why; both are named to prove that the row is still needed.
DEVIATIONS: dict[str, tuple[Any, Any]] = {
    "thresholds": (None, "fine"),  # metrics and facades: memory does not grow with the data
    "zero_division": (0, None),  # None is the value of torchmetrics: 0, and for the Hamming distance 1
    "num_classes": (inspect.Parameter.empty, None),  # micro averages need no number
}
EXTRA = ("zero_division",)  # every statistic has it
KEYWORDS = {"function": {"inputs", "sample_weight"}, "metric": {"inputs", "weighted"}}


def arguments(thing: Any) -> dict[str, Any]:
    """Names and defaults of what may be given by position."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    found = inspect.signature(thing).parameters.values()
    return {each.name: each.default for each in found if each.kind in kinds}


def keywords(thing: Any) -> set[str]:
    found = inspect.signature(thing).parameters.values()
    return {each.name for each in found if each.kind is inspect.Parameter.KEYWORD_ONLY}


def deviations(ours: Any, theirs: Any) -> set[str]:
    """The defaults that differ, after the names and their order were found to be the same."""
    here, there = arguments(ours), arguments(theirs)
    assert [name for name in here if name in there or name not in EXTRA] == list(there)
    assert list(here)[: len(there)] == list(there), "an argument of our own comes last"
    different = {name for name in there if here[name] != there[name]}
    for name in different:
        assert (there[name], here[name]) == DEVIATIONS[name], name
    return different


@EER.since()
def test_all_are_compared():
    """What a release of torchmetrics adds is missing here, and fails by its name."""
    assert set(FUNCTIONS) - OWN_FUNCTIONS == set(peer_functions.__all__)
    assert {*METRICS, *FACADES} - OWN == set(peer_metrics.__all__)
    assert len(FUNCTIONS) >= 112
    assert len(FACADES) >= 26
    assert len(METRICS) >= 87
    assert set(FUNCTIONS) > OWN_FUNCTIONS
    assert set(METRICS) > OWN


@NORMALIZATION.since()
def test_every_deviation_is_in_use():
    functions = [name for name in FUNCTIONS if name not in OWN_FUNCTIONS]
    found = set().union(*(deviations(getattr(functional, name), getattr(peer_functions, name)) for name in functions))
    assert found == {"zero_division", "num_classes"}
    found |= set().union(*(deviations(getattr(metrics, n), getattr(peer_metrics, n)) for n in METRICS if n not in OWN))
    assert found == DEVIATIONS.keys()


# ---- functions


@pytest.mark.parametrize("name", compared(sorted(set(FUNCTIONS) - OWN_FUNCTIONS), EER))
def test_a_function_has_the_arguments_of_torchmetrics(name: str):
    deviations(getattr(functional, name), getattr(peer_functions, name))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_one_with_a_name_a_sentence_and_two_keywords_of_its_own(name: str):
    function = getattr(functional, name)
    assert inspect.isfunction(function)
    assert function.__name__ == function.__qualname__ == name
    assert function.__module__.startswith("lightning_evalkit.functional.")
    assert (inspect.getdoc(function) or "").partition("\n")[0].endswith(".")
    assert keywords(function) == KEYWORDS["function"]
    assert all(each.annotation is not each.empty for each in inspect.signature(function).parameters.values())
    assert inspect.signature(function).return_annotation not in (inspect.Signature.empty, "Any")
    assert pickle.loads(pickle.dumps(function)) is function
    assert copy.deepcopy(function) is function


# ---- metrics


@pytest.mark.parametrize("name", compared(sorted(set(METRICS) - OWN), EER, NORMALIZATION))
def test_a_metric_has_the_arguments_of_torchmetrics(name: str):
    deviations(getattr(metrics, name), getattr(peer_metrics, name))
    assert keywords(getattr(metrics, name)) <= KEYWORDS["metric"]


# ---- facades


@pytest.mark.parametrize("name", compared(FACADES, EER))
def test_a_facade_has_the_arguments_of_torchmetrics(name: str):
    facade = getattr(metrics, name)
    here, there = arguments(facade), arguments(getattr(peer_metrics, name).__new__)
    del there["cls"]
    assert list(here) == list(there)
    assert {each for each in here if here[each] != there[each]} <= {"thresholds"}
    assert keywords(facade) == set()
    assert arguments(facade.__new__) == {"cls": inspect.Parameter.empty} | here


@pytest.mark.parametrize("name", compared(FACADES, EER))
def test_the_metrics_of_a_facade_are_its_instances(name: str):
    facade = getattr(metrics, name)
    assert isinstance(facade, type)
    assert issubclass(facade, torchmetrics.Metric)
    for kind in facade.tasks.values():
        assert issubclass(kind, facade)
        assert not issubclass(getattr(peer_metrics, kind.__name__), facade)
        # Multiclass and multilabel statistics derive from the counts, here as in torchmetrics.
        others = [getattr(metrics, other) for other in FACADES if other not in (name, "StatScores")]
        assert not any(issubclass(kind, other) for other in others)
    assert not isinstance(nn.Linear(1, 1), facade)
    assert not issubclass(facade, tuple(facade.tasks.values()))


def test_instances_of_a_facade_are_the_metrics_of_its_tasks():
    for task, number in (("binary", {}), ("multiclass", {"num_classes": 3}), ("multilabel", {"num_labels": 3})):
        metric = metrics.Accuracy(task=task, **number)
        assert type(metric) is getattr(metrics, f"{task.capitalize()}Accuracy")
        assert isinstance(metric, metrics.Accuracy)
        assert not isinstance(metric, metrics.Recall)
        for same in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric)), metric.clone()):
            assert type(same) is type(metric)
    assert not isinstance(torchmetrics.Accuracy(task="binary"), metrics.Accuracy)


@pytest.mark.parametrize("task", ["MULTICLASS", "Multiclass", ClassificationTask.MULTICLASS])
def test_a_task_may_have_capital_letters(task: str):
    batch = torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1])
    expected = torchmetrics.Accuracy(task, num_classes=3)(*batch)
    assert metrics.Accuracy(task, num_classes=3)(*batch) == expected
    assert functional.accuracy(*batch, task=task, num_classes=3) == expected


def test_a_class_derived_from_a_facade_makes_the_same_metrics():
    class Mine(metrics.Accuracy):
        pass

    assert type(Mine("binary")) is metrics.BinaryAccuracy
    assert isinstance(Mine("binary"), Mine)
    assert arguments(Mine) == arguments(metrics.Accuracy)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "expected task to be one of 'binary', 'multiclass', 'multilabel', got None."),
        ({"task": "regression"}, "expected task to be one of 'binary', 'multiclass', 'multilabel', got 'regression'."),
        ({"task": ["binary"]}, "expected task to be one of 'binary', 'multiclass', 'multilabel', got ['binary']."),
        ({"task": "multiclass"}, "expected num_classes for task='multiclass', got None."),
        ({"task": "multilabel", "num_classes": 3}, "expected num_labels for task='multilabel', got None."),
    ],
)
def test_a_missing_or_wrong_task_is_told(given: dict[str, Any], expected: str):
    with pytest.raises(DeclarationError) as error:
        metrics.Accuracy(**given)
    assert str(error.value) == expected


def test_missing_and_superfluous_arguments_of_a_facade_are_told_in_its_name():
    with pytest.raises(
        TypeError, match=r"^RecallAtFixedPrecision\(\) missing .* 'min_precision'; expected task, min_pr"
    ):
        metrics.RecallAtFixedPrecision("binary")
    with pytest.raises(TypeError, match=r"^ROC\(\) too many positional arguments; expected task, thresholds, "):
        metrics.ROC("binary", 5, 3, 3, None, True, 1)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: `treshold`"):
        metrics.Accuracy("binary", treshold=0.3)
    with pytest.raises(TypeError, match="Facade names no metrics"):
        Facade("binary")


@pytest.mark.parametrize(
    ("name", "given", "made"),
    [
        ("Accuracy", {"task": "binary", "threshold": 0.3}, ("BinaryAccuracy", "threshold")),
        ("AUROC", {"task": "multiclass", "num_classes": 3, "thresholds": 5}, ("MulticlassAUROC", "thresholds")),
        (
            "RecallAtFixedPrecision",
            {"task": "binary", "min_precision": 0.7},
            ("BinaryRecallAtFixedPrecision", "min_precision"),
        ),
    ],
)
def test_a_facade_can_be_named_in_a_configuration_file(name: str, given: dict[str, Any], made: tuple[str, str]):
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--metric", type=torchmetrics.Metric)
    parsed = parser.parse_object({"metric": {"class_path": f"lightning_evalkit.metrics.{name}", "init_args": given}})
    assert parsed.metric.init_args.as_dict().keys() >= arguments(getattr(metrics, name)).keys()
    instantiate = getattr(parser, "instantiate", None) or parser.instantiate_classes  # its name in older releases
    metric = instantiate(parsed).metric
    assert type(metric).__name__ == made[0]
    assert getattr(metric, made[1]) == given[made[1]]


# ---- names


@pytest.mark.parametrize("module", [metrics, functional])
def test_a_star_import_gives_metrics_and_functions_but_no_modules(module: Any):
    names: dict[str, Any] = {}
    exec(f"from {module.__name__} import *", names)
    del names["__builtins__"]
    assert set(names) == set(module.__all__)
    assert not any(inspect.ismodule(each) for each in names.values())


def test_one_import_line_moves_classification_code_over():
    from lightning_evalkit import metrics as torchmetrics

    scores, target = torch.tensor([0.2, 0.7, 0.6]), torch.tensor([0, 1, 0])
    collection = torchmetrics.MetricCollection(
        {
            "accuracy": torchmetrics.Accuracy(task="binary"),
            "f1": torchmetrics.classification.BinaryF1Score(),
            "auroc": torchmetrics.AUROC("binary", None),
        }
    )
    collection.update(scores, target)
    assert collection.compute()["f1"] == torchmetrics.functional.f1_score(scores, target, task="binary")
    assert torchmetrics.functional.classification.binary_auroc(scores, target) == collection["auroc"].compute()
    assert type(torchmetrics.wrappers.MinMaxMetric(torchmetrics.Recall("binary"))) is MinMaxMetric
    assert torchmetrics.MeanMetric()(3.0) == 3.0
    assert torchmetrics.functional.mean_squared_error(scores, scores) == 0.0
    assert torchmetrics.functional.regression.r2_score is torchmetrics.functional.r2_score
    assert issubclass(torchmetrics.regression.R2Score, torchmetrics.metric.Metric)
    assert torchmetrics.__version__ == version("torchmetrics")
    for module in (torchmetrics, torchmetrics.functional):
        with pytest.raises(AttributeError, match="has no attribute 'acuracy'"):
            module.acuracy  # noqa: B018


def test_a_function_takes_its_task_as_torchmetrics_does():
    batch = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]), torch.tensor([0, 1])
    assert functional.accuracy(*batch, "multiclass", 0.5, 3, None, "none").tolist() == [1.0, 0.0, 0.0]
    assert functional.accuracy(*batch, task="multiclass", num_classes=3, sample_weight=torch.tensor([3, 1])) == 0.75
    with pytest.raises(DeclarationError, match="expected task to be one of 'binary', 'multiclass', got 'multilabel'"):
        functional.cohen_kappa(*batch, task="multilabel")
    with pytest.raises(DeclarationError, match="expected num_classes for task='multiclass', got None"):
        functional.auroc(*batch, task="multiclass")
    with pytest.raises(TypeError, match=r"^auroc\(\) .*'treshold'.*; expected preds, target, task, thresholds"):
        functional.auroc(*batch, task="binary", treshold=5)


# ---- a type checker

CHECKED = """# mypy: disallow-untyped-calls
import torch
from lightning_evalkit.functional import accuracy, binary_accuracy, binary_roc, multiclass_auroc
from lightning_evalkit.metrics import Accuracy, CohenKappa

x = torch.rand(3)
reveal_type(Accuracy(task="binary", threshold=0.3))
reveal_type(Accuracy("multiclass", num_classes=3))
reveal_type(CohenKappa("multiclass", num_classes=3))
reveal_type(multiclass_auroc(preds=x, target=x, num_classes=3, average=None, inputs="logits", sample_weight=x))
reveal_type(binary_roc(x, x))
reveal_type(accuracy(x, x, task="binary", threshold=0.3, sample_weight=x))
Accuracy(task="regression")
Accuracy(task="binary", treshold=0.3)
multiclass_auroc(x, x)
multiclass_auroc(x, x, 3, tresholds=5)
binary_accuracy(x, x, "half")
accuracy(x, x, task="binary", treshold=0.3)
"""
REVEALED = ["BinaryAccuracy", "MulticlassAccuracy", "MulticlassCohenKappa", "Tensor", "tuple[torch._tensor.Tensor, "]
REVEALED += ["Tensor"]
REFUSED = ["No overload", '"treshold"', 'Missing positional argument "num_classes"', '"tresholds"', "incompatible type"]
REFUSED += ['"treshold"']


@pytest.mark.slow
def test_a_type_checker_knows_arguments_and_results(tmp_path: Path):
    """As strict as can be; with the options and the cache of the repository, which knows torch already."""
    pytest.importorskip("mypy", reason="one release of a type checker is enough")
    (tmp_path / "checked.py").write_text(CHECKED, encoding="utf-8")
    root = Path(lightning_evalkit.__file__).parents[1]
    command = [sys.executable, "-m", "mypy", str(tmp_path / "checked.py")]
    environment = os.environ | {"MYPYPATH": str(root)}
    checked = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=600)
    lines = [line.rpartition("checked.py:")[2] for line in checked.stdout.splitlines() if "checked.py:" in line]
    revealed = [line for line in lines if "Revealed type" in line]
    assert len(revealed) == len(REVEALED), checked.stdout + checked.stderr
    assert all(word in line for word, line in zip(REVEALED, revealed, strict=True)), revealed
    refused: dict[str, str] = {}
    for line in lines:
        if ": error: " in line:
            refused[line.split(":")[0]] = refused.get(line.split(":")[0], "") + line
    assert len(refused) == len(REFUSED), checked.stdout
    assert all(word in text for word, text in zip(REFUSED, refused.values(), strict=True)), refused
