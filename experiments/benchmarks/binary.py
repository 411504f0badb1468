"""What do six binary metrics cost here, and what do they cost elsewhere?

python experiments/benchmarks/binary.py [--quick] [--only PART] [--out FILE]

Accuracy, F1, precision, recall, specificity and Matthews correlation of logits, as a BinaryEvaluation, beside
torchmetrics (a MetricCollection whose compute groups have formed), torcheval (which has the first four of them) and
scikit-learn (one confusion matrix). One thread. Times are the best of several rounds in which all take turns.
"""

from __future__ import annotations

import argparse
import json
import logging
import platform
import subprocess
import sys
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
import torchmetrics.classification as peer
from timing import Effort, Row, best_of, evenly_timed, markdown, progress_bar
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torchmetrics import MetricCollection

from lightning_evalkit import BinaryEvaluation

if TYPE_CHECKING:
    from collections.abc import Callable

    from timing import Run
    from torch import Tensor

NAMES = {
    "accuracy": peer.BinaryAccuracy,
    "f1": peer.BinaryF1Score,
    "precision": peer.BinaryPrecision,
    "recall": peer.BinaryRecall,
    "specificity": peer.BinarySpecificity,
    "mcc": peer.BinaryMatthewsCorrCoef,
}
SMALL, LARGE = 256, 1_048_576
BATCHES = 1_000


def batch(size: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(size)
    return torch.randn(size, generator=generator), torch.randint(0, 2, (size,), generator=generator)


def ours() -> BinaryEvaluation:
    return BinaryEvaluation(inputs="logits", statistics=list(NAMES), prefix="val/")


def theirs() -> MetricCollection:
    collection = MetricCollection({name: metric() for name, metric in NAMES.items()}, prefix="val/")
    collection.update(*batch(SMALL))  # forms the groups that share a state
    collection.reset()
    return collection


# ---- the time of an update


def updates(effort: Effort) -> list[Row]:
    rows = []
    for size, aim in ((SMALL, "≤ 1/12"), (LARGE, "≤ 1/25")):
        work = f"update, batch of {size:,}"
        seconds = best_of(evenly_timed(updaters(*batch(size))), effort.rounds(work, 60))
        here = seconds.pop("ours")
        rows += [Row(work, name, time, here, aim * (name == "torchmetrics")) for name, time in seconds.items()]
    return rows


def updaters(logits: Tensor, target: Tensor) -> dict[str, Callable[[], object]]:
    from sklearn.metrics import confusion_matrix
    from torcheval.metrics import BinaryAccuracy, BinaryF1Score, BinaryPrecision, BinaryRecall

    evaluation, collection = ours(), theirs()
    four = [metric(threshold=0.0) for metric in (BinaryAccuracy, BinaryF1Score, BinaryPrecision, BinaryRecall)]
    scores, truth = logits.numpy(), target.numpy()
    agree(evaluation, collection, logits, target)
    return {
        "ours": lambda: evaluation.update(logits, target),
        "torchmetrics": lambda: collection.update(logits, target),
        "torcheval (four metrics)": lambda: [metric.update(logits, target) for metric in four],
        "scikit-learn (one confusion matrix)": lambda: confusion_matrix(truth, scores > 0),
    }


def agree(evaluation: BinaryEvaluation, collection: MetricCollection, logits: Tensor, target: Tensor) -> None:
    """Being faster at other numbers would mean nothing."""
    one, other = evaluation(logits, target), collection(logits, target)
    torch.testing.assert_close(one, {name: other[name] for name in one}, rtol=0, atol=1e-5)


# ---- operators and synchronisations of an update


# On an accelerator these wait for a value, or for a size that depends on values.
WAITING = {"_local_scalar_dense", "nonzero", "bincount", "_unique2", "unique_dim", "masked_select", "equal"}


class Operators(TorchDispatchMode):
    """Writes down what is dispatched."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if operator.namespace == "aten":  # tensors that claim a device ask for it through another namespace
            self.names.append(operator._schema.name.removeprefix("aten::"))
        return operator(*args, **(kwargs or {}))

    @property
    def waiting(self) -> int:
        return sum(name in WAITING for name in self.names)


def operators(effort: Effort) -> list[Row]:
    collection, given = theirs(), batch(SMALL)
    with Operators() as elsewhere:
        collection.update(*given)
    here = on_an_accelerator(ours())
    work = "operators of an update (ours on an accelerator, theirs on the CPU)"
    return [
        Row(work, "torchmetrics", len(elsewhere.names), len(here.names), "≤ 15", counted=True),
        Row("of them, waiting for the device", "torchmetrics", elsewhere.waiting, here.waiting, "0", counted=True),
    ]


def on_an_accelerator(evaluation: BinaryEvaluation) -> Operators:
    """What an update dispatches for tensors that claim to be on a GPU; reading a value of theirs would raise."""
    tally, device = evaluation.tally, torch.device("cuda:0")
    with FakeTensorMode():
        for name, state in tally._defaults.items():
            setattr(tally, name, torch.zeros(state.shape, dtype=state.dtype, device=device))
        tally._device = device
        logits = torch.zeros(SMALL, device=device)
        target = torch.zeros(SMALL, dtype=torch.int64, device=device)
        with Operators() as dispatched:
            evaluation.update(logits, target)
    return dispatched


# ---- collectives of a compute


COLLECTIVES = (
    *("all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all", "barrier", "broadcast"),
    *("broadcast_object_list", "gather", "reduce", "reduce_scatter", "scatter"),
)


def collectives(effort: Effort) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(count_collectives, (folder,), nprocs=2)
        counted = json.loads(Path(folder, "counted.json").read_text(encoding="utf-8"))
    work = "collectives of a compute on 2 processes"
    return [Row(work, "torchmetrics", counted["theirs"], counted["ours"], "1", counted=True)]


def count_collectives(rank: int, folder: str) -> None:
    """One process of two; the first writes down how many collectives each compute called."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    called: list[str] = []
    for name in COLLECTIVES:
        setattr(torch.distributed, name, noted(name, called))
    counted = {}
    for name, metrics in (("theirs", theirs()), ("ours", ours())):
        metrics.update(*batch(SMALL + rank))
        called.clear()
        metrics.compute()
        counted[name] = len(called)
    if rank == 0:
        Path(folder, "counted.json").write_text(json.dumps(counted), encoding="utf-8")
    torch.distributed.destroy_process_group()


def noted(name: str, called: list[str]) -> Callable[..., Any]:
    """The collective, with every call written down."""
    collective = getattr(torch.distributed, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        called.append(name)
        return collective(*args, **kwargs)

    return call


# ---- a validation epoch with Lightning


class BareRead:
    """Looks at every value of both tensors once, and does nothing else: no metric on the CPU can do less."""

    def update(self, logits: Tensor, target: Tensor) -> None:
        logits.numpy().max()
        target.numpy().max()

    def compute(self) -> dict[str, Tensor]:
        return {}

    def reset(self) -> None:
        pass


def epoch(effort: Effort) -> list[Row]:
    rows = []
    # Logging in every step takes seconds, so that fewer rounds show it.
    for when, each_batch, rounds, aim in (("epoch", False, 60, "≤ 1/8"), ("batch", True, 5, "")):
        work = f"validation epoch, {BATCHES:,} batches of {SMALL}, logged per {when}"
        runs = {
            "nothing": validation(None, each_batch),
            "theirs": validation(theirs(), each_batch),
            "ours": validation(ours(), each_batch),
        }
        if not each_batch:
            runs["floor"] = validation(BareRead(), each_batch)
        seconds = best_of(runs, effort.rounds(work, rounds))
        share = {name: time - seconds["nothing"] for name, time in seconds.items() if name != "nothing"}
        floor = share.pop("floor", None)
        percent = " and ".join(f"{share[name] / seconds[name]:.0%}" for name in share)
        rows.append(Row(f"{work}: the metrics' part ({percent} of the epoch)", "torchmetrics", **share, aim=aim))
        if floor is not None:
            rows.append(
                Row(
                    "the floor of that: one bare read of both tensors in its place",
                    "torchmetrics",
                    share["theirs"],
                    floor,
                )
            )
    return rows


def validation(metrics: MetricCollection | BareRead | None, each_batch: bool) -> Run:
    """A run of a validation epoch of a model that does nothing, on data that are there already."""
    from lightning.pytorch import LightningModule, Trainer
    from torch.utils.data import DataLoader

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Identity(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.metrics = metrics

        def on_validation_epoch_start(self) -> None:
            self.start = perf_counter()

        def validation_step(self, given: tuple[Tensor, Tensor], _: int) -> None:
            if metrics is not None:
                self.metrics.update(*given)
                if each_batch:
                    self.log_dict(self.metrics)

        def on_validation_epoch_end(self) -> None:
            if metrics is not None and not each_batch:
                self.log_dict(self.metrics.compute())
                self.metrics.reset()

        def on_validation_end(self) -> None:
            self.seconds = perf_counter() - self.start

    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = Trainer(accelerator="cpu", devices=1, enable_checkpointing=False, **quiet)
    module, loader = Identity(), DataLoader([batch(SMALL)] * BATCHES, batch_size=None)

    def run() -> float:
        trainer.validate(module, loader, verbose=False)
        return module.seconds

    return run


# ---- importing


IMPORTING = """
from time import perf_counter
start = perf_counter()
import torchmetrics
between = perf_counter()
from lightning_evalkit import BinaryEvaluation
print(between - start, perf_counter() - between)
"""


def imports(effort: Effort) -> list[Row]:
    pairs = []
    for _ in effort.rounds("import", 10):
        command = [sys.executable, "-c", IMPORTING]
        printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
        pairs.append([float(number) for number in printed.split()])
    before, beyond = map(min, zip(*pairs, strict=True))
    return [Row("import, beyond importing torchmetrics", "torchmetrics", before, beyond, "≤ 1/10")]


# ---- all of it


PARTS = {part.__name__: part for part in (updates, operators, collectives, epoch, imports)}


def surroundings() -> str:
    packages = ("torch", "torchmetrics", "torcheval", "scikit-learn", "lightning")
    return (
        f"Python {platform.python_version()}, {', '.join(f'{name} {version(name)}' for name in packages)}; one thread."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rounds")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part alone; may be repeated")
    parser.add_argument("--out", type=Path, help="a file for the table, as Markdown")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    with progress_bar() as progress:
        effort = Effort(progress, chosen.quick)
        rows = [row for name in chosen.only or PARTS for row in PARTS[name](effort)]
    table = f"{markdown(rows)}\n\n{surroundings()}"
    print(table)
    if chosen.out:
        chosen.out.write_text(table + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
