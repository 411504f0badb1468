"""Synthetic messages of customers who want several things at once: every intent is a label."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, TypeVar

import torch

from lightning_evalkit.data.loader import stream
from lightning_evalkit.data.splitting import SplitRows
from lightning_evalkit.data.targets import Target
from lightning_evalkit.data.text import LabelledTexts, TokenDataModule
from lightning_evalkit.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Generator, Tensor

Choice = TypeVar("Choice")

CLEAR = {
    "refund": ["please send my money back", "i would like a refund", "pay me back what i paid"],
    "cancel": ["please cancel my order", "stop the order before it is sent", "i want to call off the purchase"],
    "address": ["i have moved to a new street", "please ship it to my office", "the delivery address has changed"],
    "delay": ["my parcel has still not arrived", "it should have been here last week", "why does it take so long"],
    "invoice": ["i need an invoice for my taxes", "please send me the bill", "where do i find my receipt"],
}
"""Phrases that state one intent plainly."""
VAGUE = {
    ("refund", "cancel"): ["i do not want it any more", "i have changed my mind about it"],
    ("address", "delay"): ["the parcel went to the wrong place", "nobody has brought me anything"],
    ("refund", "invoice"): ["there is a problem with the payment", "the amount on my card is wrong"],
}
"""Phrases that may mean either of two intents: nothing in the message tells which."""
JOINED = (" and ", " also ", ". ", ", then ")
GREETINGS = ("", "hello, ", "dear team, ", "hi there, ")


class CustomerMessagesDataModule(TokenDataModule):
    """Messages with one to three of five intents; a ``vague`` share of the wishes may mean either of two.

    A good model gets plain wishes right and has to guess vague ones. So some labels are right more often than others,
    and all labels of a message together least often.

    >>> data = CustomerMessagesDataModule(train_size=100, val_size=10, test_size=10)
    >>> len(data.labelled_texts.texts), data.label_names
    (120, ['refund', 'cancel', 'address', 'delay', 'invoice'])

    Args:
        vague: The share of wishes that may mean either of two intents.
        train_size: Rows to train on.
        val_size: Rows to validate on.
        test_size: Rows to test on.
    """

    label_names: ClassVar[list[str]] = list(CLEAR)
    num_labels: ClassVar[int] = len(CLEAR)

    def __init__(
        self,
        vague: float = 0.25,
        train_size: int = 2_000,
        val_size: int = 500,
        test_size: int = 2_000,
        tokenizer: str | None = None,
        vocabulary: int = 500,
        max_length: int = 64,
        batch_size: int = 32,
        seed: int = 0,
        on_device: bool = False,
    ) -> None:
        super().__init__(tokenizer, vocabulary, max_length, batch_size, seed, on_device)
        self.vague, self.sizes = vague, (train_size, val_size, test_size)
        if not 0 <= vague <= 1 or min(self.sizes) < 1:
            raise DeclarationError(
                f"expected vague in [0, 1] and at least one row in each split, got {vague} and {min(self.sizes)}."
            )
        self.save_hyperparameters(logger=False)

    @cached_property
    def labelled_texts(self) -> LabelledTexts:
        """Draw the messages of all splits, one after the other."""
        generator = stream("messages", self.seed)
        drawn = [self._message(generator) for _ in range(sum(self.sizes))]
        texts, wanted = zip(*drawn, strict=True)
        rows = SplitRows(*torch.arange(len(texts)).split(self.sizes))
        return LabelledTexts(list(texts), Target(torch.stack(wanted), self.label_names), rows, [])

    def _message(self, generator: Generator) -> tuple[str, Tensor]:
        """Write a message, and mark its intents with 1."""
        number = 1 + _drawn(3, generator)
        intents = torch.randperm(len(CLEAR), generator=generator)[:number].tolist()
        wishes = [self._wish(self.label_names[intent], generator) for intent in intents]
        text = _one(GREETINGS, generator) + wishes[0]
        for wish in wishes[1:]:
            text += _one(JOINED, generator) + wish
        return text, torch.zeros(len(CLEAR), dtype=torch.int64).index_fill_(0, torch.tensor(intents), 1)

    def _wish(self, intent: str, generator: Generator) -> str:
        pairs = [pair for pair in VAGUE if intent in pair]
        if float(torch.rand((), generator=generator)) < self.vague:
            return _one(VAGUE[_one(pairs, generator)], generator)
        return _one(CLEAR[intent], generator)


def _drawn(below: int, generator: Generator) -> int:
    return int(torch.randint(below, (), generator=generator))


def _one(choices: Sequence[Choice], generator: Generator) -> Choice:
    return choices[_drawn(len(choices), generator)]
