"""Question: must all labels of a sample match for my score, and why does it change with the batch size?

Run:     python experiments/diagnose/multilabel_accuracy.py
Expect:  EK101. The step logs the F1 of a batch, so the epoch's number is a mean of F1s, which is no F1 and changes with
         the batch size. Exact match, Hamming accuracy and F1 are different questions: an evaluation reports each under
         its own name.
"""

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from torch import nn
from torchmetrics.classification import MultilabelF1Score

from lightning_evalkit import MultilabelEvaluation
from lightning_evalkit.callbacks import Diagnose
from lightning_evalkit.data import MultilabelDataModule


class Asked(LightningModule):
    """Logs the F1 of every batch as "score"; with an evaluation every meaning has its own name."""

    def __init__(self, features: int, labels: int, declared: bool) -> None:
        super().__init__()
        self.network = nn.Linear(features, labels)
        self.score = MultilabelF1Score(labels)
        self.numbers = MultilabelEvaluation("logits", labels, prefix="val/") if declared else None

    def training_step(self, batch, number):
        return nn.functional.binary_cross_entropy_with_logits(self.network(batch[0]), batch[1].float())

    def validation_step(self, batch, number):
        logits = self.network(batch[0])
        if self.numbers is None:
            self.log("val/score", self.score(logits.sigmoid(), batch[1]))
        else:
            self.numbers.update(logits, batch[1])

    def on_validation_epoch_end(self):
        if self.numbers is not None:
            self.log_dict(self.numbers.compute())
            self.numbers.reset()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 0.05)


def main() -> dict[bool, list[str]]:
    """Run the module as it was asked about, then as it should be; the codes of the issues of both."""
    found = {}
    for declared in (False, True):
        seed_everything(0, verbose=False)
        data, diagnose = MultilabelDataModule(), Diagnose()
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        trainer = Trainer(max_epochs=2, accelerator="cpu", callbacks=[diagnose], enable_model_summary=False, **quiet)
        trainer.fit(Asked(data.num_features, data.num_labels, declared), datamodule=data)
        values = {name: round(float(value), 4) for name, value in trainer.callback_metrics.items() if "val/" in name}
        print(values)
        found[declared] = [finding.code for finding in diagnose.diagnosis.issues]
    return found


if __name__ == "__main__":
    main()
