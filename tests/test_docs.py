"""The documents tell the truth: generated pages are current, links lead somewhere, what they name exists."""

import json
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from prometheus_client.metrics import MetricWrapperBase

from lingua_scheduler.cli.main import main
from lingua_scheduler.cli.options import Exit
from lingua_scheduler.configuration.constants import CONSTANTS
from lingua_scheduler.configuration.fields import fields
from lingua_scheduler.configuration.loading import load
from lingua_scheduler.domain.jobs.jobs import LIVE, MOVES
from lingua_scheduler.domain.watching.alarms import CODES
from lingua_scheduler.domain.watching.changes import KINDS
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.store.scripts import parse
from lingua_scheduler.telemetry import metrics
from lingua_sdk.domain.errors import ErrorCode, HttpCode
from tools import docs, prose
from tools.events import events

ROOT = docs.ROOT
MAX_ARCHITECTURE_LINES = 120
MAX_PATH_FILES = 32
MAX_DECISION_LINES = 40

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^(#+) (.*)$", re.MULTILINE)


def _documents() -> list[Path]:
    """Every Markdown file of the project; hidden folders and installed packages hold other people's."""
    others = {"dist", "node_modules"}
    return sorted(
        path
        for path in ROOT.rglob("*.md")
        if not any(part.startswith(".") or part in others for part in path.relative_to(ROOT).parts)
    )


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


DOCUMENTS = _documents()
each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=_name)
each_command = pytest.mark.parametrize("command", main.commands.values(), ids=lambda command: str(command.name))


def prose_of(document: Path) -> str:
    """The text without its code blocks."""
    return _FENCE.sub("", document.read_text("utf-8"))


def code_of(document: Path) -> Iterator[str]:
    text = document.read_text("utf-8")
    yield from (block for _, block in _FENCE.findall(text))
    yield from _SPAN.findall(prose_of(document))


def anchors_of(document: Path) -> set[str]:
    """As GitHub makes them; a heading that comes twice is numbered."""
    found: set[str] = set()
    for _, heading in _HEADING.findall(prose_of(document)):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        anchor, again = slug, 0
        while anchor in found:
            again += 1
            anchor = f"{slug}-{again}"
        found.add(anchor)
    return found


def section_of(document: Path, title: str) -> str:
    _, _, rest = document.read_text("utf-8").partition(f"\n## {title}\n")
    return rest.partition("\n## ")[0]


# Generated pages


@pytest.mark.parametrize("page", docs.PAGES, ids=_name)
def test_a_generated_page_is_up_to_date_and_says_so_in_its_first_line(page: Path) -> None:
    text = docs.PAGES[page]()
    assert "`make docs`" in text.splitlines()[0]
    assert page.exists(), "run make docs"
    assert page.read_text("utf-8") == text, "run make docs"


def test_every_setting_is_documented() -> None:
    page = docs.PAGES[docs.DOCS / "settings.md"]()
    assert [field.name for field in fields() if f"`{field.name}`" not in page] == []


def test_the_example_of_a_settings_file_can_be_loaded(tmp_path: Path) -> None:
    (example,) = (block for kind, block in _FENCE.findall(prose.SETTINGS) if kind == "toml")
    config = tmp_path / "lingua.toml"
    config.write_text(example)
    loaded = load(config_path=config, environment={}, flags={})
    assert loaded.settings.server.port == tomllib.loads(example)["server"]["port"]


def test_every_registered_metric_is_documented() -> None:
    page = docs.PAGES[docs.DOCS / "metrics.md"]()
    families = {family.name for family in metrics.REGISTRY.collect()}
    described = {
        family.name for m in vars(metrics).values() if isinstance(m, MetricWrapperBase) for family in m.describe()
    }
    assert families == described
    assert [name for name in families if name not in page] == []


def test_every_code_has_a_meaning_and_every_meaning_a_code() -> None:
    assert set(prose.ERROR_MEANINGS) == {error.value for error in ErrorCode}
    assert set(prose.HTTP_MEANINGS) == {error.value for error in HttpCode}
    assert set(prose.CLOSE_MEANINGS) == {close.name for close in CloseCode}


def test_events_drawn_from_all_live_states_may_happen_in_all_of_them() -> None:
    leaving = {event for (before, event), after in MOVES.items() if before in LIVE and after not in LIVE}
    assert [(state, event) for event in leaving for state in LIVE if (state, event) not in MOVES] == []


# What documents point to


@each_document
def test_a_heading_has_an_empty_line_before_it(document: Path) -> None:
    """Without one some readers of Markdown take it for a part of the paragraph before."""
    text = re.sub(r"```.*?```", "", document.read_text("utf-8"), flags=re.DOTALL)
    assert not re.findall(r"[^\n]\n(#{2,} .*)", text)


@each_document
def test_links_lead_somewhere(document: Path) -> None:
    for link in _LINK.findall(prose_of(document)):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (document.parent / target).resolve() if target else document
        assert path.exists(), f"{link}: no such file"
        if anchor:
            assert anchor in anchors_of(path), f"{link}: no such heading"


@each_document
def test_commands_that_are_named_exist(document: Path) -> None:
    named = {
        name
        for code in code_of(document)
        for name in re.findall(r"(?<!SETUSER )(?<!info=b\")(?<![\w-])lingua ([a-z]+(?:-[a-z]+)*)\b", code)
    }
    assert named <= set(main.commands)


@each_document
def test_make_targets_that_are_named_exist(document: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {name for code in code_of(document) for name in re.findall(r"(?<![\w-])make ([a-z-]+)\b", code)}
    assert named <= targets


@each_document
def test_paths_in_the_source_that_are_named_exist(document: Path) -> None:
    named = {path for code in code_of(document) for path in re.findall(r"\b(?:src|tools|tests)/[\w/.-]+\.\w+\b", code)}
    assert [path for path in named if not (ROOT / path).exists() and not _is_mirror(path)] == []


def _is_mirror(path: str) -> bool:
    """Where the test of a module is or would be, named as an example."""
    return path.startswith("tests/") and (ROOT / "src/lingua_scheduler" / path[6:].replace("test_", "")).exists()


@each_document
def test_settings_that_are_named_exist(document: Path) -> None:
    # The changelog names what were settings once.
    known = {field.name for field in fields()} | CONSTANTS
    sections = "|".join({name.partition(".")[0] for name in known})
    named = {code for code in _SPAN.findall(prose_of(document)) if re.fullmatch(rf"(?:{sections})\.[a-z_]+", code)}
    told = {event.name for event in events(ROOT / "src" / "lingua_scheduler")}
    assert {name for name in named - CODES - KINDS if not name.endswith((".py", ".md"))} <= known | told


# Pages that are written by hand


def test_both_readmes_are_in_step() -> None:
    english, chinese = ROOT / "README.md", ROOT / "README.zh-CN.md"
    levels = [[len(marks) for marks, _ in _HEADING.findall(prose_of(readme))] for readme in (english, chinese)]
    blocks = [_FENCE.findall(readme.read_text("utf-8")) for readme in (english, chinese)]
    tables = [prose_of(readme).count("\n|") for readme in (english, chinese)]
    items = [len(re.findall(r"^- ", prose_of(readme), re.MULTILINE)) for readme in (english, chinese)]
    assert levels[0] == levels[1]
    assert blocks[0] == blocks[1]
    assert tables[0] == tables[1]
    assert items[0] == items[1]


def test_the_example_of_a_script_is_one() -> None:
    (example,) = (
        block for kind, block in _FENCE.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8")) if kind == "lua"
    )
    script = parse("slot_lend", example, {"clock": ""})
    assert script.header.startswith("slot_lend: ")
    assert script.keys == ("free", "leases")
    assert script.arguments == ("lease", "node", "ttl_ms", "now_ms")


def test_the_architecture_fits_on_two_pages() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text("utf-8").splitlines()) <= MAX_ARCHITECTURE_LINES


def test_the_architecture_names_every_package() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    sources = (ROOT / "src" / "lingua_scheduler", ROOT / "lingua-sdk" / "src")
    packages = {path.parent.name for source in sources for path in source.rglob("*/__init__.py")}
    assert packages
    assert not [name for name in sorted(packages) if not re.search(rf"\b{name}\b", text)]


@pytest.mark.parametrize("document", [ROOT / "ARCHITECTURE.md", docs.DOCS / "paths.md"], ids=_name)
def test_files_that_the_architecture_names_exist(document: Path) -> None:
    sources = (ROOT / "src", ROOT / "lingua-sdk" / "src")
    files = ["/" + path.relative_to(source).as_posix() for source in sources for path in source.rglob("*.*")]
    named = set(re.findall(r"[\w/]+\.(?:py|lua)\b", document.read_text("utf-8")))
    assert named
    assert not [name for name in sorted(named) if not any(file.endswith("/" + name) for file in files)]


def test_the_path_of_an_utterance_is_short() -> None:
    section = section_of(ROOT / "ARCHITECTURE.md", "The path of one utterance")
    assert 10 < len(set(re.findall(r"[\w/]+\.(?:py|lua)\b", section))) <= MAX_PATH_FILES


def _is_shown(option: click.Parameter) -> bool:
    return isinstance(option, click.Option) and not option.hidden


@each_command
def test_every_command_and_option_is_listed(command: click.Command) -> None:
    section = section_of(docs.DOCS / "commands.md", f"lingua {command.name}")
    assert section
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    options = [option.opts for one in (command, *inner) for option in one.params if _is_shown(option)]
    assert [one.name for one in inner if f"`lingua {command.name} {one.name}`" not in section] == []
    assert [names for names in options if not any(re.search(rf"`{name}\b", section) for name in names)] == []


def test_every_exit_code_is_listed() -> None:
    section = section_of(docs.DOCS / "commands.md", "Exit codes")
    codes = [code for name, code in vars(Exit).items() if name.isupper()]
    assert codes
    assert [code for code in codes if f"\n| {code} |" not in section] == []


def test_decisions_are_short_whole_and_listed() -> None:
    folder = docs.DOCS / "decisions"
    index = (folder / "README.md").read_text("utf-8")
    records = sorted(folder.glob("[0-9]*.md"))
    assert [int(record.name[:4]) for record in records] == list(range(1, len(records) + 1))
    for record in records:
        text = record.read_text("utf-8")
        assert f"({record.name})" in index
        assert len(text.splitlines()) <= MAX_DECISION_LINES, record.name
        headings = [heading for _, heading in _HEADING.findall(text)]
        assert headings[0].startswith(f"{record.name[:4]}: ")
        assert headings[1:] == ["Context", "Decision", "Consequences"], record.name


def test_every_page_of_the_docs_is_in_the_index() -> None:
    index = (docs.DOCS / "README.md").read_text("utf-8")
    pages = {path.name for path in (*docs.DOCS.glob("*.md"), *docs.PAGES)} - {"README.md"}
    assert [name for name in pages if f"({name})" not in index] == []


def test_the_documents_of_the_api_are_built_outside_the_repository() -> None:
    built = docs.documents()
    assert {path.relative_to(docs.ROOT).as_posix() for path in built} == {
        "dist/api/asyncapi.json",
        "dist/api/messages.schema.json",
        "dist/api/openapi.json",
    }
    said = {path.name: json.loads(text) for path, text in built.items()}
    here = version("lingua-scheduler")
    assert (said["asyncapi.json"]["asyncapi"], said["openapi.json"]["openapi"]) == ("3.0.0", "3.1.0")
    assert said["asyncapi.json"]["info"]["version"] == said["openapi.json"]["info"]["version"] == here
    assert said["messages.schema.json"]["$id"].endswith(f":{here}")
    for path in built:
        assert not (docs.DOCS / path.name).exists()
