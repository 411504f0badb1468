"""The tests themselves: files that one person can read, which also keeps the workers of the suite equally busy."""

from collections import Counter
from pathlib import Path

FILES = sorted(Path(__file__).parents[1].rglob("*.py"))
MOST_LINES = 600


def test_no_file_of_tests_is_long():
    assert len(FILES) > 100
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def test_every_file_of_tests_has_its_own_name():
    """Without packages, pytest would take two files of one name for one module."""
    names = Counter(path.name for path in FILES if path.name != "conftest.py")
    assert [name for name, count in names.items() if count > 1] == []
