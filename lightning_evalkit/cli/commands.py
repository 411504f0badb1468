"""The commands of ``evalkit``."""

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
