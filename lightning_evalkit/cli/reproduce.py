"""``evalkit reproduce``: "why does accuracy equal F1?" from data to figure, through the same code as ``evalkit fit``.

Three scenarios show when the two are equal and when not. One classifier, tested where positives are rare and where they
are frequent, shows that they cross at one share of positives, and where. Classifiers trained anew at each share show
what people meet in practice: accuracy climbs as positives get rare, and F1 falls.
"""

from __future__ import annotations

import json
import shutil
from argparse import RawDescriptionHelpFormatter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from lightning_evalkit.cli.messages import OneLineParser, WrongError
from lightning_evalkit.cli.reproduced import SHARES_FOLDER, Reproduced
from lightning_evalkit.cli.results import Row, measured_row, table_of
from lightning_evalkit.cli.signals import Ended
from lightning_evalkit.diagnosis import explain
from lightning_evalkit.sinks.files import write_json
from lightning_evalkit.sinks.terminal import progress, show_table

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator, Sequence

    from lightning_evalkit.cli.training import EvalkitCLI

GROUP = "accuracy_equals_f1"
SCENARIOS = ("balanced", "imbalanced", "poor")
SHARES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9)
QUICK_SHARES = (0.1, 0.5, 0.9)
QUICK = ("--data.train_size=2000", "--data.val_size=500", "--data.test_size=2000", "--data.batch_size=50")
REPORT = {"class_path": "TensorBoardReport", "init_args": {"every_n_epochs": 1000}}
"""Figures and texts of the last epoch are enough."""
CHECKPOINT = {"class_path": "ModelCheckpoint"}


def run(arguments: Sequence[str]) -> int:
    """Run everything, then write and show it."""
    chosen = _parser().parse_args(arguments)
    if chosen.epochs is not None and chosen.epochs < 1:
        raise WrongError(f"expected --epochs of at least 1, got {chosen.epochs}.")
    out = Path(chosen.out)
    out.mkdir(parents=True, exist_ok=True)
    experiment = Experiment(chosen, out)
    try:
        with progress(experiment.total) as tell, _one_thread():
            experiment.run(tell)
    except (KeyboardInterrupt, Ended):
        if experiment.found.rows:
            write_json(out / "results.json", experiment.found.plain())
            show_table(table_of(experiment.found.rows))
        raise
    experiment.found.write(out)
    experiment.found.show(out)
    return 0


def _parser() -> OneLineParser:
    parser = OneLineParser(
        prog="evalkit reproduce",
        description="Reproduce and explain why accuracy equals F1, and when it does not: three\n"
        "scenarios, one classifier at many shares of positives, and classifiers trained\n"
        "at each. Half a minute on two CPU cores.",
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", default="runs/reproduce", help="Where everything is written (default: %(default)s).")
    parser.add_argument("--epochs", type=int, help="Epochs of each training (default: 20, or 5 with --quick).")
    parser.add_argument(
        "--seed", type=int, default=0, help="Of data and training; the same seed gives the same numbers."
    )
    parser.add_argument("--accelerator", default="auto", help="As in Lightning: auto, cpu, gpu, ... (default: auto).")
    parser.add_argument("--quick", action="store_true", help="Less data and fewer shares: a look in a few seconds.")
    return parser


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: batches are small, so more threads cost more than they gain, above all on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class Experiment:
    """Runs everything in order, and collects the measurements."""

    def __init__(self, chosen: Namespace, out: Path) -> None:
        self.epochs = chosen.epochs or (5 if chosen.quick else 20)
        self.shares = QUICK_SHARES if chosen.quick else SHARES
        self.out = out
        self.options = [
            f"--seed_everything={chosen.seed}",
            f"--data.seed={chosen.seed}",
            f"--trainer.accelerator={chosen.accelerator}",
            "--trainer.devices=1",
            *(QUICK if chosen.quick else ()),
        ]
        self.found = Reproduced()
        self.done = 0.0

    @property
    def total(self) -> float:
        """The number of trainings; tests alone are too short to count."""
        return len(SCENARIOS) + 1 + len(self.shares)

    def run(self, tell: Callable[[float, str], None]) -> None:
        """Run everything and report the progress."""
        self.tell = tell
        for folder in _made(self.out / "logs"):
            shutil.rmtree(folder)
        for name in SCENARIOS:
            row, ended = self._fit(name, name)
            self.found.scenarios.append(row)
            self.found.findings[name] = explain(row.counts)
        _, ended = self._fit("one classifier", "prevalence")
        checkpoint = ended.trainer.checkpoint_callback.best_model_path  # type: ignore[union-attr]
        for share in self.shares:
            self.found.shifted.append(self._test(share, checkpoint))
        for share in self.shares:
            row, ended = self._fit(f"trained at {share:g}", "imbalanced", f"--data.prevalence={share}")
            self.found.trained.append(row)
            self.found.made = ended.datamodule

    def _fit(self, title: str, configuration: str, *options: str) -> tuple[Row, EvalkitCLI]:
        from lightning_evalkit.cli.nested_runs import fitted

        first, self.done = self.done, self.done + 1
        self.tell(first, title)
        ended, measured = fitted(
            [*self._places(title, configuration), f"--trainer.max_epochs={self.epochs}", *options],
            lambda share: self.tell(first + share, title),
        )
        return measured_row(title, ended, measured), ended

    def _test(self, share: float, checkpoint: str) -> Row:
        from lightning_evalkit.cli.nested_runs import tested

        self.tell(self.done, f"one classifier at {share:g}")
        # A point in the curve over the share of positives, and no run of its own in TensorBoard.
        folder = self._folder("one classifier")
        without = [f"--trainer.default_root_dir={folder}", "--trainer.logger=false", "--trainer.callbacks=[]"]
        chosen = [f"--ckpt_path={checkpoint}", f"--data.test_prevalence={share}"]
        ended, measured = tested([f"--config={GROUP}/prevalence", *self.options, *without, *chosen])
        return measured_row(f"tested at {share:g}", ended, measured)

    def _folder(self, title: str) -> str:
        return str(self.out / "logs" / title.replace(" ", "_"))

    def _places(self, title: str, configuration: str) -> list[str]:
        """The options of a training that say where it writes, and what.

        TensorBoard deselects all runs of a folder that has more than forty. A report adds two runs with its lines, so
        only the scenarios have one.
        """
        folder = self._folder(title)
        # Each run is made once, so it needs no number: TensorBoard shows the folder's name.
        places = {"save_dir": folder, "name": "", "version": "", "default_hp_metric": False}
        logger = {"class_path": "TensorBoardLogger", "init_args": places}
        callbacks = [REPORT, CHECKPOINT] if title in SCENARIOS else [CHECKPOINT]
        return [
            f"--config={GROUP}/{configuration}",
            *self.options,
            f"--trainer.default_root_dir={folder}",
            f"--trainer.logger={json.dumps(logger)}",
            f"--trainer.callbacks={json.dumps(callbacks)}",
        ]


def _made(logs: Path) -> list[Path]:
    """The log folders of an earlier reproduction, which would appear in the same charts."""
    titles = [*SCENARIOS, SHARES_FOLDER, "one_classifier", "one_classifier_at_*", "trained_at_*"]
    return [folder for title in titles for folder in logs.glob(title)]
