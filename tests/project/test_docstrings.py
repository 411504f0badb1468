"""What the docstrings show is what happens."""

import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from importlib.util import find_spec

import lightning_evalkit


def methods() -> Iterator[tuple[type, str]]:
    """Every public method that a public class of this package defines."""
    for module in pkgutil.walk_packages(lightning_evalkit.__path__, "lightning_evalkit."):
        if module.name.endswith("__main__") or ("transformers" in module.name and find_spec("transformers") is None):
            continue
        classes = [each for each in vars(importlib.import_module(module.name)).values() if inspect.isclass(each)]
        for owner in (each for each in classes if each.__module__ == module.name and each.__name__[0] != "_"):
            for name, found in vars(owner).items():
                code = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
                if inspect.isfunction(code) and code.__module__ == module.name and not name.startswith("_"):
                    yield owner, name


def is_documented(owner: type, name: str) -> bool:
    """Whether it, or what it overrides, has a docstring."""
    return any(inspect.getdoc(vars(each)[name]) for each in owner.__mro__ if name in vars(each))


def test_an_undocumented_method_overrides_a_documented_one():
    found = [*methods()]
    assert len(found) > 600, "classes are looked for in the wrong place"
    assert [f"{owner.__name__}.{name}" for owner, name in found if not is_documented(owner, name)] == []


def test_a_method_without_any_docstring_would_be_found():
    class Base:
        def described(self):
            """Say something."""

    class Derived(Base):
        def described(self):
            return 1

        def silent(self):
            return 2

    assert is_documented(Derived, "described")
    assert not is_documented(Derived, "silent")


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
