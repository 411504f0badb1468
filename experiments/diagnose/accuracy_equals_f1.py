"""Question: why are my accuracy and my F1 the same number, in every epoch?

Run:     python experiments/diagnose/accuracy_equals_f1.py
Expect:  EK103. Both metrics are micro averages over two classes, which are the accuracy whatever the model does. With
         binary metrics on the same data the two numbers part: F1 ignores the true negatives.
"""

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from torch import nn
from torchmetrics import Accuracy, F1Score

from lightning_evalkit.callbacks import Diagnose
from lightning_evalkit.data import ImbalancedDataModule


class Asked(LightningModule):
    """A classifier of two classes, with both metrics as their defaults are for several classes."""

    def __init__(self, task: str) -> None:
        super().__init__()
        self.task, self.network = task, nn.Linear(8, 1)
        options = {"task": task} | ({"num_classes": 2} if task == "multiclass" else {})
        self.accuracy, self.f1 = Accuracy(**options), F1Score(**options)

    def training_step(self, batch, number):
        return nn.functional.binary_cross_entropy_with_logits(self.network(batch[0]).squeeze(-1), batch[1].float())

    def validation_step(self, batch, number):
        labels = (self.network(batch[0]).squeeze(-1) > 0).long()
        for name, metric in (("val/accuracy", self.accuracy), ("val/f1", self.f1)):
            metric.update(labels, batch[1])
            self.log(name, metric)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 0.05)


def main() -> dict[str, list[str]]:
    """Run the module as it was asked about, then as it should be; the codes of the issues of both."""
    found = {}
    for task in ("multiclass", "binary"):
        seed_everything(0, verbose=False)
        diagnose = Diagnose()
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        trainer = Trainer(max_epochs=2, accelerator="cpu", callbacks=[diagnose], enable_model_summary=False, **quiet)
        trainer.fit(Asked(task), datamodule=ImbalancedDataModule(prevalence=0.1, num_features=8))
        accuracy, f1 = (float(trainer.callback_metrics[name]) for name in ("val/accuracy", "val/f1"))
        print(f"{task}: accuracy {accuracy:.4f}, F1 {f1:.4f}")
        found[task] = [finding.code for finding in diagnose.diagnosis.issues]
    return found


if __name__ == "__main__":
    main()
