"""The script for nodes: a node that keeps to the protocol passes, and each planted fault is named by its check."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lingua_scheduler.conformance.book import Book, CheckVerdict
from lingua_scheduler.conformance.checks import NODE_CHECKS, PeerProfile
from lingua_scheduler.conformance.listening import Entrance, listening
from lingua_scheduler.conformance.node_script import check_node
from lingua_scheduler.conformance.node_talk import NodeTalk
from lingua_scheduler.conformance.play import PeerProgram, Play
from tests.support.kit_node import KitNode
from tests.support.tones import tone

PATIENT_S, SHORT_S = 60.0, 8.0
# A node that comes back ends the wait; for the others nothing is to be seen.
COMING_S, QUIET_S = 60.0, 0.2
COMING = ("comes back",)
AUDIO = tone(440, 16_000, 0.5).tobytes()

# Fault → the check that finds it, and whether it is found by waiting in vain.
FAULTS = {
    "wrong session": ("result-ids", False),
    "makes up the attempt": ("result-ids", False),
    "success without text": ("result-fields", False),
    "forgets its id": ("keeps-id", False),
    "no heartbeat": ("heartbeat-fields", True),
    "dies of the unknown": ("unknown-types", False),
    "strict fields": ("unknown-fields", True),
    "answers twice": ("answers-once", False),
    "too many": ("slots-limit", False),
    "hammers": ("backs-off", False),
    "dies of bad audio": ("bad-audio", False),
    "comes back": ("stops-after-4003", False),
    "never comes back": ("reconnects", True),
    "starts unasked": ("waits-for-grant", True),
    "ignores stale": ("waits-for-grant", False),
    "register without hardware": ("register-fields", True),
    "small frames": ("large-audio", False),
    "no pong": ("ping", True),
    "lists what is over": ("running-ids", False),
    "forgets results": ("keeps-results", True),
    "leaves at once": ("leaves", False),
}


async def judged(door: Entrance, program: PeerProgram, patience_s: float = PATIENT_S, quiet_s: float = QUIET_S) -> Book:
    book = Book(NODE_CHECKS, PeerProfile.STANDARD)
    play = Play(PeerProfile.STANDARD, patience_s, 60.0, AUDIO, lambda _: None, program, quiet_s)
    await check_node(NodeTalk(door, book, play))
    return book


@asynccontextmanager
async def kit_node(fault: str = "") -> AsyncIterator[tuple[Entrance, KitNode]]:
    async with listening("127.0.0.1", 0, "/ws/node") as door:
        node = KitNode(door.port, fault)
        await node.start()
        try:
            yield door, node
        finally:
            await node.stop()


def told(book: Book) -> list[tuple[str, str, str, str]]:
    return [
        (one.check.name, one.expected, one.came, one.why)
        for one in book.results
        if one.verdict in (CheckVerdict.FAILED, CheckVerdict.NOT_REACHED)
    ]


async def test_a_node_that_keeps_to_the_protocol_passes() -> None:
    async with kit_node() as (door, node):
        book = await judged(door, node)
    assert told(book) == []
    assert book.conforms
    assert book.of(CheckVerdict.NOT_APPLICABLE) == ["binary-audio", "text-input"]


# What else a fault really breaks.
ALSO = {
    "no heartbeat": {"heartbeat-interval"},
    "starts unasked": {"job-ack"},
    "comes back": {"stops-after-4004"},
    "lists what is over": {"slots-limit"},
}


async def wrongly_named(fault: str) -> list[tuple[str, str, str, str]]:
    """What was found instead; empty if the fault was named, and nothing else."""
    check, is_silent = FAULTS[fault]
    async with kit_node(fault) as (door, peer):
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


async def test_a_node_that_never_connects_is_not_judged() -> None:
    async with listening("127.0.0.1", 0, "/ws/node") as door:
        book = Book(NODE_CHECKS, PeerProfile.STANDARD)
        await check_node(NodeTalk(door, book, Play(PeerProfile.STANDARD, 1.0, 0.01, AUDIO, lambda _: None)))
    assert book.of(CheckVerdict.FAILED) == []
    assert {one.why for one in book.results} == {"no node connected"}
