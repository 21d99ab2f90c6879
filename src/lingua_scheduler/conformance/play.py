"""What both scripts are given: how long they wait, their speech, and the program under test if they start it."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from lingua_scheduler.conformance.checks import PeerProfile
from lingua_scheduler.conformance.listening import Entrance, Line

# Tries that are refused in a row. First-generation nodes wait 5, 10, 20 … seconds, so few are asked of them.
REFUSALS = {PeerProfile.STANDARD: 5, PeerProfile.EXISTING: 3}
# How often the time for an answer fits into the time for a reconnect.
_RECONNECTS = {PeerProfile.STANDARD: 3.0, PeerProfile.EXISTING: 8.0}
# A peer that comes back later than this after it was dismissed is not noticed.
QUIET_S = 3.0


class PeerProgram(Protocol):
    """The program under test."""

    @property
    def is_running(self) -> bool: ...

    def output(self) -> str: ...

    async def start(self) -> None: ...

    def ask_to_leave(self) -> None: ...

    async def exit_code(self, within_s: float) -> int | None: ...


class Play(NamedTuple):
    """`patience_s`: for an answer; `wait_s`: for the first connection; `audio`: PCM16, 16 kHz; `tell`: takes the name
    of each scene; `quiet_s`: how long a peer that was dismissed is watched."""

    profile: PeerProfile
    patience_s: float
    wait_s: float
    audio: bytes
    tell: Callable[[str], None]
    program: PeerProgram | None = None
    quiet_s: float = QUIET_S

    @property
    def reconnect_within_s(self) -> float:
        return self.patience_s * _RECONNECTS[self.profile]

    @property
    def refusals(self) -> int:
        return REFUSALS[self.profile]


class PeerLost(Exception):
    """The peer closed its connection, or did not come back; the message says which."""


class PeerGone(PeerLost):
    """It did not come back when it had to, so nothing more can be played."""


async def arriving(entrance: Entrance, program: PeerProgram | None, within_s: float) -> Line | None:
    """The next connection; None if there is none in time, or if the program that should connect has ended."""
    if program is None:
        return await entrance.line(within_s)
    async with asyncio.TaskGroup() as group:
        arrival = group.create_task(entrance.line(within_s))
        end = group.create_task(program.exit_code(within_s))
        await asyncio.wait((arrival, end), return_when=asyncio.FIRST_COMPLETED)
        line = arrival.result() if arrival.done() else None
        arrival.cancel()
        end.cancel()
    return line
