"""Lightning's insides are known in one file, and callbacks work alike under both of its names."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from jsonargparse import ArgumentError, ArgumentParser
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import lightning_evalkit
from lightning_evalkit import BinaryEvaluation
from lightning_evalkit.callbacks import (
    Evaluate,
    ExactDistributedEvaluation,
    ExactResume,
    LossReport,
    PriorCorrection,
    TemperatureScaling,
    TensorBoardReport,
    ThresholdTuning,
)
from lightning_evalkit.trainer import FABRICS, TRAINERS

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*GPU available.*"),
]
ROOT = Path(lightning_evalkit.__file__).parent


def lightning(package: str) -> ModuleType:
    return importlib.import_module(package)


# ---- private parts


@pytest.mark.parametrize("fabric", FABRICS)
def test_fabric_has_its_sampler_and_its_error(fabric: str):
    assert issubclass(
        importlib.import_module(f"{fabric}.utilities.distributed").DistributedSamplerWrapper,
        torch.utils.data.DistributedSampler,
    )
    assert issubclass(importlib.import_module(f"{fabric}.utilities.exceptions").MisconfigurationException, Exception)


def test_silenced_messages_stay_silent():
    """Before Lightning 2.6 this package imports the other name too, whose import would take the messages over."""
    code = (
        "import logging\n"
        "from lightning.pytorch import Trainer\n"
        "logging.getLogger('lightning.pytorch').setLevel(logging.ERROR)\n"
        "import lightning_evalkit.callbacks\n"
        "Trainer(accelerator='cpu', logger=False, enable_checkpointing=False)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout + done.stderr == ""


def private_uses(text: str) -> list[str]:
    """Private attributes that a file asks a trainer, a loop, a logger or a strategy for."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and re.fullmatch(r"_[a-z]\w*", node.attr):
            owner = ast.unparse(node.value)
            if re.search(r"\b(trainer|loop|fit_loop|strategy|logger|pl_module|results)$", owner):
                found.append(f"{owner}.{node.attr}")
    return found


def test_only_one_file_asks_lightning_for_private_parts():
    files = [path for path in ROOT.rglob("*.py") if path.name != "trainer.py"]
    assert len(files) > 100
    assert {path.name: uses for path in files if (uses := private_uses(path.read_text(encoding="utf-8")))} == {}
    assert private_uses("trainer._results; self.trainer.fit_loop._data_fetcher") == [
        "trainer._results",
        "self.trainer.fit_loop._data_fetcher",
    ]


def test_jsonargparse_says_what_the_command_line_reads_from_its_errors():
    """The words that cli/messages.py looks for; where they change, errors are told in the parser's own words."""
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--size", type=int | None)
    with pytest.raises(ArgumentError) as wrong:
        parser.parse_args(["--size=x"])
    assert re.search(r'Parser key "size"', str(wrong.value))
    assert re.search(r"Does not validate against any of the Union subtypes", str(wrong.value))
    assert re.search(r"Expected a <class 'int'>", str(wrong.value))
    assert re.search(r"Given value: x", str(wrong.value))


# ---- two names


def module_of(package: str) -> Any:
    """A user's own module, derived from the LightningModule of one of the two packages."""

    class Own(lightning(package).LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = torch.nn.Linear(4, 1)
            self.own = BinaryEvaluation(inputs="logits", statistics=["recall", "f1"], prefix="own/")

        def forward(self, x: Tensor) -> Tensor:
            return self.network(x).squeeze(-1)

        def step(self, batch: Any) -> dict[str, Tensor]:
            logits = self(batch[0])
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, batch[1].float())
            return {"loss": loss, "logits": logits, "target": batch[1]}

        def training_step(self, batch: Any, batch_idx: int) -> dict[str, Tensor]:
            return self.step(batch)

        def validation_step(self, batch: Any, batch_idx: int) -> dict[str, Tensor]:
            step = self.step(batch)
            self.own(step["logits"], step["target"])
            self.log_dict(self.own)
            return step

        def test_step(self, batch: Any, batch_idx: int) -> dict[str, Tensor]:
            return self.step(batch)

        def predict_step(self, batch: Any, batch_idx: int) -> Tensor:
            return self(batch[0]).sigmoid()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.5)

    torch.manual_seed(1)
    return Own()


def loader(seed: int, rows: int = 64) -> DataLoader[Any]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 4, generator=generator)
    return DataLoader(TensorDataset(x, (x.sum(1) + torch.randn(rows, generator=generator) > 0.5).long()), batch_size=16)


def run_of(package: str, folder: Path) -> tuple[dict[str, float], list[Any], dict[str, list[str]]]:
    """Numbers, predictions and TensorBoard's tags of a run with every callback of this package."""
    callbacks = [
        Evaluate(BinaryEvaluation(inputs="logits", curves=True), stages=("train", "val", "test")),
        TensorBoardReport(),
        ExactResume(),
        ExactDistributedEvaluation(),
        PriorCorrection(pos_weight=2.0),
        TemperatureScaling(),
        ThresholdTuning(BinaryEvaluation(inputs="logits")),
        LossReport(),
    ]
    logger = importlib.import_module(f"{package}.loggers").TensorBoardLogger(folder, name="", version="run")
    trainer = lightning(package).Trainer(
        max_epochs=2,
        logger=logger,
        callbacks=callbacks,
        accelerator="cpu",
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=1,
        default_root_dir=folder,
    )
    module = module_of(package)
    trainer.fit(module, loader(1), loader(2))
    numbers = {name: float(value) for name, value in trainer.callback_metrics.items()}
    trainer.test(module, loader(3), verbose=False)
    numbers |= {name: float(value) for name, value in trainer.callback_metrics.items()}
    predicted = trainer.predict(module, loader(3))
    events = EventAccumulator(str(folder / "run"), size_guidance={"images": 0, "tensors": 0, "scalars": 0}).Reload()
    tags = {kind: sorted(found) for kind, found in events.Tags().items() if isinstance(found, list)}
    return numbers, [*predicted], tags


def test_every_callback_and_log_dict_work_alike_under_both_names(tmp_path: Path):
    (numbers, predicted, tags), (others, also, shown) = (run_of(package, tmp_path / package) for package in TRAINERS)
    assert numbers == others
    assert {
        "val/f1",
        "test/auroc",
        "test/f1@tuned",
        "val/temperature",
        "val/loss/refinement",
        "own/f1",
    } <= numbers.keys()
    for batch, other in zip(predicted, also, strict=True):
        assert batch.keys() == other.keys()
        assert all(torch.equal(batch[name], other[name]) for name in batch)
    assert tags == shown
    drawn = {"val/confusion_matrix", "own/confusion_matrix", "val/roc", "prior_correction"}
    drawn |= {f"val/loss_profile/{panel}" for panel in ("over_epochs", "worst_samples", "over_temperatures")}
    assert drawn <= {*tags["images"]}
    assert {"findings/val/explanation/text_summary", "val/threshold_tuning/text_summary"} <= {*tags["tensors"]}
    every = [tag for kind in tags.values() for tag in kind]
    assert len(set(every)) == len(every), "TensorBoard's HParams tab fails for a tag of two kinds"
