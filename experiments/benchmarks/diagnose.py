"""What Diagnose costs: a validation epoch of 1,000 batches with 20 stock metrics, with the callback and without.

Run: python experiments/benchmarks/diagnose.py
"""

import time

import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MetricCollection
from torchmetrics.classification import BinaryF1Score, BinaryFBetaScore, BinaryPrecision, BinaryRecall

from lightning_evalkit.callbacks import Diagnose

BATCHES, BATCH, METRICS, REPEATS = 1_000, 64, 20, 3


class Module(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = torch.nn.Linear(16, 1)
        kinds = [BinaryF1Score, BinaryPrecision, BinaryRecall, lambda **options: BinaryFBetaScore(2.0, **options)]
        made = {f"m{k}": kinds[k % 4](threshold=0.3 + 0.02 * (k // 4)) for k in range(METRICS)}
        self.metrics = MetricCollection(made, compute_groups=False)

    def validation_step(self, batch, number):
        self.metrics.update(self.network(batch[0]).squeeze(-1).sigmoid(), batch[1])

    def on_validation_epoch_end(self):
        self.log_dict(self.metrics.compute())
        self.metrics.reset()


def seconds(callbacks: list, rows: DataLoader) -> float:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer, module = Trainer(accelerator="cpu", callbacks=callbacks, enable_checkpointing=False, **quiet), Module()
    began = time.perf_counter()
    trainer.validate(module, rows, verbose=False)
    return time.perf_counter() - began


def main() -> None:
    torch.set_num_threads(1)
    x = torch.randn(BATCHES * BATCH, 16)
    rows = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), BATCH)
    seconds([], rows)
    pairs = [(seconds([], rows), seconds([Diagnose()], rows)) for _ in range(REPEATS)]
    without, with_it = (min(times) for times in zip(*pairs, strict=True))
    each = (with_it - without) / BATCHES
    print(f"{BATCHES:,} batches, {METRICS} metrics: {without:.2f} s, with Diagnose {with_it:.2f} s")
    print(
        f"{each * 1e6:.0f} µs per batch; allowed: 1 % of the epoch and 100 µs, {without * 1e4 / BATCHES + 100:.0f} µs"
    )


if __name__ == "__main__":
    main()
