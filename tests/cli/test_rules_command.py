"""evalkit rules and evalkit rule: every rule is listed, and each has its page."""

import pytest

from lightning_evalkit.cli import main
from lightning_evalkit.diagnosis.rules import RULES


def test_every_rule_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules"]) == 0
    out = capsys.readouterr().out
    assert all(f"{code} " in out and RULES[code].name in out for code in RULES)
    assert max(map(len, out.splitlines())) <= 80


def test_the_page_of_a_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", "ek101"]) == 0
    assert capsys.readouterr().out == RULES["EK101"].page()
    assert main(["rule", "EK999"]) == 2
    assert "there is no rule 'EK999': expected one of EK101" in capsys.readouterr().err
