"""What is written into the log has a static name, and nothing in it that a peer said."""

import re

from tools import docs
from tools.events import events

SOURCE = docs.ROOT / "src" / "lingua_scheduler"
# What a peer, or the world, gave us and that is no id: it has no place in a log.
SPEECH = re.compile(r"text|audio(?!_bytes)|payload|frame|body|message|speech|context|transl")


def test_there_are_events() -> None:
    assert len(events(SOURCE)) > 60
    assert {event.level for event in events(SOURCE)} == {"debug", "info", "warning", "error"}


def test_every_name_is_a_constant_noun_and_verb() -> None:
    assert [
        event for event in events(SOURCE) if not re.fullmatch(r"[a-z]+(_[a-z]+)*\.[a-z]+(_[a-z]+)*", event.name)
    ] == []


def test_no_logger_goes_by_another_name() -> None:
    """Or its events would be in no list."""
    made = re.compile(r"^\s*(\w+) = (?:logs|structlog)\.get(?:_logger)?\(", re.MULTILINE)
    names = {name for path in SOURCE.rglob("*.py") for name in made.findall(path.read_text("utf-8"))}
    assert names == {"_log", "log"}


def test_no_field_is_named_after_what_people_said() -> None:
    fields = {field for event in events(SOURCE) for field in event.fields}
    assert {field for field in fields if SPEECH.search(field)} == set()


def test_the_same_event_has_the_same_level_everywhere() -> None:
    levels: dict[str, set[str]] = {}
    for event in events(SOURCE):
        levels.setdefault(event.name, set()).add(event.level)
    assert {name: found for name, found in levels.items() if len(found) > 1} == {}


def test_every_event_is_documented() -> None:
    page = docs.PAGES[docs.DOCS / "logs.md"]()
    assert [event.name for event in events(SOURCE) if f"`{event.name}`" not in page] == []
