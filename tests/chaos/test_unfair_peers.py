"""One client that never reads and one that floods: fifty others keep their latency, and memory stays bounded."""

import asyncio
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

import pytest

from lingua_sdk.processes import die_with_parent, stop
from tests.support.figures import percentile
from tests.support.peers import FakeClient, Field, field
from tests.support.schedulers import serve_process
from tests.support.servers import RedisProcess
from tests.support.waiting import until

CLIENTS = 50
PACE_S = 0.25
CALM_UTTERANCES, UNFAIR_UTTERANCES = 8, 16
NODES, SLOTS = 2, 200
# Their nodes have the slots they claim.
SETTINGS = ("--set", "server.stop_timeout_ms=1000", "--set", "nodes.believed_slots=0")
NODE_TAKES_S = 0.02
LARGE_SPEECH_BYTES = 1_000_000
MAX_GROWTH_MB = 150
# Generous: the flood takes a core of its own, and this may be a busy machine with two.
MAX_SLOWER = 10
# A moment in which somebody else takes the machine shows in one round, a fault of ours in each.
MOST_ROUNDS = 3

# Sends whatever it is told to as fast as the socket takes it, reads what comes back, and comes back when it is closed.
FLOOD = """
import asyncio, base64, json, sys
import aiohttp

kind = sys.argv[2]
frames = sent_bytes = calls = 0

async def flood(http):
    global frames, sent_bytes, calls
    async with http.ws_connect(sys.argv[1], max_msg_size=0) as socket:
        calls += 1
        init = {"client_version": "1", "platform": "web", "src_lang": "en", "tgt_lang": "zh"}
        await socket.send_str(json.dumps({"type": "session_init"} | init))
        session = {"session_id": (await socket.receive_json())["session_id"]}
        reading = asyncio.create_task(read(socket))
        speech = base64.b64encode(b"\\0\\1" * 3200).decode()
        chunk = {"type": "audio_chunk", "seq": 1, "is_final": False, "payload": speech}
        whole = {"manual_cut": True, "src_lang": "en", "tgt_lang": "zh", "audio_format": "pcm16", "sample_rate": 16000}
        whole |= {"type": "utterance", "audio": speech}
        ready = {"audio": json.dumps(chunk | session), "rubbish": "{rubbish"}
        index = 0
        try:
            while not socket.closed:
                frame = ready.get(kind) or json.dumps(whole | session | {"utterance_index": index})
                index += 1
                await socket.send_str(frame)
                frames += 1
                sent_bytes += len(frame)
        finally:
            reading.cancel()

async def read(socket):
    async for _ in socket:
        pass

async def report():
    while True:
        await asyncio.sleep(0.1)
        print(frames, sent_bytes, calls, flush=True)

async def main():
    reporting = asyncio.create_task(report())
    async with aiohttp.ClientSession() as http:
        while True:
            try:
                await flood(http)
            except (aiohttp.ClientError, OSError, TypeError, KeyError):
                pass
            await asyncio.sleep(0.05)

asyncio.run(main())
"""


# Nodes in a process of their own, so that what the flood costs them is not counted as the others' latency.
WORKERS = f"""
import asyncio, sys
import aiohttp, msgspec
from tests.support.peers import heartbeat, registration

class Job(msgspec.Struct):
    type: str
    job_id: str = ""
    attempt_id: int = 0
    node_id: str = ""
    session_id: str = ""
    utterance_index: int = 0
    trace_id: str = ""
    dialect: str = ""

async def answer(socket, job, node_id):
    await asyncio.sleep({NODE_TAKES_S})
    about = msgspec.structs.asdict(job) | {{"type": "job_result", "node_id": node_id, "success": True}}
    speech = "A" * {LARGE_SPEECH_BYTES} if job.dialect == "deaf" else ""
    words = {{"text_asr": "heard", "text_translated": "said", "tts_audio": speech, "tts_format": "pcm16"}}
    await socket.send_str(msgspec.json.encode(about | words).decode())

async def work(http):
    async with http.ws_connect(sys.argv[1], max_msg_size=0) as socket:
        await socket.send_json(registration(max_concurrent_jobs={SLOTS}))
        tasks = set()
        async for frame in socket:
            message = msgspec.json.decode(frame.data, type=Job)
            if message.type == "node_register_ack":
                node_id = message.node_id
                await socket.send_json(heartbeat(node_id))
                print("ready", flush=True)
            elif message.type == "job_assign":
                task = asyncio.create_task(answer(socket, message, node_id))
                tasks.add(task)
                task.add_done_callback(tasks.discard)

async def main():
    async with aiohttp.ClientSession() as http:
        await asyncio.gather(*(work(http) for _ in range({NODES})))

asyncio.run(main())
"""


@asynccontextmanager
async def process_of(script: str, *arguments: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, *arguments), stdout=PIPE, preexec_fn=die_with_parent
    )
    try:
        yield process
    finally:
        await stop(process, 5.0)


@asynccontextmanager
async def workers_on(port: int) -> AsyncIterator[None]:
    async with process_of(WORKERS, f"ws://127.0.0.1:{port}/ws/node") as process:
        assert process.stdout is not None
        async with asyncio.timeout(90):
            for _ in range(NODES):
                assert await process.stdout.readline() == b"ready\n"
        yield


class Flood:
    def __init__(self) -> None:
        self.frames = self.sent_bytes = self.calls = 0

    async def watch(self, process: Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            # The last line may be cut off: the process is stopped while it prints.
            if line.endswith(b"\n"):
                self.frames, self.sent_bytes, self.calls = map(int, line.split())


@asynccontextmanager
async def flooding(port: int, kind: str) -> AsyncIterator[Flood]:
    async with process_of(FLOOD, f"ws://127.0.0.1:{port}/ws/session", kind) as process:
        flood = Flood()
        watching = asyncio.create_task(flood.watch(process))
        yield flood
    await watching


class Memory:
    """The resident memory of a process, now and at its highest while somebody watched."""

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")
        self.before_mb = self.peak_mb = self.now_mb

    @property
    def now_mb(self) -> float:
        line = next(line for line in self._status.read_text().splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    async def watch(self) -> None:
        """Fail as soon as it has grown too much, before the machine feels it."""
        while True:
            self.peak_mb = max(self.peak_mb, self.now_mb)
            assert self.peak_mb - self.before_mb < MAX_GROWTH_MB, f"{self.before_mb:.0f} to {self.peak_mb:.0f} MB"
            await asyncio.sleep(0.05)


class Deaf:
    """A client that asks for large results and never reads one; it comes back when it is closed."""

    def __init__(self, peers: Field) -> None:
        self._peers = peers
        self.asked = self.calls = 0

    async def ask(self) -> None:
        while True:
            client = await self._peers.client()
            client.socket.fall_silent()
            self.calls += 1
            try:
                for index in range(1_000):
                    await client.utterance(index, dialect="deaf")
                    self.asked += 1
                    await asyncio.sleep(0.05)
            except ConnectionError:
                continue
            finally:
                client.socket.drop()


async def talk(client: FakeClient, after_s: float, first: int, count: int) -> list[float]:
    """Utterances at a steady pace; how long each took.

    Counted from when it was due: while everything stands still nobody speaks either, and that must not look well.
    """
    took = []
    began = time.monotonic() + after_s
    for number in range(count):
        due = began + number * PACE_S
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        await client.utterance(first + number)
        outcome = await client.outcome(within_s=30)
        assert (outcome["type"], outcome["utterance_index"]) == ("translation_result", first + number), outcome
        took.append(time.monotonic() - due)
    return took


async def everybody(clients: list[FakeClient], first: int, count: int) -> list[float]:
    took = await asyncio.gather(
        *(talk(client, PACE_S * number / CLIENTS, first, count) for number, client in enumerate(clients))
    )
    return [seconds for one in took for seconds in one]


async def test_a_client_that_never_reads_is_cut_off(server: RedisProcess, tmp_path: Path) -> None:
    async with serve_process(tmp_path, "--redis-url", server.url, *SETTINGS) as serving:
        port = await until(lambda: serving.port, within_s=60)
        async with workers_on(port), field(port) as peers:
            deaf = Deaf(peers)
            asking = asyncio.create_task(deaf.ask())
            # It calls again when it cannot send any more.
            await until(lambda: deaf.calls > 1, within_s=20, what="a second call")
            asking.cancel()
            _, figures = await peers.get("/metrics")
            assert "lingua_outbox_overflows_total 1.0" in figures


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(sys.platform != "linux", reason="reads memory from /proc")
@pytest.mark.parametrize("kind", ["rubbish", "utterances", "audio"])
async def test_fifty_others_do_not_feel_one_who_floods_and_one_who_never_reads(
    server: RedisProcess, tmp_path: Path, kind: str
) -> None:
    async with serve_process(tmp_path, "--redis-url", server.url, *SETTINGS) as serving:
        port = await until(lambda: serving.port, within_s=60)
        async with workers_on(port), field(port) as peers:
            clients = [await peers.client() for _ in range(CLIENTS)]
            memory = Memory(serving.process.pid)
            slower: list[float] = []
            while not slower or (slower[-1] >= MAX_SLOWER and len(slower) < MOST_ROUNDS):
                slower.append(await times_slower(peers, clients, memory, kind, len(slower)))
            assert min(slower) < MAX_SLOWER


async def times_slower(peers: Field, clients: list[FakeClient], memory: Memory, kind: str, rounds: int) -> float:
    """How much longer an utterance takes beside unfair peers than without them."""
    first = rounds * (CALM_UTTERANCES + UNFAIR_UTTERANCES)
    deaf = Deaf(peers)
    calm = await everybody(clients, first, CALM_UTTERANCES)
    async with flooding(peers.port, kind) as flood, asyncio.TaskGroup() as beside:
        asking = [beside.create_task(deaf.ask()), beside.create_task(memory.watch())]
        await until(lambda: flood.frames > 1_000 and deaf.asked > 20, within_s=60, what="unfair peers at work")
        unfair = await everybody(clients, first + CALM_UTTERANCES, UNFAIR_UTTERANCES)
        for task in asking:
            task.cancel()
    slower = median(unfair) / median(calm)
    print(
        f"\n{kind}: median {median(calm) * 1000:.0f} ms in calm, {median(unfair) * 1000:.0f} ms beside unfair"
        f" peers ({slower:.1f} times; p99 {percentile(calm, 99) * 1000:.0f} and"
        f" {percentile(unfair, 99) * 1000:.0f} ms); memory {memory.before_mb:.0f} MB, at most"
        f" {memory.peak_mb:.0f} MB; a flood of {flood.frames} frames, {flood.sent_bytes / 2**20:.0f} MB,"
        f" {flood.calls} calls; {deaf.asked} large results that nobody read, {deaf.calls} calls"
    )
    return slower
