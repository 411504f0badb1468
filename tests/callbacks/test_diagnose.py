"""Diagnose: every misuse is found with its true number, healthy modules stay silent, and nothing of a run changes."""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

import misused
import pytest
import torch
from misused import HEALTHY, KITS, MISUSES, RAISING, loader, module
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn
from torch.utils.data import DataLoader
from torchmetrics import MetricCollection
from torchmetrics.functional.classification import binary_f1_score, binary_recall

from lightning_evalkit.callbacks import Diagnose
from lightning_evalkit.diagnosis.rules import RULES, rules_about

if TYPE_CHECKING:
    from pathlib import Path

    from lightning_evalkit.diagnosis.finding import Finding

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*"),  # Lightning's own use of torch
    pytest.mark.filterwarnings("ignore:.*does not have many workers.*"),
    pytest.mark.filterwarnings("ignore:.*number of training batches.*"),
    pytest.mark.filterwarnings("ignore:.*was called before.*"),
    pytest.mark.filterwarnings("ignore:.*ModelCheckpoint.*"),
]
PACKAGES = ("lightning.pytorch", "pytorch_lightning")
REFUTED = {"EK111", "EK121"}
"""Misuses that do no harm with this package's metrics.

A MetricCollection merges metrics whose states have equal names and values; ours have the declaration in their names.
No cast changes our states, which are integers and sums in double precision.
"""
NOT_BY_ONE_MODULE = {"EK106", "EK107", "EK112", "EK113", "EK114", "EK116", "EK123"}
"""Rules on ranks, large states, monitors and batches, which have tests of their own."""


def run(
    steps: type, package: str = PACKAGES[0], diagnose: Any = None, kit: str = "stock", **options: Any
) -> tuple[Any, Any, Any]:
    """Two epochs of training; the callback, the trainer and the module."""
    lightning = importlib.import_module(package)
    diagnose = Diagnose(hints=True) if diagnose is None else diagnose
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    settings = {"max_epochs": 2, "accelerator": "cpu", "logger": False, "callbacks": [diagnose] if diagnose else []}
    trainer, made = lightning.Trainer(**(quiet | settings | options)), module(lightning, steps, kit)
    val = [loader(50, seed=1), loader(40, seed=2)] if hasattr(made, "f1s") else loader(seed=1)
    trainer.fit(made, loader(), val)
    return diagnose, trainer, made


def codes(diagnose: Diagnose) -> list[str]:
    """What the rules on the run found; what those on numbers say of these small data has tests of its own."""
    return [finding.code for finding in about_the_run(diagnose)]


def about_the_run(diagnose: Diagnose) -> list[Finding]:
    return [finding for finding in diagnose.diagnosis.findings if RULES[finding.code].about == "run"]


def test_every_rule_on_a_run_is_tried() -> None:
    assert {rule.code for rule in rules_about("run")} == {*MISUSES, *RAISING} | NOT_BY_ONE_MODULE


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("kit", KITS)
@pytest.mark.parametrize("code", MISUSES)
@pytest.mark.filterwarnings("ignore:.*guessed that scores are logits.*")  # our metrics say so too
def test_a_misuse_is_found_and_its_twin_is_silent(code: str, kit: str, package: str) -> None:
    misuse, twin = MISUSES[code]
    found, _, _ = run(misuse, package, kit=kit)
    assert codes(found) == ([] if kit == "own" and code in REFUTED else [code])
    assert codes(run(twin, package, kit=kit)[0]) == []


@pytest.mark.parametrize("code", sorted(REFUTED))
def test_a_misuse_that_does_no_harm_with_our_metrics(code: str) -> None:
    """The number is that of the corrected twin, and the stock one is not."""
    misuse, twin = MISUSES[code]
    right = numbers(run(twin, kit="own")[1])
    assert numbers(run(misuse, kit="own")[1]) == right == pytest.approx(numbers(run(twin)[1]))
    assert numbers(run(misuse)[1]) != pytest.approx(right, abs=1e-4)


def numbers(trainer: Any) -> dict[str, float]:
    return {name: float(value) for name, value in trainer.callback_metrics.items()}


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("kit", KITS)
@pytest.mark.parametrize("steps", HEALTHY, ids=lambda steps: steps.__name__)
def test_healthy_modules_stay_silent(steps: type, kit: str, package: str) -> None:
    found, _, _ = run(steps, package, kit=kit)
    assert codes(found) == []
    assert len(found.diagnosis.passed) >= (0 if steps is misused.NoWeights else 5)


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("kit", KITS)
def test_what_is_meant_to_live_over_epochs_need_not_be_reset(kit: str, package: str) -> None:
    for steps in (misused.BestSoFar, misused.Range):
        found, trainer, _ = run(steps, package, max_epochs=3, kit=kit)
        assert codes(found) == []
        assert trainer.callback_metrics
    [finding] = about_the_run(run(misused.BestWithSanity, package)[0])
    assert finding.code == "EK104"
    assert "holds the samples of the sanity check" in finding.headline


@pytest.mark.parametrize(("steps", "code"), [(misused.OwnForBoth, "EK102"), (misused.OwnNotReset, "EK104")])
def test_evaluations_of_this_package_are_watched_too(steps: type, code: str) -> None:
    assert codes(run(steps)[0]) == [code]


@pytest.mark.parametrize("kit", KITS)
def test_the_true_number_stands_beside_the_reported_one(kit: str) -> None:
    for steps in (misused.ValueLogged, misused.OneForBoth, misused.NotReset):
        found, trainer, made = run(steps, kit=kit)
        [finding] = about_the_run(found)
        x, y = loader(seed=1).dataset.tensors
        truth = binary_f1_score(made.network(x).squeeze(-1).sigmoid(), y)
        assert finding.evidence["truth"] == pytest.approx(float(truth))
        assert finding.evidence["reported"] == pytest.approx(float(trainer.callback_metrics["val/f1"]))
        assert abs(finding.evidence["truth"] - finding.evidence["reported"]) > 1e-3
        assert f"{float(truth):.4f}" in finding.headline


class CollectionNotReset(misused.Steps):
    """Of a group of metrics only one counts, and the others get its state."""

    def make(self) -> None:
        self.all = MetricCollection([self.kit.BinaryF1Score(), self.kit.BinaryRecall()])

    def val_with(self, logits: torch.Tensor, target: torch.Tensor, loader: int) -> None:
        self.all.update(logits.sigmoid(), target)

    def end(self) -> None:
        self.log_dict(self.all.compute())


@pytest.mark.parametrize("kit", KITS)
def test_every_metric_of_a_group_has_its_true_number(kit: str) -> None:
    found, trainer, made = run(CollectionNotReset, kit=kit)
    assert len(made.all.compute_groups) == 1
    findings = {finding.subject: finding for finding in about_the_run(found)}
    x, y = loader(seed=1).dataset.tensors
    for name, truth in (("BinaryF1Score", binary_f1_score), ("BinaryRecall", binary_recall)):
        finding = findings.pop(f"all.{name}")
        assert finding.code == "EK104"
        assert finding.evidence["truth"] == pytest.approx(float(truth(made.network(x).squeeze(-1).sigmoid(), y)))
        assert finding.evidence["reported"] == pytest.approx(float(trainer.callback_metrics[name]))
    assert findings == {}


@pytest.mark.parametrize("kit", KITS)
def test_the_true_number_of_the_last_dataloader(kit: str) -> None:
    found, trainer, made = run(misused.OneForLoaders, kit=kit)
    [finding] = about_the_run(found)
    x, y = loader(40, seed=2).dataset.tensors
    truth = binary_f1_score(made.network(x).squeeze(-1).sigmoid(), y)
    assert finding.evidence["truth"] == pytest.approx(float(truth))
    assert finding.evidence["reported"] == pytest.approx(float(trainer.callback_metrics["f1/dataloader_idx_1"]))
    assert abs(finding.evidence["truth"] - finding.evidence["reported"]) > 1e-3
    assert f"the samples of dataloader 1 alone give {float(truth):.4f}." in finding.headline


@pytest.mark.parametrize("kit", KITS)
def test_the_average_over_the_classes_that_occur(kit: str) -> None:
    found, trainer, made = run(misused.Absent, kit=kit)
    [finding] = about_the_run(found)
    assert finding.evidence["classes"] == (2, 3, 4, 5)
    assert finding.evidence["reported"] == pytest.approx(float(trainer.callback_metrics["val/recall"]))
    recalls = []
    x, y = loader(seed=1).dataset.tensors
    labels = torch.cat([_labels(made, part) for part in x.split(16)])
    for label in (0, 1):
        recalls.append(float((labels[y == label] == label).float().mean()))
    assert finding.evidence["truth"] == pytest.approx(sum(recalls) / 2)


def _labels(made: Any, part: torch.Tensor) -> torch.Tensor:
    labels = (made.network(part).squeeze(-1) > 0).long()
    labels[:2] = 5
    return labels


class AnyName(misused.ClassWeights):
    """The value of the loss under a name that does not tell, and some targets that do not count."""

    def make(self) -> None:
        self.criterion = nn.CrossEntropyLoss(weight=self.weights, ignore_index=7, label_smoothing=0.1)

    def val_with(self, logits: torch.Tensor, target: torch.Tensor, loader: int) -> None:
        both = torch.stack((torch.zeros_like(logits), logits), 1)
        ignored = self.criterion(both, torch.zeros_like(target))  # another value of the same loss, which nobody logs
        target = torch.where(torch.arange(len(target)) == 3, 7, target)
        self.log("val/objective", self.criterion(both, target))
        del ignored


def test_the_true_number_of_a_weighted_loss() -> None:
    for steps in (misused.ClassWeights, AnyName):
        found, trainer, made = run(steps)
        [finding] = about_the_run(found)
        x, y = loader(seed=1).dataset.tensors
        if steps is AnyName:
            y = torch.where(torch.arange(len(y)) % 16 == 3, 7, y)
        logits = made.network(x).squeeze(-1).detach()
        truth = float(made.criterion(torch.stack((torch.zeros_like(logits), logits), 1), y))
        [(name, reported)] = numbers(trainer).items()
        assert (finding.code, finding.subject) == ("EK120", name)
        assert finding.evidence == pytest.approx({"reported": reported, "truth": truth})
        assert abs(reported - truth) > 1e-5
        assert f"the epoch's samples in one batch give {truth:.4f}" in finding.headline


class EqualWeights(misused.ClassWeights):
    weights = torch.tensor([1.0, 1.0])


def test_a_weighted_loss_whose_mean_is_right_is_left_alone() -> None:
    assert codes(run(EqualWeights)[0]) == []


class OneAnswer(misused.Good):
    """Calls everything negative."""

    def val_with(self, logits: torch.Tensor, target: torch.Tensor, loader: int) -> None:
        self.f1.update(torch.zeros_like(logits), target)
        self.log("val/f1", self.f1)


@pytest.mark.parametrize("kit", KITS)
def test_the_numbers_of_single_metrics_are_looked_at(kit: str) -> None:
    found, _, _ = run(OneAnswer, kit=kit)
    [finding] = [each for each in found.diagnosis.issues if each.code == "EK205"]
    assert finding.subject == "f1/predictions"
    assert finding.headline == "f1: all 90 samples were predicted as 'negative'."
    assert "EK205" not in [each.code for each in run(misused.Good, kit=kit)[0].diagnosis.issues]


# ---- monitors, batches, memory


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("kit", KITS)
def test_a_wrong_mode_is_found(kit: str, package: str, tmp_path: Path) -> None:
    callbacks = importlib.import_module(f"{package}.callbacks")
    for owner in (callbacks.EarlyStopping, callbacks.ModelCheckpoint):
        for mode, expected in (("min", ["EK114"]), ("max", [])):
            waiting = owner(monitor="val/f1", mode=mode)
            diagnose = Diagnose()
            folder = tmp_path / f"{owner.__name__}_{mode}"
            options = {"callbacks": [diagnose, waiting], "default_root_dir": folder, "enable_checkpointing": True}
            run(misused.Good, package, diagnose, kit, **options)
            assert codes(diagnose) == expected


class Plateau(misused.Good):
    mode = "min"

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), 0.1)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode=self.mode)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": "val/f1"}}


class RightPlateau(Plateau):
    mode = "max"


@pytest.mark.parametrize("kit", KITS)
def test_a_scheduler_that_waits_for_worse_is_found(kit: str) -> None:
    assert codes(run(Plateau, kit=kit)[0]) == ["EK114"]
    assert codes(run(RightPlateau, kit=kit)[0]) == []


class Ambiguous(misused.Steps):
    size: dict[str, int] = {}  # noqa: RUF012

    def val_with(self, logits: torch.Tensor, target: torch.Tensor, loader: int) -> None:
        self.log("mean", logits.mean(), **self.size)


class Sized(Ambiguous):
    size = {"batch_size": 16}  # noqa: RUF012


@pytest.mark.filterwarnings("ignore:.*ambiguous collection.*")
def test_a_guessed_batch_size_is_found() -> None:
    def ambiguous() -> Any:
        return DataLoader([[x, y, torch.zeros(3)] for x, y in loader(seed=1)], batch_size=None)

    for steps, expected in ((Ambiguous, ["EK116"]), (Sized, [])):
        lightning = importlib.import_module(PACKAGES[0])
        diagnose = Diagnose()
        quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
        trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", logger=False, callbacks=[diagnose], **quiet)
        trainer.fit(module(lightning, steps), loader(), ambiguous())
        assert codes(diagnose) == expected


# ---- a run with it and without


def trained(steps: type, **options: Any) -> tuple[dict[str, float], list[torch.Tensor]]:
    _, trainer, made = run(steps, **options)
    return numbers(trainer), [*made.state_dict().values()]


@pytest.mark.parametrize("kit", KITS)
@pytest.mark.filterwarnings("ignore:.*guessed that scores are logits.*")
@pytest.mark.parametrize("steps", sorted({*HEALTHY, *(pair[0] for pair in MISUSES.values())}, key=lambda s: s.__name__))
def test_no_number_changes(steps: type, kit: str) -> None:
    with_it, without = trained(steps, kit=kit), trained(steps, kit=kit, diagnose=False)
    assert with_it[0] == pytest.approx(without[0], abs=0, rel=0, nan_ok=True)
    assert all(torch.equal(one, other) for one, other in zip(with_it[1], without[1], strict=True))


@pytest.mark.parametrize("kit", KITS)
@pytest.mark.parametrize("steps", [misused.Good, misused.NotReset, misused.Own])
def test_logs_and_checkpoints_are_the_same(steps: type, kit: str, tmp_path: Path) -> None:
    logs, saved = [], []
    for diagnose in (Diagnose(), False):
        folder = tmp_path / type(diagnose).__name__
        logger = importlib.import_module(f"{PACKAGES[0]}.loggers").CSVLogger(folder, name="", version="run")
        run(steps, diagnose=diagnose, kit=kit, logger=logger, enable_checkpointing=True, log_every_n_steps=1)
        logs.append((folder / "run" / "metrics.csv").read_text())
        [path] = folder.rglob("*.ckpt")
        saved.append(torch.load(path, weights_only=False))
    assert logs[0] == logs[1] != ""
    for checkpoint in saved:
        for state in checkpoint["callbacks"].values():
            state.clear()  # folders, which differ
        weights = checkpoint.pop("state_dict")
        checkpoint["weights"] = {name: weight.tolist() for name, weight in weights.items()}
    assert saved[0] == saved[1]


class Failing(misused.Good):
    def val_with(self, logits: torch.Tensor, target: torch.Tensor, loader: int) -> None:
        super().val_with(logits, target, loader)
        if not self.trainer.sanity_checking:
            raise ArithmeticError("on purpose")


@pytest.mark.parametrize("kit", KITS)
@pytest.mark.parametrize("steps", [misused.Good, misused.Own, misused.ClassWeights, Failing])
def test_everything_is_put_back(steps: type, kit: str) -> None:
    lightning = importlib.import_module(PACKAGES[0])
    made, diagnose = module(lightning, steps, kit), Diagnose()
    parts = [made, *made.modules()]
    before = [(dict(vars(part)), len(part._forward_hooks), len(part._forward_pre_hooks)) for part in parts]
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", logger=False, callbacks=[diagnose], **quiet)
    try:
        trainer.fit(made, loader(), loader(seed=1))
    except ArithmeticError:
        assert steps is Failing
    for part, (attributes, hooks, pre_hooks) in zip(parts, before, strict=True):
        assert (len(part._forward_hooks), len(part._forward_pre_hooks)) == (hooks, pre_hooks)
        for name in ("update", "compute", "reset", "log"):
            assert vars(part).get(name) is attributes.get(name)


# ---- what is shown


def test_findings_are_said_once_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logger = importlib.import_module(f"{PACKAGES[0]}.loggers").TensorBoardLogger(tmp_path, name="", version="run")
    run(misused.NotReset, diagnose=Diagnose(sarif=True), logger=logger)
    out = capsys.readouterr().out
    assert out.count("EK104 error: f1 (BinaryF1Score) was not reset") == 1
    assert "Call metric.reset()" in out
    written = json.loads((tmp_path / "run" / "diagnosis.json").read_text())
    assert [each["fingerprint"] for each in written["issues"]] == ["EK104:f1"]
    sarif = json.loads((tmp_path / "run" / "diagnosis.sarif").read_text())
    assert sarif["runs"][0]["results"][0]["ruleId"] == "EK104"
    events = EventAccumulator(str(tmp_path / "run"))
    events.Reload()
    [text] = events.Tensors("diagnosis/text_summary")
    assert b"**EK104** error: f1 (BinaryF1Score) was not reset" in text.tensor_proto.string_val[0]


@pytest.mark.parametrize("logged", [True, False])
def test_findings_stand_beside_the_checkpoints(logged: bool, tmp_path: Path) -> None:
    lightning = importlib.import_module(f"{PACKAGES[0]}.callbacks")
    loggers = importlib.import_module(f"{PACKAGES[0]}.loggers")
    diagnose, saving = Diagnose(), lightning.ModelCheckpoint(tmp_path / "saved")
    logger = loggers.CSVLogger(tmp_path, name="", version="run") if logged else False
    options = {"enable_checkpointing": True, "callbacks": [diagnose, saving], "logger": logger}
    run(misused.NotReset, diagnose=diagnose, **options)
    folders = ["run", "saved"] if logged else ["saved"]
    assert sorted(path.parent.name for path in tmp_path.rglob("diagnosis.json")) == folders
    assert not list(tmp_path.rglob("diagnosis.sarif"))
    assert list((tmp_path / "saved").glob("*.ckpt"))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_run_that_writes_nothing_gets_no_file(package: str, tmp_path: Path) -> None:
    """Without a logger and without checkpoints Lightning creates no folder, and so does Diagnose."""
    saving = importlib.import_module(f"{package}.callbacks").ModelCheckpoint
    cases: list[dict[str, Any]] = [
        {"enable_checkpointing": False},
        {"enable_checkpointing": True, "fast_dev_run": 2},
        {"enable_checkpointing": True, "callbacks": [saving(save_top_k=0)]},
    ]
    for options in cases:
        diagnose = Diagnose()
        callbacks = [diagnose, *options.pop("callbacks", [])]
        options |= {"default_root_dir": tmp_path, "callbacks": callbacks}
        found, _, _ = run(misused.InPlainDict, package, diagnose, **options)
        assert codes(found) == ["EK108"]
        assert list(tmp_path.iterdir()) == []
    run(misused.InPlainDict, package, Diagnose(sarif=True), default_root_dir=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["diagnosis.json", "diagnosis.sarif"]


def test_a_validation_alone_does_not_create_a_folder_for_checkpoints(tmp_path: Path) -> None:
    lightning = importlib.import_module(PACKAGES[0])
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False, "accelerator": "cpu"}
    trainer = lightning.Trainer(default_root_dir=tmp_path, callbacks=[Diagnose()], **quiet)
    made = module(lightning, misused.InPlainDict)
    trainer.validate(made, loader(seed=1), verbose=False)
    assert list(tmp_path.iterdir()) == []
    trainer.fit_loop.max_epochs = 1
    trainer.fit(made, loader(), loader(seed=1))
    [checkpoint] = tmp_path.rglob("*.ckpt")
    assert [*tmp_path.rglob("diagnosis.json")] == [checkpoint.parent / "diagnosis.json"]


def test_hints_are_printed_only_if_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    found, _, _ = run(misused.Called, diagnose=Diagnose())
    assert codes(found) == ["EK124"]
    assert "EK124" not in capsys.readouterr().out
    run(misused.Called, diagnose=Diagnose(hints=True))
    assert "EK124" in capsys.readouterr().out


def test_ignored_and_known_findings_are_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    baseline = tmp_path / "known.json"
    baseline.write_text(json.dumps(["EK104:f1"]))
    for diagnose in (Diagnose(ignore=["EK104"]), Diagnose(baseline=baseline)):
        found, _, _ = run(misused.NotReset, diagnose=diagnose)
        assert codes(found) == []
        assert [each.code for each in found.diagnosis.ignored] == ["EK104"]
    assert "EK104" not in capsys.readouterr().out


def test_a_strict_run_ends_with_three_after_it_was_saved(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        run(misused.NotReset, diagnose=Diagnose(strict=True), default_root_dir=tmp_path, enable_checkpointing=True)
    assert ended.value.code == 3
    assert list(tmp_path.rglob("*.ckpt"))
    run(misused.Reset, diagnose=Diagnose(strict=True))


def test_a_metric_that_cannot_be_asked_does_not_end_the_run() -> None:
    class Odd(misused.Good):
        def make(self) -> None:
            super().make()
            self.network = nn.Sequential(self.network, nn.Identity())
            self.f1.compute_with_cache = False

    assert codes(run(Odd)[0]) == []


class MadeInSetup(misused.NotReset):
    """A metric that exists only once the module is set up."""

    def make(self) -> None: ...

    def setup(self, stage: str) -> None:
        super().make()


def test_metrics_that_setup_makes_are_watched() -> None:
    assert codes(run(MadeInSetup)[0]) == ["EK104"]
