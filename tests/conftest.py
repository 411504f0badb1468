import gc
import multiprocessing
import os
from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

# Two cores are shared by the workers of pytest-xdist: more threads per worker would only get in each other's way.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
# What Lightning's CLI calls of jsonargparse is Lightning's matter.
os.environ.setdefault("JSONARGPARSE_DEPRECATION_WARNINGS", "off")

# Ranks are forked from a process that has no thread and has imported, once, what takes each of them seconds.
multiprocessing.set_forkserver_preload(["lightning_evalkit.cli.training", "sklearn.metrics", "hypothesis", "pytest"])

# A few examples, the same each time, are tried by default; others and many with --hypothesis-profile=many.
settings.register_profile("some", max_examples=30, deadline=None, derandomize=True)
settings.register_profile("many", max_examples=1_000, deadline=None)
settings.load_profile("some")


@pytest.fixture(autouse=True)
def _same_random_numbers_in_every_test() -> None:
    torch.manual_seed(0)


@pytest.fixture
def _no_graph_of_another_test() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def pytest_collection_finish() -> None:
    gc.freeze()  # a million objects that live to the end: no collection needs to look at them


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow = {item.path for item in items if "slow" in item.keywords}
    items.sort(key=lambda item: item.path not in slow)  # files that take minutes do not come last, alone
    if torch.cuda.is_available():
        return
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
