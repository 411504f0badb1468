"""The page of all rules in the documentation is what the table says."""

from pathlib import Path

from lightning_evalkit.diagnosis.rules import RULES

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"
HEAD = "# Rules\n\n[Diagnose](diagnosis.md) asks these rules. This page is generated from their table.\n"


def test_the_page_is_up_to_date() -> None:
    """Write it again with: python tests/project/test_rules_page.py"""
    assert PAGE.read_text(encoding="utf-8") == written()


def written() -> str:
    pages = [RULES[code].page().replace("# ", "## ", 1).replace("\n## ", "\n### ") for code in sorted(RULES)]
    return "\n".join([HEAD, *pages])


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
