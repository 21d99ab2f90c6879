"""The script for clients: a client that keeps to the protocol passes, and each planted fault is named by its check."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lingua_scheduler.conformance.book import Book, CheckVerdict
from lingua_scheduler.conformance.checks import CLIENT_CHECKS, PeerProfile
from lingua_scheduler.conformance.client_script import check_client
from lingua_scheduler.conformance.client_talk import ClientTalk
from lingua_scheduler.conformance.listening import Entrance, listening
from lingua_scheduler.conformance.play import PeerProgram, Play
from tests.support.kit_client import KitClient

PATIENT_S, SHORT_S = 60.0, 8.0
# A client that comes back ends the wait; for the others nothing is to be seen.
COMING_S, QUIET_S = 60.0, 0.2
COMING = ("comes back",)

# Fault → the check that finds it, whether by waiting in vain, and whether the client sends whole utterances.
FAULTS = {
    "wrong session": ("session-id", False, False),
    "bad language": ("init-fields", False, False),
    "speaks before the ack": ("waits-for-ack", False, False),
    "skips a seq": ("seq", False, False),
    "half a sample": ("audio-format", False, False),
    "counts backwards": ("utterance-index", False, True),
    "dies of the unknown": ("unknown-types", False, False),
    "dies of a gap": ("missing-result", False, False),
    "no pong": ("ping", True, False),
    "ignores the pause": ("honours-pause", False, False),
    "never comes back": ("reconnects", True, False),
    "forgets the token": ("resume-token", False, False),
    "claims too much": ("last-index", False, False),
    "replays everything": ("replay", False, False),
    "replays nothing": ("replay", True, True),
    "never forgets": ("no-repeats", False, True),
    "shows twice": ("shows-once", False, True),
    "gives up at 1013": ("tries-later", True, False),
    "hammers": ("backs-off", False, False),
    "keeps the old session": ("lost-session", False, False),
    "comes back": ("stops-after-4003", False, False),
}
# What else a fault really breaks.
ALSO = {
    "skips a seq": {"replay"},
    "replays everything": {"seq"},
    "comes back": {"stops-after-4004", "stops-after-4007"},
    "forgets the token": {"replay", "session-id", "seq"},
}


async def judged(door: Entrance, program: PeerProgram, patience_s: float = PATIENT_S, quiet_s: float = QUIET_S) -> Book:
    book = Book(CLIENT_CHECKS, PeerProfile.STANDARD)
    play = Play(PeerProfile.STANDARD, patience_s, 60.0, b"", lambda _: None, program, quiet_s)
    await check_client(ClientTalk(door, book, play))
    return book


@asynccontextmanager
async def kit_client(fault: str = "", *, is_whole: bool = False) -> AsyncIterator[tuple[Entrance, KitClient]]:
    async with listening("127.0.0.1", 0, "/ws/session") as door:
        client = KitClient(door.port, fault, is_whole=is_whole)
        await client.start()
        try:
            yield door, client
        finally:
            await client.stop()


def told(book: Book) -> list[tuple[str, str, str, str]]:
    return [
        (one.check.name, one.expected, one.came, one.why)
        for one in book.results
        if one.verdict in (CheckVerdict.FAILED, CheckVerdict.NOT_REACHED)
    ]


@pytest.mark.parametrize("is_whole", [False, True])
async def test_a_client_that_keeps_to_the_protocol_passes(is_whole: bool) -> None:
    async with kit_client(is_whole=is_whole) as (door, client):
        book = await judged(door, client)
    assert told(book) == []
    assert book.conforms
    other = ["seq"] if is_whole else ["utterance-index", "no-repeats"]
    assert book.of(CheckVerdict.NOT_APPLICABLE) == ["binary-frames", *other]


async def wrongly_named(fault: str) -> list[tuple[str, str, str, str]]:
    """What was found instead; empty if the fault was named, and nothing else."""
    check, is_silent, is_whole = FAULTS[fault]
    async with kit_client(fault, is_whole=is_whole) as (door, peer):
        quiet_s = COMING_S if fault in COMING else QUIET_S
        book = await judged(door, peer, SHORT_S if is_silent else PATIENT_S, quiet_s)
    failed = set(book.of(CheckVerdict.FAILED))
    is_named = check in failed and failed - {check} <= ALSO.get(fault, set()) and not book.conforms
    return [] if is_named else told(book)


@pytest.mark.slow
@pytest.mark.parametrize("is_silent", [False, True])
async def test_each_planted_fault_is_named(is_silent: bool) -> None:
    """All at once, because most of the time is spent waiting."""
    faults = [fault for fault, found in FAULTS.items() if found[1] is is_silent]
    wrong = await asyncio.gather(*map(wrongly_named, faults))
    assert {fault: one for fault, one in zip(faults, wrong, strict=True) if one} == {}


async def test_a_client_that_never_connects_is_not_judged() -> None:
    async with listening("127.0.0.1", 0, "/ws/session") as door:
        book = Book(CLIENT_CHECKS, PeerProfile.STANDARD)
        await check_client(ClientTalk(door, book, Play(PeerProfile.STANDARD, 1.0, 0.01, b"", lambda _: None)))
    assert book.of(CheckVerdict.FAILED) == []
    assert {one.why for one in book.results} == {"no client connected"}
