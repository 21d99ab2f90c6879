"""The load process: connects its peers once, then carries out one order after the other, told on standard input."""

import asyncio
import sys
import time
from collections import Counter
from itertools import count

import msgspec

from bench import peers
from bench.askers import Asker
from bench.audio import speech
from bench.connecting import connect, introduce, join, keep_beating
from bench.frames import SocketClosed
from bench.measure import percentile, tail
from bench.obeying import LoadFailed, obey
from bench.orders import Cast, Order, Tally
from bench.peers import Client, Echoer, Node, Talker
from lingua_scheduler.domain.sessions.conversation import MAX_UNDER_WAY

PACE_S = 0.001


class Load:
    """All peers of one process; the judge of how a run goes."""

    def __init__(self, cast: Cast) -> None:
        self._cast = cast
        self._nodes: list[Node] = []
        self._talkers: list[Talker] = []
        self._order: Order | None = None
        self._replacing: asyncio.Task[None] | None = None
        self._replaced = 0
        self._left = self._unanswered = 0
        self._is_paced = False
        self._took_ns: list[int] = []
        self._refusals: Counter[str] = Counter()
        self._end: asyncio.Future[None] | None = None
        self._failure = ""

    async def connect(self) -> None:
        cast = self._cast
        if not cast.nodes:
            self._talkers = [Echoer(self) for _ in range(cast.talkers)]
            await asyncio.gather(*(connect(talker, cast.port) for talker in self._talkers))
            return
        for number in range(cast.nodes):
            self._nodes.append(Node(f"bench-plain-{number}", cast.slots, False, self))
            self._nodes.append(Node(f"bench-acks-{number}", cast.slots, True, self))
        await join(self._nodes, cast.port, cast.node_key)
        clients = [Asker(self) if cast.takes_no else Client(self) for _ in range(cast.talkers)]
        await introduce(clients, cast.port, cast.talker_key)
        self._talkers = list(clients)
        keep_beating(self._nodes)
        if cast.life_s:
            self._replacing = asyncio.create_task(self._replace_talkers(cast.life_s / cast.talkers))

    async def carry_out(self, order: Order) -> Tally:
        self._order = order
        self._prepare(order)
        self._took_ns = []
        self._replaced = 0
        self._refusals.clear()
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
        took_ms = sorted(took_ns / 1e6 for took_ns in self._took_ns) or [0.0]
        return Tally(
            jobs=len(self._took_ns),
            took_s=took_s,
            cpu_s=cpu_s,
            p50_ms=percentile(took_ms, 0.5),
            p99_ms=percentile(took_ms, 0.99),
            p999_ms=tail(took_ms, 0.999),
            refusals=dict(self._refusals),
            replaced=self._replaced,
        )

    def done(self, talker: Talker, began_ns: int) -> None:
        self._took_ns.append(time.perf_counter_ns() - began_ns)
        self._settled(talker)

    def refused(self, asker: Talker, due_ns: int, why: str) -> None:  # noqa: ARG002
        self._refusals[why] += 1
        self._settled(asker)

    def told(self, code: str) -> None:
        self.failed(f"a client was told {code}, of no utterance in particular")

    def _settled(self, talker: Talker) -> None:
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
        audio = speech(order.audio_bytes, order.audio_format)
        for node in self._nodes:
            node.answer_with(audio)
        for talker in self._talkers:
            _prepare(talker, order)

    async def _replace_talkers(self, every_s: float) -> None:
        """One after the other goes, each second one without a word, when the one in its place is there."""
        for number in count():
            await asyncio.sleep(every_s)
            place = number % len(self._talkers)
            former = self._talkers[place]
            if self._order is None or former.under_way or not isinstance(former, Client):
                continue
            newcomer = Asker(self)
            try:
                await introduce([newcomer], self._cast.port, self._cast.talker_key)
            except (SocketClosed, OSError) as error:
                self.failed(f"a newcomer could not connect: {error}")
                return
            _prepare(newcomer, self._order)
            if former.under_way:
                newcomer.leave()
                continue
            self._talkers[place] = newcomer
            self._replaced += 1
            former.leave() if number % 2 else former.cut()

    def _next(self, talker: Talker) -> None:
        if self._left:
            self._left -= 1
            talker.talk()

    def _pace(self, began_ns: int, said: int, rate: float) -> None:
        """Say what is due, on time or not: a wait for a slow scheduler counts as the scheduler's.

        Nobody says more at once than one session may: while the scheduler stands still, what is due waits here.
        """
        due = min(int((time.perf_counter_ns() - began_ns) / 1e9 * rate) + 1, said + self._left)
        while said < due and (talker := self._talkers[said % len(self._talkers)]).under_way < MAX_UNDER_WAY:
            talker.talk(began_ns + int(said / rate * 1e9))
            said += 1
            self._left -= 1
        if self._left and not self._failure:
            asyncio.get_running_loop().call_later(PACE_S, self._pace, began_ns, said, rate)


def _prepare(talker: Talker, order: Order) -> None:
    if isinstance(talker, Client):
        languages = peers.ACKNOWLEDGING_LANGUAGES if order.acknowledges else peers.PLAIN_LANGUAGES
        talker.prepare(speech(order.audio_bytes, order.audio_format), order.audio_format, languages)
    elif isinstance(talker, Echoer):
        talker.prepare(b"x" * order.audio_bytes)


def main() -> None:
    obey(Load(msgspec.json.decode(sys.argv[1], type=Cast)), Order)


if __name__ == "__main__":
    main()
