"""The pages that users read: their lines, their links, and the tree that docs/design.md shows."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/**/*.md")])


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)


def anchors(page: Path) -> set[str]:
    """Where a link into a page may lead, by the rule of GitHub: letters, digits and hyphens of the headings."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_are_short(page):
    """At most 100 characters. A row of a table cannot be broken, so it may be longer."""
    lines = enumerate(page.read_text().splitlines(), 1)
    assert not [number for number, line in lines if len(line) > 100 and not line.lstrip().startswith("|")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_within_the_project_lead_somewhere(page):
    text = prose(page)
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"^\[[^\]]+\]: (\S+)$", text, re.M)
    for target in targets:
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


def test_the_tree_in_the_design_is_the_tree():
    """Every folder whose contents docs/design.md shows has just these."""
    listing = (ROOT / "docs" / "design.md").read_text().split("## The tree")[1].split("##")[0]
    shown: dict[Path, set[str]] = {}
    parents: list[tuple[int, Path]] = []
    for indent, name in re.findall(r"^( +)(\S+)", listing, re.M):
        while parents and parents[-1][0] >= len(indent):
            parents.pop()
        folder = parents[-1][1] if parents else ROOT
        if parents:
            shown.setdefault(folder, set()).add(name)
        parents.append((len(indent), folder / name))
    assert ROOT / "src/cvpo/algorithms/cvpo" in shown
    for folder, names in shown.items():
        found = {path.name + "/" * path.is_dir() for path in folder.iterdir()}
        assert found - {"__pycache__/", "py.typed"} - ({"__init__.py"} - names) == names, folder
