"""Diagnose where a run hangs or ends in an exception: the cause is named, with the remedy, and everything put back."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import misused
import pytest
import some_ranks
import torch
from lightning.pytorch import Callback, LightningModule
from lightning.pytorch.utilities import rank_zero_only
from misused import KITS, RAISING, loader, module
from torch import Tensor, nn
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics import classification as stock
from torchmetrics.functional.classification import binary_hinge_loss

import lightning_evalkit
from lightning_evalkit import BinaryEvaluation
from lightning_evalkit.callbacks import Diagnose
from lightning_evalkit.callbacks.diagnosing.guards import guards

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*"),  # Lightning's own use of torch
    pytest.mark.filterwarnings("ignore:.*does not have many workers.*"),
    pytest.mark.filterwarnings("ignore:.*number of training batches.*"),
    pytest.mark.filterwarnings("ignore:.*was called before.*"),
]
PACKAGES = ("lightning.pytorch", "pytorch_lightning")
QUIET: dict[str, Any] = {
    "accelerator": "cpu",
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "enable_checkpointing": False,
}


def run(
    made: Any, package: str = PACKAGES[0], *callbacks: Any, before: bool = True, **options: Any
) -> tuple[Diagnose, Exception | None]:
    """A validation and two epochs; what Diagnose found, and the exception that ended them."""
    diagnose = Diagnose()
    options = {"logger": False, **QUIET, **options}
    trainer = importlib.import_module(package).Trainer(max_epochs=2, callbacks=[diagnose, *callbacks], **options)
    try:
        if before:
            trainer.validate(made, loader(seed=1), verbose=False)
        trainer.fit(made, loader(), loader(seed=1))
    except Exception as failure:
        return diagnose, failure
    return diagnose, None


def codes(diagnose: Diagnose) -> list[str]:
    return [finding.code for finding in diagnose.diagnosis.issues if finding.code < "EK200"]


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("code", RAISING)
def test_an_exception_is_explained_and_the_twin_is_silent(
    code: str, package: str, capsys: pytest.CaptureFixture[str]
) -> None:
    misuse, twin = RAISING[code]
    lightning = importlib.import_module(package)
    for kit in KITS:
        if (code, kit) == ("EK125", "own"):
            continue  # the next test: it raises nothing
        diagnose, failure = run(module(lightning, misuse, kit), package)
        assert failure is not None
        assert codes(diagnose) == [code]
        assert capsys.readouterr().out.count(f"{code} error") == 1
        diagnose, failure = run(module(lightning, twin, kit), package)
        assert failure is None
        assert codes(diagnose) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_our_metrics_may_be_validated_before_they_are_trained(package: str) -> None:
    """Their reset makes a state outside of inference mode, so nothing raises and the number is right."""
    made = module(importlib.import_module(package), misused.ValidatedBefore, "own")
    diagnose, failure = run(made, package)
    assert failure is None
    assert codes(diagnose) == []
    x, y = loader(seed=1).dataset.tensors
    truth = binary_hinge_loss(made.network(x).squeeze(-1).sigmoid().detach(), y)
    assert float(made.trainer.callback_metrics["val/hinge"]) == pytest.approx(float(truth))


@pytest.mark.parametrize("kit", KITS)
def test_which_metric_has_several_values(kit: str) -> None:
    for steps in (misused.SeveralValues, misused.SeveralInAStep):
        diagnose, _ = run(module(importlib.import_module(PACKAGES[0]), steps, kit))
        [finding] = diagnose.diagnosis.errors
        assert finding.subject == "val/f1"
        assert "a tensor of 2 values of f1 (MulticlassF1Score)" in finding.headline
        assert "enumerate(values)" in finding.remedy


class ObjectOfSeveral(misused.EachValue, LightningModule):
    """Without a logger nothing is refused, and nothing is written."""

    def make(self) -> None:
        self.all = MetricCollection({"f1": stock.MulticlassF1Score(2, average=None), "a": stock.MulticlassAccuracy(2)})

    def val_with(self, logits: Tensor, target: Tensor, loader: int) -> None:
        self.all.update((logits > 0).long(), target)
        self.log_dict(self.all)

    def end(self) -> None: ...


@pytest.mark.parametrize("logged", [True, False])
def test_an_object_that_computes_several_values(logged: bool, tmp_path: Path) -> None:
    loggers = importlib.import_module("lightning.pytorch.loggers")
    logger = loggers.CSVLogger(tmp_path, name="", version="run") if logged else False
    diagnose, failure = run(ObjectOfSeveral(), before=False, logger=logger)
    assert (failure is not None) == logged
    [finding] = [each for each in diagnose.diagnosis.errors if each.code == "EK122"]
    assert finding.subject == "f1"
    assert "of all.f1 (MulticlassF1Score)" in finding.headline


class OwnsMetric(Callback):
    """A metric of a callback, reset after each validation, and perhaps when fit begins."""

    def __init__(self, metric: Any, again: bool = False) -> None:
        self.metric, self.again = metric, again

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        if self.again:
            self.metric.reset()

    def on_validation_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, *_: Any) -> None:
        self.metric.update(*([batch[0].mean()] if isinstance(self.metric, MeanMetric) else [batch[1], batch[1]]))

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self.metric.compute()
        self.metric.reset()


@pytest.mark.parametrize("kind", [MeanMetric, stock.BinaryConfusionMatrix])
def test_a_metric_of_a_callback_in_inference_mode(kind: Any) -> None:
    def tried(callback: Callback, **options: Any) -> tuple[Diagnose, Exception | None]:
        return run(module(importlib.import_module(PACKAGES[0]), misused.Good), PACKAGES[0], callback, **options)

    diagnose, failure = tried(OwnsMetric(kind()))
    assert "inference tensor" in str(failure)
    [finding] = diagnose.diagnosis.errors
    assert finding.code == "EK125"
    assert finding.subject == f"OwnsMetric.metric ({kind.__name__})"
    for healthy, options in (
        (OwnsMetric(kind(), again=True), {}),
        (OwnsMetric(kind()), {"inference_mode": False}),
        (OwnsMetric(BinaryEvaluation("labels")), {}),
    ):
        diagnose, failure = tried(healthy, **options)
        assert failure is None
        assert codes(diagnose) == []


class Fails(misused.Good, LightningModule):
    """For a reason that no rule knows."""

    def end(self) -> None:
        if not self.trainer.sanity_checking:
            raise RuntimeError("a file of inference tensors was not found")


def test_another_exception_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    made = Fails()
    diagnose, failure = run(made)
    assert isinstance(failure, RuntimeError)
    assert codes(diagnose) == []
    assert "Diagnose" not in capsys.readouterr().out
    assert "log" not in vars(made)


# ---- compute on some ranks


class Guarded(LightningModule):
    """Every shape of a condition on the rank."""

    def __init__(self) -> None:
        super().__init__()
        self.condition, self.returned, self.decorated, self.other = (stock.BinaryF1Score() for _ in range(4))
        self.metrics = nn.ModuleDict({"val": MetricCollection([stock.BinaryAccuracy(), stock.BinaryF1Score()])})
        self.own = BinaryEvaluation("logits")

    def on_validation_epoch_end(self) -> None:
        if self.trainer.is_global_zero and not self.trainer.sanity_checking:
            for _ in range(2):
                self.log("f1", self.condition.compute())
        else:
            with torch.no_grad():
                self.other.compute()
        if self.global_rank == 0:
            print(self.metrics["val"].compute())
            self.own.compute()

    def on_test_epoch_end(self) -> None:
        if self.trainer.global_rank != 0:
            return
        self.log("f1", self.returned.compute())

    @rank_zero_only
    def on_train_epoch_end(self) -> None:
        print(self.decorated.compute())


class Unguarded(Guarded):
    """The same calls where every rank reaches them, or waits for none."""

    def __init__(self) -> None:
        super().__init__()
        self.alone = stock.BinaryF1Score(sync_on_compute=False)
        self.grouped = stock.BinaryF1Score(dist_sync_fn=lambda *_: [])
        self.rank_of_matrix = 4

    def on_validation_epoch_end(self) -> None:
        value = self.condition.compute()
        if self.trainer.is_global_zero:
            print(value, self.condition.compute(), self.alone.compute(), self.grouped.compute())
        if self.global_rank == 0:
            print(self.other.compute())
        else:
            self.other.compute()
        if self.rank_of_matrix == 4:
            self.own.compute()
        self.metrics["val"].compute()

    def on_test_epoch_end(self) -> None:
        self.returned.compute()
        if self.trainer.global_rank != 0:
            return
        print(self.returned.compute(), self.unknown.compute(), self.trainer.compute())

    def on_train_epoch_end(self) -> None:
        self.decorated.compute()


class OnlyTheFirst(Callback):
    def __init__(self) -> None:
        self.mean = MeanMetric()

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if trainer.is_global_zero:
            print(self.mean.compute(), pl_module.condition.compute())


def test_a_condition_on_the_rank_is_read_from_the_source() -> None:
    made = Guarded()
    found = {guard.metric: (guard.function, guard.condition) for guard in guards(made, made)}
    first = "if self.trainer.is_global_zero and (not self.trainer.sanity_checking)"
    assert found == {
        "condition": ("on_validation_epoch_end", first),
        "other": ("on_validation_epoch_end", first),
        "metrics['val']": ("on_validation_epoch_end", "if self.global_rank == 0"),
        "own": ("on_validation_epoch_end", "if self.global_rank == 0"),
        "returned": ("on_test_epoch_end", "after if self.trainer.global_rank != 0: return"),
        "decorated": ("on_train_epoch_end", "@rank_zero_only"),
    }
    assert guards(Unguarded(), Unguarded()) == []
    assert [guard.metric for guard in guards(OnlyTheFirst(), made)] == ["mean", "condition"]


@pytest.mark.parametrize("steps", misused.HEALTHY, ids=lambda steps: steps.__name__)
def test_no_guard_in_healthy_modules(steps: type) -> None:
    made = module(importlib.import_module(PACKAGES[0]), steps)
    assert guards(made, made) == []


def on_two_ranks(kind: type, package: str, folder: Path) -> list[dict[str, Any]]:
    """The findings, as soon as they are written; a run that hangs is ended."""
    paths = os.pathsep.join([str(Path(lightning_evalkit.__file__).parents[1]), str(Path(some_ranks.__file__).parent)])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, some_ranks.__file__, kind.__name__, package, str(folder)]
    with (folder / "printed").open("w") as printed:
        process = subprocess.Popen(command, env=environment, stdout=printed, stderr=printed, start_new_session=True)
    written, ended = folder / "run" / "diagnosis.json", folder / "ended"
    try:
        until = time.monotonic() + 150
        while not written.exists() and not ended.exists() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.2)
        if written.exists():
            found: list[dict[str, Any]] = json.loads(written.read_text())["issues"]
            return found
        assert ended.exists(), (folder / "printed").read_text()
        return []
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


IN_THE_SOURCE = "f1.compute() in end is called on some of the 2 ranks only"
WAITING = "rank 0 waits in f1.compute() for rank 1, which has ended the epoch without it"
WORDS = {
    some_ranks.UnderACondition: IN_THE_SOURCE,
    some_ranks.OwnUnderACondition: IN_THE_SOURCE,
    some_ranks.Hidden: WAITING,
    some_ranks.OwnHidden: WAITING,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "package"),
    [
        (some_ranks.UnderACondition, PACKAGES[0]),
        (some_ranks.Hidden, PACKAGES[1]),
        (some_ranks.OwnUnderACondition, PACKAGES[1]),
        (some_ranks.OwnHidden, PACKAGES[0]),
    ],
)
def test_a_compute_on_some_ranks_is_found_before_or_while_it_hangs(kind: type, package: str, tmp_path: Path) -> None:
    [finding] = [each for each in on_two_ranks(kind, package, tmp_path) if each["code"] == "EK107"]
    assert finding["subject"] == "f1"
    assert WORDS[kind] in finding["headline"]


@pytest.mark.slow
def test_an_evaluation_that_one_rank_computes(tmp_path: Path) -> None:
    [finding] = on_two_ranks(some_ranks.HiddenOwn, PACKAGES[0], tmp_path)
    assert finding["evidence"] == {"metric": "f1", "rank": 0, "syncs": 1, "other": 1, "other_syncs": 0}


@pytest.mark.slow
def test_ranks_that_all_compute_are_left_alone(tmp_path: Path) -> None:
    assert on_two_ranks(some_ranks.OnEveryRank, PACKAGES[1], tmp_path) == []
