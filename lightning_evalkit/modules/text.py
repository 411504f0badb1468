"""A classifier of texts whose network is a Hugging Face model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lightning_evalkit.errors import DeclarationError, InputError, required
from lightning_evalkit.evaluation import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.inputs.threshold import Given, plain_of
from lightning_evalkit.modules.classifier import Classifier
from lightning_evalkit.modules.losses import OneOfManyLoss, YesNoLoss

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from lightning_evalkit.evaluation.base import Evaluation

NOT_OF_THE_MODEL = ("labels", "sample_weight")
OF_OTHER_OUTPUTS = ("id2label", "label2id")
"""Options that a configuration object fills in for two labels; older releases take their number from these."""


class TextClassifier(Classifier):
    """A classifier of texts around any ``AutoModelForSequenceClassification``.

    Batches are dicts as Hugging Face models take them ("input_ids", "attention_mask", "labels", and with ``weighted``
    "sample_weight"), such as those of ``TextDataModule`` or a ``DataCollatorWithPadding``. With ``num_labels`` there
    are several yes-or-no labels, with ``num_classes`` one class per text, with neither one yes or no. All callbacks of
    this package work with it.

    Args:
        pretrained: The path or name of a trained model.
        config: A configuration with its "model_type", for a model with random weights.
        num_labels: The number of labels, each of which a text has or has not.
        label_names: The names of the labels.
        num_classes: The number of classes, of which a text has one.
        class_names: The names of the classes.
        vocab_size: The number of tokens of a model with random weights.
        learning_rate: The learning rate of Adam.
        pos_weight: The factor of the loss of positives.
        class_weights: The factor of the loss of each class.
        threshold: The threshold on the probability, one number or one per label.
        per_label: Report statistics of every label or class too.
        statistics: Names of the reported statistics.
        curves: Report AUROC, average precision and calibration too.
        weighted: Batches have sample weights.
        worst: Report the share of the loss that this share of the texts carries.
        intervals: Report both ends of 95 % intervals too, as "val/f1/low" and "val/f1/high".
    """

    def __init__(
        self,
        pretrained: str | None = None,
        config: dict[str, Any] | None = None,
        num_labels: int | None = None,
        label_names: list[str] | None = None,
        num_classes: int | None = None,
        class_names: list[str] | None = None,
        vocab_size: int | None = None,
        learning_rate: float = 5e-5,
        pos_weight: float | list[float] | None = None,
        class_weights: list[float] | None = None,
        threshold: Given | tuple[Given, ...] = 0.5,
        per_label: bool = False,
        statistics: list[str] | None = None,
        curves: bool = False,
        weighted: bool = False,
        worst: float | None = None,
        intervals: bool = False,
    ) -> None:
        _check(num_labels, num_classes, pos_weight, class_weights)
        config = _plain(config)  # as it is saved
        outputs = num_labels or num_classes or 1
        shared: dict[str, Any] = {"statistics": statistics, "curves": curves, "weighted": weighted}
        evaluation: Evaluation
        if num_classes is not None:
            evaluation = MulticlassEvaluation(
                "logits", num_classes, class_names, per_class=per_label, confusion_matrix=num_classes <= 1_000, **shared
            )
        elif num_labels is not None:
            evaluation = MultilabelEvaluation("logits", num_labels, label_names, threshold, per_label, **shared)
        else:
            evaluation = BinaryEvaluation("logits", threshold=threshold, **shared)
        loss = YesNoLoss if num_classes is None else OneOfManyLoss
        super().__init__(
            _network(pretrained, config, vocab_size, outputs),
            loss(pos_weight if num_classes is None else class_weights, "cross_entropy", 0.0),
            evaluation,
            learning_rate,
            worst,
            intervals,
        )
        self.is_multiclass, self.is_binary = num_classes is not None, outputs == 1
        threshold = plain_of(threshold)  # as it is saved, for files that hold plain values
        self.save_hyperparameters()

    def forward(self, features: Mapping[str, Tensor]) -> Tensor:  # type: ignore[override]  # tokens and their mask
        """Logits in the form of the task."""
        given = {name: tensor for name, tensor in features.items() if name not in NOT_OF_THE_MODEL}
        rows = len(given["input_ids"])
        if not rows:  # a rank may get no rows: models refuse an empty batch, but other ranks may wait for this one
            given = {name: tensor.new_ones((1, *tensor.shape[1:])) for name, tensor in given.items()}
        return self.arranged(self.network(**given).logits[:rows])

    def arranged(self, logits: Tensor) -> Tensor:
        """Arrange one logit per text for a binary problem."""
        return logits.squeeze(1) if self.is_binary else logits

    def probabilities(self, logits: Tensor) -> Tensor:
        """The probability of each label, or of each class; those of classes add up to 1."""
        return logits.softmax(1) if self.is_multiclass else logits.sigmoid()

    def _parts(self, batch: Any) -> tuple[Any, Tensor, Tensor | None]:
        needed = {"input_ids", "labels", *(["sample_weight"] if self.weighted else [])}
        if not isinstance(batch, Mapping) or not needed <= {*batch}:
            got = sorted(batch) if isinstance(batch, Mapping) else type(batch).__name__
            raise InputError(f"expected batches as dicts with {', '.join(sorted(needed))}, got {got}.")
        if not self.weighted and "sample_weight" in batch:
            raise InputError("got sample_weight in a batch, but texts count unweighted: declare weighted=True.")
        return batch, batch["labels"], batch.get("sample_weight")


def _network(pretrained: str | None, config: dict[str, Any] | None, vocab_size: int | None, outputs: int) -> Module:
    """A trained model, or one with random weights, ready to be trained."""
    if (pretrained is None) is (config is None):
        raise DeclarationError(
            "expected either pretrained, the path or name of a model, or config, such as {'model_type': 'bert', "
            f"'hidden_size': 64}}, for random weights; got {'neither' if config is None else 'both'}."
        )
    with required("transformers", extra="transformers"):
        from transformers import AutoConfig, AutoModelForSequenceClassification
    if pretrained is not None:
        model = AutoModelForSequenceClassification.from_pretrained(pretrained, num_labels=outputs)
    else:
        options = {name: value for name, value in (config or {}).items() if name not in OF_OTHER_OUTPUTS}
        options["num_labels"] = outputs
        if "model_type" not in options:
            raise DeclarationError(f"expected a 'model_type' in config, such as 'bert', got {sorted(config or {})}.")
        if vocab_size is not None:
            options["vocab_size"] = vocab_size
        model = AutoModelForSequenceClassification.from_config(AutoConfig.for_model(**options))
    network: Module = model.train()  # from_pretrained returns eval mode (no dropout), and Lightning keeps it
    return network


def _plain(config: Any) -> dict[str, Any] | None:
    """Convert a configuration, perhaps an object of transformers, to plain values."""
    plain: dict[str, Any] | None = config.to_dict() if hasattr(config, "to_dict") else config
    return plain


def _check(num_labels: int | None, num_classes: int | None, pos_weight: Any, class_weights: Any) -> None:
    if num_labels is not None and num_classes is not None:
        raise DeclarationError("expected num_labels or num_classes, or neither for yes or no; got both.")
    if class_weights is not None and len(class_weights) != num_classes:
        raise DeclarationError(f"expected {num_classes or 0} class_weights, one per class, got {len(class_weights)}.")
    if pos_weight is not None and num_classes is not None:
        raise DeclarationError("expected class_weights for classes, got pos_weight.")
    if isinstance(pos_weight, list) and len(pos_weight) != num_labels:
        raise DeclarationError(f"expected one pos_weight, or {num_labels or 1}, one per label, got {len(pos_weight)}.")
