"""What the docstrings show is what happens."""

import doctest
import importlib
import pkgutil
from importlib.util import find_spec

import lightning_evalkit


def test_docstring_examples_are_true():
    attempted = 0
    modules = [module.name for module in pkgutil.walk_packages(lightning_evalkit.__path__, "lightning_evalkit.")]
    for name in modules:
        if "transformers" in name and find_spec("transformers") is None:
            continue
        result = doctest.testmod(importlib.import_module(name))
        assert result.failed == 0, name
        attempted += result.attempted
    assert len(modules) >= 34
    assert attempted >= 8
