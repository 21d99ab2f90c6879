"""Traces are off unless the variables ask for them, and never in anybody's way."""

import logging
import sys
from collections.abc import Iterator
from threading import Event

import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from structlog.testing import capture_logs

from lingua_scheduler.telemetry import traces
from lingua_scheduler.telemetry.traces import Kind, Traces, configure, wanted_exporters
from tests.support.traces import Collected, said

ENDPOINT = "http://127.0.0.1:4318"


@pytest.fixture(autouse=True)
def _unheard() -> Iterator[None]:
    """What OpenTelemetry says of itself goes where it went before."""
    said_by = logging.getLogger("opentelemetry")
    handlers, propagates = list(said_by.handlers), said_by.propagate
    yield
    said_by.handlers, said_by.propagate = handlers, propagates


@pytest.mark.parametrize(
    ("variables", "exporters"),
    [
        ({}, []),
        ({"OTEL_SERVICE_NAME": "mine"}, []),
        ({"OTEL_TRACES_EXPORTER": ""}, []),
        ({"OTEL_TRACES_EXPORTER": "none"}, []),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": ENDPOINT}, []),
        ({"OTEL_TRACES_EXPORTER": "console"}, ["console"]),
        ({"OTEL_TRACES_EXPORTER": " otlp , Console "}, ["otlp_proto_http", "console"]),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ENDPOINT}, ["otlp_proto_http"]),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": ENDPOINT}, ["otlp_proto_http"]),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, ["otlp_proto_grpc"]),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ENDPOINT, "OTEL_SDK_DISABLED": "true"}, []),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "TRUE"}, []),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "false"}, ["console"]),
    ],
)
def test_the_variables_say_what_is_exported(variables: dict[str, str], exporters: list[str]) -> None:
    assert wanted_exporters(variables) == exporters


def test_without_the_variables_there_is_nothing() -> None:
    with capture_logs() as events:
        assert configure("lingua", {}) is None
    assert events == []


def test_without_the_extra_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with capture_logs() as events:
        assert configure("lingua", {"OTEL_TRACES_EXPORTER": "otlp"}) is None
    (event,) = events
    assert (event["event"], event["missing"]) == ("traces.unavailable", "opentelemetry.sdk.trace")
    assert event["install"] == 'pip install "lingua-scheduler[traces]"'


def test_an_exporter_that_nobody_knows_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with capture_logs() as events:
        assert configure("lingua", {"OTEL_TRACES_EXPORTER": "carrier-pigeon"}) is None
    (event,) = events
    assert (event["event"], event["missing"]) == ("traces.unavailable", "exporter carrier-pigeon")


def test_variables_that_make_no_sense_turn_it_off_with_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1")
    with capture_logs() as events:
        assert configure("lingua", {"OTEL_TRACES_EXPORTER": "console"}) is None
    assert events[0]["event"] == "traces.unavailable"


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, "lingua"),
        ({"OTEL_SERVICE_NAME": "mine"}, "mine"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=ours,team=speech"}, "ours"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "team=speech"}, "lingua"),
    ],
)
async def test_it_is_called_what_the_variables_say(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], name: str
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    with capture_logs() as events:
        made = configure("lingua", variables | {"OTEL_TRACES_EXPORTER": "console"})
    assert made is not None
    await made.close()
    assert (events[0]["event"], events[0]["service"]) == ("traces.on", name)


async def test_a_sampler_is_taken_from_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    made = configure("lingua", {"OTEL_TRACES_EXPORTER": "console"})
    assert made is not None
    span = made.begin("utterance", Kind.SERVER, 1)
    await made.close()
    assert not span.is_recording()


def test_texts_are_bounded() -> None:
    collected = Collected()
    span = collected.traces.begin("utterance", Kind.SERVER, 1, attributes={"lingua.session_id": "s" * 10_000})
    collected.traces.end(span, 2, {"lingua.outcome": "o" * 10_000})
    assert {len(value) for value in said(collected.one("utterance")).values()} == {traces.MAX_CHARS}


class Stuck(SpanProcessor):
    """Its collector never answers."""

    def __init__(self) -> None:
        self.wait = Event()

    def on_end(self, span: ReadableSpan) -> None:
        pass

    def shutdown(self) -> None:
        self.wait.wait(60)


async def test_the_end_does_not_wait_for_a_collector_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "FLUSH_WITHIN_S", 0.05)
    stuck = Stuck()
    with capture_logs() as events:
        await Traces(TracerProvider(shutdown_on_exit=False), [stuck]).close()
    stuck.wait.set()
    assert [event["event"] for event in events] == ["traces.unsent"]


async def test_troubles_are_told_once_in_a_while() -> None:
    made = configure("lingua", {"OTEL_TRACES_EXPORTER": "console"})
    assert made is not None
    await made.close()
    with capture_logs() as events:
        for _ in range(100):
            logging.getLogger("opentelemetry.exporter").warning("the collector is away")
        logging.getLogger("opentelemetry.exporter").error("and something else")
    assert [event["event"] for event in events] == ["traces.troubled"] * 2
