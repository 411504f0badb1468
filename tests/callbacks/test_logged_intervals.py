"""Intervals in a training: both ends of every interval are logged, and TensorBoard shows them as a band."""

from pathlib import Path

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout
from torch.utils.data import DataLoader, TensorDataset

from lightning_evalkit import BinaryEvaluation
from lightning_evalkit.callbacks import Evaluate, TensorBoardReport
from lightning_evalkit.modules import BinaryClassifier


def loaders() -> list[DataLoader]:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(64, 2, generator=generator)
    target = (features.sum(1) + torch.randn(64, generator=generator) > 0).long()
    return [DataLoader(TensorDataset(features, target), batch_size=16) for _ in range(2)]


def fitted(module: BinaryClassifier, folder: Path, *callbacks: object) -> Trainer:
    trainer = Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=TensorBoardLogger(folder, name="", version=""),
        callbacks=[*callbacks],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=1,
    )
    trainer.fit(module, *loaders())
    return trainer


@pytest.mark.filterwarnings("ignore:.*does not have many workers")
def test_the_ends_are_logged_and_drawn_as_a_band(tmp_path: Path):
    evaluate = Evaluate(BinaryEvaluation("logits", prefix="mine_"), intervals=True, figures=False)
    module = BinaryClassifier(num_features=2, intervals=True)
    trainer = fitted(module, tmp_path, evaluate, TensorBoardReport(figures=False, explanations=False))
    for evaluation in (module.evaluation("val"), evaluate.evaluation("val")):
        for name, interval in evaluation.intervals().items():
            logged = [float(trainer.logged_metrics[f"{name}/{end}"]) for end in ("low", "high")]
            assert logged == pytest.approx([interval.low, interval.high])
    assert "train/f1/high" in trainer.logged_metrics
    events = EventAccumulator(str(tmp_path)).Reload()
    layout = Layout.FromString(events.Tensors("custom_scalars__config__")[-1].tensor_proto.string_val[0])
    bands = [chart.margin.series[0] for chart in layout.category[0].chart if chart.margin.series]
    assert ("val/f1", "val/f1/low", "val/f1/high") in [(band.value, band.lower, band.upper) for band in bands]
    assert {band.lower for band in bands} <= {*events.Tags()["scalars"]}


@pytest.mark.filterwarnings("ignore:.*does not have many workers")
def test_without_being_asked_no_ends_are_logged(tmp_path: Path):
    trainer = fitted(BinaryClassifier(num_features=2), tmp_path, Evaluate(BinaryEvaluation("logits", prefix="mine_")))
    assert [name for name in trainer.logged_metrics if name.endswith(("/low", "/high"))] == []
