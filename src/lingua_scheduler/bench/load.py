"""The load process: connects its peers once, then carries out one order after the other, told on standard input."""

import asyncio
import sys
import time
from collections.abc import Sequence

import msgspec
import uvloop

from lingua_scheduler.bench import peers
from lingua_scheduler.bench.frames import FramePeer, SocketClosed
from lingua_scheduler.bench.measure import percentile
from lingua_scheduler.bench.orders import Cast, Order, Tally
from lingua_scheduler.bench.peers import Client, Echoer, Node, Talker

CONNECT_WITHIN_S = 30.0
BEAT_S = 5.0
PACE_S = 0.001


class LoadFailed(Exception):
    """The other end did something a benchmark cannot go on with."""


class Load:
    """All peers of one process; the judge of how a run goes."""

    def __init__(self, cast: Cast) -> None:
        self._cast = cast
        self._nodes: list[Node] = []
        self._talkers: Sequence[Talker] = ()
        self._left = self._unanswered = 0
        self._is_paced = False
        self._took_ns: list[int] = []
        self._end: asyncio.Future[None] | None = None
        self._failure = ""

    async def connect(self) -> None:
        cast = self._cast
        if not cast.nodes:
            self._talkers = [Echoer(self) for _ in range(cast.talkers)]
            await asyncio.gather(*map(self._open, self._talkers))
            return
        for number in range(cast.nodes):
            self._nodes.append(Node(f"bench-plain-{number}", cast.slots, False, self))
            self._nodes.append(Node(f"bench-acks-{number}", cast.slots, True, self))
        for node in self._nodes:
            await self._open(node, cast.node_port)
            node.register()
            await node.registered
        clients = [Client(self) for _ in range(cast.talkers)]
        for client in clients:
            await self._open(client)
            client.introduce()
            await client.welcomed
        self._talkers = clients
        self._keep_beating()

    async def carry_out(self, order: Order) -> Tally:
        self._prepare(order)
        self._took_ns = []
        self._left = self._unanswered = order.jobs
        self._is_paced = order.rate > 0
        self._end = asyncio.get_running_loop().create_future()
        cpu_s, began_s = time.process_time(), time.perf_counter()
        if self._failure:
            raise LoadFailed(self._failure)
        if self._is_paced:
            self._pace(time.perf_counter_ns(), 0, order.rate)
        else:
            for talker in [talker for _ in range(order.in_flight) for talker in self._talkers]:
                self._next(talker)
        await self._end
        took_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
        took_ms = sorted(took_ns / 1e6 for took_ns in self._took_ns)
        return Tally(
            jobs=len(took_ms),
            took_s=took_s,
            cpu_s=cpu_s,
            p50_ms=percentile(took_ms, 0.5),
            p99_ms=percentile(took_ms, 0.99),
            p999_ms=percentile(took_ms, 0.999),
        )

    def done(self, talker: Talker, began_ns: int) -> None:
        self._took_ns.append(time.perf_counter_ns() - began_ns)
        self._unanswered -= 1
        if not self._unanswered and self._end is not None and not self._end.done():
            self._end.set_result(None)
        elif not self._is_paced:
            self._next(talker)

    def failed(self, reason: str) -> None:
        self._failure = self._failure or reason
        if self._end is not None and not self._end.done():
            self._end.set_exception(LoadFailed(reason))

    def _prepare(self, order: Order) -> None:
        audio = peers.speech(order.audio_bytes, order.audio_format)
        languages = peers.ACKNOWLEDGING_LANGUAGES if order.acknowledges else peers.PLAIN_LANGUAGES
        for node in self._nodes:
            node.answer_with(audio)
        for talker in self._talkers:
            if isinstance(talker, Client):
                talker.prepare(audio, order.audio_format, languages)
            elif isinstance(talker, Echoer):
                talker.prepare(b"x" * order.audio_bytes)

    def _next(self, talker: Talker) -> None:
        if self._left:
            self._left -= 1
            talker.talk()

    def _pace(self, began_ns: int, said: int, rate: float) -> None:
        """Say what is due, on time or not: a wait for a slow scheduler counts as the scheduler's."""
        due = min(int((time.perf_counter_ns() - began_ns) / 1e9 * rate) + 1, said + self._left)
        while said < due:
            self._talkers[said % len(self._talkers)].talk(began_ns + int(said / rate * 1e9))
            said += 1
            self._left -= 1
        if self._left and not self._failure:
            asyncio.get_running_loop().call_later(PACE_S, self._pace, began_ns, said, rate)

    def _keep_beating(self) -> None:
        for node in self._nodes:
            node.beat()
        asyncio.get_running_loop().call_later(BEAT_S, self._keep_beating)

    async def _open(self, peer: FramePeer, port: int = 0) -> None:
        await asyncio.get_running_loop().create_connection(lambda: peer, "127.0.0.1", port or self._cast.port)
        await peer.opened


async def obey(cast: Cast) -> None:
    """Tell of one tally when connected, and of one after each order; end when nobody gives orders any more."""
    load = Load(cast)
    try:
        async with asyncio.timeout(CONNECT_WITHIN_S):
            await load.connect()
        _tell(Tally())
        orders = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
        async for line in orders:
            _tell(await load.carry_out(msgspec.json.decode(line, type=Order)))
    except (LoadFailed, SocketClosed, OSError, TimeoutError) as error:
        _tell(Tally(failure=str(error) or type(error).__name__))


def _tell(tally: Tally) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(tally) + b"\n")
    sys.stdout.flush()


def main() -> None:
    cast = msgspec.json.decode(sys.argv[1], type=Cast)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(obey(cast))


if __name__ == "__main__":
    main()
