"""The questions that the project started from, as scripts: Diagnose names the cause, and is silent once mended."""

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "experiments" / "diagnose"
EXPECTED = {"accuracy_and_loss": "EK205", "accuracy_equals_f1": "EK103", "multilabel_accuracy": "EK101"}


def test_every_script_is_tried() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.py")) == sorted(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_cause_is_named_and_the_mended_twin_is_silent(name: str) -> None:
    script = runpy.run_path(str(FOLDER / f"{name}.py"))
    asked, mended = script["main"]().values()
    assert EXPECTED[name] in asked
    assert mended == []
    assert EXPECTED[name] in script["__doc__"]
    assert f"python experiments/diagnose/{name}.py" in script["__doc__"]
