"""Every rule finds its example, is silent about its counterexample, and has a page; a diagnosis renders for all."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lightning_evalkit
from lightning_evalkit.diagnosis import rules
from lightning_evalkit.diagnosis.finding import Finding
from lightning_evalkit.diagnosis.numbers import SeenNumbers
from lightning_evalkit.diagnosis.report import Diagnosis, _significant, judged
from lightning_evalkit.diagnosis.rules import RULES, rules_about
from lightning_evalkit.diagnosis.seen import Owner, SeenLog, SeenMetric, SeenRun
from lightning_evalkit.errors import DeclarationError

ALL = [RULES[code] for code in RULES]


def test_every_file_of_rules_is_in_the_table() -> None:
    folder = Path(lightning_evalkit.__file__).parent / "diagnosis" / "rules"
    decorated = 0
    for path in sorted(folder.glob("*.py")):
        functions = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
        calls = [each.func for node in functions for each in node.decorator_list if isinstance(each, ast.Call)]
        decorated += sum(isinstance(each, ast.Name) and each.id == "rule" for each in calls)
    assert decorated == len(ALL) >= 18
    assert rules.RULES is RULES


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.code)
def test_a_rule_finds_its_example_and_nothing_else(rule: rules.Rule) -> None:
    found = found_by(rule, rule.example())
    assert found, rule.name
    for finding in found:
        assert finding.code == rule.code
        assert finding.subject
        assert finding.remedy == rule.remedy
        assert finding.headline.endswith(".")
        json.dumps(finding.evidence)
    assert not found_by(rule, rule.counterexample())


def found_by(rule: rules.Rule, seen: Any) -> list[Finding]:
    """What the rule alone finds, and chance does not explain."""
    return _significant(rule(seen) or [])


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.code)
def test_a_rule_is_silent_about_an_empty_run(rule: rules.Rule) -> None:
    assert not rule(SeenRun() if rule.about == "run" else SeenNumbers("binary", {}))


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.code)
def test_a_rule_has_a_page(rule: rules.Rule) -> None:
    assert rule.code.startswith("EK")
    assert len(rule.code) == 5
    for text in (rule.finds, rule.why, rule.remedy, rule.known_problems):
        assert len(text) > 20
        assert text.endswith(".")
    page = rule.page()
    assert page.startswith(f"# {rule.code}: {rule.name}\n")
    assert all(text in page for text in (rule.finds, rule.why, rule.remedy, rule.known_problems))
    [example, *_] = rule(rule.example())
    assert f"## Example\n\n{example.headline}" in page


def test_a_rule_that_never_finds_anything_would_be_noticed() -> None:
    """The test of the tests above."""
    blind = replace(ALL[0], check=lambda _: [])
    with pytest.raises(AssertionError):
        test_a_rule_finds_its_example_and_nothing_else(blind)


def mixed() -> SeenRun:
    owners = frozenset({Owner("train"), Owner("val")})
    metric = SeenMetric("<f1>", "BinaryF1Score", together={owners}, computes=1, forwards=3)
    return SeenRun(metrics={"<f1>": metric}, logs={"f1": SeenLog("f1", "validation_step", "object", "<f1>")})


def test_sections() -> None:
    found = judged(mixed(), "run")
    assert [finding.code for finding in found.issues] == ["EK102"]
    assert [finding.code for finding in found.errors] == ["EK102"]
    assert [finding.code for finding in found.tips] == ["EK124"]
    about = {rule.code for rule in rules_about("run")}
    assert {"EK102", "EK124", *found.passed, *found.not_applicable} == about
    assert "EK106" in found.not_applicable


def test_what_is_ignored_or_known_is_set_aside() -> None:
    assert [f.code for f in judged(mixed(), "run", ignore=["EK102"]).findings] == ["EK124"]
    known = judged(mixed(), "run", known=["EK102:<f1>"])
    assert [f.code for f in known.findings] == ["EK124"]
    assert [f.fingerprint for f in known.ignored] == ["EK102:<f1>"]
    with pytest.raises(DeclarationError, match="there is no rule 'EK999'"):
        judged(mixed(), "run", ignore=["EK999"])


def test_a_diagnosis_for_people_and_programs() -> None:
    found = judged(mixed(), "run")
    assert found.text().splitlines()[0] == f"1 issue and 1 tip; {len(found.passed)} rules passed."
    assert "EK102 error: <f1> (BinaryF1Score) counts train and val samples into one state." in str(found)
    assert "&#60;f1&#62;" in found.markdown()
    assert "<f1>" not in found._repr_html_()
    assert "&lt;f1&gt;" in found._repr_html_()
    assert shown_in_a_notebook(found) == {"text/plain": found.text(), "text/html": found._repr_html_()}
    read = json.loads(found.json())
    assert [each["code"] for each in read["issues"]] == ["EK102"]
    assert read["issues"][0]["fingerprint"] == "EK102:<f1>"
    [run] = found.sarif()["runs"]
    assert {each["id"] for each in run["tool"]["driver"]["rules"]} == {"EK102", "EK124"}
    assert [(each["ruleId"], each["level"]) for each in run["results"]] == [("EK102", "error"), ("EK124", "note")]


def shown_in_a_notebook(found: Diagnosis) -> dict[str, str]:
    """What IPython sends to a notebook for the last value of a cell."""
    formatter = pytest.importorskip("IPython.core.formatters").DisplayFormatter()
    shown: dict[str, str] = formatter.format(found)[0]
    return shown


def test_nothing_found_is_said() -> None:
    healthy = Diagnosis((), ("EK101",), ("EK106",))
    assert healthy.text() == "nothing was found; 1 rule passed."
    assert healthy.markdown()
    assert healthy._repr_html_().startswith("<p>")


def test_a_fingerprint_does_not_change_with_the_numbers() -> None:
    one, other = (Finding("EK101", f"f1 is {value}.", subject="val/f1") for value in (0.1, 0.2))
    assert one.fingerprint == other.fingerprint == "EK101:val/f1"
