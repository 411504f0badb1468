"""``evalkit fit | validate | test | predict``: the Lightning CLI with this package's classes and defaults."""

from __future__ import annotations

import inspect
import signal
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jsonargparse import ArgumentError
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, LightningDataModule, LightningModule
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI

from lightning_evalkit import callbacks, data, modules
from lightning_evalkit.cli.configurations import BASE, with_located
from lightning_evalkit.cli.readable import UNION, WrongError, in_one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LINKED = ("num_features", "num_classes", "class_names", "num_labels", "label_names")
"""What a data module knows and a model asks for."""


class EvalkitCLI(LightningCLI):
    """Short class names, and a model built for the data it is given."""

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Tell the model what the data module knows."""
        for name in LINKED:
            parser.link_arguments(f"data.{name}", f"model.init_args.{name}", apply_on="instantiate")

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """As given, whatever else is on the command line: a sweep runs many."""
        self.config = parser.parse_args(args)

    def predict(self, **kwargs: Any) -> None:
        """Predict, and keep what was predicted: one file per rank."""
        predicted = self.trainer.predict(**kwargs)
        folder = Path(self.trainer.log_dir or self.trainer.default_root_dir)
        path = folder / f"predictions_{self.trainer.global_rank}.pt"
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(predicted, path)
        print(f"Predictions: {path}")


def run(arguments: Sequence[str]) -> int:
    """Run a command of the Lightning CLI; after training, say where to look."""
    ended = launched(arguments)
    if arguments[0] == "fit" and ended.trainer.is_global_zero and ended.trainer.loggers:
        print(f"Curves: tensorboard --logdir {ended.trainer.default_root_dir}")
    return 0


def launched(arguments: Sequence[str], extra: Sequence[Callback] = ()) -> EvalkitCLI:
    """Run a command of the Lightning CLI with callbacks beyond the configured ones; gives trainer, model and data."""
    words = with_located(list(arguments))
    with _readable(), _interruptible(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*LeafSpec.*")  # Lightning's own use of torch
        warnings.filterwarnings("ignore", message=".*configure_optimizers` will be overridden.*")  # as was asked for
        return _only(words[0])(
            LightningModule,
            LightningDataModule,
            subclass_mode_model=True,
            subclass_mode_data=True,
            save_config_kwargs={"overwrite": True},
            trainer_defaults={"callbacks": list(extra)},
            parser_kwargs={
                "prog": "evalkit",
                "exit_on_error": False,
                words[0]: {"default_config_files": [str(BASE)], "exit_on_error": False},
            },
            args=words,
        )


def _only(command: str) -> type[EvalkitCLI]:
    """Without the parsers of the other commands, which take longer to build than a short training."""

    class OneCommand(EvalkitCLI):
        @staticmethod
        def subcommands() -> dict[str, set[str]]:
            return {command: LightningCLI.subcommands()[command]}

    return OneCommand


@contextmanager
def _readable() -> Iterator[None]:
    """Faults of the configuration in one line."""
    try:
        yield
    except (ArgumentError, MisconfigurationException) as wrong:
        raise WrongError(in_one_line(wrong, _known())) from wrong
    except ValueError as wrong:
        if UNION not in str(wrong):
            raise
        raise WrongError(in_one_line(wrong, _known())) from wrong


def _known() -> dict[str, list[str]]:
    """The classes that can be named, and the options of each."""
    classes = [getattr(part, name) for part in (callbacks, data, modules) for name in part.__all__]
    return {"classes": [each.__name__ for each in classes], **{each.__name__: _options(each) for each in classes}}


def _options(owner: type) -> list[str]:
    """The parameters of a class and of those it passes the rest on to."""
    initialisers = [vars(each)["__init__"] for each in owner.__mro__[:-1] if "__init__" in vars(each)]
    return sorted({name for each in initialisers for name in inspect.signature(each).parameters} - {"self", "options"})


@contextmanager
def _interruptible() -> Iterator[None]:
    """Lightning makes ``sys.exit(1)`` of Ctrl-C and ignores further ones: here it is what it was."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit as stopped:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and before is not signal.SIG_IGN:
            raise KeyboardInterrupt from stopped
        raise
    finally:
        if signal.getsignal(signal.SIGINT) is not before:
            signal.signal(signal.SIGINT, before)
