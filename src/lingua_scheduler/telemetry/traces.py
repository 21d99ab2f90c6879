"""OpenTelemetry tracing, enabled by the standard OTEL_ variables; not imported otherwise."""

import asyncio
import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import Enum, auto
from importlib.metadata import entry_points, version
from time import monotonic
from typing import TYPE_CHECKING, Any

from lingua_scheduler.telemetry import logs

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.trace import Span as Span

_log = logs.get()

SCHEDULER = "lingua-scheduler"
NODE = "lingua-node"
# What is not sent by then, when everything ends, is lost.
FLUSH_WITHIN_S = 3.0
# A collector that is away is spoken of this often, however much there is to send.
REPEAT_AFTER_S = 60.0
MAX_CHARS = 128

Attributes = Mapping[str, str | int | float | bool]

_INSTALL = 'pip install "lingua-scheduler[traces]"'
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


class Kind(Enum):
    """OpenTelemetry's kinds of span, usable without importing it."""

    INTERNAL = auto()
    SERVER = auto()
    CLIENT = auto()
    CONSUMER = auto()


class Traces:
    """Creates spans, mostly after the fact, from recorded start and end times."""

    def __init__(self, provider: "TracerProvider", processors: Sequence["SpanProcessor"]) -> None:
        from opentelemetry import trace
        from opentelemetry.context import Context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._api = trace
        self._kinds = {kind: trace.SpanKind[kind.name] for kind in Kind}
        self._provider = provider
        self._processors = tuple(processors)
        self._tracer = provider.get_tracer(SCHEDULER, version("lingua-scheduler"))
        self._propagator = TraceContextTextMapPropagator()
        self._nowhere = Context()
        for processor in self._processors:
            provider.add_span_processor(processor)

    def begin(
        self,
        name: str,
        kind: Kind,
        start_ns: int,
        parent: "Span | Mapping[str, str] | None" = None,
        attributes: Attributes | None = None,
    ) -> "Span":
        """`parent` is a span, or headers with a `traceparent`, which is continued; without one a new trace begins."""
        return self._tracer.start_span(
            name,
            self._context(parent),
            kind=self._kinds[kind],
            attributes=_bounded(attributes or {}),
            start_time=start_ns,
        )

    def end(self, span: "Span", end_ns: int, attributes: Attributes, *, failed: bool = False) -> None:
        span.set_attributes(_bounded(attributes))
        if failed:
            # Without a description: it may contain speech.
            span.set_status(self._api.StatusCode.ERROR)
        span.end(end_ns)

    def traceparent(self, span: "Span") -> str:
        context = span.get_span_context()
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def trace_id(self, span: "Span") -> str:
        return f"{span.get_span_context().trace_id:032x}"

    def install(self) -> None:
        """The OpenTelemetry tracer, for code that uses its own API, as nodes do."""
        self._api.set_tracer_provider(self._provider)

    async def close(self) -> None:
        """Flush, for a limited time: a collector that does not respond must not delay the exit."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def shut() -> None:
            for processor in self._processors:
                processor.shutdown()
            # The waiter may be gone, and its event loop too.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(done.set)

        # A daemon thread, which does not delay the exit.
        threading.Thread(target=shut, name="traces-flush", daemon=True).start()
        try:
            async with asyncio.timeout(FLUSH_WITHIN_S):
                await done.wait()
        except TimeoutError:
            _log.warning("traces.unsent", waited_s=FLUSH_WITHIN_S)

    def _context(self, parent: "Span | Mapping[str, str] | None") -> "Context":
        # Never the current one: there is none that means anything here.
        if parent is None:
            return self._nowhere
        if isinstance(parent, self._api.Span):
            return self._api.set_span_in_context(parent, self._nowhere)
        return self._propagator.extract(parent, self._nowhere)


def wanted_exporters(environ: Mapping[str, str]) -> list[str]:
    """The exporters that the variables name; usually none."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    named = environ.get("OTEL_TRACES_EXPORTER", "").strip()
    if not named:
        named = "otlp" if any(environ.get(name, "").strip() for name in _ENDPOINTS) else "none"
    names = [name.strip().lower() for name in named.split(",")]
    protocol = next((said for name in _PROTOCOLS if (said := environ.get(name, "").strip().lower())), "")
    otlp = "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"
    return [otlp if name == "otlp" else name for name in names if name not in ("", "none")]


def configure(service: str, environ: Mapping[str, str]) -> Traces | None:
    """Set up tracing from the variables. A missing exporter is logged once, and the scheduler runs without it."""
    exporters = wanted_exporters(environ)
    if not exporters:
        return None
    try:
        return _traces(service, exporters, environ)
    except ImportError as error:
        _log.warning("traces.unavailable", missing=error.name or str(error), install=_INSTALL)
    except Exception as error:
        # An exporter may raise any exception for invalid variables.
        _log.warning("traces.unavailable", reason=f"{type(error).__name__}: {error}")
    return None


def _traces(service: str, exporters: list[str], environ: Mapping[str, str]) -> Traces:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    found = {point.name: point for point in entry_points(group="opentelemetry_traces_exporter")}
    missing = [name for name in exporters if name not in found]
    if missing:
        raise ImportError(f"no exporter {missing[0]}", name=f"exporter {missing[0][:MAX_CHARS]}")
    resource: dict[str, Any] = {"service.version": version("lingua-scheduler")}
    if "OTEL_SERVICE_NAME" not in environ and "service.name=" not in environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        resource["service.name"] = service
    processors = [BatchSpanProcessor(found[name].load()()) for name in exporters]
    _hear_complaints()
    provider = TracerProvider(resource=Resource.create(resource), shutdown_on_exit=False)
    _log.info("traces.on", exporters=exporters, service=provider.resource.attributes.get("service.name"))
    return Traces(provider, processors)


def _bounded(attributes: Attributes) -> Attributes:
    return {name: value[:MAX_CHARS] if isinstance(value, str) else value for name, value in attributes.items()}


class _Complaints(logging.Handler):
    """Turns log messages of OpenTelemetry into log events, rate-limited per kind."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        kind = f"{record.name}:{record.lineno}"
        now_s = monotonic()
        if now_s < self._said.get(kind, 0.0):
            return
        self._said[kind] = now_s + REPEAT_AFTER_S
        _log.warning("traces.troubled", by=record.name, said=record.getMessage()[:500])


def _hear_complaints() -> None:
    said_by = logging.getLogger("opentelemetry")
    if not any(isinstance(handler, _Complaints) for handler in said_by.handlers):
        said_by.addHandler(_Complaints())
        said_by.propagate = False
