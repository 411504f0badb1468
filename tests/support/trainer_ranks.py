"""Run by torchrun: the Hugging Face Trainer on every rank; what each rank reports is written to a file.

torchrun --nproc-per-node 2 trainer_ranks.py FOLDER
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from ranks import leave_and_end
from tiny_bert import Echo, encoded, sequence_model, token_model, tokenizer, trainer
from transformers import DataCollatorForTokenClassification, DataCollatorWithPadding

from lightning_evalkit import MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.integrations.transformers import TrainerMetrics

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 11
"""Of two ranks with batches of 4: the last batch of the second is a row of its own and a repeat."""


class Stream(torch.utils.data.IterableDataset):
    """Rows in turn, of known number."""

    def __len__(self) -> int:
        return ROWS

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        for row in range(ROWS):
            yield {"logits": torch.tensor([1.0, -1.0, row - 4.5]), "labels": torch.tensor([1.0, 0.0, 1.0])}


def labelled() -> list[dict[str, Any]]:
    truth = torch.randint(0, 2, (ROWS, 3), generator=torch.Generator().manual_seed(0)).float().tolist()
    return [{**row, "labels": labels} for row, labels in zip(encoded(ROWS), truth, strict=True)]


def tagged() -> list[dict[str, Any]]:
    return [{**row, "labels": [token % 4 for token in row["input_ids"]]} for row in encoded(ROWS)]


def scenes(folder: Path) -> dict[str, Any]:
    """The numbers of every scene, and what was warned of."""
    found: dict[str, Any] = {}
    for batched in (False, True):
        metrics = TrainerMetrics(MultilabelEvaluation("logits", 3, per_label=True))
        collate = DataCollatorWithPadding(tokenizer())
        options = {"batch_eval_metrics": batched, "eval_dataset": labelled(), "data_collator": collate}
        model = sequence_model(3, "multi_label_classification")
        found[f"messages {batched}"] = trainer(model, metrics, folder, **options).evaluate()
        found[f"rows {batched}"] = metrics.evaluation.counts.total.tolist()
        tags = TrainerMetrics(MulticlassEvaluation("logits", 4, ignore_index=-100, statistics=["accuracy"]))
        options |= {"eval_dataset": tagged(), "data_collator": DataCollatorForTokenClassification(tokenizer())}
        found[f"tokens {batched}"] = trainer(token_model(4), tags, folder, **options).evaluate()
    metrics = TrainerMetrics(MultilabelEvaluation("logits", 3))
    sharded = {"dispatch_batches": False}
    ours = trainer(Echo(), metrics, folder, eval_dataset=Stream(), accelerator_config=sharded, batch_eval_metrics=True)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found["stream"] = ours.evaluate()
    found["said"] = [str(each.message) for each in said if "evaluation set" in str(each.message)]
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    rank = os.environ.get("RANK", "0")
    numbers = scenes(folder)
    (folder / f"trainer_{rank}.json").write_text(json.dumps(numbers), encoding="utf-8")
    leave_and_end()
