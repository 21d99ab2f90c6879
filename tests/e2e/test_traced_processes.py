"""Tracing as people turn it on: variables, processes, a collector that is there, away, or does not answer."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from lingua_sdk.processes import die_with_parent, stop
from tests.support.peers import Field, Frame, field
from tests.support.schedulers import ServeProcess, serve_command
from tests.support.servers import RedisProcess
from tests.support.waiting import until

START_WITHIN_S = 60.0
Ports = Callable[[], AbstractAsyncContextManager[int]]


class Sent(NamedTuple):
    """A span as a collector gets it."""

    service: str
    name: str
    trace_id: bytes
    span_id: bytes
    parent: bytes


class Collector:
    def __init__(self) -> None:
        self.spans: list[Sent] = []
        self.port = 0

    async def take(self, request: web.Request) -> web.Response:
        for group in ExportTraceServiceRequest.FromString(await request.read()).resource_spans:
            named = {each.key: each.value.string_value for each in group.resource.attributes}
            for scope in group.scope_spans:
                for span in scope.spans:
                    ids = (span.trace_id, span.span_id, span.parent_span_id)
                    self.spans.append(Sent(named["service.name"], span.name, *ids))
        return web.Response()

    def named(self, name: str) -> list[Sent]:
        return [span for span in self.spans if span.name == name]


@asynccontextmanager
async def collector() -> AsyncIterator[Collector]:
    found = Collector()
    app = web.Application()
    app.router.add_post("/v1/traces", found.take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.port = runner.addresses[0][1]
    try:
        yield found
    finally:
        await runner.cleanup()


@asynccontextmanager
async def silent_port() -> AsyncIterator[int]:
    """Takes connections, and never answers."""
    held: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: held.append(writer), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in held:
            writer.transport.abort()


@asynccontextmanager
async def closed_port() -> AsyncIterator[int]:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    yield port


async def is_ready(serving: ServeProcess) -> int:
    await until(lambda: serving.port, START_WITHIN_S, "ready")
    return serving.port


def to(port: int, **more: str) -> dict[str, str]:
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "OTEL_BSP_SCHEDULE_DELAY": "100"} | more


@asynccontextmanager
async def node_process(port: int, **variables: str) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lingua_scheduler", "node", "--engine", "sim", "--delay-ms", "1"),
        *("--url", f"ws://127.0.0.1:{port}"),
        env=os.environ | variables,
        preexec_fn=die_with_parent,
    )
    try:
        yield
    finally:
        await stop(process, 15.0)


async def test_two_instances_and_a_node_send_one_tree_to_a_collector(server: RedisProcess, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with collector() as found:
        async with (
            serve_command(tmp_path / "a", "--redis-url", server.url, **to(found.port)) as a,
            serve_command(tmp_path / "b", "--redis-url", server.url, **to(found.port)) as b,
            node_process(await is_ready(b), **to(found.port)),
            field(await is_ready(a)) as at_a,
        ):
            await until(lambda: has_node(at_a), START_WITHIN_S)
            client = await at_a.client()
            await client.utterance(0)
            assert (await client.outcome())["type"] == "translation_result"
    names = {span.span_id: span.name for span in found.spans}
    assert len({span.trace_id for span in found.spans}) == 1
    assert sorted((names.get(span.parent, ""), span.name, span.service) for span in found.spans) == [
        ("", "utterance", "lingua-scheduler"),
        ("attempt", "node.job", "lingua-node"),
        ("attempt", "relay", "lingua-scheduler"),
        ("relay", "relay.node", "lingua-scheduler"),
        ("relay", "relay.reply", "lingua-scheduler"),
        ("utterance", "attempt", "lingua-scheduler"),
        ("utterance", "delivery", "lingua-scheduler"),
        ("utterance", "dispatch", "lingua-scheduler"),
        ("utterance", "queue", "lingua-scheduler"),
    ]


async def has_node(peers: Field) -> bool:
    return "en:zh" in (await peers.get("/v1/pools"))[1]["pairs"]


@pytest.mark.parametrize("port_of", [closed_port, silent_port])
async def test_a_collector_that_is_away_harms_nobody(server: RedisProcess, tmp_path: Path, port_of: Ports) -> None:
    small = {"OTEL_BSP_MAX_QUEUE_SIZE": "16", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "8"}
    async with port_of() as port:
        async with serve_command(tmp_path, "--redis-url", server.url, **to(port, **small)) as serving:
            async with field(await is_ready(serving)) as peers:
                await peers.node(max_concurrent_jobs=8)
                client = await peers.client()
                for index in range(40):
                    await client.utterance(index)
                heard = [(await client.outcome())["type"] for _ in range(40)]
                assert heard == ["translation_result"] * 40
                assert '"traces.troubled"' in await until(
                    lambda: serving.log if "traces.troubled" in serving.log else ""
                )
            began = asyncio.get_running_loop().time()
            serving.process.terminate()
            assert await serving.process.wait() == 0
            took_s = asyncio.get_running_loop().time() - began
    assert '"scheduler.stopped"' in serving.log
    # As a bound on the flush, far below the 30 s that the exporter would take by itself.
    assert took_s < 20
    assert serving.log.count("traces.troubled") < 10


async def serve_one(folder: Path, redis_url: str, **variables: str) -> tuple[str, Frame]:
    """Start, translate one utterance, stop: what was logged, and the order that the node got."""
    folder.mkdir()
    async with serve_command(folder, "--redis-url", redis_url, **variables) as serving:
        async with field(await is_ready(serving)) as peers:
            node = await peers.node()
            client = await peers.client()
            await client.utterance(0)
            assert (await client.outcome())["type"] == "translation_result"
        serving.process.terminate()
        assert await serving.process.wait() == 0
    return serving.log, node.jobs[0]


async def test_nothing_that_makes_spans_is_loaded_unless_it_is_asked_for(server: RedisProcess, tmp_path: Path) -> None:
    # The rest of OpenTelemetry may be: redis-py loads what it finds of it for metrics of its own.
    told = {"PYTHONPROFILEIMPORTTIME": "1"}
    off, order = await serve_one(tmp_path / "off", server.url, **told)
    assert "redis.asyncio" in off
    assert "opentelemetry.sdk.trace" not in off
    assert "opentelemetry.exporter" not in off
    assert "traceparent" not in order
    on, order = await serve_one(tmp_path / "on", server.url, OTEL_TRACES_EXPORTER="console", **told)
    assert "opentelemetry.sdk.trace" in on
    assert "traceparent" in order


@pytest.mark.parametrize("exporter", ["none", "otlp"])
async def test_without_opentelemetry_everything_else_works(server: RedisProcess, tmp_path: Path, exporter: str) -> None:
    hiding = tmp_path / "hiding" / "opentelemetry"
    hiding.mkdir(parents=True)
    (hiding / "__init__.py").write_text("raise ModuleNotFoundError('no', name='opentelemetry')\n")
    path = os.pathsep.join([str(hiding.parent), os.environ.get("PYTHONPATH", "")])
    log, order = await serve_one(tmp_path / "serve", server.url, PYTHONPATH=path, OTEL_TRACES_EXPORTER=exporter)
    assert "traceparent" not in order
    assert log.count("traces.") == (exporter == "otlp")
    assert ("lingua-scheduler[traces]" in log) == (exporter == "otlp")


async def test_spans_can_be_seen_on_the_console(server: RedisProcess, tmp_path: Path) -> None:
    log, _ = await serve_one(tmp_path / "serve", server.url, OTEL_TRACES_EXPORTER="console")
    assert '"name": "utterance"' in log
    assert '"service.name": "lingua-scheduler"' in log
