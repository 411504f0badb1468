"""Thresholds, temperatures and priors in real runs: learnt on validation, kept in checkpoints, applied in test."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ranks
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.strategies import SingleDeviceStrategy
from quiet import QUIET
from sklearn.metrics import f1_score, precision_score, recall_score
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, TensorDataset
from versions import STRICT

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.callbacks import LossReport, PriorCorrection, TemperatureScaling, ThresholdTuning
from lightning_evalkit.data.loader import TensorLoader
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.modules import BinaryClassifier, MulticlassClassifier, MultilabelClassifier

pytestmark = [
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists"),
    pytest.mark.filterwarnings("ignore::lightning_evalkit.errors.UndefinedWarning"),
    pytest.mark.filterwarnings("ignore:Be aware that when using .ckpt_path., callbacks used to create"),
    pytest.mark.filterwarnings("ignore:You defined a .validation_step. but have no"),
]

ROWS, FEATURES, LABELS = 300, 4, 3


class Fixed(torch.nn.Module):
    """Logits that are the first features, times a factor: what is learnt is known before."""

    def __init__(self, outputs: int = 1, factor: float = 4.0) -> None:
        super().__init__()
        self.outputs, self.factor = outputs, torch.nn.Parameter(torch.tensor(factor))

    def forward(self, features: Tensor) -> Tensor:
        return features[:, : self.outputs] * self.factor


class Plain(LightningModule):
    """Somebody's module, without any metric; ``around`` makes its steps go around ``forward``."""

    def __init__(self, around: bool = False) -> None:
        super().__init__()
        self.part, self.around = Fixed(), around

    def forward(self, features: Tensor) -> Tensor:
        return self.part(features).squeeze(1)

    def step(self, batch: Any) -> dict[str, Tensor]:
        features, target = batch
        logits = self.part(features).squeeze(1) if self.around else self(features)
        return {"loss": binary_cross_entropy_with_logits(logits, target.float()), "logits": logits, "target": target}

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        return self.step(batch)["loss"]

    def validation_step(self, batch: Any, batch_idx: int) -> dict[str, Tensor]:
        return self.step(batch)

    def test_step(self, batch: Any, batch_idx: int) -> dict[str, Tensor]:
        found = self.step(batch)
        self.log("test/loss", found["loss"], batch_size=len(batch[0]))
        return found

    def predict_step(self, batch: Any, batch_idx: int) -> Tensor:
        return self(batch[0])

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.0)


def rows(seed: int, task: str = "binary", number: int = ROWS) -> tuple[Tensor, Tensor]:
    """Features whose first ones are the true logits of the target."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(number, FEATURES, generator=generator) * 1.5 - 0.5
    if task == "classes":
        return features, torch.multinomial(features[:, :LABELS].softmax(1), 1, generator=generator).squeeze(1)
    chances = features[:, 0].sigmoid() if task == "binary" else features[:, :LABELS].sigmoid()
    return features, (torch.rand(chances.shape, generator=generator) < chances).long()


def loader(seed: int, task: str = "binary", number: int = ROWS) -> DataLoader[Any]:
    return DataLoader(TensorDataset(*rows(seed, task, number)), batch_size=64)


TRAIN, VAL, TEST = 1, 2, 3


def classifier(task: str = "binary") -> Any:
    """One of the package's modules, which learns nothing."""
    options: dict[str, Any] = {"learning_rate": 1e-12, "curves": True}
    if task == "binary":
        return BinaryClassifier(network=Fixed(), **options)
    if task == "classes":
        return MulticlassClassifier(num_classes=LABELS, network=Fixed(LABELS), **options)
    return MultilabelClassifier(num_labels=LABELS, network=Fixed(LABELS), **options)


def fitted(callbacks: list[Any], folder: Path, module: Any = None, task: str = "binary", **options: Any) -> Any:
    """One epoch; the trainer, and the checkpoint with what was learnt."""
    save = ModelCheckpoint(folder, save_last=True)
    trainer = Trainer(
        **QUIET | {"enable_checkpointing": True, "callbacks": [*callbacks, save], "max_epochs": 1, **options}
    )
    trainer.fit(module or classifier(task), loader(TRAIN, task), loader(VAL, task))
    return trainer, save.last_model_path


def in_test(callbacks: list[Any], checkpoint: str, module: Any = None, task: str = "binary") -> dict[str, float]:
    """In a trainer and with callbacks that know nothing but the checkpoint."""
    trainer = Trainer(**QUIET, callbacks=callbacks)
    (found,) = trainer.test(
        module or classifier(task), loader(TEST, task), ckpt_path=checkpoint, verbose=False, **STRICT
    )
    return dict(found)


# ---- thresholds


def tuning(**options: Any) -> ThresholdTuning:
    return ThresholdTuning(BinaryEvaluation(inputs="logits"), **options)


CRITERIA: dict[str, tuple[dict[str, Any], Any]] = {
    "f1": ({}, f1_score),
    "f2": ({"criterion": "f2"}, lambda y, p: 5 * f1_parts(y, p)[0] / f1_parts(y, p)[1]),
    "costs": (
        {"costs": {"fp": 1.0, "fn": 5.0}},
        lambda y, p: -(((p == 1) & (y == 0)) + 5.0 * ((p == 0) & (y == 1))).mean(),
    ),
    "informedness": ({"criterion": "informedness"}, lambda y, p: recall_score(y, p) + recall_score(1 - y, 1 - p)),
    "precision_at_recall": (
        {"criterion": "precision", "at_least": {"recall": 0.8}},
        lambda y, p: precision_score(y, p, zero_division=0) if recall_score(y, p) >= 0.8 else -1,
    ),
}


def f1_parts(y: Any, p: Any) -> tuple[float, float]:
    tp, fp, fn = ((p == 1) & (y == 1)).sum(), ((p == 1) & (y == 0)).sum(), ((p == 0) & (y == 1)).sum()
    return float(tp), float(5 * tp + 4 * fn + fp)


@pytest.mark.parametrize("name", CRITERIA)
def test_the_threshold_is_the_best_of_all(name: str) -> None:
    options, value = CRITERIA[name]
    callback = tuning(**options)
    trainer = Trainer(**QUIET, callbacks=[callback])
    (found,) = trainer.validate(Plain(), loader(VAL), verbose=False)
    features, target = rows(VAL)
    logits, truth = features[:, 0] * 4, target.numpy()
    values = {float(cut): value(truth, (logits > cut).numpy().astype(int)) for cut in [*logits.tolist(), -1e9]}
    decided = callback.labels(logits.sigmoid().float()).numpy()
    assert value(truth, decided) == pytest.approx(max(values.values())), "to the width of a bin, which holds one row"
    assert found["val/threshold"] == pytest.approx(callback.threshold)
    usual = (logits > 0).long().numpy()
    assert found["val/f1@0.5"] == pytest.approx(f1_score(truth, usual))
    assert found["val/recall@tuned"] == pytest.approx(recall_score(truth, decided))


def test_a_threshold_goes_through_the_checkpoint_into_test_and_prediction(tmp_path: Path) -> None:
    first = tuning(costs={"fp": 1.0, "fn": 9.0})
    _, checkpoint = fitted([first], tmp_path)
    assert first.threshold is not None
    assert first.threshold < 0.4
    second = tuning(costs={"fp": 1.0, "fn": 9.0})
    found = in_test([second], checkpoint)
    assert second.threshold == first.threshold
    features, target = rows(TEST)
    chances = (features[:, 0] * 4).sigmoid()
    for ending, cut in (("@0.5", 0.5), ("@tuned", first.threshold)):
        decided = (chances > cut).long()
        assert found[f"test/recall{ending}"] == pytest.approx(recall_score(target, decided))
        assert found[f"test/f1{ending}"] == pytest.approx(f1_score(target, decided))
    assert found["test/recall"] == found["test/recall@0.5"], "the module itself decides as before"
    third, module = tuning(), classifier()
    trainer = Trainer(**QUIET, callbacks=[third])
    predicted = trainer.predict(module, loader(TEST), ckpt_path=checkpoint, **STRICT)
    labels = torch.cat([each["labels"] for each in predicted])
    assert torch.equal(labels, (torch.cat([each["probabilities"] for each in predicted]) > first.threshold).long())
    assert "predict_step" not in module.__dict__, "the module is left as it was"
    resumed = tuning()
    Trainer(**QUIET, callbacks=[resumed], max_epochs=1).fit(
        classifier(), loader(TRAIN), loader(VAL), ckpt_path=checkpoint, **STRICT
    )
    assert resumed.threshold == first.threshold, "right after resuming"


def test_labels_have_thresholds_of_their_own(tmp_path: Path) -> None:
    def labelled(labels: int = LABELS) -> ThresholdTuning:
        return ThresholdTuning(MultilabelEvaluation("logits", labels), "f1")

    first = labelled()
    _, checkpoint = fitted([first], tmp_path, task="labels")
    features, target = rows(VAL, "labels")
    cuts = torch.tensor(first.threshold)
    assert len(set(cuts.tolist())) == LABELS
    for label, cut in enumerate(cuts):
        logits = features[:, label] * 4
        best = max(f1_score(target[:, label], logits >= other) for other in logits)
        assert f1_score(target[:, label], logits.sigmoid() > cut) == pytest.approx(best)
    found = in_test([labelled()], checkpoint, task="labels")
    test_features, test_target = rows(TEST, "labels")
    decided = (test_features[:, :LABELS] * 4).sigmoid() > cuts
    assert found["test/f1/macro@tuned"] == pytest.approx(f1_score(test_target, decided, average="macro"))
    assert found["test/exact_match@tuned"] == pytest.approx(float((decided == test_target).all(1).float().mean()))
    with pytest.raises(InputError, match=r"thresholds for 3 labels \(0, 1, 2\), this ThresholdTuning has 2 \(0, 1\)"):
        labelled(2).load_state_dict(first.state_dict())


def test_a_label_that_never_occurs_keeps_its_threshold() -> None:
    features, target = rows(VAL, "labels")
    data = DataLoader(TensorDataset(features, target * torch.tensor([1, 0, 1])), batch_size=64)
    callback = ThresholdTuning(MultilabelEvaluation("logits", LABELS, threshold=[0.5, 0.3, 0.5]))
    with pytest.warns(UserWarning, match="the labels 1 keep their threshold: it needs samples of both classes"):
        Trainer(**QUIET, callbacks=[callback]).validate(classifier("labels"), data, verbose=False)
    assert callback.threshold[1] == 0.3
    turned = DataLoader(TensorDataset(features, target ^ torch.tensor([0, 1, 0])), batch_size=64)
    floor = {"recall": 0.6, "specificity": 0.6}
    picky = ThresholdTuning(MultilabelEvaluation("logits", LABELS), at_least=floor)
    with pytest.warns(UserWarning, match="the labels 1 keep their threshold: nowhere are .* reached"):
        Trainer(**QUIET, callbacks=[picky]).validate(classifier("labels"), turned, verbose=False)


# ---- temperatures and priors


@pytest.mark.parametrize("task", ["binary", "classes", "labels"])
@pytest.mark.parametrize("vector", [False, True])
def test_a_temperature_goes_through_the_checkpoint_into_test_and_prediction(
    task: str, vector: bool, tmp_path: Path
) -> None:
    number: dict[str, Any] = {"binary": {}, "classes": {"num_classes": LABELS}, "labels": {"num_labels": LABELS}}[task]
    first = TemperatureScaling(**number, vector=vector)
    trainer, checkpoint = fitted([first], tmp_path, task=task)
    logged = trainer.callback_metrics
    assert logged["val/log_loss@scaled"] < 0.8 * logged["val/log_loss@raw"], "the logits are four times too large"
    assert logged["val/log_loss@raw"] == pytest.approx(float(logged["val/loss"]), rel=1e-4)
    second, raw = TemperatureScaling(**number, vector=vector), in_test([], checkpoint, task=task)
    scaled = in_test([second], checkpoint, task=task)
    for name, value in first.correction.named_buffers(recurse=False):
        assert torch.equal(getattr(second.correction, name), value)
    assert scaled["test/loss"] == raw["test/loss"], "the loss of this package's modules is of what was trained"
    suffix = "/macro" if task == "labels" else ""
    assert scaled[f"test/log_loss{suffix}"] < 0.9 * raw[f"test/log_loss{suffix}"]
    accuracy = "hamming_accuracy" if task == "labels" else "accuracy"
    if not vector:
        assert float(first.correction.temperature) == pytest.approx(4.0, rel=0.25)
        assert scaled[f"test/{accuracy}"] == raw[f"test/{accuracy}"]
    module = classifier(task)
    running = Trainer(**QUIET, callbacks=[TemperatureScaling(**number, vector=vector)])
    chances = torch.cat(running.predict(module, loader(TEST, task), ckpt_path=checkpoint, **STRICT))
    logits = first.correction(module(rows(TEST, task)[0])).detach()
    torch.testing.assert_close(chances, logits.softmax(1) if task == "classes" else logits.sigmoid())
    assert module.corrections == [], "the module is left as it was"
    with pytest.raises(InputError, match="the checkpoint holds scaling of shape"):
        TemperatureScaling(num_classes=7, vector=not vector).load_state_dict(first.state_dict())


def test_any_module_is_scaled_where_it_is_called(tmp_path: Path) -> None:
    _, checkpoint = fitted([TemperatureScaling()], tmp_path, Plain())
    raw, scaled = (in_test(callbacks, checkpoint, Plain()) for callbacks in ([], [TemperatureScaling()]))
    assert scaled["test/loss"] < 0.9 * raw["test/loss"]
    with pytest.raises(InputError, match=r"test_step of Plain did not call it: call self\(x\) there"):
        in_test([TemperatureScaling()], checkpoint, Plain(around=True))
    named = in_test([TemperatureScaling(submodule="part")], checkpoint, Plain(around=True))
    assert named["test/loss"] == pytest.approx(scaled["test/loss"], rel=1e-5)
    with pytest.raises(DeclarationError, match="expected submodule to be a part of Plain, got 'parts': it has part"):
        in_test([TemperatureScaling(submodule="parts")], checkpoint, Plain())
    left = Plain()
    in_test([TemperatureScaling()], checkpoint, left)
    assert not left._forward_hooks


def test_a_threshold_means_the_same_decisions_behind_a_temperature(tmp_path: Path) -> None:
    both = [TemperatureScaling(), tuning(costs={"fp": 1.0, "fn": 9.0})]
    _, checkpoint = fitted(both, tmp_path)
    alone = in_test([tuning()], checkpoint)
    together = in_test([TemperatureScaling(), tuning()], checkpoint)
    for name in ("recall", "precision", "f1"):
        assert together[f"test/{name}@tuned"] == pytest.approx(alone[f"test/{name}@tuned"], abs=1e-6)


def test_a_prior_is_corrected_wherever_logits_are_evaluated() -> None:
    shift = PriorCorrection(pos_weight=9.0)
    module, plain = classifier(), classifier()
    (found,) = Trainer(**QUIET, callbacks=[shift]).validate(module, loader(VAL), verbose=False)
    (raw,) = Trainer(**QUIET).validate(plain, loader(VAL), verbose=False)
    features, target = rows(VAL)
    decided = (features[:, 0] * 4 > np.log(9)).long()
    assert found["val/recall"] == pytest.approx(recall_score(target, decided))
    assert found["val/loss"] == raw["val/loss"]
    assert found["val/auroc"] == pytest.approx(raw["val/auroc"], abs=1e-4)
    trained = classifier()
    Trainer(**QUIET, callbacks=[PriorCorrection(pos_weight=9.0)], max_epochs=1).fit(trained, loader(TRAIN))
    assert trained.evaluation("train").compute()["train/recall"] > 0.6, "training is not touched"
    with pytest.raises(DeclarationError, match="correct_shift=True of the module or PriorCorrection, not both"):
        Trainer(**QUIET, callbacks=[shift]).validate(
            BinaryClassifier(network=Fixed(), pos_weight=9.0, correct_shift=True), loader(VAL)
        )


class Shifting(Plain):
    """A module with attributes that this package's classifiers have too, for something else."""

    def __init__(self) -> None:
        super().__init__()
        self.shift, self.corrections = torch.nn.Parameter(torch.ones(3)), ["of something else"]


def test_a_module_that_goes_around_the_place_is_not_validated_uncorrected() -> None:
    with pytest.raises(InputError, match="validation_step of Plain did not call it"):
        Trainer(**QUIET, callbacks=[PriorCorrection(pos_weight=9.0)]).validate(Plain(around=True), loader(VAL))
    module, callback = Shifting(), tuning()
    Trainer(**QUIET, callbacks=[PriorCorrection(pos_weight=9.0), callback]).validate(module, loader(VAL), verbose=False)
    logits, target = rows(VAL)[0][:, 0] * 4 - np.log(9), rows(VAL)[1]
    assert callback.evaluation.compute()["val/recall"] == pytest.approx(recall_score(target, logits > 0))
    assert module.corrections == ["of something else"]
    assert "forward" not in vars(module), "the module is left as it was"


@pytest.mark.parametrize("module", [classifier, Plain])
def test_a_temperature_is_behind_the_prior_in_whichever_order(module: Any, tmp_path: Path) -> None:
    def made() -> list[Any]:
        return [PriorCorrection(pos_weight=9.0), TemperatureScaling(), tuning()]

    _, checkpoint = fitted(made(), tmp_path, module())
    one, other = (in_test(made()[::step], checkpoint, module()) for step in (1, -1))
    assert one == other


class Wrapping(SingleDeviceStrategy):
    """Puts a module around the LightningModule, as those for several devices do: steps go through its call."""

    def setup(self, trainer: Trainer) -> None:
        super().setup(trainer)
        wrapper = torch.nn.Module()
        wrapper.inner, wrapper.forward = self.model, lambda *args: wrapper.inner(*args)  # type: ignore[assignment]
        self.model = wrapper


def test_what_a_step_returns_through_a_wrapper_is_not_taken_for_logits() -> None:
    found = []
    for strategy in ("auto", Wrapping(device=torch.device("cpu"))):
        callbacks = [TemperatureScaling(), PriorCorrection(pos_weight=9.0)]
        trainer = Trainer(**QUIET, callbacks=callbacks, max_epochs=1, strategy=strategy)
        module = Plain()
        trainer.fit(module, loader(TRAIN), loader(VAL))
        found.append({name: float(value) for name, value in trainer.callback_metrics.items()})
    assert found[0] == found[1]


# ---- what is drawn and told


def test_tensorboard_shows_what_was_learnt(tmp_path: Path) -> None:
    logger = TensorBoardLogger(tmp_path, name=None, version="")
    callbacks = [PriorCorrection(pos_weight=2.0), TemperatureScaling(), tuning(), LossReport(worst=0.05, hardest=3)]
    trainer, _ = fitted(callbacks, tmp_path, max_epochs=2, logger=logger)
    shown = EventAccumulator(str(tmp_path), size_guidance={"images": 0, "tensors": 0})
    shown.Reload()
    tags = {"prior_correction", "val/temperature_scaling", "val/threshold_tuning"}
    tags |= {f"val/loss_profile/{panel}" for panel in ("over_epochs", "worst_samples", "over_temperatures")}
    assert {*shown.Tags()["images"]} == tags
    (text,) = shown.Tensors("val/loss_profile/text_summary")
    told = text.tensor_proto.string_val[0].decode()
    features, target = rows(VAL)
    logits = features[:, 0] * 4 - np.log(2.0)
    each = binary_cross_entropy_with_logits(logits, target.float(), reduction="none")
    for sample in each.topk(3).indices.tolist():
        assert f"| {sample} |" in told
    assert "TemperatureScaling" in told
    logged = trainer.callback_metrics
    assert float(logged["val/loss/refinement"]) == pytest.approx(float(logged["val/log_loss@scaled"]))
    worst = each.topk(ROWS // 20).values.sum() / each.sum()
    assert float(logged["val/loss/loss_of_worst"]) == pytest.approx(float(worst), rel=1 / 64)


# ---- wrong use


def one_class(_: Any = None) -> DataLoader[Any]:
    features, target = rows(VAL)
    return DataLoader(TensorDataset(features, target * 0), batch_size=64)


@pytest.mark.parametrize("make", [tuning, TemperatureScaling, LossReport])
def test_nothing_is_learnt_without_validation(make: Any) -> None:
    with pytest.raises(InputError, match=f"{make().__class__.__name__} learns from validation data, but this run has"):
        Trainer(**QUIET, callbacks=[make()], max_epochs=1).fit(Plain(), loader(TRAIN))


@pytest.mark.parametrize("make", [tuning, TemperatureScaling])
def test_nothing_is_applied_that_was_not_learnt(make: Any) -> None:
    for run in ("test", "predict"):
        with pytest.raises(InputError, match=r"nothing was learnt yet\. Run fit or validate with it first"):
            getattr(Trainer(**QUIET, callbacks=[make()]), run)(Plain(), loader(TEST))


def test_one_class_leaves_nothing_to_choose() -> None:
    with pytest.raises(InputError, match="it needs samples of both classes, and validation has 0 positive and 300 neg"):
        Trainer(**QUIET, callbacks=[tuning()]).validate(Plain(), one_class(), verbose=False)
    impossible = tuning(criterion="recall", at_least={"specificity": 0.9, "recall": 0.99})
    with pytest.raises(InputError, match="no threshold can be chosen on validation: nowhere are"):
        Trainer(**QUIET, callbacks=[impossible]).validate(Plain(), loader(VAL), verbose=False)


def test_a_dataloader_that_is_not_there_is_refused() -> None:
    for make in (ThresholdTuning, TemperatureScaling, LossReport):
        options = {"evaluation": BinaryEvaluation("logits")} if make is ThresholdTuning else {}
        with pytest.raises(InputError, match=f"{make.__name__} counts dataloader_idx=1, but there are 1 dataloaders"):
            Trainer(**QUIET, callbacks=[make(**options, dataloader_idx=1)]).validate(Plain(), loader(VAL))


class Second(Plain):
    """Returns something to count only for the second of two dataloaders."""

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
        return self.step(batch) if dataloader_idx else None

    def test_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
        return self.step(batch) if dataloader_idx else None


def test_other_dataloaders_may_return_anything_and_of_one_there_is_no_choice() -> None:
    callback = tuning(dataloader_idx=1)
    trainer, both = Trainer(**QUIET, callbacks=[callback]), [loader(TRAIN), loader(VAL)]
    trainer.validate(Second(), both, verbose=False)
    tested = trainer.test(Second(), both, verbose=False)[0]
    assert tested["test/f1@tuned"] == pytest.approx(
        trainer.test(Plain(), loader(VAL), verbose=False)[0]["test/f1@tuned"]
    )


class Taking(Plain):
    """Logs under names that callbacks use."""

    def validation_step(self, batch: Any, batch_idx: int) -> dict[str, Tensor]:
        self.log_dict(dict.fromkeys(("val/threshold", "val/temperature", "val/loss/temperature"), 1.0))
        return super().validation_step(batch, batch_idx)


@pytest.mark.parametrize("make", [tuning, TemperatureScaling, LossReport])
def test_names_that_the_module_logs_are_not_taken_from_it(make: Any) -> None:
    words = f"was logged in validation_step, and {type(make()).__name__} logs it too: give what the module logs another"
    with pytest.raises(InputError, match=words):
        Trainer(**QUIET, callbacks=[make()]).validate(Taking(), loader(VAL), verbose=False)


class Labels(Plain):
    """Returns decisions instead of logits."""

    def step(self, batch: Any) -> dict[str, Tensor]:
        found = super().step(batch)
        return {**found, "logits": (found["logits"] > 0).long()}


def test_labels_have_no_temperature() -> None:
    with pytest.raises(InputError, match="labels have no confidence that could be scaled"):
        Trainer(**QUIET, callbacks=[TemperatureScaling()]).validate(Labels(), loader(VAL), verbose=False)


DECLARED_WRONG: dict[str, tuple[Any, str]] = {
    "classes": (lambda: ThresholdTuning(MulticlassEvaluation("logits", 3)), "which decide by a threshold, got Multicl"),
    "labels": (lambda: ThresholdTuning(BinaryEvaluation("labels")), "labels leave nothing to tune"),
    "several": (lambda: ThresholdTuning(BinaryEvaluation("logits", [0.2, 0.5])), "expected one threshold to tune, got"),
    "weighted": (
        lambda: ThresholdTuning(BinaryEvaluation("logits", weighted=True), weight_key=None),
        "expected weight_key to name the weights, because weights are declared, got None",
    ),
    "criterion": (lambda: tuning(criterion="f1score"), "f1"),
    "costs": (lambda: tuning(costs={"miss": 1.0}), "expected costs of 'fp', 'fn', 'tp' or 'tn', got"),
    "predicts": (
        lambda: tuning(predicts="labels"),
        "expected predicts to be 'probabilities' or 'logits', got 'labels'",
    ),
}


@pytest.mark.parametrize("name", DECLARED_WRONG)
def test_a_wrong_declaration_says_what_was_expected(name: str) -> None:
    declare, words = DECLARED_WRONG[name]
    with pytest.raises(DeclarationError, match=words):
        declare()


# ---- ranks


def in_two_processes(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    warnings.simplefilter("ignore")
    torch.save(learnt(), Path(folder) / str(rank))
    ranks.leave()


def learnt() -> list[Any]:
    """What is learnt from rows that ranks share: this package's loader gives each of them out exactly once."""
    module = classifier()
    found: list[Any] = []
    for callback in (tuning(), TemperatureScaling(), TemperatureScaling(vector=True), LossReport(hardest=4)):
        callback.begin(module)
        for features, target in TensorLoader(rows(VAL, number=121), batch_size=16):
            callback.count(module(features).detach(), target)
        with torch.inference_mode():
            module.log = lambda *_, **__: None
            callback.learn(Trainer(**QUIET), module)
        state = callback.state_dict()
        found.append({name: torch.as_tensor(value).tolist() for name, value in state.items() if name != "labels"})
    return [*found, [each.sample for each in callback.profile.hardest()]]


@pytest.mark.slow
def test_two_ranks_learn_what_one_does(tmp_path: Path) -> None:
    torch.multiprocessing.start_processes(in_two_processes, (str(tmp_path),), nprocs=2, start_method="forkserver")
    expected = learnt()
    for rank in range(2):
        found = torch.load(tmp_path / str(rank), weights_only=True)
        assert found[-1] == expected[-1]
        for one, other in zip(found[:-1], expected[:-1], strict=True):
            assert one.keys() == other.keys()
            for name in one:
                assert one[name] == pytest.approx(other[name], rel=1e-5)
