"""Tiny models for the Hugging Face Trainer, made here: nothing is downloaded."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

WORDS = ["please", "refund", "my", "order", "and", "change", "the", "address", "not", "arrived", "yet", "thanks"]
Rows = list[dict[str, Any]]


def tokenizer() -> PreTrainedTokenizerFast:
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {word: place for place, word in enumerate(["[PAD]", "[UNK]", *dict.fromkeys(WORDS)])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
    return PreTrainedTokenizerFast(tokenizer_object=made, clean_up_tokenization_spaces=False, **special)


def config(**options: Any) -> BertConfig:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return BertConfig(vocab_size=32, max_position_embeddings=32, **sizes, **options)


def texts(rows: int, seed: int = 0) -> list[str]:
    """Messages of one to twelve words."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 13, (rows,), generator=generator).tolist()
    chosen = torch.randint(0, len(WORDS), (rows, 12), generator=generator).tolist()
    return [" ".join(WORDS[word] for word in words[:length]) for words, length in zip(chosen, lengths, strict=True)]


def encoded(rows: int, seed: int = 0) -> Rows:
    return [dict(tokenizer()(text, return_token_type_ids=False)) for text in texts(rows, seed)]


def sequence_model(num_labels: int, problem: str, **options: Any) -> BertForSequenceClassification:
    torch.manual_seed(0)
    model = BertForSequenceClassification(config(num_labels=num_labels, problem_type=problem, **options))
    with torch.no_grad():
        model.classifier.weight.mul_(200)  # logits of both signs, far from equal
    return model.eval()


def token_model(num_labels: int) -> BertForTokenClassification:
    torch.manual_seed(0)
    return BertForTokenClassification(config(num_labels=num_labels)).eval()


class Echo(torch.nn.Module):
    """A model whose logits are columns of the data set."""

    def forward(self, logits: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        return {"loss": logits.new_zeros(()), "logits": logits}


def echo_rows(logits: Any, labels: Any) -> Rows:
    pairs = zip(torch.as_tensor(logits), torch.as_tensor(labels), strict=True)
    return [{"logits": scores, "labels": label} for scores, label in pairs]


def trainer(model: torch.nn.Module, metrics: Any, folder: Any, callback: bool = True, **options: Any) -> Trainer:
    """A Trainer that reports nowhere."""
    given = {name: options.pop(name) for name in ("train_dataset", "eval_dataset", "data_collator") if name in options}
    kind = options.pop("kind", Trainer)
    arguments = TrainingArguments(
        output_dir=str(folder),
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        per_device_eval_batch_size=options.pop("batch", 4),
        dataloader_pin_memory=False,
        **options,
    )
    callbacks = [metrics.callback] if callback else []
    return kind(model=model, args=arguments, compute_metrics=metrics, callbacks=callbacks, **given)
