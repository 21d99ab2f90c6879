"""Instances and letters written straight into the store, and whole mailrooms on it."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.protocol.bus import AttemptLost, BusMessage, encode
from lingua_scheduler.protocol.sealing import Keyring
from lingua_scheduler.services.cluster.letters import Letter
from lingua_scheduler.services.cluster.mailroom import Mailroom
from lingua_scheduler.services.cluster.presence import Presence
from lingua_scheduler.services.cluster.seals import Seals, announced
from lingua_scheduler.store.cluster.inbox import InboxEntry, Limits
from lingua_scheduler.store.cluster.instances import Me
from lingua_scheduler.store.store import Store
from tests.support.schedulers import settings_with

DEAD_MS = 6_000
EFFECTS = "test:effects"
ROOMY = Limits(10_000, 100_000_000, 1_000, 60_000)
# Short lives, so that a test sees death and adoption soon.
BRISK = {
    "instances__beat_ms": 50,
    "instances__dead_ms": 800,
    "inbox__retry_ms": 200,
    "inbox__handle_timeout_ms": 200,
}


def who(instance: str, incarnation: str = "life-1", seals: str = "") -> Me:
    return Me(instance, incarnation, "here", 1, "0", 0, seals=seals)


def letter(uid: str, body: bytes = b"\xff\x00", kind: str = "nudge", sender: str = "s") -> InboxEntry:
    return InboxEntry("", kind, sender, uid, body)


def lost(number: int, job_id: str = "") -> AttemptLost:
    return AttemptLost(Attempt(job_id or f"job-0-{number}", number, "n1", 0), "test")


def written(number: int) -> InboxEntry:
    """A message as somebody else would post it."""
    return letter(f"u{number}", encode(lost(number)), AttemptLost.__struct_config__.tag)  # type: ignore[arg-type]


class Office:
    """A mailroom, and what it has heard."""

    def __init__(self, store: Store, instance: str, keyring: Keyring | None = None, /, **changes: Any) -> None:
        settings = settings_with(**BRISK | changes)
        self.instance = instance
        self.presence = Presence(who(instance, secrets.token_hex(4), announced(keyring)), store, settings.instances)
        self.mailroom = Mailroom(
            self.presence, store, settings, Seals(self.presence, keyring, settings.privacy.seal_letters)
        )
        self.heard: list[tuple[int, Letter]] = []
        self.buried: list[tuple[str, str]] = []
        # Fails this often for each number; a number that is held is not answered before that is lifted.
        self.failures: dict[int, int] = {}
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.mailroom.handle(AttemptLost, self._take)
        self.mailroom.on_dead(self._dead)

    @property
    def numbers(self) -> list[int]:
        return [number for number, _ in self.heard]

    async def _take(self, message: AttemptLost, envelope: Letter) -> None:
        number = message.attempt.number
        await self.go_on.wait()
        self.heard.append((number, envelope))
        if self.failures.get(number, 0):
            self.failures[number] -= 1
            raise ValueError("as the test asks")

    async def _dead(self, message: BusMessage | None, envelope: Letter, reason: str) -> None:
        self.buried.append((envelope.uid, reason))


@asynccontextmanager
async def office(
    store: Store, instance: str, keyring: Keyring | None = None, /, **changes: Any
) -> AsyncIterator[Office]:
    opened = Office(store, instance, keyring, **changes)
    await opened.mailroom.start()
    try:
        yield opened
    finally:
        await opened.mailroom.stop()


def effective(opened: Office, store: Store, delay_s: float = 0.0) -> None:
    """From now on each letter has an effect in Redis: whoever handles it first is written down."""

    async def take(message: AttemptLost, _: Letter) -> None:
        await asyncio.sleep(delay_s)
        await store.line.call("HSETNX", EFFECTS, message.attempt.number, opened.instance)

    opened.mailroom.handle(AttemptLost, take)
