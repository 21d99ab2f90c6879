"""Inboxes: a stream of letters per instance, read by its own process, or adopted by another one if that has died."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from lingua_scheduler.domain.cluster.instances import (
    AdoptionOutcome,
    BuryOutcome,
    InboxClaimOutcome,
    InboxReleaseOutcome,
    LetterId,
    PostOutcome,
    ReplayOutcome,
)
from lingua_scheduler.setting_sections.instances import InboxSettings
from lingua_scheduler.store.connection import Argument, RedisAway, RedisLine
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.reading import whole
from lingua_scheduler.store.script_batches import BatchedScript, Batcher
from lingua_scheduler.store.scripts import Scripts

GROUP = "mail"
FIRST = "-"


# Dead letters kept for each instance; the oldest give way.
MAX_DEAD_LETTERS = 10_000


class Limits(NamedTuple):
    """Limits of an inbox: its letters, its dead letters, and how long both are kept unread."""

    max_length: int
    max_bytes: int
    max_dead: int
    keep_ms: int


def limits_of(settings: InboxSettings) -> Limits:
    return Limits(settings.max_length, settings.max_bytes, MAX_DEAD_LETTERS, settings.keep_ms)


class InboxEntry(NamedTuple):
    """A letter in a stream. One that is none of ours has no kind."""

    entry_id: str
    kind: str
    sender: str
    uid: str
    body: bytes
    deliveries: int = 1


class Adoption(NamedTuple):
    """The exclusive right to read a dead instance's inbox, for a limited time."""

    instance: str
    by: str
    epoch: int
    hold_ms: int


class ClaimedLetters(NamedTuple):
    outcome: InboxClaimOutcome
    entries: tuple[InboxEntry, ...] = ()
    # Where the next page begins, or empty.
    cursor: str = ""


class DeadLetter(NamedTuple):
    """`body_bytes` is how long its body was; speech in it is not kept."""

    instance: str
    entry: InboxEntry
    reason: str
    subject: str
    body_bytes: int

    @property
    def letter_id(self) -> str:
        return str(LetterId(self.instance, self.entry.entry_id))

    @property
    def buried_at_ms(self) -> int:
        return int(self.entry.entry_id.partition("-")[0])


class Depth(NamedTuple):
    letters: int
    pending: int
    dead: int


class Inboxes:
    def __init__(self, line: RedisLine, keys: Keys, scripts: Scripts, max_pending: int) -> None:
        self._line = line
        self._keys = keys
        self._scripts = scripts
        self._batches = Batcher(scripts, max_pending)

    async def prepare(self, instance: str) -> None:
        """Make the group at the very beginning, so that no letter that came before it is missed."""
        try:
            await self._line.call("XGROUP", "CREATE", self._keys.inbox(instance), GROUP, "0", "MKSTREAM")
        except ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise

    def post(self, to: str, letter: InboxEntry, limits: Limits) -> asyncio.Future[PostOutcome]:
        """Again after a lost reply means that the letter may come twice, with the same uid."""
        words = letter.kind, letter.sender, letter.uid, letter.body
        return self._batches.submit(_POST, self._keys.inbox(to), limits, letter.uid, words)

    async def read(self, line: RedisLine, instance: str, count: int, block_ms: int) -> list[InboxEntry]:
        """Wait for letters, over a line of which this is the only caller."""
        wanted = ("GROUP", GROUP, instance, "COUNT", count, "BLOCK", block_ms, "STREAMS", self._keys.inbox(instance))
        try:
            reply = await line.call("XREADGROUP", *wanted, ">")
        except ResponseError as error:
            if not str(error).startswith("NOGROUP"):
                # The server changed its role, or gives its slots away, while we waited.
                raise RedisAway(str(error)) from error
            # Redis has lost the stream, and perhaps got letters since.
            await self.prepare(instance)
            return []
        return [] if reply is None else [_entry(entry_id, fields) for entry_id, fields in reply[0][1]]

    async def done(self, instance: str, entry_ids: Sequence[str]) -> None:
        await self._scripts.run("inbox_done", inbox=self._keys.inbox(instance), group=GROUP, entries=entry_ids)

    async def claim(self, instance: str, count: int, idle_ms: int, cursor: str = FIRST) -> ClaimedLetters:
        """An instance's own letters that it was given `idle_ms` ago and has not done."""
        return await self._claim(instance, instance, "", 0, count, idle_ms, cursor)

    async def adopt(self, instance: str, by: str, hold_ms: int) -> Adoption | None:
        """None while another instance has adopted it."""
        reply = await self._scripts.run("inbox_adopt", adopter=self._keys.adopter(instance), by=by, hold_ms=hold_ms)
        if AdoptionOutcome(reply[0]) is AdoptionOutcome.HELD:
            return None
        return Adoption(instance, by, reply[1], hold_ms)

    async def claim_adopted(self, adoption: Adoption, count: int, idle_ms: int, cursor: str = FIRST) -> ClaimedLetters:
        """As `claim`, and after the last page also what was never read; the adoption is held on to."""
        instance, by, epoch, hold_ms = adoption
        return await self._claim(instance, by, str(epoch), hold_ms, count, idle_ms, cursor)

    async def release(self, adoption: Adoption, *, remove: bool = False) -> InboxReleaseOutcome:
        reply = await self._scripts.run(
            "inbox_release",
            inbox=self._keys.inbox(adoption.instance),
            dead=self._keys.dead_letters(adoption.instance),
            adopter=self._keys.adopter(adoption.instance),
            by=adoption.by,
            epoch=adoption.epoch,
            remove=int(remove),
        )
        return InboxReleaseOutcome(reply[0])

    async def bury(
        self,
        instance: str,
        entry: InboxEntry,
        reason: str,
        limits: Limits,
        *,
        subject: str = "",
        keeps_body: bool = False,
    ) -> BuryOutcome:
        reply = await self._scripts.run(
            "inbox_bury",
            inbox=self._keys.inbox(instance),
            dead=self._keys.dead_letters(instance),
            group=GROUP,
            entry=entry.entry_id,
            reason=reason,
            subject=subject,
            keep_body=int(keeps_body),
            deliveries=entry.deliveries,
            max_dead=limits.max_dead,
            keep_ms=limits.keep_ms,
        )
        return BuryOutcome(reply[0])

    async def dead_letters(self, instance: str, most: int, after: str = FIRST) -> list[DeadLetter]:
        """The oldest first."""
        found = await self._line.call("XRANGE", self._keys.dead_letters(instance), after, "+", "COUNT", most)
        return [_dead_letter(instance, entry_id, fields) for entry_id, fields in found]

    async def replay(self, instance: str, entry_id: str, limits: Limits) -> ReplayOutcome:
        reply = await self._scripts.run(
            "letter_replay",
            inbox=self._keys.inbox(instance),
            dead=self._keys.dead_letters(instance),
            entry=entry_id,
            max_length=limits.max_length,
            keep_ms=limits.keep_ms,
        )
        return ReplayOutcome(reply[0])

    async def purge(self, instance: str, entry_ids: Sequence[str]) -> int:
        """Delete dead letters permanently. Returns their number."""
        return int(await self._line.call("XDEL", self._keys.dead_letters(instance), *entry_ids))

    async def depth(self, instance: str) -> Depth:
        letters, dead, pending = await asyncio.gather(
            self._line.call("XLEN", self._keys.inbox(instance)),
            self._line.call("XLEN", self._keys.dead_letters(instance)),
            self._pending(instance),
        )
        return Depth(letters, pending, dead)

    async def _pending(self, instance: str) -> int:
        try:
            return int((await self._line.call("XPENDING", self._keys.inbox(instance), GROUP))[0])
        except ResponseError as error:
            if not str(error).startswith("NOGROUP"):
                raise
            return 0

    async def _claim(
        self, instance: str, consumer: str, epoch: str, hold_ms: int, count: int, idle_ms: int, cursor: str
    ) -> ClaimedLetters:
        reply = await self._scripts.run(
            "inbox_claim",
            inbox=self._keys.inbox(instance),
            adopter=self._keys.adopter(instance),
            group=GROUP,
            consumer=consumer,
            idle_ms=idle_ms,
            cursor=cursor,
            count=count,
            epoch=epoch,
            hold_ms=hold_ms,
        )
        outcome = InboxClaimOutcome(reply[0])
        if outcome is InboxClaimOutcome.LOST:
            return ClaimedLetters(outcome)
        return ClaimedLetters(
            outcome, tuple(_entry(entry, fields, times) for entry, times, fields in reply[2]), reply[1]
        )


def _of_posts(inbox: str, limits: Limits, _uids: list[str], letters: list[tuple[Argument, ...]]) -> dict[str, Any]:
    return {
        "inbox": inbox,
        "max_length": limits.max_length,
        "max_bytes": limits.max_bytes,
        "keep_ms": limits.keep_ms,
        "letters": [word for words in letters for word in words],
    }


_POST_OUTCOMES = {outcome.value: outcome for outcome in PostOutcome}
_POST = BatchedScript("inbox_post", _of_posts, _POST_OUTCOMES.__getitem__)
BATCHED = (_POST.script,)


def _entry(entry_id: str | bytes, fields: Sequence[Any], deliveries: int = 1) -> InboxEntry:
    """Fields stand where `inbox_post` puts them; a newer version may add some behind."""
    if len(fields) < 8:
        return InboxEntry(_text(entry_id), "", "", "", b"", deliveries)
    _, kind, _, sender, _, uid, _, body, *_ = fields
    return InboxEntry(_text(entry_id), _text(kind), _text(sender), _text(uid), _bytes(body), deliveries)


def _dead_letter(instance: str, entry_id: str, fields: Sequence[str]) -> DeadLetter:
    named = dict(zip(fields[::2], fields[1::2], strict=True))
    entry = _entry(entry_id, fields, whole(named.get("deliveries")))
    body_bytes = whole(named.get("body_bytes", len(entry.body)))
    return DeadLetter(instance, entry, named.get("reason", "unknown"), named.get("subject", ""), body_bytes)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
