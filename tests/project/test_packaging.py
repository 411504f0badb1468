"""The wheel works in a clean environment away from the source, and set-up files agree with each other."""

import ast
import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from packaging.requirements import Requirement
from packaging.version import Version
from pages import PAGES

import lightning_evalkit
from lightning_evalkit import Counts
from lightning_evalkit.diagnosis import explain

REPOSITORY = Path(__file__).parents[2]


def ended(*command: object, folder: Path) -> subprocess.CompletedProcess[str]:
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**surroundings, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )


def run(*command: object, folder: Path) -> str:
    """The standard output of a command that must succeed."""
    finished = ended(*command, folder=folder)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def declared() -> dict:
    """The [project] table of pyproject.toml."""
    tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]


# ---- the wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, REPOSITORY, folder=folder)
    [built] = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of an environment that has the wheel, and sees this one's packages but not the editable install."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=sys.platform != "win32")
    scripts = folder / ("Scripts" if sys.platform == "win32" else "bin")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", scripts / "python"]
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, folder=folder)
    site = run(scripts / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=folder)
    # A folder named in a .pth file is searched, but its own .pth files, which lead to the source, are not read.
    packages = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    Path(site.strip(), "other_packages.pth").write_text("\n".join(packages), encoding="utf-8")
    return scripts


@pytest.mark.slow
def test_wheel_has_the_package_and_nothing_else(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        [entry_points] = [archive.read(name).decode() for name in names if name.endswith("entry_points.txt")]
    source = REPOSITORY / "lightning_evalkit"
    modules = {path.relative_to(REPOSITORY).as_posix() for path in source.rglob("*.py")}
    assert "lightning_evalkit/py.typed" in names
    assert modules <= names
    assert {name.split("/")[0] for name in names} == {
        "lightning_evalkit",
        f"lightning_evalkit-{lightning_evalkit.__version__}.dist-info",
    }
    assert not [name for name in names if "/test" in name or name.endswith((".pyc", ".ipynb"))]
    assert re.search(r"^evalkit = lightning_evalkit\.cli:console$", entry_points, re.MULTILINE)
    assert any(name.endswith("LICENSE") for name in names)


PROGRAM = """
import runpy, sys, lightning_evalkit
from importlib.metadata import version
from lightning_evalkit.cli import main
print(lightning_evalkit.__file__)
print(version("lightning-evalkit"))

def called(*words):
    sys.argv = ["cli", *words]
    runpy.run_module("lightning_evalkit.cli", run_name="__main__", alter_sys=True)

assert main(["explain", "--counts", "40,10,10,40"]) == 0
called("fit", "--model=BinaryClassifier", "--data=BalancedDataModule", "--model.learning_rat=1")
"""
"""The command as a function, then ``python -m lightning_evalkit.cli``, which ends the process."""


@pytest.mark.slow
def test_wheel_works_away_from_the_source(environment: Path, tmp_path: Path):
    finished = ended(environment / "python", "-c", PROGRAM, folder=tmp_path)
    place, version, explained = finished.stdout.split("\n", 2)
    assert Path(place).is_relative_to(environment.parent)
    assert not Path(place).is_relative_to(REPOSITORY)
    assert version == lightning_evalkit.__version__
    assert explained.strip() == explain(Counts(tp=40, fp=10, fn=10, tn=40)).text()
    assert finished.returncode == 2, "of the wrong option"
    assert finished.stderr == (
        "evalkit fit: model: BinaryClassifier has no option 'learning_rat': did you mean 'learning_rate'?\n"
    )
    assert list(tmp_path.iterdir()) == [], "running it leaves nothing behind"


@pytest.mark.slow
def test_wheel_carries_the_experiments(wheel: Path):
    place = "lightning_evalkit/experiments/"
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith(place) and name.endswith(".yaml")]
        carried = {name.removeprefix(place): archive.read(name) for name in names}
    source = REPOSITORY / "experiments"
    kept = [path for path in source.rglob("*.yaml") if "runs" not in path.relative_to(source).parts]
    assert carried == {path.relative_to(source).as_posix(): path.read_bytes() for path in kept}


@pytest.mark.slow
def test_wheel_reproduces_in_an_empty_folder(environment: Path, tmp_path: Path):
    shown = run(environment / "evalkit", "reproduce", "--quick", "--epochs", "1", folder=tmp_path)
    assert f"tensorboard --logdir {Path('runs', 'reproduce', 'logs')}" in shown
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    results = json.loads((tmp_path / "runs/reproduce/results.json").read_text(encoding="utf-8"))
    assert [row["scenario"] for row in results["scenarios"]] == ["balanced", "imbalanced", "poor"]
    assert (tmp_path / "runs/reproduce/accuracy_equals_f1.png").stat().st_size > 10_000


# ---- the source distribution


def test_source_distribution_has_everything_that_the_tests_read():
    files = {each.distribution_path for each in SdistBuilder(str(REPOSITORY)).recurse_included_files()}
    pages = {page.relative_to(REPOSITORY).as_posix() for page in PAGES}
    assert pages <= {*files, "README.md"}  # which goes along with the metadata
    assert {
        "Makefile",
        "constraints.txt",
        "constraints-oldest.txt",
        "experiments/base.yaml",
        "tests/conftest.py",
    } <= files


# ---- set-up files


def recipe(target: str) -> str:
    """The lines of the Makefile that a target runs."""
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    [found] = re.findall(rf"^{target}:.*\n((?:\t.*\n?)+)", makefile, re.MULTILINE)
    return found


def test_makefile_has_the_two_commands_of_the_readme():
    assert "evalkit" in recipe("demo")
    assert "pytest" in recipe("test")
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert "make demo" in readme
    assert "make test" in readme


def test_continuous_integration_calls_make_test():
    script = REPOSITORY / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert "make test" in script.read_text(encoding="utf-8").splitlines()


def pins(file: str = "constraints.txt") -> dict[str, str]:
    """The pinned version of every package in a file of constraints."""
    lines = (REPOSITORY / file).read_text(encoding="utf-8").splitlines()
    pinned = {}
    for requirement in (Requirement(line) for line in lines if line.strip() and not line.startswith("#")):
        [only] = requirement.specifier
        assert only.operator == "==", f"{requirement} is not one version"
        pinned[plain(requirement.name)] = only.version
    return pinned


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_oldest_releases_that_are_allowed_are_those_that_are_tested():
    project, oldest = declared(), pins("constraints-oldest.txt")
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["data"], *extras["transformers"]]
    floors = {}
    for requirement in map(Requirement, lines):
        [floor] = [each.version for each in requirement.specifier if each.operator == ">="]
        floors[plain(requirement.name)] = Version(floor)
    assert len(floors) == 14
    assert floors == {name: Version(oldest[name]) for name in floors}
    assert oldest["pytorch-lightning"] == oldest["lightning"]


def test_every_file_is_written_in_the_oldest_python():
    """What a newer grammar adds is refused, whichever Python runs this."""
    files = [
        path for part in ("lightning_evalkit", "tests", "experiments") for path in (REPOSITORY / part).rglob("*.py")
    ]
    assert len(files) > 400
    major, minor = map(int, declared()["requires-python"].removeprefix(">=").split("."))
    for path in files:
        ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(major, minor))
    with pytest.raises(SyntaxError):
        ast.parse("try: f()\nexcept* ValueError: pass", feature_version=(major, minor))


def test_every_requirement_is_pinned_within_its_bounds():
    project, pinned = declared(), pins()
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    requirements = [Requirement(line) for line in [*project["dependencies"], *extras]]
    checked = [requirement for requirement in requirements if plain(requirement.name) != plain(project["name"])]
    assert "torch" in pinned
    assert len(checked) >= 7
    for requirement in checked:
        assert plain(requirement.name) in pinned, f"{requirement.name} is not pinned"
        assert requirement.specifier.contains(pinned[plain(requirement.name)]), f"{requirement} excludes its pin"


def test_version_is_in_the_changelog():
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^#+ .*\b{re.escape(lightning_evalkit.__version__)}\b", changelog, re.MULTILINE)
