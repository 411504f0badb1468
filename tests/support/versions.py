"""Which release of a package is installed: references and abilities of other packages depend on it."""

import re
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any, NamedTuple

import pytest
from packaging.version import Version


def has(package: str, release: str) -> bool:
    """Whether this release of a package, or a later one, is installed."""
    return Version(version(package)) >= Version(release)


def since(package: str, release: str, reason: str) -> pytest.MarkDecorator:
    """Skip a test where a release that the package supports, but the test cannot use, is installed."""
    return pytest.mark.skipif(not has(package, release), reason=f"needs {package} {release}: {reason}")


class Change(NamedTuple):
    """Names of torchmetrics whose arguments or results are those of today from a release on."""

    names: str  # a pattern of them in lower case, without underscores
    release: str
    reason: str

    def since(self) -> pytest.MarkDecorator:
        """Skip a test that needs all of the names."""
        return since("torchmetrics", self.release, self.reason)

    def is_of(self, name: str) -> bool:
        """Whether it is one of the names."""
        return re.fullmatch(self.names, name.replace("_", "").lower()) is not None

    def is_here(self) -> bool:
        """Whether the installed release has it."""
        return has("torchmetrics", self.release)


EER = Change("(binary|multiclass|multilabel|)eer", "1.7", "earlier ones have no equal error rate")
IGNORED_LABELS = Change("(multilabel|)exactmatch", "1.7.2", "in earlier ones an ignored label is a wrong one")
CORRELATION = Change("(multiclass|multilabel)matthewscorrcoef", "1.7.2", "earlier ones give the integer 0 for 0/0")
TOP_K = Change(
    "multiclass(statscores|accuracy|precision|recall|specificity|negativepredictivevalue|f1score|fbetascore)"
    "|multiclasshammingdistance",
    "1.7.3",
    "earlier ones raise an error for top_k in several dimensions, or count wrongly",
)
NORMALIZATION = Change(
    "binary(averageprecision|precisionrecallcurve|roc|eer)", "1.8.1", "earlier ones have no argument normalization"
)
UNDEFINED = Change(
    "(binary|multiclass|multilabel|)(precisionrecallcurve|recallatfixedprecision|precisionatfixedrecall)",
    "1.8.2",
    "earlier ones give 0 for 0/0 on a curve, and the threshold 1e6 where none is good enough",
)


def compared(names: Iterable[str], *changes: Change) -> list[Any]:
    """The names to compare with torchmetrics' as parameters; one that an earlier release has otherwise is skipped."""
    return [pytest.param(name, marks=[each.since() for each in changes if each.is_of(name)]) for name in names]


compiles = since("torch", "2.7", "earlier ones cannot trace an update as one graph, and run it eagerly")


def skip_without_transformers(text: str) -> None:
    """Skip what needs transformers where it is not installed: it is an extra."""
    if "integrations.transformers" in text:
        pytest.importorskip("transformers")


STRICT: dict[str, Any] = {"weights_only": True} if has("lightning", "2.6") else {}
"""What ``fit``, ``test`` and ``predict`` are told, so that they load plain numbers and tensors only."""
