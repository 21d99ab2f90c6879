"""The page for people who come from an earlier scheduler: what it says they find here is here."""

import re

import pytest
from prometheus_client.metrics import MetricWrapperBase

from lingua_scheduler.cli.main import main
from lingua_scheduler.configuration.earlier import NOT_USED, SECTIONS_NOT_USED, TRANSLATED
from lingua_scheduler.configuration.fields import fields
from lingua_scheduler.console.compat.metric_aliases import ALIASES, LATENCY
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.telemetry import metrics
from tools import docs
from tools.events import events

PAGE = docs.DOCS / "coming-from-earlier.md"
SOURCE = docs.ROOT / "src" / "lingua_scheduler"
_SPAN = re.compile(r"`([^`\n]+)`")


def section(title: str) -> str:
    found = PAGE.read_text("utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    assert found
    return found


def rows(text: str) -> list[tuple[str, str]]:
    """First and second column of its tables, without their headings."""
    cells = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| ")]
    return [(row[0].strip(), row[1].strip()) for row in cells if row[0].strip() != "earlier"]


def here(title: str) -> set[str]:
    """Everything in the second column that is spelled as code."""
    spans = {span for _, second in rows(section(title)) for span in _SPAN.findall(second)}
    assert spans
    return spans


# Names that people know from the earlier documents, and what they look for in its row.
OLDER = {
    "Keys of Redis": {
        "lingua:v1:node:{id}": "{sN}:node:<id>",
        "sched:node:{id}:meta": "{sN}:node:<id>",
        "sched:node:{id}:capabilities": "{sN}:node:<id>",
        "lingua:v1:pool:{src}:{tgt}:{n}:nodes": "{sN}:pool:<src>:<tgt>:<facet>",
        "sched:pool:{src}:{tgt}:members": "{sN}:pool:<src>:<tgt>:<facet>",
        "node:{id}:pools": "field `pools`",
        "nodes:all": "{shards}:placement",
        "nodes:last_seen": "{sN}:seen",
        "sched:node:{id}:cap": "{sN}:limits`, `…:{sN}:held`, `…:{sN}:free",
        "sched:resv:{id}": "{sN}:leases`, member `job#attempt#node",
        "job:{id}": "{sN}:record:<job id>",
        "job:{id}:node": "{affinity:",
        "phase3:pools:leader": "{pools}:leader",
        "phase3:pools:config": "{pools}:config",
        "phase3:pools:version": "{pools}:config",
        "schedulers:presence:<id>": "{instances}:alive",
        "sessions:owner:{session:<id>}": "`owner` of `…:{session:<id>}",
        "nodes:owner:{node:<id>}": "{sN}:owners",
        "streams:{instance:<id>}:inbox": "{instance:<id>}:inbox",
    },
    "Scripts": {
        "register_node_v2": "node_register",
        "heartbeat_with_pool_assign": "node_beat",
        "select_node": "job_dispatch",
        "node_offline": "node_remove",
        "TRY_RESERVE": "job_dispatch",
        "COMMIT_RESERVE": "attempt_advance",
        "RELEASE_RESERVE": "attempt_end",
        "DEC_RUNNING": "attempt_end",
    },
    "Modules": {
        "MinimalScheduler": "nodes/registry",
        "PoolService": "pool_map",
        "NodeRegistry": "nodes/registry",
        "Phase2Runtime": "cluster/presence",
        "Dispatcher": "dispatch/dispatcher",
        "ReservationManager": "job_dispatch",
        "PolicyEngine": "pools/selection",
    },
    "Settings": {
        "max_retry": "job.max_retries",
        "reservation_ttl_ms": "job.reservation_ttl_ms",
        "sample_k": "selection.sample_k",
        "heartbeat_stale_ms": "nodes.heartbeat_interval_ms` × `nodes.missed_heartbeats",
        "MAX_POOL_SIZE": "pools.shard_size",
        "MAX_POOL_ID": "pools.max_shards",
    },
    "Metrics": {"pool_empty_rate": 'lingua_job_dispatches_total{outcome="nobody"}'},
    "Commands": {"redis-cli KEYS": "lingua pools", "SCARD": "lingua pools zh en", "HGETALL …:node": "lingua node-info"},
}


@pytest.mark.parametrize("title", OLDER)
def test_every_older_name_has_its_row(title: str) -> None:
    found = rows(section(title))
    lost = [
        older
        for older, new in OLDER[title].items()
        if not any(
            re.search(rf"(^|[`\s]){re.escape(older)}\b|`{re.escape(older)}`", first) and new in second
            for first, second in found
        )
    ]
    assert lost == []


def test_keys_that_it_names_are_in_the_list_of_keys() -> None:
    listed = _SPAN.findall((docs.DOCS / "redis-keys.md").read_text("utf-8"))
    spelled = {re.sub(r"\{s7\}", "{sN}", key) for key in listed}
    named = {span for span in here("Keys of Redis") if span.startswith("…")}
    assert len(named) > 12
    assert named - spelled == set()
    fields_named = here("Keys of Redis") - named
    assert fields_named == {"pools", "owner", "job#attempt#node"}


def test_scripts_and_modules_that_it_names_exist() -> None:
    scripts = {path.stem for path in (SOURCE / "store" / "lua").glob("*.lua")}
    assert here("Scripts") <= scripts
    assert [path for path in here("Modules") if not (SOURCE / path).is_file()] == []


def test_states_that_it_names_exist_and_all_are_there() -> None:
    assert here("States of a job") == {state.value for state in JobState}


def test_the_settings_are_those_that_are_translated() -> None:
    text, _, gone = section("Settings").partition("have no effect any more")
    table = {first.strip("`"): set(_SPAN.findall(second)) for first, second in rows(text)}
    of_documents = {"heartbeat_stale_ms", "MAX_POOL_SIZE`, `MAX_POOL_ID"}
    assert {key: names for key, names in table.items() if key not in of_documents} == {
        key: set(translation.names) for key, translation in TRANSLATED.items()
    }
    known = {field.name for field in fields()}
    assert here("Settings") & {name for name in here("Settings") if "." in name} <= known
    assert dict(rows(gone)) == {f"`{key}`": reason for key, reason in NOT_USED.items()} | {
        f"`{section}.*`": reason for section, reason in SECTIONS_NOT_USED.items()
    }


def test_settings_inside_reasons_exist() -> None:
    known = {field.name for field in fields()}
    sections = "|".join(sorted({name.partition(".")[0] for name in known}))
    for reason in (*NOT_USED.values(), *SECTIONS_NOT_USED.values()):
        named = set(re.findall(rf"(?<![\w.])(?:{sections})\.[a-z_]+", reason))
        assert named <= known, reason


def test_metrics_that_it_names_exist() -> None:
    labels = {
        family.name: one._labelnames
        for one in vars(metrics).values()
        if isinstance(one, MetricWrapperBase)
        for family in one.describe()
    }
    for span in here("Metrics"):
        name, _, selector = span.partition("{")
        assert set(re.findall(r"(\w+)=", selector)) <= set(labels[re.sub("_total$", "", name)])
    kept = set(_SPAN.findall(section("Metrics").partition("|")[0])) - {"/metrics"}
    assert kept == {f"{alias.name}_total" for alias in ALIASES} | {LATENCY}


def test_commands_and_options_that_it_names_exist() -> None:
    page = (docs.DOCS / "commands.md").read_text("utf-8")
    named = {span for span in here("Commands") if span.startswith("lingua ")}
    assert len(named) > 6
    for span in named:
        command = span.split()[1]
        assert command in main.commands
        for option in re.findall(r"--[a-z-]+", span):
            assert f"`{option}" in page.partition(f"\n## lingua {command}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("event", ["node.passed_over", "selection.failed", "selection.step", "selection.waits"])
def test_events_that_it_names_are_logged(event: str) -> None:
    assert f"`{event}`" in section("Choosing a node")
    assert event in {known.name for known in events(SOURCE)}
