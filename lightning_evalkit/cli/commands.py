"""The commands of ``evalkit``, and examples of those that train."""

COMMANDS = {
    "explain": "Say why two numbers of a confusion matrix are equal or not.",
    "diagnose": "Say what an expert would say about the numbers of a confusion matrix, checkpoint or run.",
    "compare": "Say which numbers of two runs differ by more than chance.",
    "rules": "List what Diagnose looks for in a run.",
    "rule": "Print the page of one rule: what it finds, why it matters, the remedy.",
    "reproduce": "Show where accuracy and F1 coincide, part and cross: data, training, table, figure, curves.",
    "fit": "Train a model (Lightning CLI).",
    "validate": "Evaluate a model on validation data (Lightning CLI).",
    "test": "Evaluate a model on test data (Lightning CLI).",
    "predict": "Write a model's probabilities to a file (Lightning CLI).",
    "sweep": "Run a grid of values over any configuration, and put the results into one table.",
}

EXAMPLES = {
    "fit": (
        "evalkit fit --config accuracy_equals_f1/balanced",
        "evalkit fit --model BinaryClassifier --data BalancedDataModule \\\n      --trainer.max_epochs 5",
        "evalkit fit --model BinaryClassifier --data TabularDataModule \\\n"
        "      --data.path my.csv --data.target label",
    ),
    "validate": ("evalkit validate --run runs/accuracy_equals_f1/balanced",),
    "test": (
        "evalkit test --run runs/accuracy_equals_f1/balanced",
        "evalkit test --run runs/accuracy_equals_f1/balanced --data.test_size 500",
    ),
    "predict": (
        "evalkit predict --run runs/accuracy_equals_f1/balanced",
        "evalkit predict --run runs/accuracy_equals_f1/balanced \\\n      --output predictions.parquet",
    ),
}


def example(command: str) -> str:
    """The example for a command without arguments."""
    lines = "\n".join(f"  {line}" for line in EXAMPLES[command])
    expected = "a model and data, or a configuration that names them" if command == "fit" else "a run, or a checkpoint"
    return f"evalkit {command}: expected {expected}.\nFor example:\n{lines}\nAll options: evalkit {command} --help"
