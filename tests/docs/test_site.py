"""The site of the documentation is built and loads nothing from elsewhere; no link in it is broken."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from builders.mounts import ENVIRONMENT
from builders.scripts import module_of

REPOSITORY = Path(__file__).parents[2]
PAGES = [
    *REPOSITORY.glob("*.md"),
    *(REPOSITORY / "docs").rglob("*.md"),
    REPOSITORY / "tests/README.md",
    REPOSITORY / "benchmarks/NOTES.md",
]


class Page(HTMLParser):
    """The links of a page, what it loads, and the names that links can end in."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if found.get("id"):
            self.names.add(str(found["id"]))
        if tag == "a" and found.get("href"):
            self.links.add(str(found["href"]))
        elif tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.add(str(found["href"]))
        elif tag in ("script", "img", "iframe") and found.get("src"):
            self.loaded.add(str(found["src"]))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    """The pages of the site by their paths. A warning of MkDocs is an error."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "-q",
            "-f",
            ".mkdocs.yml",
            "-d",
            folder,
        ],
        cwd=REPOSITORY,
        env={**ENVIRONMENT, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return {
        path: Page(path.read_text()) for path in folder.rglob("*.html") if path.name != "404.html"
    }


def test_no_link_of_the_site_is_broken(site: dict[Path, Page]) -> None:
    broken = []
    for path, page in site.items():
        for link in page.links | page.loaded:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            known = site.get(target)
            is_there = target.exists() and (
                not parts.fragment or known is None or parts.fragment in known.names
            )
            if not is_there:
                broken.append((path.name, link))
    assert broken == []


def test_the_site_loads_nothing_from_other_hosts(site: dict[Path, Page]) -> None:
    assert {
        each for page in site.values() for each in page.loaded if urlsplit(each).netloc
    } == set()


def test_each_page_is_on_the_site(site: dict[Path, Page]) -> None:
    [home] = [page for path, page in site.items() if path.name == "index.html"]
    shown = {link.partition("#")[0] for link in home.links}
    pages = {path.relative_to(REPOSITORY / "docs") for path in (REPOSITORY / "docs").rglob("*.md")}
    assert {str(path.with_suffix(".html")) for path in pages} <= shown


def anchors(page: Path) -> set[str]:
    """The names of headings as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_no_link_of_a_page_in_the_repository_is_broken(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    broken = []
    for link in re.findall(r"(?<!`)\]\(([^)\s]+)\)", text):
        parts = urlsplit(link)
        if parts.scheme:
            assert parts.scheme in ("https", "http"), link
            continue
        target = (page.parent / parts.path).resolve() if parts.path else page
        is_there = target.exists() and (not parts.fragment or parts.fragment in anchors(target))
        if not is_there:
            broken.append(link)
    assert broken == []


def test_the_reference_says_what_the_code_does() -> None:
    pages = dict(module_of(REPOSITORY / "docs/site.py").pages())
    assert "| `--view VIEW` | What to show: `chunks`, " in pages["reference/commands.md"]
    assert (
        "| `cache_ttl` | `ZARRFUSE_CACHE_TTL` | a text or a number |"
        in pages["reference/configuration.md"]
    )
    assert "| `cache_ttl=SECONDS` | `--cache-ttl` |" in pages["reference/mount-words.md"]
    assert "`max_readahead`" in pages["reference/mount-words.md"].partition("## Refused")[2]
    assert "| `zarrfuse_errors_total` | counter | `errno` |" in pages["reference/metrics.md"]
    assert "| `user.zarr.shape` |" in pages["reference/attributes.md"]
    assert "| `Stale` | ESTALE |" in pages["reference/errors.md"]


def test_the_metrics_of_the_status_page_are_those_of_the_reference() -> None:
    pages = dict(module_of(REPOSITORY / "docs/site.py").pages())
    told = set(re.findall(r"`(zarrfuse_\w+)`", (REPOSITORY / "docs/status.md").read_text()))
    assert told == set(re.findall(r"`(zarrfuse_\w+)`", pages["reference/metrics.md"]))
