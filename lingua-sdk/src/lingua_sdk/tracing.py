"""A node's part of a trace: when the scheduler is traced, each job is a span in the OpenTelemetry setup of the node."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from types import ModuleType

from lingua_sdk.protocol.node import JobAssign


def job_span(job: JobAssign, node_id: str) -> AbstractContextManager[None]:
    """Around the engine's work, so that spans of the engine's own hang under it."""
    if job.traceparent is None or (trace := _opentelemetry()) is None:
        return nullcontext()
    return _span(trace, job, job.traceparent, node_id)


@contextmanager
def _span(trace: ModuleType, job: JobAssign, traceparent: str, node_id: str) -> Iterator[None]:
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    parent = TraceContextTextMapPropagator().extract({"traceparent": traceparent}, Context())
    about = {"lingua.job_id": job.job_id[:128], "lingua.attempt": job.attempt_id, "lingua.node_id": node_id[:128]}
    tracer = trace.get_tracer("lingua-node")
    # What went wrong is not written down: an engine's words may be the speaker's.
    with tracer.start_as_current_span(
        "node.job",
        parent,
        kind=trace.SpanKind.SERVER,
        attributes=about,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield
        except BaseException:
            span.set_status(trace.StatusCode.ERROR)
            raise


@cache
def _opentelemetry() -> ModuleType | None:
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    return trace
