"""The coverage grid of the documentation, smaller and with fixed seeds (law 4)."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[2] / "experiments" / "uncertainty"
REPETITIONS = 400
"""Of a share of so many the standard error is 0.011; 10,000 gave 0.919 to 0.976 in every cell."""


def _loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{name}_grid", SCRIPTS / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GRID, FEW = _loaded("coverage").grid(), _loaded("few_samples")


def test_the_grid_is_as_large_as_was_promised():
    groups = [cell.group for cell in GRID]
    cases = {(cell.group, cell.case, cell.truth if cell.group == "scores" else 0) for cell in GRID}
    assert [sum(group == each for group, *_ in cases) for each in ("one table", "all classes", "scores")] == [12, 7, 6]
    assert len(groups) == 36 + 14 + 6


@pytest.mark.parametrize("cell", GRID, ids=lambda cell: f"{cell.statistic}-{cell.case}-{cell.truth:.3f}")
def test_default_intervals_contain_the_truth_as_often_as_they_say(cell: object):
    covered, _ = cell.covered(REPETITIONS, seed=1)
    assert 0.90 <= covered <= 0.985


def test_the_grid_finds_a_method_out():
    """The percentile bootstrap of a good classifier, for contrast."""
    cell = next(cell for cell in GRID if cell.statistic == "balanced_accuracy" and "n = 50, 10%" in cell.case)
    assert cell.covered(REPETITIONS, "bootstrap", seed=1)[0] < 0.8


# ---- averages over classes with few samples


def test_the_rule_gives_intervals_that_hold_and_refuses_those_that_do_not():
    """One sample in each of fifty classes: F1 is too low on average. With twenty it is not."""
    few, enough = (FEW.simulated(FEW.Case(50, 1.0, rare, 0.6, False), 250, seed=1)["f1"] for rare in (1, 20))
    assert few.given == 0
    assert few.without < 0.7
    assert enough.given == 1
    assert 0.90 <= enough.with_rule == enough.without


def test_rows_say_what_the_worst_case_is():
    found = {
        FEW.Case(3, 1.0, rare, 0.9, False): dict.fromkeys(FEW.STATISTICS, FEW.Found(1.0, with_rule, 0.6))
        for rare, with_rule in zip(FEW.RARE, (0.89, 0.9, 0.95, 0.95, 0.95), strict=True)
    }
    table = FEW.rows(found)
    assert len(table) == 2 + len(FEW.STATISTICS) * (len(FEW.RARE) + 1)
    assert "| f1/macro | 1 | 100% | 0.890 | 0.0% | 0.600 |" in table
    assert "| f1/macro | all | 100% | 0.890 | 80.0% | 0.600 |" in table
    assert len({(case.classes, case.part, case.rare, case.accuracy, case.worse) for case in FEW.grid()}) == 225
