"""``evalkit fit | validate | test | predict``: the Lightning CLI with this package's classes and defaults."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jsonargparse import ArgumentError
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI, SaveConfigCallback
from lightning.pytorch.utilities.model_helpers import is_overridden

from lightning_evalkit import __version__, callbacks, data, modules  # noqa: F401  (to be named by their short names)
from lightning_evalkit.callbacks.exact_resume import ExactResume
from lightning_evalkit.callbacks.keep_counts import KeepCounts
from lightning_evalkit.cli import checkpoints, run_folders, summary
from lightning_evalkit.cli.configurations import BASE, HEADER, of_another_version, with_located
from lightning_evalkit.cli.heads import head_among
from lightning_evalkit.cli.help import Lines, arrange
from lightning_evalkit.cli.known_warnings import without_known_warnings
from lightning_evalkit.cli.messages import WrongError, in_one_line
from lightning_evalkit.cli.own_options import OwnOptions, split_own
from lightning_evalkit.cli.predictions import Predictions, check_output
from lightning_evalkit.cli.progress_bar import progress_bars
from lightning_evalkit.cli.run_folders import configuration_of, removed_after_failure, with_short_run_names
from lightning_evalkit.cli.stopping import EndInTime, end_if_asked, interruptible
from lightning_evalkit.data.options import on_command_line
from lightning_evalkit.modules import BinaryClassifier

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lightning_evalkit.cli.heads import Head
    from lightning_evalkit.cli.run_folders import Run

LINKED = ("num_features", "num_classes", "class_names", "num_labels", "label_names", "vocab_size")
"""Attributes of a data module that are linked to arguments of a model."""


class EvalkitParser(LightningArgumentParser):
    """Calls the program ``evalkit`` however it was started; ``--data.help`` makes another parser of this type."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"prog": "evalkit"} | kwargs)


class EvalkitCLI(LightningCLI):
    """Short class names, and a model built for the data it is given."""

    own = OwnOptions()
    head: Head | None = None
    run: Run | None = None
    was_tested = False

    def init_parser(self, **kwargs: Any) -> LightningArgumentParser:
        """Have runs write the version and the experiment's head at the top of their configuration."""
        parser = super().init_parser(**kwargs)
        parser.__class__ = EvalkitParser
        about = self.head.lines() if self.head else ()
        parser.dump_header = [*(parser.dump_header or ()), f"{HEADER}=={__version__}", *about]
        return parser

    def _prepare_subcommand_parser(self, klass: type, subcommand: str, **kwargs: Any) -> LightningArgumentParser:
        parser = super()._prepare_subcommand_parser(klass, subcommand, **kwargs)
        if subcommand in ("validate", "test"):
            parser.set_defaults(verbose=False)  # the summary has the numbers
        arrange(parser, subcommand)
        return parser

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Tell the model what the data module knows."""
        for name in LINKED:
            parser.link_arguments(f"data.{name}", f"model.init_args.{name}", apply_on="instantiate")

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Parse the given arguments only, not those of the process: a sweep runs many."""
        try:
            with _readable(ValueError):
                self.config = parser.parse_args(args)
        except WrongError as wrong:
            raise WrongError(f"{wrong}{of_another_version(args)}") from wrong
        self.asked = args
        trainer = self.config[self.config.subcommand].trainer
        if not hasattr(trainer, "max_epochs"):
            raise WrongError(f"trainer: expected options of the trainer, got {trainer!r}.")
        self._check_checkpoint(self.config.subcommand)
        self._take_hyperparameters()

    def _check_checkpoint(self, command: str) -> None:
        """Refuse to evaluate an untrained model, unless ``--untrained`` says so."""
        path = self.config[command].ckpt_path
        if path == "best":
            raise WrongError(
                "--ckpt_path best: only the process that trained knows which was best: name the file, or, to validate, "
                "test or predict, the run: --run FOLDER."
            )
        if command != "fit" and not path and not self.own.untrained:
            raise WrongError(
                "expected a trained model: --run FOLDER takes configuration and checkpoint of a run, --ckpt_path FILE "
                "a checkpoint; --untrained continues without one."
            )

    def _parse_ckpt_path(self) -> None:
        """Do nothing: from 2.5.5 on Lightning reads a checkpoint here, which would override the given options."""

    def _take_hyperparameters(self) -> None:
        """Take the model's hyperparameters from the checkpoint, except those given as options."""
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
        """Turn a constructor's refusal into one line."""
        with _readable(ValueError):
            super().instantiate_classes()
        self._refuse_other_targets()

    def _refuse_other_targets(self) -> None:
        """Refuse our binary model for data that declare several classes or labels, before the first batch."""
        for number, most, right in (
            ("num_classes", 2, "MulticlassClassifier"),
            ("num_labels", 1, "MultilabelClassifier"),
        ):
            declared = getattr(self.datamodule, number, None)
            if type(self.model) is BinaryClassifier and isinstance(declared, int) and declared > most:
                raise WrongError(
                    f"BinaryClassifier takes one target of 0 or 1 per sample, but {type(self.datamodule).__name__} has "
                    f"{number}={declared}: --model {right}."
                )

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Drop all configured checkpoint callbacks if ``enable_checkpointing`` is false."""
        trainer = self.config_init[self.config.subcommand].trainer
        if trainer.enable_checkpointing is False:
            given = trainer.callbacks if isinstance(trainer.callbacks, list) else [trainer.callbacks]
            kwargs["callbacks"] = [each for each in given if each and not isinstance(each, Checkpoint)]
        return super().instantiate_trainer(**kwargs)

    def _instantiate_trainer(self, config: dict[str, Any], callbacks: list[Callback]) -> Trainer:  # noqa: F811
        if self.run is not None and self.config.subcommand == "predict":
            config = config | {"logger": False, "default_root_dir": str(self.run.folder)}  # nothing is logged
        return super()._instantiate_trainer(with_short_run_names(config), [*callbacks, *progress_bars(config)])

    def _run_subcommand(self, subcommand: str) -> None:
        if subcommand in ("validate", "test") or (subcommand == "predict" and not is_overridden("forward", self.model)):
            self._refuse_without_step(subcommand)
        if subcommand in ("validate", "test"):
            checkpoints.continue_from(self.trainer, self.config[subcommand].ckpt_path)
        with removed_after_failure(self.trainer), checkpoints.rescuing(self.trainer):
            super()._run_subcommand(subcommand)
        end_if_asked(self.trainer)

    def _refuse_without_step(self, command: str) -> None:
        """Name what is missing, and the command that works instead."""
        if self.can(command):
            return
        step, other = ("validation", "test") if command == "validate" else (command, "validate")
        following = f": evalkit {other} works here" if self.can(other) else ""
        if not is_overridden(f"{step}_step", self.model):
            raise WrongError(f"{type(self.model).__name__} has no {step}_step{following}.")
        raise WrongError(f"{type(self.datamodule).__name__} has no data for evalkit {command}{following}.")

    def can(self, command: str) -> bool:
        """Whether the module and its data have what ``validate``, ``test`` or ``predict`` needs."""
        step, loader = ("validation", "val") if command == "validate" else (command, command)
        hooks = ((f"{step}_step", (self.model,)), (f"{loader}_dataloader", (self.datamodule, self.model)))
        return all(any(is_overridden(name, each) for each in parts) for name, parts in hooks)

    def test_too(self) -> dict[str, float]:
        """Test the trained model, with the best checkpoint if there is one; skip it if there is no test."""
        if not self.can("test"):
            return {}
        best = getattr(self.trainer.checkpoint_callback, "best_model_path", "")
        with interruptible(), without_known_warnings():
            self.trainer.test(self.model, datamodule=self.datamodule, ckpt_path=best or None, verbose=False)
            end_if_asked(self.trainer)
        self.was_tested = True
        return measured_by(self.trainer)

    def predict(self, **kwargs: Any) -> None:
        """Predict, and write the predictions: one file per rank."""
        predictions, trainer = Predictions(), self.trainer
        cast("list[Callback]", trainer.callbacks).append(predictions)  # type: ignore[attr-defined]
        trainer.predict(**kwargs | {"return_predictions": False})
        folder = Path(trainer.log_dir or trainer.default_root_dir)
        path = predictions.write(self.own.output, folder, trainer.global_rank, trainer.world_size)
        print(f"Predictions: {path}")


def run(arguments: Sequence[str]) -> int:
    """Run a command of the Lightning CLI and print its summary; an experiment ends with its test."""
    ended = launched(arguments)
    command, measured = arguments[0], measured_by(ended.trainer)
    if command == "fit" and ended.head is not None:
        measured |= ended.test_too()
    if command != "predict":
        summary.show(ended, command, measured)
    return 0


def measured_by(trainer: Trainer) -> dict[str, float]:
    """The last logged value of every number."""
    return {name: float(value) for name, value in trainer.callback_metrics.items()}


def launched(arguments: Sequence[str], extra: Sequence[Callback] = ()) -> EvalkitCLI:
    """Run a command of the Lightning CLI with more callbacks; return its trainer, model and data."""
    own, words = split_own(arguments)
    check_output(own.output)
    run = None if own.run is None else run_folders.found(own.run)
    words[1:1] = run.arguments() if run else []
    words = with_located(words)
    with _readable(), interruptible(), without_known_warnings(), on_command_line():
        return _only(words[0], own, head_among(words), run)(
            LightningModule,
            LightningDataModule,
            subclass_mode_model=True,
            subclass_mode_data=True,
            save_config_callback=None if run and words[0] == "predict" else SaveConfigCallback,
            save_config_kwargs={"overwrite": True, "config_filename": configuration_of(words[0])},
            trainer_defaults={"callbacks": [ExactResume(), EndInTime(), KeepCounts(), *extra]},
            parser_kwargs={
                "prog": "evalkit",
                "exit_on_error": False,
                "formatter_class": Lines,
                words[0]: {"default_config_files": [str(BASE)], "exit_on_error": False},
            },
            args=words,
        )


def _only(command: str, options: OwnOptions, about: Head | None, used: Run | None) -> type[EvalkitCLI]:
    """Build the parser of one command only: the others take longer to build than a short training."""

    class OneCommand(EvalkitCLI):
        own, head, run = options, about, used

        @staticmethod
        def subcommands() -> dict[str, set[str]]:
            return {command: LightningCLI.subcommands()[command]}

    return OneCommand


@contextmanager
def _readable(*also: type[Exception]) -> Iterator[None]:
    """Report errors of the configuration in one line."""
    try:
        yield
    except (ArgumentError, MisconfigurationException) + also as wrong:  # noqa: RUF005
        raise WrongError(in_one_line(wrong)) from wrong
