"""TextClassifier: the numbers of its predictions in three tasks, callbacks, checkpoints, and words for faults."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch
from lightning.pytorch.loggers import TensorBoardLogger
from quiet import quiet_trainer
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout
from torch.utils.data import DataLoader

from lightning_evalkit import BinaryEvaluation, MultilabelEvaluation
from lightning_evalkit.callbacks import TemperatureScaling, TensorBoardReport, ThresholdTuning
from lightning_evalkit.data import CustomerMessagesDataModule, TextDataModule
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.modules import TextClassifier

pytest.importorskip("transformers")
pytest.importorskip("pyarrow")

from tiny_bert import encoded, sequence_model, tokenizer
from transformers import BertConfig, DataCollatorWithPadding

if TYPE_CHECKING:
    from pathlib import Path

    from lightning.pytorch import Trainer

pytestmark = [
    pytest.mark.filterwarnings("ignore:The '[a-z_]+_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec.. is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore::lightning_evalkit.errors.UndefinedWarning"),
    pytest.mark.filterwarnings("ignore:The number of training batches"),
]

TINY = {
    "model_type": "bert",
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}


def messages() -> CustomerMessagesDataModule:
    return CustomerMessagesDataModule(train_size=64, val_size=40, test_size=40, batch_size=16)


def multilabel(data: CustomerMessagesDataModule, **options: Any) -> TextClassifier:
    return TextClassifier(
        config=TINY,
        num_labels=5,
        label_names=data.label_names,
        vocab_size=data.vocab_size,
        learning_rate=0.01,
        **options,
    )


def predicted(trainer: Trainer, module: TextClassifier, data: Any) -> torch.Tensor:
    return torch.cat(trainer.predict(module, datamodule=data))


def test_labels():
    data = messages()
    module, trainer = multilabel(data, per_label=True), quiet_trainer(max_epochs=1)
    trainer.fit(module, datamodule=data)
    found = trainer.test(module, datamodule=data, verbose=False)[0]
    right = (predicted(trainer, module, data) > 0.5) == data.ready.test[2].bool()
    assert found["test/exact_match"] == pytest.approx(float(right.all(1).float().mean()), abs=1e-6)
    assert found["test/hamming_accuracy"] == pytest.approx(float(right.float().mean()), abs=1e-6)
    each = [found[f"test/accuracy/{label}"] for label in data.label_names]
    assert each == pytest.approx(right.float().mean(0).tolist(), abs=1e-6)


@pytest.mark.parametrize(("target", "classes"), [("urgent", None), ("kind", 3)])
def test_one_class_per_text(target: str, classes: int | None, tmp_path: Path):
    rows = [{"text": f"{'abc'[row % 3]} {row}", "kind": "uvw"[row % 3], "urgent": row % 2} for row in range(60)]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    data = TextDataModule(path, "text", target, batch_size=8)
    module = TextClassifier(
        config=TINY, num_classes=classes, vocab_size=data.vocab_size, learning_rate=0.01, intervals=True
    )
    logger = TensorBoardLogger(tmp_path, name="", version="")
    trainer = quiet_trainer(TensorBoardReport(figures=False), max_epochs=1, logger=logger, log_every_n_steps=1)
    trainer.fit(module, datamodule=data)
    found = trainer.test(module, datamodule=data, verbose=False)[0]
    interval = module.evaluation("test").interval("accuracy")
    assert [found[f"test/accuracy/{end}"] for end in ("low", "high")] == pytest.approx([interval.low, interval.high])
    events = EventAccumulator(str(tmp_path)).Reload()
    layout = Layout.FromString(events.Tensors("custom_scalars__config__")[-1].tensor_proto.string_val[0])
    bands = [chart.margin.series[0].lower for chart in layout.category[0].chart if chart.margin.series]
    assert "val/accuracy/low" in bands
    scores = predicted(trainer, module, data)
    guess = scores.argmax(1) if classes else (scores > 0.5).long()
    assert scores.shape == ((12, 3) if classes else (12,))
    assert found["test/accuracy"] == pytest.approx(float((guess == data.ready.test[2]).float().mean()), abs=1e-6)


def test_thresholds_and_temperature_are_learnt_on_validation():
    data = messages()
    tuning = ThresholdTuning(MultilabelEvaluation("logits", 5, data.label_names), "f1")
    trainer = quiet_trainer(tuning, max_epochs=1)
    trainer.fit(multilabel(data), datamodule=data)
    assert 0 < trainer.callback_metrics["val/threshold/refund"] < 1
    assert len(tuning.threshold) == 5  # type: ignore[arg-type]
    yes = TextDataModuleOfOneLabel(data)
    scaling = TemperatureScaling()
    trainer = quiet_trainer(scaling, max_epochs=1)
    trainer.fit(TextClassifier(config=TINY, vocab_size=data.vocab_size, learning_rate=0.01), *yes.loaders())
    assert trainer.callback_metrics["val/temperature"] > 0


class TextDataModuleOfOneLabel:
    """The first label of messages as yes or no."""

    def __init__(self, data: CustomerMessagesDataModule) -> None:
        self.data = data

    def loaders(self) -> list[DataLoader]:
        def rows(split: Any) -> list[dict[str, torch.Tensor]]:
            return [
                {"input_ids": ids.long(), "attention_mask": mask.long(), "labels": target[0]}
                for ids, mask, target in zip(*split, strict=True)
            ]

        return [DataLoader(rows(split), batch_size=16) for split in (self.data.ready.train, self.data.ready.val)]


def test_a_trained_model_and_batches_of_a_collator(tmp_path: Path):
    """A model that was saved, with a tokenizer and a collator of transformers."""
    trained = sequence_model(3, "multi_label_classification")
    trained.save_pretrained(tmp_path / "model")
    module = TextClassifier(pretrained=str(tmp_path / "model"), num_labels=3)
    assert module.network.training, "with dropout, which a loaded model has switched off"
    rows = [{**row, "labels": [1.0, 0.0, 1.0]} for row in encoded(6)]
    loader = DataLoader(rows, batch_size=4, collate_fn=DataCollatorWithPadding(tokenizer()))  # type: ignore[arg-type]
    trainer = quiet_trainer(max_epochs=1)
    found = trainer.test(module, loader, verbose=False)[0]
    logits = [trained(input_ids=torch.tensor([row["input_ids"]])).logits[0] for row in rows]
    right = (torch.stack(logits) > 0) == torch.tensor([True, False, True])
    assert found["test/hamming_accuracy"] == pytest.approx(float(right.float().mean()), abs=1e-6)


def test_a_checkpoint_gives_the_same_logits(tmp_path: Path):
    data = messages()
    module = multilabel(data, threshold=(0.5, 0.4, 0.5, 0.5, 0.3))
    trainer = quiet_trainer(max_epochs=1)
    trainer.fit(module, datamodule=data)
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    again = TextClassifier.load_from_checkpoint(tmp_path / "last.ckpt").eval()
    batch = next(iter(data.val_dataloader()))
    assert torch.equal(again(batch), module.eval()(batch))
    assert again.evaluation("val").threshold == module.evaluation("val").threshold


def test_a_configuration_may_be_an_object():
    config = BertConfig(**{name: size for name, size in TINY.items() if name != "model_type"}, vocab_size=40)
    module = TextClassifier(config=config)  # type: ignore[arg-type]
    assert module({"input_ids": torch.tensor([[1, 2, 3], [4, 5, 6]])}).shape == (2,)
    assert module.network.config.vocab_size == 40
    assert isinstance(module.hparams["config"], dict)


def test_a_rank_without_rows_counts_nothing():
    """In evaluation every row is given once, so that the last batch of a rank may be empty."""
    data = messages()
    module = multilabel(data)
    module.step("val", next(iter(data.val_dataloader())))
    empty = data.val_dataloader().batch(tuple(part[:0] for part in data.ready.val))
    result = module.step("val", empty)
    assert (result["logits"].shape, result["loss"].item()) == ((0, 5), 0.0)
    assert module.evaluation("val").counts.total.tolist() == [16] * 5


def test_weights_count():
    ids = torch.tensor([[1, 2], [3, 4], [5, 6]])
    module = TextClassifier(config=TINY, weighted=True, vocab_size=40, statistics=["accuracy"]).eval()
    positive = (module({"input_ids": ids}) > 0).long()
    labels, weight = torch.stack((positive[0], 1 - positive[1], positive[2])), torch.tensor([1.0, 2.0, 5.0])
    module.step("val", {"input_ids": ids, "labels": labels, "sample_weight": weight})
    assert float(module.evaluation("val").compute()["val/accuracy"]) == pytest.approx(6 / 8)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "expected either pretrained, .* or config, .* got neither"),
        ({"pretrained": "x", "config": TINY}, "got both"),
        ({"config": {"hidden_size": 8}}, r"expected a 'model_type' in config, such as 'bert', got \['hidden_size'\]"),
        ({"config": TINY, "num_labels": 2, "num_classes": 3}, "expected num_labels or num_classes"),
        ({"config": TINY, "num_classes": 3, "pos_weight": 2.0}, "expected class_weights for classes, got pos_weight"),
        ({"config": TINY, "num_classes": 3, "class_weights": [1.0]}, "expected 3 class_weights"),
        ({"config": TINY, "num_labels": 3, "pos_weight": [1.0]}, "expected one pos_weight, or 3"),
    ],
)
def test_declarations_that_contradict_themselves(options: dict[str, Any], complaint: str):
    with pytest.raises(DeclarationError, match=complaint):
        TextClassifier(**options)


def test_batches_that_are_none():
    module, ids = TextClassifier(config=TINY, vocab_size=40), torch.tensor([[1, 2]])
    with pytest.raises(InputError, match="expected batches as dicts with input_ids, labels, got tuple"):
        module.step("val", (ids, torch.tensor([1])))
    with pytest.raises(InputError, match=r"with input_ids, labels, got \['input_ids'\]"):
        module.step("val", {"input_ids": ids})
    batch = {"input_ids": ids, "labels": torch.tensor([1]), "sample_weight": torch.tensor([1.0])}
    with pytest.raises(InputError, match="declare weighted=True"):
        module.step("val", batch)
    assert isinstance(module.evaluation("val"), BinaryEvaluation)
