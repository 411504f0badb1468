"""``evalkit fit | validate | test | predict``: the Lightning CLI with this package's classes and defaults."""

from __future__ import annotations

import signal
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jsonargparse import ArgumentError
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI
from lightning.pytorch.utilities.exceptions import SIGTERMException

from lightning_evalkit import __version__, callbacks, data, modules  # noqa: F401  (to be named by their short names)
from lightning_evalkit.callbacks.exact_resume import ExactResume
from lightning_evalkit.cli import checkpoints
from lightning_evalkit.cli.configurations import BASE, HEADER, of_another_version, with_located
from lightning_evalkit.cli.help import Lines, arrange, example
from lightning_evalkit.cli.messages import WrongError, in_one_line
from lightning_evalkit.cli.signals import ended_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LINKED = ("num_features", "num_classes", "class_names", "num_labels", "label_names", "vocab_size")
"""What a data module knows and a model asks for."""


class EvalkitCLI(LightningCLI):
    """Short class names, and a model built for the data it is given."""

    def init_parser(self, **kwargs: Any) -> LightningArgumentParser:
        """Have a run write which version its configuration is of."""
        parser = super().init_parser(**kwargs)
        parser.dump_header = [*(parser.dump_header or ()), f"{HEADER}=={__version__}"]
        return parser

    def _prepare_subcommand_parser(self, klass: type, subcommand: str, **kwargs: Any) -> LightningArgumentParser:
        parser = super()._prepare_subcommand_parser(klass, subcommand, **kwargs)
        arrange(parser, subcommand)
        return parser

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Tell the model what the data module knows."""
        for name in LINKED:
            parser.link_arguments(f"data.{name}", f"model.init_args.{name}", apply_on="instantiate")

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """As given, whatever else is on the command line: a sweep runs many."""
        try:
            with _readable(ValueError):
                self.config = parser.parse_args(args)
        except WrongError as wrong:
            raise WrongError(f"{wrong}{of_another_version(args)}") from wrong
        self.asked = args
        trainer = self.config[self.config.subcommand].trainer
        if not hasattr(trainer, "max_epochs"):
            raise WrongError(f"trainer: expected options of the trainer, got {trainer!r}.")
        self._take_hyperparameters()

    def _parse_ckpt_path(self) -> None:
        """Nothing: Lightning reads a checkpoint here from 2.5.5 on, and lets it win over what was asked for."""

    def _take_hyperparameters(self) -> None:
        """What the checkpoint says about its model, except where something else was asked for."""
        command = self.config.subcommand
        path = self.config[command].ckpt_path
        if not path or not Path(path).is_file():
            return
        asked = self.parser.parse_args(self.asked, defaults=False)[command].model
        with checkpoints.read(path):
            saved = checkpoints.model_of(path)
            self.config = self.parser.parse_object({command: {"model": saved}}, self.config) if saved else self.config
        if asked.class_path != self.config[command].model.class_path:
            of = self.config[command].model.class_path
            raise WrongError(f"{path} is a checkpoint of {of}, asked for is {asked.class_path}.")
        self.config = self.parser.parse_object({command: {"model": asked}}, self.config)

    def _set_seed(self) -> None:
        with _readable(ValueError):
            super()._set_seed()

    def instantiate_classes(self) -> None:
        """Constructors refuse values."""
        with _readable(ValueError):
            super().instantiate_classes()

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Without the checkpoints of a configuration, the base's too, where ``enable_checkpointing`` is false."""
        trainer = self.config_init[self.config.subcommand].trainer
        if trainer.enable_checkpointing is False:
            given = trainer.callbacks if isinstance(trainer.callbacks, list) else [trainer.callbacks]
            kwargs["callbacks"] = [each for each in given if each and not isinstance(each, Checkpoint)]
        return super().instantiate_trainer(**kwargs)

    def _run_subcommand(self, subcommand: str) -> None:
        with checkpoints.kept(self.trainer):
            super()._run_subcommand(subcommand)
        end_if_asked(self.trainer)

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
    if len(arguments) == 1:
        print(example(arguments[0]), file=sys.stderr)
        return 2
    ended = launched(arguments)
    if arguments[0] == "fit" and ended.trainer.is_global_zero and ended.trainer.loggers:
        print(f"Curves: tensorboard --logdir {ended.trainer.default_root_dir}")
    return 0


def launched(arguments: Sequence[str], extra: Sequence[Callback] = ()) -> EvalkitCLI:
    """Run a command of the Lightning CLI with callbacks beyond the configured ones; gives trainer, model and data."""
    words = with_located(list(arguments))
    with _readable(), interruptible(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*LeafSpec.*")  # Lightning's own use of torch
        warnings.filterwarnings("ignore", message=".*configure_optimizers` will be overridden.*")  # as was asked for
        return _only(words[0])(
            LightningModule,
            LightningDataModule,
            subclass_mode_model=True,
            subclass_mode_data=True,
            save_config_kwargs={"overwrite": True},
            trainer_defaults={"callbacks": [ExactResume(), EndingPrediction(), *extra]},
            parser_kwargs={
                "prog": "evalkit",
                "exit_on_error": False,
                "formatter_class": Lines,
                words[0]: {"default_config_files": [str(BASE)], "exit_on_error": False},
            },
            args=words,
        )


class EndingPrediction(Callback):
    """Ends a prediction after the batch in which SIGTERM came, as Lightning does in all other stages."""

    def on_predict_batch_end(self, trainer: Trainer, *_: Any) -> None:
        """Look whether it came."""
        end_if_asked(trainer)


def end_if_asked(trainer: Trainer) -> None:
    """Lightning does not look for a SIGTERM that came in the last batch of a stage."""
    if trainer.received_sigterm:
        raise SIGTERMException


def _only(command: str) -> type[EvalkitCLI]:
    """Without the parsers of the other commands, which take longer to build than a short training."""

    class OneCommand(EvalkitCLI):
        @staticmethod
        def subcommands() -> dict[str, set[str]]:
            return {command: LightningCLI.subcommands()[command]}

    return OneCommand


@contextmanager
def _readable(*also: type[Exception]) -> Iterator[None]:
    """Faults of the configuration in one line."""
    try:
        yield
    except (ArgumentError, MisconfigurationException) + also as wrong:  # noqa: RUF005
        raise WrongError(in_one_line(wrong)) from wrong


@contextmanager
def interruptible() -> Iterator[None]:
    """Lightning makes ``sys.exit(1)`` of Ctrl-C, and may ignore further ones, and code 0 of SIGTERM: not so here."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SIGTERMException as stopped:
        raise ended_by(signal.SIGTERM) from stopped
    except SystemExit as stopped:
        if isinstance(stopped.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from stopped
        raise
    finally:
        if signal.getsignal(signal.SIGINT) is not before:
            signal.signal(signal.SIGINT, before)
