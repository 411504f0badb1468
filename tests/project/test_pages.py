"""What the pages show is what happens: code runs, commands print what is shown, links lead somewhere."""

from pathlib import Path

import pytest
from pages import PAGES, REPOSITORY, anchors, blocks, commands, links, run, shortened
from versions import skip_without_transformers

from lightning_evalkit.statistics import SCORE_STATISTICS, STATISTICS

README = REPOSITORY / "README.md"
INDEX = REPOSITORY / "docs" / "index.md"
SMOOTH = pytest.mark.filterwarnings(
    "ignore::lightning.pytorch.utilities.warnings.PossibleUserWarning",
    "ignore::lightning_evalkit.errors.UndefinedWarning",
    "ignore:.*GPU available.*",
    "ignore:Checkpoint directory .* exists and is not empty",
)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


def test_pages_were_found():
    assert {README, INDEX, REPOSITORY / "CONTRIBUTING.md"} <= set(PAGES)
    assert len(PAGES) >= 14


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page adds to the tables of statistics is gone after it."""
    for table in (STATISTICS, SCORE_STATISTICS):
        monkeypatch.setattr(table, "_entries", {**table._entries})
        monkeypatch.setattr(table, "_synonyms", {**table._synonyms})


@SMOOTH
@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    skip_without_transformers(text_of(page))
    monkeypatch.chdir(tmp_path)  # whatever an example writes is thrown away
    run(blocks(text_of(page)), page.name)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files_and_headings(page: Path):
    for link in links(text_of(page)):
        path, _, heading = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link} leads nowhere"
        assert not heading or heading in anchors(text_of(target)), f"{link}: there is no such heading"


def test_every_page_is_reached_from_the_index():
    reached = {(INDEX.parent / link.partition("#")[0]).resolve() for link in links(text_of(INDEX))}
    assert {page for page in PAGES if page.parent == INDEX.parent} <= {*reached, INDEX}
    assert "docs/index.md" in links(text_of(README))


def test_the_readme_is_short_and_begins_with_an_example():
    lines = text_of(README).splitlines()
    assert len(lines) <= 200
    first, *_ = [block for block in blocks(text_of(README)) if block.language == "python"]
    output = next(block for block in blocks(text_of(README)) if block.language == "text" and block.line > first.line)
    assert "LightningModule" in first.source
    assert output.line + len(output.source.splitlines()) < 60


# ---- a test of the tests

SAMPLE = """
```python
number = 1
print("number", number / 3)
```

```text
number 0.333...
```

1. in a list

   ```csv some.csv
   a,b
   ```

```sh
# a comment alone
$ NAME=1 evalkit explain --counts 1,2,3,4 \\
    --format json  # a comment
make test
```
"""


def test_blocks_and_commands_are_found():
    found = blocks(SAMPLE)
    assert [(block.language, block.file, block.line) for block in found] == [
        ("python", "", 3),
        ("text", "", 8),
        ("csv", "some.csv", 14),
        ("sh", "", 18),
    ]
    assert found[2].source == "a,b\n"
    assert commands(found[3].source) == [
        ["evalkit", "explain", "--counts", "1,2,3,4", "--format", "json"],
        ["make", "test"],
    ]


def test_a_page_runs_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    run(blocks(SAMPLE), "SAMPLE")
    assert Path("some.csv").read_text(encoding="utf-8") == "a,b\n"


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("number 0.333", "number 0.4", "SAMPLE, line 8: the page shows"),
        ("--counts 1,2,3,4", "--counts 1,2,3", "ended with 2"),
        ("make test", "make tests", "there is no such target"),
        ("make test", "rm test", "does not know how to run 'rm'"),
        ("make test", "pip install '.[nothing]'", "there is no extra"),
        ("make test", "pip install numpy", "numpy is another package"),
        ("make test", "tensorboard --logdir runs", "nothing was logged there"),
        ("make test", "torchrun --no-python evalkit fit --model Nothing", "ended with 2"),
        ("make test", "python absent.py", "there is no such file"),
        ("make test", "pytest tests/absent", "there are no such tests"),
        ("```csv some.csv", "```json", "line 14"),
    ],
)
def test_a_wrong_page_is_caught(
    right: str, wrong: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pytest.fail.Exception, match=complaint):
        run(blocks(SAMPLE.replace(right, wrong)), "SAMPLE")


def test_a_traceback_points_at_the_line_of_the_page():
    with pytest.raises(AssertionError) as caught:
        run(blocks(SAMPLE.replace('print("number", number / 3)', "assert number == 2")), "SAMPLE")
    assert caught.traceback[-1].lineno + 1 == 4


def test_commands_are_cut_short_but_keep_what_the_page_says():
    assert shortened(["explain", "--tp", "1"]) == ["explain", "--tp", "1"]
    assert shortened(["fit", "--trainer.max_epochs", "3"])[3:] == ["--trainer.accelerator=cpu"]
    assert shortened(["fit", "--trainer.accelerator", "gpu"])[-1] == "--trainer.accelerator=cpu"
    assert "--quick" in shortened(["reproduce"])


def test_links_and_headings_are_found():
    text = "# Speed, memory\n[a](docs/x.md#one-two) ![p](y.png) [web](https://lightning.ai)\n```sh\n[no](z)\n```\n"
    assert links(text) == ["docs/x.md#one-two", "y.png"]
    assert anchors(text) == {"speed-memory"}
