"""``evalkit reproduce``: "why does accuracy equal F1?" from data to figure, through the same code as ``evalkit fit``.

Three scenarios show when the two are equal and when not. One classifier, tested where positives are rare and where they
are frequent, shows that they cross at one share of positives, and where. Classifiers trained anew at each share show
what people meet in practice: accuracy climbs as positives get rare, and F1 falls.
"""

from __future__ import annotations

import shutil
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.cli.messages import WrongError
from lightning_evalkit.cli.results import Row, measured_row, table_of
from lightning_evalkit.cli.signals import Ended
from lightning_evalkit.counts import Counts
from lightning_evalkit.diagnosis import Finding, explain
from lightning_evalkit.intervals import at_prevalence, crossing_prevalence
from lightning_evalkit.sinks.files import write_json, write_text
from lightning_evalkit.sinks.terminal import progress, show_table
from lightning_evalkit.statistics import find

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator, Sequence

    from lightning_evalkit.cli.training import EvalkitCLI

GROUP = "accuracy_equals_f1"
SCENARIOS = ("balanced", "imbalanced", "poor")
SHARES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9)
CURVE = [place / 200 for place in range(1, 200)]
QUICK_SHARES = (0.1, 0.5, 0.9)
QUICK = ("--data.train_size=2000", "--data.val_size=500", "--data.test_size=2000", "--data.batch_size=50")
REPORTS = (
    '[{"class_path": "TensorBoardReport", "init_args": {"every_n_epochs": 1000}}, {"class_path": "ModelCheckpoint"}]'
)
"""Figures and texts of the last epoch are enough."""


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
        if experiment.rows:
            write_json(out / "results.json", _plain(experiment, None))
            show_table(table_of(experiment.rows))
        raise
    _write(experiment, out)
    _show(experiment, out)
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="evalkit reproduce",
        description="Reproduce and explain why accuracy equals F1, and when it does not: three scenarios, one\n"
        "classifier at many shares of positives, and classifiers trained at each.\nAbout a minute on two CPU cores.",
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
    """Batches are small: more threads would cost more than they give, and very much more on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class Experiment:
    """The runs, one after the other, and what they measured."""

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
        self.scenarios: list[Row] = []
        self.findings: dict[str, Finding] = {}
        self.shifted: list[Row] = []
        self.done = 0.0
        self.trained: list[Row] = []
        self.made: Any = None  # the data of these

    @property
    def total(self) -> float:
        """The number of trainings; tests alone are too short to count."""
        return len(SCENARIOS) + 1 + len(self.shares)

    @property
    def rows(self) -> list[Row]:
        """All that was measured so far."""
        return [*self.scenarios, *self.shifted, *self.trained]

    def run(self, tell: Callable[[float, str], None]) -> None:
        """All runs, telling how far they are."""
        self.tell = tell
        for folder in _made(self.out / "logs"):
            shutil.rmtree(folder)
        for name in SCENARIOS:
            row, ended = self._fit(name, name)
            self.scenarios.append(row)
            self.findings[name] = explain(row.counts)
        _, ended = self._fit("one classifier", "prevalence")
        checkpoint = ended.trainer.checkpoint_callback.best_model_path  # type: ignore[union-attr]
        for share in self.shares:
            self.shifted.append(self._test(share, checkpoint))
        for share in self.shares:
            row, ended = self._fit(f"trained at {share:g}", "imbalanced", f"--data.prevalence={share}")
            self.trained.append(row)
            self.made = ended.datamodule

    def _fit(self, title: str, configuration: str, *options: str) -> tuple[Row, EvalkitCLI]:
        from lightning_evalkit.cli.nested_runs import fitted

        first, self.done = self.done, self.done + 1
        self.tell(first, title)
        ended, measured = fitted(
            [*self._arguments(title, configuration), f"--trainer.max_epochs={self.epochs}", *options],
            lambda share: self.tell(first + share, title),
        )
        return measured_row(title, ended, measured), ended

    def _test(self, share: float, checkpoint: str) -> Row:
        from lightning_evalkit.cli.nested_runs import tested

        self.tell(self.done, f"one classifier at {share:g}")
        arguments = [*self._arguments(f"one classifier at {share:g}", "prevalence"), f"--ckpt_path={checkpoint}"]
        ended, measured = tested([*arguments, f"--data.test_prevalence={share}"])
        return measured_row("one classifier", ended, measured)

    def _arguments(self, title: str, configuration: str) -> list[str]:
        folder = self.out / "logs" / title.replace(" ", "_")
        place = f"--trainer.default_root_dir={folder}"
        return [f"--config={GROUP}/{configuration}", *self.options, place, f"--trainer.callbacks={REPORTS}"]


def _made(logs: Path) -> list[Path]:
    """Logs of an earlier reproduction, with other shares perhaps: they would be drawn into the same charts."""
    titles = [*SCENARIOS, "one_classifier", "one_classifier_at_*", "trained_at_*"]
    return [folder for title in titles for folder in logs.glob(title)]


def _best(made: Any, share: float) -> dict[str, float]:
    """Accuracy and F1 of the best possible classifier of such data, by what it does to each class."""
    from lightning_evalkit.data.gaussian import best_rates

    recall, specificity = best_rates(share, made.separability, made.label_noise)
    parts = Counts(share * recall, (1 - share) * (1 - specificity), share * (1 - recall), (1 - share) * specificity)
    return {name: float(find(name)(parts.real()).value(0.0)) for name in ("accuracy", "f1")}


def _pooled(rows: list[Row]) -> Counts:
    """All tests of one classifier together: what it does to each class does not depend on the mixture."""
    return sum((row.counts for row in rows), Counts.empty())


# ---- showing


def _write(experiment: Experiment, out: Path) -> None:
    from lightning_evalkit.sinks import figures

    pooled = _pooled(experiment.shifted)
    crossing = crossing_prevalence(pooled)
    kept = [at_prevalence(pooled, share) for share in CURVE]
    best = [_best(experiment.made, share) for share in CURVE]
    figure = figures.accuracy_and_f1(
        shares=CURVE,
        kept={name: [float(find(name)(counts).value()) for counts in kept] for name in ("accuracy", "f1")},
        measured=_points(experiment.shifted),
        crossing=None if crossing is None else float(crossing),
        best={name: [values[name] for values in best] for name in ("accuracy", "f1")},
        trained=_points(experiment.trained),
    )
    figures.save(figure, out / "accuracy_equals_f1.png")
    write_json(out / "results.json", _plain(experiment, crossing))
    write_text(out / "report.md", _markdown(experiment, crossing))


def _points(rows: list[Row]) -> dict[str, list[float]]:
    return {name: [getattr(row, name) for row in rows] for name in ("prevalence", "accuracy", "f1")}


def _plain(experiment: Experiment, crossing: Any) -> dict[str, Any]:
    return {
        "scenarios": [asdict(row) for row in experiment.scenarios],
        "one_classifier": [asdict(row) for row in experiment.shifted],
        "crossing_prevalence": None if crossing is None else float(crossing),
        "trained_at_each_prevalence": [
            asdict(row) | {f"best_{name}": value for name, value in _best(experiment.made, row.prevalence).items()}
            for row in experiment.trained
        ],
        "findings": {name: finding.to_dict() for name, finding in experiment.findings.items()},
    }


def _markdown(experiment: Experiment, crossing: Any) -> str:
    parts = [
        "# Why does accuracy equal F1?",
        "",
        "![Accuracy and F1 over the share of positives](accuracy_equals_f1.png)",
    ]
    parts += ["", table_of(experiment.rows).markdown(), "", _sentence(crossing)]
    for name, finding in experiment.findings.items():
        parts += ["", f"## {name}", "", finding.markdown()]
    return "\n".join(parts) + "\n"


def _sentence(crossing: Any) -> str:
    if crossing is None:
        return "One classifier: accuracy and F1 do not cross."
    return f"One classifier: accuracy and F1 cross where s/(r + s) = {float(crossing):.4f} of the samples are positive."


def _show(experiment: Experiment, out: Path) -> None:
    show_table(table_of(experiment.rows))
    for name, finding in experiment.findings.items():
        print(f"{name}: {finding.headline} {finding.reasons[0] if finding.reasons else ''}")
    print(_sentence(crossing_prevalence(_pooled(experiment.shifted))))
    print(f"\nFigure:  {out / 'accuracy_equals_f1.png'}\nReport:  {out / 'report.md'}\nNumbers: {out / 'results.json'}")
    print(f"Curves:  tensorboard --logdir {out / 'logs'}")
    sys.stdout.flush()
