"""Which release of a package is installed: references and abilities of other packages depend on it."""

from importlib.metadata import version
from typing import Any

import pytest
from packaging.version import Version


def has(package: str, release: str) -> bool:
    """Whether this release of a package, or a later one, is installed."""
    return Version(version(package)) >= Version(release)


def since(package: str, release: str, reason: str) -> pytest.MarkDecorator:
    """Skip a test where a release that the package supports, but the test cannot use, is installed."""
    return pytest.mark.skipif(not has(package, release), reason=f"needs {package} {release}: {reason}")


as_torchmetrics = since("torchmetrics", "1.9", "its arguments and results are the reference, and earlier ones differ")
compiles = since("torch", "2.7", "earlier ones cannot trace an update as one graph, and run it eagerly")


def skip_without_transformers(text: str) -> None:
    """Skip what needs transformers where it is not installed: it is an extra."""
    if "integrations.transformers" in text:
        pytest.importorskip("transformers")


STRICT: dict[str, Any] = {"weights_only": True} if has("lightning", "2.6") else {}
"""What ``fit``, ``test`` and ``predict`` are told, so that they load plain numbers and tensors only."""
