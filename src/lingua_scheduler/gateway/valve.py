"""Rate limit of one socket: every frame of any kind counts, every byte, and the CPU time of long frames.

It finds where frames end, and hands whole runs of them to aiohttp's parser."""

import asyncio
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import NamedTuple
from weakref import WeakSet

from aiohttp import WebSocketError, WSCloseCode, web
from aiohttp._websocket.reader import WebSocketReader

from lingua_scheduler.domain.guards.rates import Bucket
from lingua_scheduler.gateway.fair_queue import FairQueue, Turn
from lingua_scheduler.gateway.frame_tap import FrameTap
from lingua_scheduler.gateway.scales import LEAST_WAIT_S, Scales
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.telemetry import metrics

# Frames of one socket handled in one batch; then other sockets get their turn.
RUN_FRAMES = 16
# Maximum bytes of a batch after its first frame, about one read: a few long frames may cost as much as many short ones.
RUN_BYTES = 262_144
# Shorter frames cost too little to be measured.
WEIGHED_BYTES = 4_096
# Bytes and time handled between two checks of the budgets, at least one batch of frames.
COUNTED_BYTES = 262_144
COUNTED_S = 0.001
# With more than this waiting for its turn, nothing is read on top of it.
BACKLOG_BYTES = 65_536
# Data received before a peer disconnected is still handled, at its rate limit, for at most this time.
LAST_WORDS_S = 10.0
# How long the header of a frame is, by its second byte: two bytes, longer lengths in two or eight, a mask in four.
_HEADERS = tuple(2 + (4 if second & 0x80 else 0) + {126: 2, 127: 8}.get(second & 0x7F, 0) for second in range(256))
_HEADER_BYTES = max(_HEADERS)
# The header of a short frame, with its mask.
_LEAST_BYTES = 6

# A whole message of text, and one of bytes.
_WHOLE = 0x81, 0x82

_CUT_OFF = metrics.CUT_OFF.labels("unfinished")
_FED = False, b""


class SocketRates(NamedTuple):
    """What one socket may send in a second, and how many seconds' worth at once when it was quiet."""

    frames: int
    size: int
    burst_s: float
    # The share of the loop's time that reading its long frames may take.
    cpu_share: float = 0.2


class Commons(NamedTuple):
    """What all sockets share."""

    unfinished: "Unfinished"
    # The queues of throttled sockets, and of sockets that sent more than one batch.
    turns: FairQueue
    backlogs: FairQueue


class Valve:
    """Between the transport and the parser of one socket.

    While the rate is used up nothing is read: what the peer sends then waits at the peer.
    """

    __slots__ = (
        "__weakref__",
        "_account",
        "_backlog",
        "_backlogs",
        "_counted_bytes",
        "_counted_frames",
        "_ended_s",
        "_fragments",
        "_frames",
        "_head",
        "_is_paused",
        "_left",
        "_length",
        "_not_before_s",
        "_protocol",
        "_reader",
        "_scales",
        "_tap",
        "_then",
        "_timer",
        "_turns",
        "_uncounted",
        "_uncounted_bytes",
        "_uncounted_s",
        "_volume",
        "began_s",
        "is_weighing",
        "on_close",
        "on_empty",
        "unfinished",
    )

    def __init__(
        self,
        reader: WebSocketReader,
        tap: FrameTap,
        protocol: web.RequestHandler,
        rates: SocketRates,
        commons: Commons,
    ) -> None:
        self._reader: WebSocketReader | None = reader
        self._tap = tap
        self._protocol = protocol
        self._frames = Bucket(rates.frames, rates.burst_s * rates.frames)
        self._volume = Bucket(rates.size, rates.burst_s * rates.size)
        self._scales = Scales(rates.cpu_share)
        # A sixteenth of what may come at once, at most.
        self._counted_frames = min(RUN_FRAMES, rates.frames * rates.burst_s / RUN_FRAMES)
        self._counted_bytes = min(COUNTED_BYTES, rates.size * rates.burst_s / RUN_FRAMES)
        # What was handled and will be counted together: frames, bytes, and what reading the long ones cost.
        self._uncounted = self._uncounted_bytes = 0
        self._uncounted_s = 0.0
        self._account: Unfinished | None = commons.unfinished
        # The frame that is being received: the length of its payload, and how much of that is still to come.
        self._length = self._left = 0
        # What came of a header that is not complete.
        self._head = b""
        # Bytes of the message that is being received in fragments, without this frame and with it.
        self._fragments = self._then = 0
        # What was read and is not handled yet.
        self._backlog = b""
        # The end of its rest, or its place in one of these queues.
        self._timer: asyncio.Handle | Turn | None = None
        # Of all who sent more than is handled in one go, and of all who have rested.
        self._backlogs, self._turns = commons.backlogs, commons.turns
        self._is_paused = False
        # What is being read now is weighed as a whole.
        self.is_weighing = False
        # When the peer left; what was read before is still handled.
        self._ended_s = inf
        # Until then it rests for what it used, on the clock of the buckets.
        self._not_before_s = 0.0
        # Bytes of the message that is not complete, and when it began. What waits for its turn is not the peer's fault.
        self.unfinished = 0
        self.began_s = 0.0
        # Called when the rate is used up, and when the peer has to go.
        self.on_empty: Callable[[], None] | None = None
        self.on_close: Callable[[CloseCode, str], None] | None = None

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """What the transport has read; called by aiohttp as if this were its parser."""
        came = len(data)
        # Most reads are one message, and nothing waits; no clock is needed for short ones.
        if (
            came > _LEAST_BYTES
            and self._uncounted < self._counted_frames
            and not (self._left or self._fragments or self._head or self._backlog or self.unfinished)
            and self._timer is None
            and self._reader is not None
            and data[0] in _WHOLE
            # Its length is in the second byte, beside the mask's sign, or in the two that follow.
            and (second := data[1]) != 0xFF
            and came == (second - 0x7A if second < 0xFE else (data[2] << 8 | data[3]) + 8)
        ):
            self._uncounted += 1
            self._uncounted_bytes += came
            return self._reader.feed_data(data) if came <= WEIGHED_BYTES else self._weighed(self._reader, data)
        if self._timer is None and not self._backlog:
            return self._feed(data if type(data) is bytes else bytes(data))
        self._backlog += data
        if len(self._backlog) > BACKLOG_BYTES:
            self._pause()
        return _FED

    def feed_eof(self) -> None:
        if self._backlog and self._reader is not None and not self._tap.is_deaf:
            self._ended_s = monotonic()
        else:
            self._end()

    def close(self) -> None:
        """Discard further frames; only the close frame is awaited, for a short time."""
        self.on_empty = self.on_close = None
        if self._account is not None:
            self._account.change(self, 0)
            self._account = None
        if self._ended_s < inf:
            self._end()

    @property
    def clock(self) -> Callable[[], float]:
        """What the cost of reading a long frame is to be measured by."""
        return self._scales.clock

    def charge(self, cpu_s: float) -> None:
        """A frame of this socket was read after it had waited in the queue."""
        if wait_s := self._scales.take(cpu_s, monotonic()):
            self.rest(wait_s)

    def rest(self, wait_s: float) -> None:
        """Read nothing for so long."""
        self._not_before_s = monotonic() + wait_s
        if self._timer is None and self._account is not None:
            self._rest(wait_s)

    def spend(self, spent_s: float) -> None:
        """Take time that its frames cost elsewhere from the budget of all throttled sockets and HTTP requests."""
        self._turns.spend(spent_s)

    def give_up(self, reason: str) -> None:
        """Close the socket, and free its buffers without waiting for the close frame of the peer."""
        self._reader = None
        self._backlog = self._head = b""
        self._left = self._fragments = 0
        self._note()
        _CUT_OFF.inc()
        if self.on_close is not None:
            self.on_close(CloseCode.TRY_LATER, reason)
        elif self._protocol.transport is not None:
            self._protocol.transport.abort()

    def _feed(self, data: bytes) -> tuple[bool, bytes]:
        """Hand over what may be handled now; the rest waits."""
        reader = self._reader
        if reader is None:
            return _FED
        held = self.unfinished
        try:
            end, frames, is_message = self._run(data)
        except WebSocketError as error:
            return self._fail(error)
        self._uncounted += frames
        self._uncounted_bytes += end
        if end < len(data):
            self._backlog = data[end:]
            data = data[:end]
        # The end of a long message may be short.
        is_long = end > WEIGHED_BYTES or held > WEIGHED_BYTES
        fed = self._weighed(reader, data) if is_long else reader.feed_data(data)
        if self._uncounted >= self._counted_frames or self._uncounted_bytes >= self._counted_bytes:
            self._count()
        if self._backlog and self._timer is None:
            self._timer = self._backlogs.wait(self._go_on)
        if self._left or self._fragments or self._head or self.unfinished:
            if is_message or not held:
                self.began_s = monotonic()
            self._note()
        return fed

    def _weighed(self, reader: WebSocketReader, data: bytes) -> tuple[bool, bytes]:
        """Hand over what may cost much; the socket rests if that is too much."""
        clock = self._scales.clock
        self.is_weighing, began_s = True, clock()
        fed = reader.feed_data(data)
        self.is_weighing = False
        self._uncounted_s += clock() - began_s
        if self._uncounted_bytes >= self._counted_bytes or self._uncounted_s >= COUNTED_S:
            self._count()
        return fed

    def _fail(self, error: WebSocketError) -> tuple[bool, bytes]:
        """As aiohttp's parser does it: what was read before is handled, then the socket closes with the code."""
        self._reader, self._backlog = None, b""
        self._tap.set_exception(error)
        return True, b""

    def _count(self) -> None:
        """Take what was handled since the last time from the budgets, and rest if that was too much."""
        now_s = monotonic()
        frames_s = self._frames.take(self._uncounted, now_s)
        volume_s = self._volume.take(self._uncounted_bytes, now_s)
        cpu_s = self._scales.take(self._uncounted_s, now_s) if self._uncounted_s else 0.0
        self._uncounted = self._uncounted_bytes = 0
        self._uncounted_s = 0.0
        wait_s = max(frames_s, volume_s, cpu_s)
        if wait_s:
            self._rest(max(wait_s, LEAST_WAIT_S))

    def _run(self, data: bytes) -> tuple[int, int, bool]:
        """Where to stop for now, how many frames end before that, and whether a message does."""
        came, at, frames, is_message = len(data), 0, 0, False
        if self._left:
            if self._left > came:
                self._left -= came
                return came, 0, False
            at, frames, is_message = self._left, 1, not self._then
            self._left, self._fragments = 0, self._then
        else:
            at, frames = self._whole_messages(data, came)
            is_message = bool(frames)
        while at < came and frames < RUN_FRAMES and (at < RUN_BYTES or not frames):
            # A header that lies in two reads is put together.
            head = self._head
            if head or came - at < _HEADER_BYTES:
                source, begin = head + data[at : at + _HEADER_BYTES], 0
                if len(source) < 2 or len(source) < _HEADERS[source[1]]:
                    self._head = source
                    return came, frames, is_message
                self._head = b""
            else:
                source, begin = data, at
            first, second = source[begin], source[begin + 1]
            if second < 0x80:
                raise WebSocketError(WSCloseCode.PROTOCOL_ERROR, "frames of a client must be masked (RFC 6455, 5.1)")
            length = second & 0x7F
            if length == 126:
                length = source[begin + 2] << 8 | source[begin + 3]
            elif length == 127:
                length = int.from_bytes(source[begin + 2 : begin + 10], "big")
            at += _HEADERS[second] - len(head)
            # Control frames may come between the fragments of a message, and are not part of it.
            is_control, is_last = first & 0x08, first & 0x80
            then = self._fragments if is_control else 0 if is_last else self._fragments + length
            if length > came - at:
                self._length, self._left, self._then = length, length - (came - at), then
                return came, frames, is_message
            at += length
            frames += 1
            self._fragments = then
            is_message = is_message or not then
        return at, frames, is_message

    def _whole_messages(self, data: bytes, came: int) -> tuple[int, int]:
        """Where the first frame begins that is not a whole message of up to 64 KB, and how many come before it.

        Most reads hold nothing else, and this is the quick way through them.
        """
        at = frames = 0
        last = -1 if self._head or self._fragments else came - _HEADER_BYTES
        while at <= last and data[at] in _WHOLE:
            second = data[at + 1]
            if second < 0x80 or second == 0xFF:
                break
            end = at + (second - 0x7A if second < 0xFE else (data[at + 2] << 8 | data[at + 3]) + 8)
            if end > came:
                break
            at = end
            frames += 1
            if frames == RUN_FRAMES or at >= RUN_BYTES:
                break
        return at, frames

    def _rest(self, wait_s: float) -> None:
        self._pause()
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._rested)
        if self.on_empty is not None:
            self.on_empty()

    def _rested(self) -> None:
        """It may be one of many, each of them within its own rate: they share what they cost."""
        self._timer = self._turns.wait(self._go_on)

    def _pause(self) -> None:
        if not self._is_paused:
            self._is_paused = self._tap.is_held = True
            self._protocol._pause_reading_for_buffer()

    def _go_on(self) -> None:
        self._timer = None
        now_s = monotonic()
        if now_s - self._ended_s > LAST_WORDS_S:
            self._end()
            return
        if (wait_s := self._not_before_s - now_s) > 0:
            self._pause()
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._rested)
            return
        if self._backlog and self._protocol._reading_paused:
            self._tap.on_room = self._has_room
            return
        data, self._backlog = self._backlog, b""
        if data:
            is_over, _ = self._feed(data)
            if is_over:
                self._protocol.close()
        if self._is_waiting:
            return
        if self._ended_s < inf:
            self._end()
        elif self._is_paused:
            self._is_paused = self._tap.is_held = False
            self._tap.was_heard = True
            self._protocol._resume_reading_for_buffer()

    def _has_room(self) -> None:
        """Our queue was full, and takes frames again."""
        self._tap.was_heard = True
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_soon(self._go_on)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._backlog, self._tap.on_room = b"", None
        if self._reader is not None:
            self._reader.feed_eof()

    @property
    def _is_waiting(self) -> bool:
        return self._timer is not None or bool(self._backlog)

    @property
    def is_kept_waiting(self) -> bool:
        """By our own queue: it is not read, however much it sends."""
        return self._protocol._reading_paused

    def _note(self) -> None:
        if self._account is not None:
            received = self._length - self._left if self._left else 0
            self._account.change(self, self._fragments + received + len(self._head))


class Unfinished:
    """What all sockets together hold of messages that are not complete."""

    def __init__(self, max_bytes: int, timeout_s: float) -> None:
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._valves: WeakSet[Valve] = WeakSet()
        self.total = 0

    def change(self, valve: Valve, held: int) -> None:
        before = valve.unfinished
        if held == before:
            return
        valve.unfinished = held
        self.total += held - before
        if not before:
            self._valves.add(valve)
        elif not held:
            self._valves.discard(valve)
        if self.total > self._max_bytes and held > before:
            self._make_room()

    def look(self, now_s: float) -> None:
        """Close sockets that take too long to finish a message."""
        for valve in list(self._valves):
            if valve.is_kept_waiting:
                valve.began_s = now_s
            elif valve.unfinished and now_s - valve.began_s > self._timeout_s:
                valve.give_up(f"a message was not complete after {self._timeout_s:g} s")

    def _make_room(self) -> None:
        """Close the sockets that hold most: a normal peer holds next to nothing."""
        # Counted anew, because a socket that ended in a surprise did not say that it has left.
        self.total = sum(valve.unfinished for valve in self._valves)
        while self.total > self._max_bytes:
            largest = max(self._valves, key=lambda valve: valve.unfinished)
            largest.give_up("too many unfinished messages, and yours is the largest; connect again")
