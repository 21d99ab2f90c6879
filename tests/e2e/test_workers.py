"""`lingua serve --workers`: several processes on one port, killed, replaced and asked to stop."""

import asyncio
import os
import re
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.support.peers import FakeClient, FakeNode, Field, Frame, answer, field
from tests.support.schedulers import ServeProcess, serve_command
from tests.support.waiting import until

START_S = 60.0
ROLL_S = 40.0


@asynccontextmanager
async def workers(folder: Path, count: int, *arguments: str) -> AsyncIterator[tuple[ServeProcess, Field]]:
    # A node of another worker may be out of reach; then the job goes to the next.
    reach = ("--set", "job.max_retries=50")
    words = ("--data-dir", str(folder / "data"), "--workers", str(count), *reach, *arguments)
    async with serve_command(folder, *words) as serving:
        async with field(await until(lambda: serving.port, START_S)) as peers:
            yield serving, peers


def events(serving: ServeProcess, name: str) -> list[dict[str, Any]]:
    lines = [line for line in serving.log.splitlines() if f'"{name}"' in line]
    return [msgspec.json.decode(line) for line in lines]


def children_of(pid: int) -> set[int]:
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def worker_pids(serving: ServeProcess) -> dict[int, int]:
    """Worker → its process, of those that serve now."""
    found = {}
    for event in events(serving, "worker.ready"):
        if event["pid"] in children_of(serving.process.pid):
            found[event["worker"]] = event["pid"]
    return found


async def fresh(peers: Field, path: str) -> tuple[int, Any]:
    """Over a connection of its own, which the kernel gives to any worker."""
    async with aiohttp.ClientSession() as http:
        async with http.get(f"http://127.0.0.1:{peers.port}{path}") as response:
            text = await response.text()
            return response.status, msgspec.json.decode(text) if "json" in response.content_type else text


async def status(peers: Field) -> dict[str, Any]:
    code, found = await fresh(peers, "/v1/status")
    assert code == 200
    assert isinstance(found, dict)
    return found


async def figure(peers: Field, sample: str) -> float:
    _, page = await fresh(peers, "/metrics")
    (value,) = re.findall(rf"^{re.escape(sample)} (\S+)$", page, re.MULTILINE)
    return float(value)


async def nodes_everywhere(peers: Field, count: int) -> None:
    """Connect nodes until each worker has one: the kernel chooses who gets whom."""

    async def each_has_one() -> bool:
        await peers.node()
        return all(worker["nodes_connected"] for worker in (await status(peers))["workers"])

    await until(each_has_one, what=f"a node at each of {count} workers")


async def client_at(peers: Field, worker: int) -> FakeClient:
    """A client whose session is at this worker."""

    async def landed() -> FakeClient | None:
        before = (await status(peers))["workers"][worker]["sessions"]
        client = await peers.client()
        return client if (await status(peers))["workers"][worker]["sessions"] > before else None

    found = await until(landed, what=f"a session at worker {worker}")
    assert isinstance(found, FakeClient)
    return found


class Gate:
    """Nodes that work until they are let go."""

    def __init__(self, nodes: list[FakeNode]) -> None:
        self.opened = asyncio.Event()
        for node in nodes:
            node.work = self._work

    async def _work(self, node: FakeNode, job: Frame) -> None:
        await self.opened.wait()
        await answer(node, job)


async def answering(peers: Field, count: int) -> None:
    """So many instances answer in the end: the kernel may send many connections in a row to the same one."""
    seen: set[str] = set()

    async def another() -> bool:
        seen.add((await status(peers))["instance_id"])
        return len(seen) == count

    await until(another, what=f"answers of {count} instances")


class Knocker:
    """Opens connections one after the other, for HTTP and for WebSockets, and keeps what went wrong."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.knocks = 0
        self.failures: list[str] = []
        self._tasks = [asyncio.create_task(self._go_on(knock)) for knock in (self._ask, self._ask, self._open)]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _go_on(self, knock: Callable[[aiohttp.ClientSession], Any]) -> None:
        while True:
            try:
                # No connection is used twice: one that is kept open may close at any time.
                async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as http:
                    await knock(http)
            except Exception as error:
                self.failures.append(repr(error))
            self.knocks += 1

    async def _ask(self, http: aiohttp.ClientSession) -> None:
        async with http.get(f"http://127.0.0.1:{self._port}/health") as response:
            assert (response.status, await response.text()) == (200, "OK")

    async def _open(self, http: aiohttp.ClientSession) -> None:
        async with http.ws_connect(f"ws://127.0.0.1:{self._port}/ws/session") as opened:
            await opened.send_str('{"type":"session_init","client_version":"1","platform":"web",'
                                  '"src_lang":"en","tgt_lang":"zh"}')  # fmt: skip
            reply = await opened.receive(10)
            # Welcomed, or told to come back by a worker that leaves just now.
            if reply.type is not aiohttp.WSMsgType.TEXT:
                assert opened.close_code == 1012, reply


async def test_workers_share_one_port_and_each_takes_part(tmp_path: Path) -> None:
    async with workers(tmp_path, 2) as (serving, peers):
        await answering(peers, 2)
        assert {event["worker"] for event in events(serving, "scheduler.started")} == {0, 1}
        (ready,) = events(serving, "scheduler.ready")
        assert ready["workers"] == 2
        # One Redis for all, and it is the supervisor's.
        assert len(children_of(serving.process.pid)) == 3
        assert not any(children_of(pid) for pid in worker_pids(serving).values())


async def test_figures_are_those_of_all_workers_whoever_is_asked(tmp_path: Path) -> None:
    async with workers(tmp_path, 2) as (_, peers):
        await nodes_everywhere(peers, 2)
        clients = [await peers.client() for _ in range(12)]
        for client in clients:
            await client.utterance(0)
            assert (await client.outcome())["type"] == "translation_result"

        for _ in range(6):
            assert await figure(peers, 'lingua_jobs_ended_total{state="DONE"}') == 12
            assert await figure(peers, "lingua_job_seconds_count") == 12
            assert await figure(peers, 'node_registration_total{status="success"}') == len(peers.nodes)
            assert await figure(peers, "node_heartbeat_latency_ms_count") == len(peers.nodes)
            assert await figure(peers, 'lingua_job_seconds_bucket{le="+Inf"}') == 12
            assert await figure(peers, "lingua_nodes_connected") == len(peers.nodes)
            assert await figure(peers, "lingua_redis_up") == 1
            assert await figure(peers, "lingua_workers") == 2
        seen = await status(peers)
        assert (seen["sessions"], seen["nodes_connected"]) == (12, len(peers.nodes))
        assert seen["jobs_ended"]["DONE"] == 12
        assert sum(worker["sessions"] for worker in seen["workers"]) == 12
        assert sum(worker["jobs_ended"]["DONE"] for worker in seen["workers"]) == 12


async def test_a_killed_worker_is_followed_by_another_and_nobody_else_notices(tmp_path: Path) -> None:
    async with workers(tmp_path, 2) as (serving, peers):
        before = worker_pids(serving)
        await nodes_everywhere(peers, 2)
        staying = (await status(peers))["workers"][1]["nodes_connected"]
        done = 0
        for _ in range(8):
            client = await peers.client()
            await client.utterance(0)
            done += (await client.outcome())["type"] == "translation_result"
        assert await figure(peers, 'lingua_jobs_ended_total{state="DONE"}') == done

        knocker = Knocker(peers.port)
        os.kill(before[0], signal.SIGKILL)
        await until(lambda: worker_pids(serving).get(0) not in (None, before[0]), START_S, "another worker 0")
        knocks = knocker.knocks
        await until(lambda: knocker.knocks > knocks + 20)
        await knocker.stop()
        # Connections that worker 0 held are cut; of the rest none is refused.
        assert [failure for failure in knocker.failures if "refused" in failure.lower()] == []
        assert len(knocker.failures) <= 3

        (died,) = events(serving, "worker.died")
        assert (died["worker"], died["pid"], died["exit_code"]) == (0, before[0], -signal.SIGKILL)
        assert worker_pids(serving)[1] == before[1]
        assert sum(not node.socket.socket.closed for node in peers.nodes) == staying
        assert await figure(peers, "lingua_workers") == 2
        assert list(Path(argument_of(before[1], "--run-dir")).glob(f"0-{before[0]}.*")) == []
        # A sum that shrinks would look like a restart of everything.
        assert await figure(peers, 'lingua_jobs_ended_total{state="DONE"}') == done


async def test_a_worker_that_was_replaced_is_not_missed(tmp_path: Path) -> None:
    quick = ("instances.beat_ms=200", "instances.dead_ms=1000", "watch.interval_ms=1000")
    async with workers(tmp_path, 2, *(word for one in quick for word in ("--set", one))) as (serving, peers):
        killed = worker_pids(serving)[0]
        os.kill(killed, signal.SIGKILL)

        async def is_replaced() -> bool:
            status, picture = await peers.get("/v1/picture")
            if status != 200:
                return False
            instances = picture["instances"]
            is_dead = any(one["pid"] == killed and not one["is_alive"] for one in instances)
            is_whole = sum(one["is_alive"] for one in instances) == 2
            return is_dead and is_whole and all(one["code"] != "instance.dead" for one in picture["alarms"])

        await until(is_replaced, START_S, "a fleet that misses no worker")


async def test_a_worker_that_keeps_dying_is_named_with_its_exit_code(tmp_path: Path) -> None:
    async with workers(tmp_path, 2) as (serving, _):
        for _ in range(3):
            # The next one is another process: until it is ready there is none.
            os.kill(await until(lambda: worker_pids(serving).get(1), START_S), signal.SIGKILL)
            await until(lambda: not worker_pids(serving).get(1))
        (named,) = await until(lambda: events(serving, "worker.keeps_dying"))
        assert (named["worker"], named["exit_code"], named["times"]) == (1, -signal.SIGKILL, 3)
        assert await until(lambda: worker_pids(serving).get(1), START_S)
        assert {event["worker"] for event in events(serving, "worker.died")} == {1}


async def test_a_rolling_restart_refuses_nobody_and_reads_the_settings_anew(tmp_path: Path) -> None:
    config = tmp_path / "lingua.toml"
    config.write_text("[sessions]\nuse_binary_frame = false\n")
    async with workers(tmp_path, 2, "--config", str(config)) as (serving, peers):
        before = worker_pids(serving)
        await nodes_everywhere(peers, 2)
        gate = Gate(peers.nodes)
        client = await client_at(peers, 0)
        assert client.ack["use_binary_frame"] is False
        await client.utterance(0)
        await until(lambda: any(node.jobs for node in peers.nodes))
        silent = await peers.socket("/ws/session")

        config.write_text("[sessions]\nuse_binary_frame = true\n")
        knocker = Knocker(peers.port)
        serving.process.send_signal(signal.SIGHUP)
        # Worker 0 has a job to finish; meanwhile its successor takes all that comes.
        await until(lambda: events(serving, "scheduler.stopping"), ROLL_S)
        knocks = knocker.knocks
        await until(lambda: knocker.knocks > knocks + 100)
        assert not events(serving, "scheduler.stopped")
        gate.opened.set()
        assert (await client.outcome())["type"] == "translation_result"
        await until(lambda: events(serving, "restart.ended"), ROLL_S, "all workers are replaced")
        knocks = knocker.knocks
        await until(lambda: knocker.knocks > knocks + 20)
        await knocker.stop()
        assert knocker.failures == []

        assert await client.socket.closed() == 1012
        assert await silent.closed() == 1012
        assert [await node.socket.closed() for node in peers.nodes] == [1012] * len(peers.nodes)
        after = worker_pids(serving)
        assert set(after) == {0, 1}
        assert not set(after.values()) & set(before.values())
        assert (await peers.client()).ack["use_binary_frame"] is True
        assert await figure(peers, 'lingua_jobs_ended_total{state="DONE"}') == 1
        assert not events(serving, "worker.died")


async def test_whoever_has_only_just_connected_is_still_answered(tmp_path: Path) -> None:
    async with workers(tmp_path, 2) as (serving, peers):
        visitors = [await asyncio.open_connection("127.0.0.1", peers.port) for _ in range(12)]
        serving.process.send_signal(signal.SIGHUP)
        await until(lambda: events(serving, "scheduler.stopping"), ROLL_S)
        for _, writer in visitors:
            writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answers = [await reader.read() for reader, _ in visitors]
        assert [heard[:15] for heard in answers] == [b"HTTP/1.1 200 OK"] * 12
        for _, writer in visitors:
            writer.close()


async def test_a_stop_amid_a_rolling_restart_lets_the_leaving_worker_finish(tmp_path: Path) -> None:
    async with workers(tmp_path, 2) as (serving, peers):
        await nodes_everywhere(peers, 2)
        gate = Gate(peers.nodes)
        client = await client_at(peers, 0)
        await client.utterance(0)
        await until(lambda: any(node.jobs for node in peers.nodes))
        serving.process.send_signal(signal.SIGHUP)
        await until(lambda: events(serving, "scheduler.stopping"), ROLL_S)
        serving.process.terminate()
        await until(lambda: len(events(serving, "scheduler.stopping")) == 3)
        gate.opened.set()
        assert (await client.outcome())["type"] == "translation_result"
        async with asyncio.timeout(90):
            assert await serving.process.wait() == 0


async def test_a_successor_that_does_not_start_leaves_the_worker_in_place(tmp_path: Path) -> None:
    config = tmp_path / "lingua.toml"
    config.write_text("")
    async with workers(tmp_path, 2, "--config", str(config)) as (serving, peers):
        before = worker_pids(serving)
        client = await peers.client()
        config.write_text("[server]\nprot = 1\n")
        serving.process.send_signal(signal.SIGHUP)
        (aborted,) = await until(lambda: events(serving, "restart.aborted"), ROLL_S)
        assert aborted["worker"] == 0
        assert 'did you mean "server.port"?' in aborted["reason"]
        assert worker_pids(serving) == before
        assert not client.socket.socket.closed
        await answering(peers, 2)


async def test_workers_finish_their_jobs_before_they_go(tmp_path: Path) -> None:
    async with workers(tmp_path, 2) as (serving, peers):
        await nodes_everywhere(peers, 2)
        gate = Gate(peers.nodes)
        clients = [await client_at(peers, 0), await client_at(peers, 1)]
        for client in clients:
            await client.utterance(0)
        await until(lambda: sum(len(node.jobs) for node in peers.nodes) >= 2)
        serving.process.terminate()
        await until(lambda: len(events(serving, "scheduler.stopping")) == 2)
        gate.opened.set()
        for client in clients:
            assert (await client.outcome())["type"] == "translation_result"
            assert await client.socket.closed() == 1012
        async with asyncio.timeout(90):
            assert await serving.process.wait() == 0


async def test_sigterm_ends_all_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async with workers(tmp_path, 3, "--set", "server.stop_timeout_ms=1000") as (serving, peers):
        client = await peers.client()
        family = children_of(serving.process.pid)
        assert len(family) == 4
        (run_dir,) = {argument_of(pid, "--run-dir") for pid in worker_pids(serving).values()}
        serving.process.terminate()
        async with asyncio.timeout(90):
            assert await serving.process.wait() == 0
        assert await client.socket.closed() == 1012
        assert [pid for pid in family if Path(f"/proc/{pid}").exists()] == []
        assert not Path(run_dir).exists()


def argument_of(pid: int, option: str) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return words[words.index(option) + 1]


async def test_a_second_sigterm_ends_all_at_once(tmp_path: Path) -> None:
    async with workers(tmp_path, 2) as (serving, peers):
        await nodes_everywhere(peers, 2)
        Gate(peers.nodes)
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: any(node.jobs for node in peers.nodes))
        run_dir = argument_of(worker_pids(serving)[0], "--run-dir")
        family = children_of(serving.process.pid)
        serving.process.terminate()
        await until(lambda: events(serving, "scheduler.stopping"))
        serving.process.terminate()
        # Jobs may take 15 s to finish; these are not waited for.
        async with asyncio.timeout(90):
            assert await serving.process.wait() == 1
        await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in family))
        assert not Path(run_dir).exists()


async def test_workers_go_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    async with workers(tmp_path, 2, "--set", "server.stop_timeout_ms=1000") as (serving, _):
        family = children_of(serving.process.pid)
        run_dir = argument_of(worker_pids(serving)[0], "--run-dir")
        serving.process.kill()
        await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in family), 20.0)
        assert not Path(run_dir).exists()
        assert "Traceback" not in serving.log


@pytest.mark.parametrize("shares", [False, True])
async def test_a_taken_port_is_named(tmp_path: Path, shares: bool) -> None:
    """Also when the other one would share it, as another supervisor does."""
    with socket.create_server(("127.0.0.1", 0), reuse_port=shares) as listening:
        port = listening.getsockname()[1]
        words = ("--data-dir", str(tmp_path / "data"), "--workers", "2", "--port", str(port))
        async with serve_command(tmp_path, *words) as serving:
            async with asyncio.timeout(90):
                assert await serving.process.wait() == 4
            assert f"127.0.0.1:{port} is in use" in serving.log.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--redis-url", "redis://127.0.0.1:1"), 3, "cannot be reached"),
        (("--set", "server.prot=1"), 2, 'did you mean "server.port"?'),
        (("--workers", "many"), 2, "server.workers"),
    ],
)
async def test_a_start_that_cannot_work_ends_with_one_sentence(
    tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    async with serve_command(tmp_path, "--data-dir", str(tmp_path / "data"), "--workers", "2", *arguments) as serving:
        async with asyncio.timeout(90):
            assert await serving.process.wait() == code
        sentences = [line for line in serving.log.splitlines() if line.startswith("lingua: ")]
        assert len(sentences) == 1
        assert words in sentences[0]
        assert "Traceback" not in serving.log
