"""The experiments: each says its question, command and finding, each runs, and what the cheap ones say is what happens.

Expected numbers come from the best possible classifier of two Gaussian clouds (``best_rates``, or its formula written
out) and are met within the error of sampling: of the test rows, and of the training rows that a model was fitted to.
"""

from __future__ import annotations

import re
import shlex
from functools import cache
from itertools import takewhile
from math import log, prod, sqrt
from pathlib import Path
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml
from lightning.pytorch import Callback

from lightning_evalkit.cli import main, nested_runs
from lightning_evalkit.cli.configurations import EXPERIMENTS
from lightning_evalkit.cli.training import launched
from lightning_evalkit.data.gaussian import best_rates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lightning_evalkit.data.gaussian import Rates

pytestmark = [
    # What is undefined where nobody is called positive.
    pytest.mark.filterwarnings("ignore::lightning_evalkit.errors.UndefinedWarning"),
]

REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "experiments"
UNLIKELY = 4.0
"""Standard errors that a measurement may be off; seeds are fixed."""
TRAIN, TEST = 4_000, 10_000
ALONE = (
    "--trainer.accelerator=cpu",
    "--trainer.logger=false",
    "--trainer.enable_checkpointing=false",
    "--trainer.callbacks=[]",
)
"""Only training and test: drawing takes longer than either."""


def overlays() -> list[Path]:
    """Every configuration but the base; what runs left behind is not one."""
    found = [path.relative_to(FOLDER) for path in FOLDER.rglob("*.yaml") if path.name != "base.yaml"]
    return sorted(path for path in found if "runs" not in path.parts)


OVERLAYS = overlays()
each_overlay = pytest.mark.parametrize("overlay", OVERLAYS, ids=[path.with_suffix("").as_posix() for path in OVERLAYS])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Away from the repository: an overlay's own folder is relative."""
    monkeypatch.chdir(tmp_path)


# ---- what they say about themselves


def test_all_are_found():
    assert len(OVERLAYS) == 17
    assert {path.parent.as_posix() for path in OVERLAYS} == {
        "accuracy_equals_f1",
        "distributed",
        "imbalance_and_loss",
        "multilabel_accuracy",
    }
    assert EXPERIMENTS == FOLDER


def head(overlay: Path) -> dict[str, str]:
    """Question, command and expected finding of its first lines, each without its line breaks."""
    lines = (FOLDER / overlay).read_text(encoding="utf-8").splitlines()
    comment = "\n".join(takewhile(lambda line: line.startswith("#"), lines))
    parts = re.findall(r"^# (\w+): +(.*(?:\n# {3,}.*)*)", comment, re.MULTILINE)
    return {name: re.sub(r"\n# +", " ", text) for name, text in parts}


def command(overlay: Path) -> list[str]:
    return shlex.split(head(overlay)["Command"])


@each_overlay
def test_first_lines_are_question_command_and_expectation(overlay: Path):
    lines = (FOLDER / overlay).read_text(encoding="utf-8").splitlines()
    assert [re.match(r"# (\w+): ", line)[1] for line in lines[:3]] == ["Question", "Command", "Expected"]  # type: ignore[index]
    said = head(overlay)
    assert list(said) == ["Question", "Command", "Expected", "Found"]
    assert said["Question"].endswith("?")
    assert said["Expected"].endswith(".")
    assert said["Found"].endswith(".")


@each_overlay
def test_the_command_is_about_this_file(overlay: Path):
    program, name, *options = command(overlay)
    assert program == "evalkit"
    assert name in ("fit", "sweep")
    assert options[options.index("--config") + 1] == f"experiments/{overlay.as_posix()}"
    content = yaml.safe_load((FOLDER / overlay).read_text(encoding="utf-8"))
    assert content["trainer"]["default_root_dir"] == f"runs/{overlay.with_suffix('').as_posix()}"
    assert len((FOLDER / overlay).read_text(encoding="utf-8").splitlines()) <= 25, "a small difference to the base"


def test_questions_are_asked_once():
    questions = [head(overlay)["Question"] for overlay in OVERLAYS]
    assert len(set(questions)) == len(questions)


@each_overlay
def test_the_command_runs_for_one_batch(
    overlay: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """As it is written, with one batch of each stage; a sweep in each of its cells. Then it says what was found."""
    if overlay.stem == "bert":
        pytest.importorskip("transformers")
    one = ["--trainer.fast_dev_run=1", "--trainer.accelerator=cpu", "--trainer.enable_model_summary=false"]
    ran: list[Sequence[str]] = []
    real = nested_runs.fitted

    def counted(arguments: Sequence[str], tell: Any) -> Any:
        ran.append(arguments)
        return real(arguments, tell)

    monkeypatch.setattr(nested_runs, "fitted", counted)
    assert main([*command(overlay)[1:], *one]) == 0
    assert len(ran) == (5 if command(overlay)[1] == "sweep" else 0)
    if command(overlay)[1] == "fit":
        check_summary(head(overlay), " ".join(capsys.readouterr().out.split()))


def check_summary(said: dict[str, str], out: str) -> None:
    """Question and expectation as they are written, the finding with numbers in place of their names."""
    assert f"Question: {said['Question']} Expected: {said['Expected']} Found: " in out
    around = [re.escape(text) for text in re.split(r"\{[^}]+\}", said["Found"])]
    assert re.search(r"(-?[\d.]+(e-\d+)?|0/0|-?inf)".join(around), out), said["Found"]


# ---- what they find


class Recording(Callback):
    """The validation of every epoch; what training logs comes after its callbacks."""

    def __init__(self) -> None:
        self.epochs: list[dict[str, float]] = []

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self.epochs.append({name: float(value) for name, value in trainer.callback_metrics.items()})

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self.train_loss = float(trainer.callback_metrics["train/loss"])

    def over_epochs(self, name: str) -> list[float]:
        return [epoch[name] for epoch in self.epochs]


class Ended(NamedTuple):
    """Training and test of an experiment."""

    recording: Recording
    test: dict[str, float]

    def __getitem__(self, name: Any) -> Any:
        return self.test[f"test/{name}"]


@cache
def ended(experiment: str, *options: str) -> Ended:
    """Once, however many tests ask; validated, which takes as long as training, only where options say so."""
    recording = Recording()
    options = options or ("--trainer.limit_val_batches=0",)
    done = launched(["fit", f"--config={experiment}", *ALONE, *nested_runs.QUIET, *options], extra=[recording])
    done.trainer.test(done.model, datamodule=done.datamodule, verbose=False)
    return Ended(recording, {name: float(value) for name, value in done.trainer.callback_metrics.items()})


def error(rate: float, share: float = 1.0) -> float:
    """Of a rate among a share of the rows: measured on test rows, by a model that has seen as many training rows."""
    return sqrt(rate * (1 - rate) * (1 / (share * TEST) + 1 / (share * TRAIN)))


def f1_of(recall: float, specificity: float, share: float) -> float:
    return 2 * share * recall / (share * recall + share + (1 - share) * (1 - specificity))


def agree(found: Ended, expected: Rates, share: float) -> None:
    """Every number is what these rates say, as far as sampling lets one tell."""
    recall, specificity = expected
    of_recall, of_specificity = UNLIKELY * error(recall, share), UNLIKELY * error(specificity, 1 - share)
    assert abs(found["recall"] - recall) < of_recall
    assert abs(found["specificity"] - specificity) < of_specificity
    accuracy = expected.accuracy(share)
    assert abs(found["accuracy"] - accuracy) < UNLIKELY * error(accuracy)
    lowest = f1_of(recall - of_recall, specificity - of_specificity, share)
    assert lowest < found["f1"] < f1_of(recall + of_recall, min(1.0, specificity + of_specificity), share)


def test_best_rates_are_those_of_the_formula():
    """The likelihood ratio of two unit Gaussians d apart, cut where the odds of the prior are made up for."""
    normal = NormalDist()
    apart = 2 * normal.inv_cdf(0.9)
    for share in (0.1, 0.5):
        cut = log((1 - share) / share) / apart
        expected = normal.cdf(apart / 2 - cut), normal.cdf(apart / 2 + cut)
        assert best_rates(share, 0.9, 0.0) == pytest.approx(expected, abs=1e-12)


def test_balanced():
    found = ended("accuracy_equals_f1/balanced")
    agree(found, best_rates(0.5, 0.9, 0.0), 0.5)
    # By the identity the gap is (TN - TP) E / (N (2 TP + E)), and TN - TP is the difference of two binomials.
    difference = UNLIKELY * sqrt(2) * error(0.9, 0.5) * TEST / 2
    assert abs(found["accuracy"] - found["f1"]) < difference * 1_000 / (TEST * (9_000 + 1_000)) * 1.1


def test_imbalanced():
    found = ended("accuracy_equals_f1/imbalanced")
    agree(found, best_rates(0.1, 0.9, 0.0), 0.1)
    assert found["accuracy"] > 0.9 > 0.8 > found["f1"]


def test_majority():
    """Nobody is called positive: the learnt logits are -2.2 and vary by 0.2, so that 0 is ten deviations away."""
    found = ended("imbalance_and_loss/majority")
    expected = {"accuracy": 0.9, "recall": 0.0, "f1": 0.0, "balanced_accuracy": 0.5, "specificity": 1.0}
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-6)


def test_weighted():
    """A weight of 9 makes up for odds of 1 to 9: the decision is that of balanced classes."""
    found, unweighted = ended("imbalance_and_loss/weighted"), ended("accuracy_equals_f1/imbalanced")
    agree(found, best_rates(0.5, 0.9, 0.0), 0.1)
    assert found["recall"] > unweighted["recall"]
    assert found["precision"] < unweighted["precision"]
    assert found["accuracy"] < unweighted["accuracy"]


def test_corrected():
    found, weighted = ended("imbalance_and_loss/corrected"), ended("imbalance_and_loss/weighted")
    agree(found, best_rates(0.1, 0.9, 0.0), 0.1)
    assert found["loss"] == weighted["loss"], "the same training"
    assert found["accuracy"] > weighted["accuracy"]
    assert found["precision"] > weighted["precision"]


def test_overtrained():
    found = ended("imbalance_and_loss/overtrained", "--trainer.max_epochs=40").recording
    losses, accuracies = found.over_epochs("val/loss"), found.over_epochs("val/accuracy")
    lowest = losses.index(min(losses))
    assert 0 < lowest < 20
    assert losses[0] > losses[lowest]
    assert losses[-1] > 2 * losses[lowest]
    assert found.train_loss < losses[lowest] / 10, "by the training rows it looks like progress"
    # The best possible accuracy is 0.85; two measurements on 2,000 rows differ by chance, and "a few points" are five.
    assert max(accuracies) < 0.85 + UNLIKELY * sqrt(0.85 * 0.15 / 2_000)
    assert abs(accuracies[-1] - accuracies[lowest]) < 0.05
    worst = found.over_epochs("val/loss_of_worst")
    assert worst[-1] > 1.5 * worst[lowest] > 0.01


@cache
def decided(experiment: str, *options: str) -> dict[str, float]:
    """Numbers of the last validation and of the test, with the callback of the experiment at work."""
    callback = yaml.safe_load((FOLDER / f"{experiment}.yaml").read_text(encoding="utf-8"))["trainer"]["callbacks+"]
    given = (*ALONE[:-1], f"--trainer.callbacks={yaml.safe_dump(callback, default_flow_style=True)}", *options)
    done = launched(["fit", f"--config={experiment}", *given, *nested_runs.QUIET])
    found = dict(done.trainer.callback_metrics)
    done.trainer.test(done.model, datamodule=done.datamodule, verbose=False)
    return {name: float(value) for name, value in {**found, **done.trainer.callback_metrics}.items()}


def cost_of(found: dict[str, float], ending: str) -> float:
    """By definition: 20 for each missed positive, 1 for each false alarm, of 10 % positives."""
    return 20 * 0.1 * (1 - found[f"test/recall@{ending}"]) + 0.9 * (1 - found[f"test/specificity@{ending}"])


def best_cost(threshold: float) -> float:
    """The same of the best possible classifier, which is cut at this probability."""
    apart = 2 * NormalDist().inv_cdf(0.9)
    cut = log(threshold / (1 - threshold) * 9) / apart
    missed, alarms = NormalDist().cdf(cut - apart / 2), NormalDist().cdf(-cut - apart / 2)
    return 20 * 0.1 * missed + 0.9 * alarms


def test_threshold():
    found = decided("imbalance_and_loss/threshold")
    assert 0.03 < found["val/threshold"] < 0.1, "1 / (1 + 20), as far as 2,000 rows tell"
    for ending in ("0.5", "tuned"):
        assert found[f"test/cost@{ending}"] == pytest.approx(cost_of(found, ending), abs=1e-6)
    assert found["test/cost@tuned"] < 0.5 * found["test/cost@0.5"]
    for cut, least, most in ((0.03, 0.26, 0.28), (1 / 21, 0.26, 0.28), (0.08, 0.26, 0.28)):
        assert least < best_cost(cut) < most, "what the head says about the cost around the best cut"
    assert found["test/recall@tuned"] > found["test/recall@0.5"] + 0.15
    assert found["test/precision@tuned"] < found["test/precision@0.5"]
    assert found["test/accuracy@tuned"] < found["test/accuracy@0.5"] == found["test/accuracy"]


def test_temperature_and_loss():
    """Both look at the same training: one scales what the other explains."""
    short = "--trainer.max_epochs=25"
    scaled = decided("imbalance_and_loss/temperature", short)
    assert scaled["val/temperature"] > 2
    assert scaled["val/log_loss@scaled"] < 0.7 * scaled["val/log_loss@raw"]
    assert scaled["test/log_loss"] < 0.7 * scaled["test/loss"], "which is of what was trained"
    told = decided("imbalance_and_loss/overtrained", short)
    assert told["val/loss/refinement"] == pytest.approx(scaled["val/log_loss@scaled"], rel=1e-4)
    assert told["val/loss/calibration"] > 0.3 * told["val/loss"]


def test_prior():
    found = decided("imbalance_and_loss/prior")
    weighted = ended("imbalance_and_loss/prior")
    assert weighted["recall/0"] > weighted["precision/0"] + 0.1
    assert abs(found["test/recall/0"] - found["test/precision/0"]) < 0.06
    assert found["test/accuracy"] > weighted["accuracy"]


def accuracies(found: Ended, labels: int) -> list[float]:
    return [found[f"accuracy/{label}"] for label in range(labels)]


def check_meanings(found: Ended, labels: int) -> None:
    """Identities hold exactly; labels are drawn independently, so all of them are right as often as their product."""
    each, exact = accuracies(found, labels), found["exact_match"]
    assert found["hamming_accuracy"] == pytest.approx(fmean(each), abs=1e-6)
    assert 1 - labels * (1 - found["hamming_accuracy"]) <= exact <= min(each)
    together = prod(each)
    assert abs(exact - together) < UNLIKELY * sqrt(together * (1 - together) / TEST)
    best = best_rates(0.3, 0.9, 0.0).accuracy(0.3)
    for accuracy in each:
        assert abs(accuracy - best) < UNLIKELY * error(best)


def test_meanings():
    found = ended("multilabel_accuracy/meanings")
    check_meanings(found, 5)
    assert found["hamming_accuracy"] - found["exact_match"] > 0.2
    assert {f"test/{name}" for name in ("f1/micro", "f1/macro", "f1/samples", "jaccard/samples")} <= set(found.test)


def test_many_labels():
    found, few = (
        ended("multilabel_accuracy/many_labels", "--model.per_label=true"),
        ended("multilabel_accuracy/meanings"),
    )
    check_meanings(found, 20)
    best = best_rates(0.3, 0.9, 0.0).accuracy(0.3)
    assert abs(found["hamming_accuracy"] - few["hamming_accuracy"]) < UNLIKELY * error(best)
    assert found["exact_match"] < few["exact_match"] / 2


@pytest.mark.slow
def test_bert():
    """Half of its epochs are enough to see which number answers which question."""
    pytest.importorskip("transformers")
    found = ended("multilabel_accuracy/bert", "--trainer.max_epochs=8", "--trainer.limit_val_batches=0")
    each = {label: found[f"accuracy/{label}"] for label in ("refund", "cancel", "address", "delay", "invoice")}
    exact, hamming = found["exact_match"], found["hamming_accuracy"]
    assert hamming == pytest.approx(fmean(each.values()), abs=1e-6)
    assert 1 - 5 * (1 - hamming) <= exact <= min(each.values())
    assert 0.55 < exact < hamming - 0.1
    assert min(each, key=each.__getitem__) == "refund"
    assert max(each.values()) > each["refund"] + 0.04


@pytest.mark.parametrize(
    ("experiment", "accuracy"),
    [("accuracy_equals_f1/breast_cancer", 0.9), ("accuracy_equals_f1/is_digit", 0.93)],
)
def test_real_data(experiment: str, accuracy: float):
    """What the overlays promise: accuracy above this, and F1 below it as there are more true negatives."""
    pytest.importorskip("sklearn")
    found = ended(experiment)
    assert found["accuracy"] > accuracy
    assert found["f1"] < found["accuracy"]
    if experiment.endswith("breast_cancer"):
        assert found["f1"] > accuracy
