"""What the docstrings show is what happens."""

import doctest
import importlib
import pkgutil

import lightning_evalkit


def test_docstring_examples_are_true():
    attempted = 0
    modules = [module.name for module in pkgutil.walk_packages(lightning_evalkit.__path__, "lightning_evalkit.")]
    for name in modules:
        result = doctest.testmod(importlib.import_module(name))
        assert result.failed == 0, name
        attempted += result.attempted
    assert len(modules) >= 34
    assert attempted >= 8
