"""Spans as they would reach a collector, kept in memory; and what a tree of them looks like."""

from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, Sampler

from lingua_scheduler.telemetry.traces import Traces
from tests.support.leaks import LEAKS


class _Searched(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        for span in spans:
            LEAKS.wrote("trace", span.to_json(indent=None))
        return SpanExportResult.SUCCESS


class Collected:
    """`traces` is for a scheduler. Of several that share a memory, all spans are seen together."""

    def __init__(self, sampler: Sampler | None = None, memory: InMemorySpanExporter | None = None) -> None:
        self.memory = memory or InMemorySpanExporter()
        self.provider = TracerProvider(sampler or ParentBased(ALWAYS_ON), Resource({}), shutdown_on_exit=False)
        processors = [SimpleSpanProcessor(self.memory), SimpleSpanProcessor(_Searched())]
        self.traces = Traces(self.provider, processors)

    @property
    def spans(self) -> list[ReadableSpan]:
        return sorted(self.memory.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span

    def tree(self) -> list[tuple[str, str]]:
        """Each span as (parent, name), in the order in which they began; a parent that is not there is "?"."""
        names = {span.context.span_id: span.name for span in self.spans}
        return sorted((names.get(span.parent.span_id, "?") if span.parent else "", span.name) for span in self.spans)


def said(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def are_one_tree(spans: Sequence[ReadableSpan]) -> bool:
    """One trace, one root, and every other span's parent is there and does not begin after it."""
    by_id = {span.context.span_id: span for span in spans}
    roots = [span for span in spans if span.parent is None]
    parents = [(by_id.get(span.parent.span_id), span) for span in spans if span.parent is not None]
    return (
        len({span.context.trace_id for span in spans}) == 1
        and len(roots) == 1
        and all(parent is not None and begins_within(span, parent) for parent, span in parents)
    )


def begins_within(span: ReadableSpan, parent: ReadableSpan) -> bool:
    assert span.start_time is not None
    assert span.end_time is not None
    assert parent.start_time is not None
    assert parent.end_time is not None
    return parent.start_time <= span.start_time <= span.end_time and span.start_time <= parent.end_time
