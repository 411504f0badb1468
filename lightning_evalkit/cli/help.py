"""``evalkit fit --help``: examples first, then the options, the most used ones first."""

from __future__ import annotations

from argparse import SUPPRESS, Action, RawDescriptionHelpFormatter
from typing import TYPE_CHECKING, Any

from jsonargparse import DefaultHelpFormatter

from lightning_evalkit.cli.commands import COMMANDS, EXAMPLES
from lightning_evalkit.cli.configurations import BASE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jsonargparse import ArgumentParser

GROUPS: dict[str, tuple[str, ...]] = {
    "What to run": ("config", "run", "model", "data", "ckpt_path", "untrained", "seed_everything"),
    "How long to train, and on how much": (
        "trainer.max_epochs",
        "trainer.min_epochs",
        "trainer.max_steps",
        "trainer.min_steps",
        "trainer.max_time",
        "trainer.overfit_batches",
        "trainer.fast_dev_run",
        "trainer.limit_train_batches",
        "trainer.limit_val_batches",
        "trainer.limit_test_batches",
        "trainer.limit_predict_batches",
    ),
    "How to optimize": (
        "optimizer",
        "lr_scheduler",
        "trainer.accumulate_grad_batches",
        "trainer.gradient_clip_val",
        "trainer.gradient_clip_algorithm",
    ),
    "Devices and processes": (
        "trainer.accelerator",
        "trainer.devices",
        "trainer.num_nodes",
        "trainer.strategy",
        "trainer.precision",
        "trainer.sync_batchnorm",
        "trainer.use_distributed_sampler",
    ),
    "What is written and shown": (
        "output",
        "trainer.default_root_dir",
        "trainer.logger",
        "trainer.callbacks",
        "trainer.log_every_n_steps",
        "trainer.enable_checkpointing",
        "trainer.enable_progress_bar",
        "trainer.enable_model_summary",
        "verbose",
        "print_config",
        "help",
    ),
}
"""Options by subject; all others form the last group."""
OTHERS = "Everything else"
OWN = {
    "run": ("FOLDER", "Take configuration and best checkpoint from the folder of a run; options given here beat them."),
    "untrained": (None, "Go on without a checkpoint, with a model as it was made."),
    "output": ("FILE", "Where predictions are written, .parquet or .csv (default: a CSV file beside its logs)."),
}
"""Options that are removed before Lightning's parser reads the rest; the last is for ``predict`` alone."""


class Lines(RawDescriptionHelpFormatter, DefaultHelpFormatter):
    """Shows examples as they are written."""


def arrange(parser: ArgumentParser, command: str) -> None:
    """Sort the options of a command's help into groups, under a usage of one line."""
    parser.usage = f"evalkit {command} [options]"
    lines = "\n".join(f"  {line}" for line in EXAMPLES[command])
    parser.description = (
        f"{COMMANDS[command]}\nDefaults are Lightning's, but for what {BASE} says.\n\nExamples:\n{lines}"
    )
    order = {name: (title, place) for title, names in GROUPS.items() for place, name in enumerate(names)}
    sorted_into: dict[str, list[tuple[int, Action]]] = {title: [] for title in (*GROUPS, OTHERS)}
    for place, action in enumerate([*_shown(parser), *_own(command)]):
        title, wanted = order.get(action.dest.removesuffix(".help"), (OTHERS, place))
        sorted_into[title].append((wanted, action))
    parser._action_groups = []
    for title, found in sorted_into.items():
        if found:
            group = parser.add_argument_group(title)
            group._group_actions = [action for _, action in sorted(found, key=lambda each: each[0])]


def _shown(parser: Any) -> list[Action]:
    return [action for action in parser._actions if action.help is not SUPPRESS]


def _own(command: str) -> Iterator[Action]:
    for name, (value, about) in OWN.items():
        if command != "fit" and (name != "output" or command == "predict"):
            yield Action([f"--{name}"], name, nargs=None if value else 0, default=SUPPRESS, metavar=value, help=about)
