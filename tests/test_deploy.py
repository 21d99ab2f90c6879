"""What operators get is true: alerts, dashboard and runbook name only what exists, and belong together."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from lingua_scheduler.configuration.fields import fields
from lingua_scheduler.console.compat.metric_aliases import ALIASES, LATENCY
from lingua_scheduler.telemetry import metrics
from lingua_sdk.domain.losses import REASONS
from tests.test_docs import anchors_of
from tools import docs
from tools.events import events

DEPLOY = docs.ROOT / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
TESTS = DEPLOY / "prometheus" / "tests.yml"
DASHBOARD = DEPLOY / "grafana" / "lingua-scheduler.json"
RUNBOOK = docs.DOCS / "runbook.md"
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"] for rule in group["rules"]
]
_METRIC = re.compile(r"\blingua_[a-z_]+\b")


def samples() -> set[str]:
    """Every name that a query may use."""
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum"), "gauge": ("",)}
    return {family.name + suffix for family in metrics.REGISTRY.collect() for suffix in suffixes[family.type]}


def labels_in(query: str) -> set[tuple[str, str]]:
    """Metric and label, as far as a selector names one."""
    return {
        (metric, label)
        for metric, selector in re.findall(r"\b(lingua_[a-z_]+)\{([^}]*)\}", query)
        for label in re.findall(r"(\w+)\s*=", selector)
    }


def known_labels() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for metric in vars(metrics).values():
        if hasattr(metric, "_labelnames"):
            (family,) = metric.describe()
            found |= {family.name + suffix: metric._labelnames for suffix in ("", "_total", "_bucket", "_count")}
    return found


def dashboard() -> Any:
    return json.loads(DASHBOARD.read_text("utf-8"))


def queries() -> list[str]:
    return [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", ())]


def promtool(*arguments: str) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# Alerts


def test_promtool_accepts_the_rules_and_the_configuration() -> None:
    promtool("check", "rules", str(ALERTS))
    promtool("check", "config", str(ALERTS.with_name("prometheus.yml")))


def test_the_alerts_pass_their_own_tests() -> None:
    promtool("test", "rules", str(TESTS))


def test_every_alert_is_tested_when_all_is_well_and_when_it_is_not() -> None:
    # What follows a comma tells several tests of the same kind apart.
    named = {test["name"].partition(",")[0] for test in yaml.safe_load(TESTS.read_text("utf-8"))["tests"]}
    assert named == {f"{rule['alert']} {what}" for rule in RULES for what in ("fires", "stays quiet")}


def test_alerts_name_only_metrics_and_labels_that_exist() -> None:
    text = ALERTS.read_text("utf-8") + TESTS.read_text("utf-8")
    assert set(_METRIC.findall(text)) - samples() == set()
    known = known_labels()
    named = {found for rule in RULES for found in labels_in(rule["expr"])}
    assert {(metric, label) for metric, label in named if label not in known[metric]} == set()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_is_wrong_how_bad_it_is_and_where_to_read_on(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert len(rule["annotations"]["summary"].split()) >= 4
    # What it is about is named: the node, the pair, the instance.
    told_apart = {label for by in re.findall(r"by \(([^)]+)\)", rule["expr"]) for label in by.split(", ")} - {"le"}
    assert told_apart <= set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert docs.ROOT / page == RUNBOOK
    assert anchor in anchors_of(RUNBOOK)


# Dashboard


def test_the_dashboard_shows_every_metric_and_no_other() -> None:
    text = DASHBOARD.read_text("utf-8")
    named = set(_METRIC.findall(text))
    assert named - samples() == set()
    families = {family.name for family in metrics.REGISTRY.collect()}
    assert {re.sub("_(total|bucket)$", "", name) for name in named} == families


def test_the_dashboard_can_be_pointed_at_any_source_and_any_instance() -> None:
    variables = {variable["name"]: variable["type"] for variable in dashboard()["templating"]["list"]}
    assert variables == {"datasource": "datasource", "instance": "query"}
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            assert target["datasource"]["uid"] == "${datasource}"
            # Every instance shows all pairs, what they want, and all quarantined nodes; the rest is its own.
            of_all = ("lingua_pair_", "wanted_slots", "lingua_node_quarantined")
            is_of_all = any(name in target["expr"] for name in of_all)
            assert 'instance=~"$instance"' in target["expr"] or is_of_all, panel["title"]


def test_the_panels_have_their_places_to_themselves() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: dict[tuple[int, int], str] = {}
    for panel in panels:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]
                assert x < 24


def test_prometheus_understands_every_query_of_the_dashboard(tmp_path: Path) -> None:
    known = known_labels()
    assert {found for query in queries() for found in labels_in(query) if found[1] != "instance"} <= {
        (metric, label) for metric, labels in known.items() for label in labels
    }
    plain = [query.replace("$__rate_interval", "1m").replace("$instance", ".*") for query in queries()]
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(plain)]
    generated = tmp_path / "panels.yml"
    generated.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", str(generated))


# Runbook


def test_the_runbook_fits_on_a_page_that_is_read_in_a_hurry() -> None:
    assert len(RUNBOOK.read_text("utf-8").splitlines()) <= 150


def test_the_runbook_names_every_alert_under_the_heading_it_points_to() -> None:
    sections = RUNBOOK.read_text("utf-8").split("\n## ")
    for rule in RULES:
        anchor = rule["annotations"]["runbook_url"].partition("#")[2]
        (section,) = (text for text in sections if _slug(text.partition("\n")[0]) == anchor)
        assert f"`{rule['alert']}`" in section
        assert rule["labels"]["severity"] in section
    named = set(re.findall(r"`(Lingua\w+)`", RUNBOOK.read_text("utf-8")))
    assert named == {rule["alert"] for rule in RULES}


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_the_runbook_names_only_metrics_events_and_reasons_that_exist() -> None:
    text = RUNBOOK.read_text("utf-8")
    families = {family.name for family in metrics.REGISTRY.collect()}
    aliases = {alias.name for alias in ALIASES} | {LATENCY}
    assert set(_METRIC.findall(text)) <= samples() | families | aliases
    spans = set(re.findall(r"`([^`\n]+)`", text))
    known = {event.name for event in events(docs.ROOT / "src" / "lingua_scheduler")}
    settings = {field.name for field in fields()}
    named = {span for span in spans if re.fullmatch(r"[a-z_]+\.[a-z_]+", span)} - settings
    assert named
    assert named <= known
    reasons = {span for span in spans if re.fullmatch(r"[a-z]+_[a-z]+|[A-Z]+_[A-Z_]+", span)}
    assert reasons <= {
        *REASONS,
        "world_full",
        "unknown_kind",
        "other_key",
        "never_done",
        "queue_full",
        "wait_over",
        "fetch_site",
    }


def test_words_and_options_of_commands_that_the_runbook_names_exist() -> None:
    page = (docs.DOCS / "commands.md").read_text("utf-8")
    named = re.findall(r"`lingua ([a-z-]+)((?: [^`\n]+)?)`", RUNBOOK.read_text("utf-8"))
    assert len(named) > 15
    for command, rest in named:
        section = page.partition(f"\n## lingua {command}\n")[2].partition("\n## ")[0]
        for option in re.findall(r"--[a-z-]+", rest):
            assert f"`{option}" in section, (command, option)
        if word := re.match(r" ([a-z]+)\b", rest):
            assert f"`lingua {command} {word[1]}" in section, (command, word[1])
