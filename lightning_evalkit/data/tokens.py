"""Turns texts into token ids, with a pretrained tokenizer or one trained on the texts themselves."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.errors import InputError, required

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


def loaded(name: str) -> Any:
    """Load the tokenizer of a name or a path."""
    with required("transformers", extra="transformers"):
        from transformers import AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(name)
    if tokenizer.pad_token is None:
        raise InputError(
            f"expected a tokenizer that can fill up short texts, but {name} has no padding token: set its pad_token "
            "and save it under a path of its own."
        )
    return tokenizer


def trained(texts: Sequence[str], size: int) -> Any:
    """Train byte pairs on lower-case texts, at most ``size`` tokens; equal texts give equal tokenizers.

    The alphabet is all bytes, in a fixed order, so that nothing depends on the order of a hash table and no character
    is unknown.
    """
    with required("transformers", extra="transformers"):
        from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
        from transformers import PreTrainedTokenizerFast
    made = Tokenizer(models.BPE())
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(), normalizers.Lowercase()])
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    made.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = list(SPECIAL.values())
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(texts, trainer)
    ends = [(token, special.index(token)) for token in ("[CLS]", "[SEP]")]
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return PreTrainedTokenizerFast(tokenizer_object=made, clean_up_tokenization_spaces=False, **SPECIAL)


def encoded(tokenizer: Any, texts: Sequence[str], max_length: int, source: str) -> tuple[Tensor, Tensor]:
    """Return token ids of shape (N, tokens), padded to the longest text, and a mask that is 1 for real tokens."""
    rows = tokenizer(list(texts), truncation=True, max_length=max_length, padding="longest", verbose=False)
    tokens, mask = torch.tensor(rows["input_ids"]), torch.tensor(rows["attention_mask"])
    full = (mask.sum(1) == max_length).nonzero().flatten().tolist()
    whole = tokenizer([texts[row] for row in full], truncation=False, verbose=False)["input_ids"] if full else []
    cut = sum(len(each) > max_length for each in whole)
    if cut:
        warnings.warn(
            f"{source}: {cut:,} of {len(texts):,} texts are longer than max_length={max_length} tokens and are cut.",
            stacklevel=2,
        )
    return tokens.int(), mask.bool()
