"""Writes the pages of docs/ that are read from code, so that they cannot drift from it."""

import json
import re
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

from prometheus_client.metrics import MetricWrapperBase

from lingua_scheduler.app import Scheduler
from lingua_scheduler.configuration.fields import Field, fields
from lingua_scheduler.conformance.checks import CLIENT_CHECKS, NODE_CHECKS, Check
from lingua_scheduler.console.compat.metric_aliases import ALIASES, LATENCY, LATENCY_ABOUT, LATENCY_SOURCE
from lingua_scheduler.console.openapi import openapi
from lingua_scheduler.domain.jobs.jobs import ENDED, LIVE, MOVES, JobEvent, JobState
from lingua_scheduler.protocol.schema import asyncapi, json_schema
from lingua_scheduler.protocol.sealing import Keyring
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.setting_sections.redis import RedisSettings
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.keys import TABLE
from lingua_scheduler.store.scripts import Script, read_library
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import metrics
from lingua_scheduler.telemetry.figures import COMBINED
from lingua_sdk.domain.errors import RETRYABLE, ErrorCode, HttpCode
from tools import prose, typescript, wire
from tools.events import events
from tools.markdown import code, page, table

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BUILT = ROOT / "dist" / "api"
CLIENT_TYPES = ROOT / "clients" / "js" / "src" / "messages.ts"

_BOUND = re.compile(r"^local (\w+)\s*= \S*(?:KEYS|ARGV)[^-\n]*(?:-- (.*))?$", re.MULTILINE)


# Written one by one: some take a second.
PAGES: dict[Path, Callable[[], str]] = {
    DOCS / "settings.md": lambda: page("Settings", prose.SETTINGS, *_settings()),
    DOCS / "redis-keys.md": lambda: page("Redis keys", prose.KEYS.format(prefix=RedisSettings().key_prefix), _keys()),
    DOCS / "scripts.md": lambda: page("Scripts", prose.SCRIPTS, *map(_script, read_library().values())),
    DOCS / "metrics.md": lambda: page("Metrics", prose.METRICS, _metrics(), *_aliases()),
    DOCS / "logs.md": lambda: page("Logs", prose.LOGS, _events()),
    DOCS / "protocol.md": lambda: page("Protocol", prose.PROTOCOL, wire.messages()),
    DOCS / "jobs.md": lambda: page("The life of a job", prose.JOBS, *_jobs()),
    DOCS / "write-a-node.md": lambda: page("Write a node in any language", prose.WRITE_A_NODE, *_checks()),
    DOCS / "errors.md": lambda: page("Errors", prose.ERRORS, _errors(), *_errors_of_http(), *_close_codes()),
}


def render() -> dict[Path, str]:
    """Every generated page, by the file it belongs in."""
    return {path: write() for path, write in PAGES.items()}


def documents() -> dict[Path, str]:
    """What a scheduler serves under the same names, as files for tools. Not in git: it was most of a diff."""
    here = version("lingua-scheduler")
    texts = {
        "asyncapi.json": asyncapi(here).decode(),
        "messages.schema.json": json_schema(here).decode(),
        "openapi.json": _openapi(),
    }
    return {BUILT / name: text for name, text in texts.items()}


def main() -> None:
    BUILT.mkdir(parents=True, exist_ok=True)
    for path, text in (render() | documents() | {CLIENT_TYPES: typescript.messages()}).items():
        path.write_text(text, "utf-8")


def _settings() -> Iterator[str]:
    for section, members in groupby(fields(), key=lambda field: field.name.partition(".")[0]):
        yield f"## {section}"
        yield table(
            ("setting", "default", "allowed", "environment variable", "meaning"),
            (
                (code(field.name), _default(field), _allowed(field), code(field.variable), field.description)
                for field in members
            ),
        )


def _default(field: Field) -> str:
    return code(json.dumps(field.default))


def _allowed(field: Field) -> str:
    if field.choices:
        return ", ".join(map(code, field.choices))
    if field.minimum is not None:
        return f"{field.minimum} … {field.maximum}"
    return {"bool": "true, false", "str": "string", "list": "list of strings", "dict": "table of strings"}[
        field.type_name
    ]


def _keys() -> str:
    return table(("key", "type", "holds"), ((code(doc.pattern), doc.type, doc.holds) for doc in TABLE))


def _script(script: Script) -> str:
    told, _, replies = " ".join(script.header.split()).removeprefix(f"{script.name}: ").partition(" Replies: ")
    comments = dict(_BOUND.findall(script.source))
    rows = [
        (code(name), kind + (", list" if is_open and name == names[-1] else ""), comments[name])
        for kind, names, is_open in (
            ("key", script.keys, script.keys_are_open),
            ("argument", script.arguments, script.arguments_are_open),
        )
        for name in names
    ]
    words = "\n".join(f"- {reply}" for reply in replies.split(" | "))
    return "\n\n".join(
        (f"## {script.name}", told[0].upper() + told[1:], f"Replies:\n\n{words}", table(("name", "kind", "what"), rows))
    )


def _metrics() -> str:
    rows = []
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase):
            (family,) = metric.describe()
            # Counters are exposed with this suffix; there is no public way to ask for label names.
            name = family.name + ("_total" if family.type == "counter" else "")
            labels = ", ".join(map(code, metric._labelnames))
            rows.append((code(name), family.type, labels, family.documentation + _combined(family.name)))
    return table(("metric", "type", "labels", "meaning"), rows)


def _events() -> str:
    found: dict[tuple[str, str], dict[str, None]] = {}
    for event in events(ROOT / "src" / "lingua_scheduler"):
        found.setdefault((event.name, event.level), {}).update(dict.fromkeys(event.fields))
    rows = [(code(name), level, ", ".join(map(_field, fields))) for (name, level), fields in found.items()]
    return table(("event", "level", "fields"), rows)


def _field(name: str) -> str:
    return {"exc_info": code("exception"), "…": name}.get(name, code(name))


def _aliases() -> Iterator[str]:
    yield "## Older names"
    yield prose.ALIASES
    rows = [(code(f"{one.name}_total"), "counter", code(one.label), one.about, code(one.source)) for one in ALIASES]
    rows.append((code(LATENCY), "histogram", "", LATENCY_ABOUT, code(LATENCY_SOURCE)))
    yield table(("alias", "type", "labels", "meaning", "made from"), rows)


def _combined(name: str) -> str:
    """How the gauges of several workers become one, where they are not added up."""
    if name not in COMBINED:
        return ""
    return f"; with several workers: the {'minimum' if COMBINED[name] is min else 'maximum'}"


def _jobs() -> Iterator[str]:
    yield "```mermaid\n" + "\n".join(_diagram()) + "\n```"
    yield prose.JOBS_DIAGRAM
    yield table(
        ("event", "from", "to"),
        (
            (
                code(event),
                ", ".join(code(before) for before, other in MOVES if other is event),
                ", ".join(dict.fromkeys(code(after) for (_, other), after in MOVES.items() if other is event)),
            )
            for event in JobEvent
        ),
    )
    yield "## In Redis"
    yield prose.JOBS_IN_REDIS
    yield "## Older names"
    yield table(("older name", "here"), ((code(old), here) for old, here in prose.OLDER_NAMES))


def _diagram() -> Iterator[str]:
    """The states with a live attempt are drawn as one, because most events may happen in all of them."""
    yield "stateDiagram-v2"
    yield f"    [*] --> {JobState.CREATED}"
    yield "    state Live {"
    yield f"        [*] --> {LIVE[0]}"
    for (before, event), after in MOVES.items():
        if before in LIVE and after in LIVE:
            yield f"        {before} --> {after}: {event}"
    yield "    }"
    outer = {(_drawn(before), event): _drawn(after) for (before, event), after in MOVES.items()}
    for (source, event), target in outer.items():
        if source != target:
            yield f"    {source} --> {target}: {event}"
    for state in ENDED:
        yield f"    {state} --> [*]"


def _drawn(state: JobState) -> str:
    return "Live" if state in LIVE else state.value


def _errors() -> str:
    return table(
        ("code", "meaning", "sent by", "another node"),
        (
            (
                code(error),
                prose.ERROR_MEANINGS[error],
                "scheduler" if wire.is_used(f"ErrorCode.{error}") else "peers",
                "yes" if error in RETRYABLE else "no",
            )
            for error in ErrorCode
        ),
    )


def _openapi() -> str:
    """The operations of a scheduler that is never started. Without a key it would warn of its audit log."""
    scheduler = Scheduler(Settings(), Store("redis://nowhere", key_prefix="lingua"), keyring=Keyring([bytes(32)]))
    return openapi(scheduler.operations, version("lingua-scheduler")).decode()


def _errors_of_http() -> Iterator[str]:
    yield "## Only over HTTP"
    yield prose.ERRORS_OF_HTTP
    yield table(("code", "meaning"), ((code(error), prose.HTTP_MEANINGS[error]) for error in HttpCode))


def _close_codes() -> Iterator[str]:
    yield "## Close codes"
    yield prose.CLOSE_CODES
    yield table(
        ("code", "name", "meaning"),
        ((str(close.value), code(close.name), prose.CLOSE_MEANINGS[close.name]) for close in CloseCode),
    )


def _checks() -> Iterator[str]:
    for title, about, checks in (
        ("What is tested of a node", prose.NODE_CHECKS, NODE_CHECKS),
        ("What is tested of a client", prose.CLIENT_CHECKS, CLIENT_CHECKS),
    ):
        yield f"## {title}"
        yield about
        yield table(("check", "what the peer must do", "see"), map(_check, checks))


def _check(check: Check) -> tuple[str, str, str]:
    place, _, part = check.anchor.partition("#")
    must = check.must if not check.standard_only else f"{check.must} (standard)"
    return code(check.name), must, f"[{place.removesuffix('.md')}: {part}]({check.anchor})"


if __name__ == "__main__":
    main()
