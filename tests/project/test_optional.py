"""Metrics, functions and evaluations need torch and torchmetrics only; other parts say what to install."""

import subprocess
import sys
import textwrap

import pytest

BLOCK = """
    import importlib.metadata
    import sys

    blocked = {"lightning", "pytorch_lightning", "lightning_fabric"}
    blocked |= {"tensorboard", "matplotlib", "rich", "jsonargparse"}
    blocked |= {"transformers", "accelerate", "pandas", "scipy", "sklearn", "pyarrow"}
    version = importlib.metadata.version


    def unknown(name):
        if name.replace("-", "_") in blocked:
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)


    class Absent:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in blocked:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)


    importlib.metadata.version = unknown  # torchmetrics asks for it
    sys.meta_path.insert(0, Absent())
"""


def ended(*sources: str) -> subprocess.CompletedProcess[str]:
    """A process in which the optional packages are not installed."""
    source = "\n".join(textwrap.dedent(each) for each in (BLOCK, *sources))
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.slow
def test_metrics_functions_and_evaluations_work_without_lightning_and_what_draws():
    finished = ended("""
        import torch

        from lightning_evalkit import BinaryEvaluation
        from lightning_evalkit.functional import binary_f1_score
        from lightning_evalkit.metrics import Accuracy, BinaryAUROC

        scores, target = torch.tensor([0.9, 0.2, 0.7, 0.1]), torch.tensor([1, 0, 0, 0])
        evaluation = BinaryEvaluation("probabilities", curves=True)
        evaluation.update(scores, target)
        print(float(evaluation.compute()["accuracy"]), float(Accuracy(task="binary")(scores, target)))
        print(float(BinaryAUROC()(scores, target)), float(binary_f1_score(scores, target)) > 0.6)
        print(evaluation.explain("accuracy", "f1").headline)
    """)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines()[:2] == ["0.75 0.75", "1.0 True"]


@pytest.mark.slow
def test_parts_that_need_more_say_what_to_install():
    parts = {
        "lightning_evalkit.callbacks": "lightning",
        "lightning_evalkit.modules": "lightning",
        "lightning_evalkit.data": "lightning",
        "lightning_evalkit.sinks.figures": "matplotlib",
        "lightning_evalkit.sinks.raster": "matplotlib",
        "lightning_evalkit.sinks.tensorboard": "tensorboard",
        "lightning_evalkit.sinks.terminal": "rich",
        "lightning_evalkit.cli": "jsonargparse",
        "lightning_evalkit.integrations.transformers": "transformers",
    }
    finished = ended(f"""
        from importlib import import_module

        for part in {[*parts]}:
            try:
                import_module(part)
            except ModuleNotFoundError as missing:
                print(missing)
    """)
    assert finished.returncode == 0, finished.stderr
    extras = {"transformers": '"lightning-evalkit[transformers]"'}
    expected = [
        f"needs {package}, which is not installed: pip install {extras.get(package, package)}"
        for package in parts.values()
    ]
    said = finished.stdout.splitlines()
    assert len(said) == len(expected)
    assert all(line.endswith(ending) for line, ending in zip(said, expected, strict=True)), said
