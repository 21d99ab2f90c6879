"""The documentation site: its navigation, its links, and what finds dead ones. `make docs-site` builds it."""

from pathlib import Path

import pytest

from tools.code_blocks import ROOT, documents
from tools.docs_site.checking import faults
from tools.docs_site.navigation import Site, sites
from tools.docs_site.places import Place, link, place_of
from tools.docs_site.staging import Staging

SITES = {site.language: site for site in sites()}
PAGES = [page for site in SITES.values() for page in site.pages()]
# Documents of the repository that are not pages of the site: those of folders, shown with their files.
NOT_PAGES = ("clients/", "examples/", "lingua-sdk/", "bench/", "deploy/", "tests/", "tools/")
TUTORIALS = ("first-translation.md", "first-node.md", "first-room.md", "first-deployment.md")


def test_every_page_is_in_the_navigation_once_and_every_entry_exists() -> None:
    assert sorted(PAGES) == sorted(set(PAGES))
    assert [page for page in PAGES if not (ROOT / page).is_file()] == []
    names = {path.relative_to(ROOT).as_posix() for path in documents()}
    # The decisions are listed by their own page.
    wanted = {name for name in names if not name.startswith((*NOT_PAGES, "docs/decisions/0"))}
    assert sorted(wanted - set(PAGES)) == []


def test_sections_are_those_that_readers_know() -> None:
    titles = [title for entry in SITES["en"].nav for title in entry]
    assert titles == ["Start", "Tutorials", "How-to", "Reference", "Explanation"]


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_is_in_both_languages_with_the_same_code(name: str) -> None:
    english, chinese = ((ROOT / folder / name).read_text("utf-8") for folder in ("docs", "docs/zh"))
    assert f"docs/{name}" in SITES["en"].pages()
    assert f"docs/zh/{name}" in SITES["zh"].pages()
    for mark in ("\n## ", "\n- ", "\n|", "!["):
        assert english.count(mark) == chinese.count(mark), mark
    # Every other part between fences is code.
    assert english.split("```")[1::2] == chinese.split("```")[1::2]


@pytest.mark.parametrize(
    ("file", "place"),
    [
        ("docs/README.md", Place("en", "README.md")),
        ("docs/decisions/0001-x.md", Place("en", "decisions/0001-x.md")),
        ("docs/zh/first-node.md", Place("zh", "first-node.md")),
        ("README.zh-CN.md", Place("zh", "overview.md")),
        ("deploy/nginx.conf", Place("en", "files/deploy/nginx.conf.md")),
        ("examples/backends/README.md", Place("en", "files/examples/backends/README.md")),
    ],
)
def test_a_file_has_its_place(file: str, place: Place) -> None:
    assert place_of(file) == place


@pytest.mark.parametrize(
    ("origin", "target", "address"),
    [
        ("docs/deploy.md", "docs/access.md", "access.md"),
        ("docs/decisions/0001-x.md", "docs/access.md", "../access.md"),
        ("docs/access.md", "ARCHITECTURE.md", "architecture.md"),
        ("docs/zh/first-node.md", "docs/settings.md", "../../en/1.2/settings/"),
        ("README.md", "README.zh-CN.md", "../../zh/1.2/overview/"),
        ("docs/zh/first-node.md", "docs/README.md", "../../en/1.2/"),
        ("docs/zh/first-room.md", "docs/images/room.png", "../../en/1.2/images/room.png"),
    ],
)
def test_a_link_leads_from_place_to_place(origin: str, target: str, address: str) -> None:
    assert link(place_of(origin), place_of(target), "1.2") == address


def test_pages_are_staged_with_all_that_they_link_to(tmp_path: Path) -> None:
    Staging(tmp_path, "1.2").stage([Site("en", "x", [{"Deploy": "docs/deploy.md"}, {"Overview": "README.md"}])])
    staged = (tmp_path / "en/deploy.md").read_text("utf-8")
    assert "[haproxy.cfg](files/deploy/haproxy.cfg.md)" in staged
    assert "[deploy/](files/deploy/README.md)" in staged
    assert "```toml\n[server]\n" in staged, "code is left alone"
    assert "[nginx.conf](nginx.conf.md)" in (tmp_path / "en/files/deploy/README.md").read_text("utf-8")
    assert "least_conn;" in (tmp_path / "en/files/deploy/nginx.conf.md").read_text("utf-8")
    overview = (tmp_path / "en/overview.md").read_text("utf-8")
    assert "(images/talk.png)" in overview
    assert (tmp_path / "en/images/talk.png").is_file()
    # The generator would load the library for its diagram from another host.
    assert '<script src="assets/mermaid.min.js">' in overview
    assert "mermaid.min.js" not in staged


def test_the_site_says_titles_where_the_repository_says_names_of_files(tmp_path: Path) -> None:
    nav = [{"Chinese": "docs/zh/README.md"}, {"Commands": "docs/commands.md"}]
    Staging(tmp_path, "1.2").stage([Site("zh", "x", nav), Site("en", "x", [{"Start": "docs/README.md"}])])
    assert "[Commands](../../en/1.2/commands/)" in (tmp_path / "zh/README.md").read_text("utf-8")
    # Deploying is not a page of this site; it is staged because a page links to it.
    english = (tmp_path / "en/README.md").read_text("utf-8")
    assert "| [Commands](commands.md) |" in english
    assert "| [deploy.md](deploy.md) |" in english


def test_lines_of_chinese_are_joined(tmp_path: Path) -> None:
    Staging(tmp_path, "1.2").stage([Site("zh", "x", [{"x": "docs/zh/first-deployment.md"}])])
    staged = (tmp_path / "zh/first-deployment.md").read_text("utf-8")
    assert "更高版本的服务器" in staged
    assert "\n## 1. " in staged


PAGE = """<html><head><link rel="stylesheet" href="../style.css"></head><body><h1 id="top-of">x</h1>{}</body></html>"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('<a href="../b/#there">b</a> <a href="#top-of">x</a> <a href="https://a.example/">a</a>', None),
        ('<a href="../c/">c</a>', "no such page"),
        ('<a href="../b/#gone">b</a>', "no such heading"),
        ('<a href="#gone">b</a>', "no such heading"),
        ('<a href="../../b/">b</a>', "leads out of the site"),
        ('<img src="../none.png">', "no such page"),
        ('<script src="https://cdn.example/x.js"></script>', "loads https://cdn.example/x.js from elsewhere"),
        ('<script src="//cdn.example/x.js"></script>', "from elsewhere"),
        ('<link rel="preconnect" href="https://fonts.example">', "from elsewhere"),
        ('<p style="background: url(https://a.example/x.png)">', "from elsewhere"),
        ('<pre class="mermaid"><code>graph</code></pre>', "has a diagram but not mermaid.min.js"),
    ],
)
def test_what_is_dead_or_from_elsewhere_is_found(tmp_path: Path, body: str, said: str | None) -> None:
    for name, text in (("a", PAGE.format(body)), ("b", PAGE.format('<p id="there">'))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").write_text(text, "utf-8")
    (tmp_path / "style.css").write_text("p { color: red }", "utf-8")
    found = faults(tmp_path)
    assert (len(found), said in found[0]) == (1, True) if said is not None else found == []


def test_a_font_from_elsewhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "x.css").write_text("@import 'https://fonts.example/a.css'; a { src: url(data:x) }", "utf-8")
    assert faults(tmp_path) == ["x.css: loads https://fonts.example/a.css"]
