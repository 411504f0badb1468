"""Question: accuracy is 90 % from the first epoch on, and the loss says otherwise. Is the model good?

Run:     python experiments/diagnose/accuracy_and_loss.py
Expect:  EK205. Nine of ten samples are negative and every sample is called negative: the accuracy is the share of the
         majority. recall and F1 are 0, balanced accuracy is 0.5.
"""

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from torch import nn
from torchmetrics.classification import BinaryAccuracy

from lightning_evalkit.callbacks import Diagnose
from lightning_evalkit.data import ImbalancedDataModule


class Asked(LightningModule):
    """A classifier that learns too slowly to leave the majority within its few steps."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate, self.network, self.accuracy = rate, nn.Linear(8, 1), BinaryAccuracy()
        nn.init.constant_(self.network.bias, -3.0)

    def training_step(self, batch, number):
        return self.loss(batch)

    def loss(self, batch):
        return nn.functional.binary_cross_entropy_with_logits(self.network(batch[0]).squeeze(-1), batch[1].float())

    def validation_step(self, batch, number):
        self.accuracy.update(self.network(batch[0]).squeeze(-1).sigmoid(), batch[1])
        self.log("val/accuracy", self.accuracy)
        self.log("val/loss", self.loss(batch), batch_size=len(batch[1]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), self.rate)


def main() -> dict[float, list[str]]:
    """Run it with the rate of the question, and with one that learns; the codes of the issues of both."""
    found = {}
    for rate in (1e-6, 0.05):
        seed_everything(0, verbose=False)
        diagnose = Diagnose()
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        trainer = Trainer(max_epochs=2, accelerator="cpu", callbacks=[diagnose], enable_model_summary=False, **quiet)
        trainer.fit(Asked(rate), datamodule=ImbalancedDataModule(prevalence=0.1, num_features=8))
        values = {name: round(float(value), 4) for name, value in trainer.callback_metrics.items() if "val/" in name}
        print(f"learning rate {rate:g}: {values}")
        found[rate] = [finding.code for finding in diagnose.diagnosis.issues]
    return found


if __name__ == "__main__":
    main()
