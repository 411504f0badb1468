"""What Diagnose costs: a validation epoch of 1,000 batches with 20 metrics, with the callback and without.

The metrics are stock ones, then this package's. The time is that of the processor, which other programs do not change.

Run: python experiments/benchmarks/diagnose.py
"""

import time
from functools import partial

import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MetricCollection, classification

from lightning_evalkit import metrics
from lightning_evalkit.callbacks import Diagnose

BATCHES, BATCH, METRICS, REPEATS = 1_000, 64, 20, 3


class Module(LightningModule):
    def __init__(self, kit) -> None:
        super().__init__()
        self.network = torch.nn.Linear(16, 1)
        kinds = [kit.BinaryF1Score, kit.BinaryPrecision, kit.BinaryRecall, partial(kit.BinaryFBetaScore, 2.0)]
        made = {f"m{k}": kinds[k % 4](threshold=0.3 + 0.02 * (k // 4)) for k in range(METRICS)}
        self.metrics = MetricCollection(made, compute_groups=False)

    def validation_step(self, batch, number):
        self.metrics.update(self.network(batch[0]).squeeze(-1).sigmoid(), batch[1])

    def on_validation_epoch_end(self):
        self.log_dict(self.metrics.compute())
        self.metrics.reset()


def seconds(kit, callbacks: list, rows: DataLoader) -> float:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer, module = Trainer(accelerator="cpu", callbacks=callbacks, enable_checkpointing=False, **quiet), Module(kit)
    began = time.process_time()
    trainer.validate(module, rows, verbose=False)
    return time.process_time() - began


def main() -> None:
    torch.set_num_threads(1)
    x = torch.randn(BATCHES * BATCH, 16)
    rows = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), BATCH)
    for name, kit in (("stock", classification), ("own", metrics)):
        seconds(kit, [], rows)
        pairs = [(seconds(kit, [], rows), seconds(kit, [Diagnose()], rows)) for _ in range(REPEATS)]
        without, with_it = (min(times) for times in zip(*pairs, strict=True))
        each = (with_it - without) / BATCHES * 1e6
        allowed = without * 1e4 / BATCHES + 100
        print(f"{BATCHES:,} batches, {METRICS} {name} metrics: {without:.2f} s, with Diagnose {with_it:.2f} s")
        print(f"{each:.0f} µs per batch; allowed: 1 % of the epoch and 100 µs, {allowed:.0f} µs")


if __name__ == "__main__":
    main()
