"""TrainerMetrics in the Hugging Face Trainer: the numbers of the definitions in every mode, and words for wrong use."""

from __future__ import annotations

import gc
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.errors import DeclarationError, InputError

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from tiny_bert import Echo, echo_rows, encoded, sequence_model, token_model, tokenizer, trainer
from transformers import DataCollatorForTokenClassification, DataCollatorWithPadding, Trainer, TrainerCallback

from lightning_evalkit.integrations.transformers import TrainerMetrics

if TYPE_CHECKING:
    from pathlib import Path

    from tiny_bert import Rows

# The Trainer and Accelerate about themselves.
pytestmark = [pytest.mark.filterwarnings("ignore::FutureWarning"), pytest.mark.filterwarnings("ignore:.*pin_memory")]

LABELS = ["refund", "address", "delay"]
MODES: dict[str, dict[str, Any]] = {
    "plain": {},
    "batches": {"batch_eval_metrics": True},
    "lists": {"eval_do_concat_batches": False},
    "accumulated": {"eval_accumulation_steps": 1},
    "listed and accumulated": {"eval_do_concat_batches": False, "eval_accumulation_steps": 2},
}
each_mode = pytest.mark.parametrize("mode", MODES)


def multilabel(**options: Any) -> TrainerMetrics:
    return TrainerMetrics(MultilabelEvaluation("logits", 3, LABELS, per_label=True, **options))


def indicators(rows: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 2, (rows, 3), generator=torch.Generator().manual_seed(seed)).float()


def messages(rows: int, seed: int = 0) -> Rows:
    truth = indicators(rows, seed).tolist()
    return [{**row, "labels": labels} for row, labels in zip(encoded(rows, seed), truth, strict=True)]


def meanings(logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """The meanings of accuracy by their definitions."""
    right = (logits > 0) == (labels > 0.5)
    each = {f"accuracy/{name}": float(right[:, place].mean()) for place, name in enumerate(LABELS)}
    return {"exact_match": float(right.all(1).mean()), "hamming_accuracy": float(right.mean()), **each}


def predicted(model: torch.nn.Module, rows: Rows) -> np.ndarray:
    """Logits of one row after the other, without padding."""
    with torch.no_grad():
        one = [{name: torch.tensor([row[name]]) for name in ("input_ids", "attention_mask")} for row in rows]
        return np.concatenate([model(**row).logits.numpy() for row in one])


def of(values: dict[str, float], expected: dict[str, float], prefix: str = "eval") -> dict[str, float]:
    return {name: values[f"{prefix}_{name}"] for name in expected}


# ---- the numbers


@each_mode
def test_multilabel_bert_has_the_numbers_of_the_definitions(mode: str, tmp_path: Path):
    model, rows = sequence_model(3, "multi_label_classification"), messages(11)
    expected = meanings(predicted(model, rows), indicators(11).numpy())
    assert len({*expected.values()}) > 2, "the meanings differ"
    ours = trainer(
        model,
        multilabel(),
        tmp_path,
        eval_dataset=rows,
        data_collator=DataCollatorWithPadding(tokenizer()),
        **MODES[mode],
    )
    for _ in range(2):  # nothing is left of the first
        values = ours.evaluate()
        assert of(values, expected) == pytest.approx(expected, abs=1e-6)
        assert {type(value) for value in values.values()} <= {float, int}


@pytest.mark.parametrize("batched", [False, True])
def test_predict_and_several_sets(batched: bool, tmp_path: Path):
    model, collate = sequence_model(3, "multi_label_classification"), DataCollatorWithPadding(tokenizer())
    sets = {"old": messages(7), "new": messages(9, seed=1)}
    metrics = multilabel()
    ours = trainer(model, metrics, tmp_path, eval_dataset=sets, data_collator=collate, batch_eval_metrics=batched)
    values = ours.evaluate()
    for name, seed in (("old", 0), ("new", 1)):
        expected = meanings(predicted(model, sets[name]), indicators(len(sets[name]), seed).numpy())
        assert of(values, expected, f"eval_{name}") == pytest.approx(expected, abs=1e-6)
    found = ours.predict(sets["new"]).metrics
    assert of(found, expected, "test") == pytest.approx(expected, abs=1e-6)
    assert metrics.evaluation.compute()["exact_match"] == pytest.approx(expected["exact_match"]), "stays to be asked"
    unlabelled = [{name: row[name] for name in ("input_ids", "attention_mask")} for row in sets["new"]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "test_exact_match" not in ours.predict(unlabelled).metrics


def test_numbers_of_every_epoch_choose_the_best_model(tmp_path: Path):
    """Each evaluation within a training has its own rows, and its numbers can be monitored."""
    model, val = sequence_model(3, "multi_label_classification"), messages(11, seed=1)
    ours = trainer(
        model,
        multilabel(),
        tmp_path,
        train_dataset=messages(24),
        eval_dataset=val,
        data_collator=DataCollatorWithPadding(tokenizer()),
        batch_eval_metrics=True,
        num_train_epochs=4,
        learning_rate=0.02,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="hamming_accuracy",
    )
    ours.train()
    found = [entry["eval_hamming_accuracy"] for entry in ours.state.log_history if "eval_hamming_accuracy" in entry]
    expected = meanings(predicted(model.eval(), val), indicators(11, seed=1).numpy())
    assert len({*found}) > 1, "training changes them"
    assert max(found) == ours.state.best_metric == pytest.approx(expected["hamming_accuracy"], abs=1e-6)
    assert of(ours.evaluate(), expected) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("mode", ["plain", "batches", "lists"])
def test_logits_are_the_first_of_several_outputs(mode: str, tmp_path: Path):
    model, rows = sequence_model(3, "multi_label_classification", output_hidden_states=True), messages(6)
    expected = meanings(predicted(model, rows), indicators(6).numpy())
    options = {"eval_dataset": rows, "data_collator": DataCollatorWithPadding(tokenizer(), "max_length", 16)}
    assert of(trainer(model, multilabel(), tmp_path, **options, **MODES[mode]).evaluate(), expected) == pytest.approx(
        expected, abs=1e-6
    )


@each_mode
def test_tokens_without_their_padding(mode: str, tmp_path: Path):
    """Rows differ in length within a batch, and batches among each other, so that both kinds of padding occur."""
    model, rows = token_model(4), encoded(11)
    generator = torch.Generator().manual_seed(0)
    for row in rows:
        row["labels"] = torch.randint(0, 4, (len(row["input_ids"]),), generator=generator).tolist()
        row["labels"][0] = -100 if len(row["labels"]) > 1 else row["labels"][0]
    right = [
        int(scores.argmax()) == label
        for row in rows
        for scores, label in zip(predicted(model, [row])[0], row["labels"], strict=True)
        if label != -100
    ]
    metrics = TrainerMetrics(MulticlassEvaluation("logits", 4, ignore_index=-100, statistics=["accuracy"]))
    collate = DataCollatorForTokenClassification(tokenizer())
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # all rows were counted
        values = trainer(model, metrics, tmp_path, eval_dataset=rows, data_collator=collate, **MODES[mode]).evaluate()
    assert values["eval_accuracy"] == pytest.approx(np.mean(right), abs=1e-6)


@pytest.mark.parametrize("mode", ["plain", "batches"])
def test_one_class_per_row(mode: str, tmp_path: Path):
    logits = [[2.0, 1.0, -1.0], [0.0, 3.0, 1.0], [0.5, 0.25, 0.75], [1.0, -1.0, 0.0], [-3.0, -1.0, -2.0]]
    labels = torch.tensor([0, 1, 0, 2, 1])  # right, right, wrong, wrong, right
    metrics = TrainerMetrics(MulticlassEvaluation("logits", 3, statistics=["accuracy"]))
    values = trainer(
        Echo(), metrics, tmp_path, batch=2, eval_dataset=echo_rows(logits, labels), **MODES[mode]
    ).evaluate()
    assert values["eval_accuracy"] == pytest.approx(3 / 5)


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("mode", ["plain", "batches"])
def test_yes_or_no_of_one_logit_or_of_two(mode: str, width: int, tmp_path: Path):
    odds = torch.tensor([2.0, -1.0, 0.5, -0.5, 1.5])
    labels = torch.tensor([1, 0, 0, 1, 1])  # tp, tn, fp, fn, tp
    logits = odds.unsqueeze(1) if width == 1 else torch.stack((torch.full((5,), 3.0), odds + 3.0), 1)
    metrics = TrainerMetrics(BinaryEvaluation("logits", statistics=["accuracy", "f1"]))
    values = trainer(Echo(), metrics, tmp_path, eval_dataset=echo_rows(logits, labels), **MODES[mode]).evaluate()
    assert values["eval_accuracy"] == pytest.approx(3 / 5)
    assert values["eval_f1"] == pytest.approx(4 / 6)


def test_two_logits_are_the_probability_of_their_softmax():
    logits, labels = torch.randn(50, 2) * 4, torch.randint(0, 2, (50,))
    numbers = [
        TrainerMetrics(BinaryEvaluation(kind, threshold=0.8, curves=True))((scores, labels))
        for kind, scores in (("logits", logits), ("probabilities", logits.double().softmax(1)))
    ]
    assert numbers[0] == pytest.approx(numbers[1], abs=1e-4)


def test_the_three_examples_of_the_question():
    """Predictions and truth of the document; the numbers are counted by hand."""
    names = ["exact_match", "hamming_accuracy", "accuracy/0", "accuracy/1", "accuracy/2"]

    def reported(kind: Any, predictions: Any, labels: Any) -> list[float]:
        metrics = TrainerMetrics(MultilabelEvaluation(kind, 3, per_label=True))
        values = metrics((np.array(predictions), np.array(labels)))
        return [values[name] for name in names]

    one = reported("labels", [[0, 1, 1], [1, 0, 0]], [[0, 1, 0], [1, 1, 0]])
    assert one == pytest.approx([0, 2 / 3, 1, 0.5, 0.5])
    scores = [[0.2, 0.8, 0.1], [0.9, 0.3, 0.2], [0.1, 0.6, 0.7], [0.3, 0.2, 0.9]]
    truth = [[0.0, 1, 0], [1, 0, 0], [0, 1, 1], [0, 0, 1]]
    assert reported("probabilities", scores, truth) == [1.0] * 5
    with pytest.warns(UserWarning, match=r"every score is in \[0, 1\] \(from 0\.1 to 0\.9\): if a sigmoid"):
        assert reported("logits", scores, truth) == pytest.approx([0, 5 / 12, 0.25, 0.5, 0.5])


def test_rows_that_came_one_by_one():
    """With eval_use_gather_object=True a batch is a list of rows."""
    logits, labels = torch.randn(6, 3), indicators(6)
    metrics = multilabel()
    assert metrics(([*logits], [*labels])) == metrics((logits, labels))
    single = TrainerMetrics(MulticlassEvaluation("logits", 3))
    classes = torch.tensor([0, 1, 2, 2, 1, 0])
    assert single(([*logits], [*classes])) == single((logits, classes))


# ---- bounds of an evaluation


class Fragile(Echo):
    """Fails in one of its calls."""

    calls, fails_at = 0, -1

    def forward(self, logits: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        self.calls += 1
        if self.calls == self.fails_at:
            raise RuntimeError("interrupted")
        return super().forward(logits, labels)


class SameLoader(Trainer):
    """One loader for all evaluations, as persistent workers make it."""

    kept: Any = None

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        self.kept = self.kept or super().get_eval_dataloader(eval_dataset)
        return self.kept


@pytest.mark.parametrize("kind", [Trainer, SameLoader])
def test_an_interrupted_evaluation_leaves_nothing_behind(kind: type[Trainer], tmp_path: Path):
    logits, labels = torch.randn(10, 3), indicators(10)
    expected, model, metrics = meanings(logits.numpy(), labels.numpy()), Fragile(), multilabel()
    ours = trainer(model, metrics, tmp_path, kind=kind, eval_dataset=echo_rows(logits, labels), batch_eval_metrics=True)
    for interrupted in (3, 2):
        model.calls, model.fails_at = 0, interrupted
        with pytest.raises(RuntimeError, match="interrupted"):
            ours.evaluate()
        assert metrics.evaluation.tally.update_count == interrupted - 1
    model.fails_at = -1
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert of(ours.evaluate(), expected) == pytest.approx(expected, abs=1e-6)
    assert metrics.evaluation.tally.update_count == 3


def test_without_its_callback_the_danger_is_said_once(tmp_path: Path):
    rows = echo_rows(torch.randn(6, 3), indicators(6))
    ours = trainer(Echo(), multilabel(), tmp_path, callback=False, eval_dataset=rows, batch_eval_metrics=True)
    with pytest.warns(UserWarning, match=r"Add callbacks=\[metrics\.callback\]") as said:
        first, second = ours.evaluate(), ours.evaluate()
    assert first["eval_exact_match"] == second["eval_exact_match"]
    assert len([each for each in said if "callback of TrainerMetrics" in str(each.message)]) == 1


class Unprepared(Trainer):
    """A loader that Accelerate does not know."""

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        return torch.utils.data.DataLoader(self.eval_dataset, batch_size=4, collate_fn=self.data_collator)


def test_a_last_batch_that_is_never_marked_is_told(tmp_path: Path):
    metrics, rows = multilabel(), echo_rows(torch.randn(6, 3), indicators(6))
    ours = trainer(Echo(), metrics, tmp_path, kind=Unprepared, eval_dataset=rows, batch_eval_metrics=True)
    with pytest.warns(UserWarning, match="expected the Trainer to mark the last batch, but after 6 rows it has not"):
        values = ours.evaluate()
    assert "eval_exact_match" not in values
    again = trainer(Echo(), metrics, tmp_path, eval_dataset=rows[:4], batch_eval_metrics=True).evaluate()
    assert "eval_exact_match" in again
    assert metrics.evaluation.counts.total.tolist() == [4, 4, 4]


@pytest.mark.parametrize("mode", ["plain", "batches"])
def test_rows_that_are_left_out_are_told_once_with_their_number(mode: str, tmp_path: Path):
    rows = echo_rows(torch.randn(11, 3), indicators(11))
    ours = trainer(Echo(), multilabel(), tmp_path, eval_dataset=rows, dataloader_drop_last=True, **MODES[mode])
    with pytest.warns(UserWarning, match="expected the 11 rows of the evaluation set, counted 8: 3 rows were left out"):
        ours.evaluate()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        ours.evaluate()


# ---- memory


class Watching(TrainerCallback):
    """The bytes of all tensors that are alive at each step."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        # Sparse and fake tensors, which other tests may have left, have no storage.
        alive = [each for each in gc.get_objects() if type(each) is torch.Tensor and torch._C._has_storage(each)]
        self.sizes.append(sum({each.data_ptr(): each.nbytes for each in alive}.values()))


class Endless(torch.utils.data.Dataset):
    """Rows that are made when they are read."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        logits = torch.arange(50.0) - row % 50
        return {"logits": logits, "labels": (logits > 1).float()}


@pytest.mark.parametrize(("batched", "grows"), [(True, False), (False, True)])
def test_memory_does_not_grow_with_rows_in_batch_mode(batched: bool, grows: bool, tmp_path: Path):
    """Plain mode, which keeps 400 bytes per row, shows that growth is seen; the Trainer keeps a loss per row (4)."""
    metrics = TrainerMetrics(MultilabelEvaluation("logits", 50))
    ours = trainer(Echo(), metrics, tmp_path, batch=128, eval_dataset=Endless(128 * 20), batch_eval_metrics=batched)
    watching = Watching()
    ours.add_callback(watching)
    ours.evaluate()
    per_row = (watching.sizes[-2] - watching.sizes[2]) / (128 * (len(watching.sizes) - 4))
    assert (per_row > 300) if grows else (per_row < 16)


# ---- wrong use: one clear sentence each


def test_labels_of_the_wrong_shape():
    logits = torch.randn(4, 3)
    with pytest.raises(InputError, match=r"for each of 3 labels in every row.*got labels of shape \(4,\): write each"):
        multilabel()((logits, torch.zeros(4)))
    with pytest.raises(InputError, match=r"the number of one class per row as labels, shape \(4,\), got"):
        TrainerMetrics(MulticlassEvaluation("logits", 3))((logits, torch.eye(4, 3)))
    with pytest.raises(InputError, match=r"expected every target to be 0 or 1, got 0\.5"):
        multilabel()((logits, torch.full((4, 3), 0.5)))


def test_padding_that_is_not_declared():
    logits, labels = torch.randn(2, 3, 4), torch.tensor([[0, 1, -100], [2, -100, -100]])
    with pytest.raises(InputError, match="if it marks samples to leave out, declare ignore_index=-100"):
        TrainerMetrics(MulticlassEvaluation("logits", 4))((logits, labels))


def test_probabilities_that_are_declared_as_logits(tmp_path: Path):
    rows = echo_rows(torch.rand(6, 3), indicators(6))
    ours = trainer(Echo(), multilabel(), tmp_path, eval_dataset=rows, batch_eval_metrics=True)
    with pytest.warns(UserWarning, match=r"every score is in \[0, 1\].*declare inputs='probabilities'"):
        ours.evaluate()


def test_padding_does_not_hide_probabilities():
    scores, labels = torch.rand(2, 3, 4), torch.tensor([[0, 1, 2], [3, -100, -100]])
    scores[1, 1:] = -100
    metrics = TrainerMetrics(MulticlassEvaluation("logits", 4, ignore_index=-100, statistics=["accuracy"]))
    with pytest.warns(UserWarning, match=r"every score is in \[0, 1\]"):
        metrics((scores, labels))


@pytest.mark.parametrize("mode", ["plain", "batches"])
def test_a_trainer_without_labels(mode: str, tmp_path: Path):
    rows = [{"logits": row["logits"]} for row in echo_rows(torch.randn(6, 3), indicators(6))]
    ours = trainer(Echo(), multilabel(), tmp_path, eval_dataset=rows, **MODES[mode])
    with pytest.warns(UserWarning, match="expected labels in the evaluation set, but the Trainer found none"):
        assert "eval_exact_match" not in ours.evaluate()


def test_what_is_no_pair_of_predictions_and_labels():
    logits = torch.randn(4, 3)
    with pytest.raises(InputError, match="expected labels with the predictions, got None"):
        multilabel()((logits, None))
    with pytest.raises(InputError, match="expected labels of one name, got 2"):
        multilabel()((logits, (torch.zeros(4), torch.zeros(4))))
    with pytest.raises(InputError, match="as many batches of predictions as of labels, got 1 and 2"):
        multilabel()(([logits], [logits, logits]))


def test_what_is_no_evaluation_for_a_trainer():
    with pytest.raises(DeclarationError, match=r"expected an evaluation of this package.*got 'accuracy'"):
        TrainerMetrics("accuracy")  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="the Trainer gives no weights: give take"):
        TrainerMetrics(BinaryEvaluation("logits", weighted=True))


def test_take_chooses_outputs_and_gives_weights():
    evaluation = BinaryEvaluation("logits", weighted=True, statistics=["accuracy"])
    metrics = TrainerMetrics(evaluation, take=lambda outputs, labels: (outputs[1], labels[0], labels[1]))
    outputs = torch.zeros(3), torch.tensor([2.0, -1.0, 1.0])
    assert metrics((outputs, (torch.tensor([1, 1, 0]), torch.tensor([3.0, 1.0, 2.0])))) == {"accuracy": 0.5}
