"""The parts of rooms, wired to each other and to the mailroom."""

from collections.abc import Coroutine, Iterator
from functools import partial
from time import time
from typing import Any, NamedTuple

from lingua_scheduler.assembly.core import Core
from lingua_scheduler.gateway.room_frames import RoomFrames
from lingua_scheduler.protocol.bus import (
    RoomChanged,
    RoomFrame,
    RoomMissed,
    RoomPastAsked,
    RoomPastTold,
    RoomSaid,
    RoomSpoken,
    RoomWritten,
)
from lingua_scheduler.services.dispatch.staged import StagedJobs
from lingua_scheduler.services.rooms.captions import RoomCaptions
from lingua_scheduler.services.rooms.entry import RoomEntry
from lingua_scheduler.services.rooms.guests import RoomGuests
from lingua_scheduler.services.rooms.hearing import Hearing
from lingua_scheduler.services.rooms.history import RoomHistories
from lingua_scheduler.services.rooms.keeping import LOOK_S as ROOMS_S
from lingua_scheduler.services.rooms.keeping import RoomKeeper
from lingua_scheduler.services.rooms.membership import RoomMembership
from lingua_scheduler.services.rooms.messages import RoomMessages
from lingua_scheduler.services.rooms.notices import RoomNotices
from lingua_scheduler.services.rooms.overseeing import RoomOverseer
from lingua_scheduler.services.rooms.relay_servers import RelayServers
from lingua_scheduler.services.rooms.replays import Replays
from lingua_scheduler.services.rooms.rooms_here import RoomsHere
from lingua_scheduler.services.rooms.speaking import RoomSpeech
from lingua_scheduler.services.rooms.updates import RoomUpdates
from lingua_scheduler.services.rooms.voices import Voices
from lingua_scheduler.services.sessions.delivery import Delivery
from lingua_scheduler.services.sessions.intake import Intake
from lingua_scheduler.telemetry.tasks import every

# Outcomes of speech in rooms that are kept for listeners who come back.
REPLAY_BYTES = 2**26
REPLAY_SPARE_S = 30.0


class RoomParts(NamedTuple):
    here: RoomsHere
    entry: RoomEntry
    members: RoomMembership
    keeper: RoomKeeper
    overseer: RoomOverseer
    histories: RoomHistories
    captions: RoomCaptions
    hearing: Hearing
    speaking: RoomSpeech
    frames: RoomFrames

    def chores(self) -> Iterator[Coroutine[Any, Any, None]]:
        yield every("rooms", ROOMS_S, self.keeper.look)
        yield every("room_list", ROOMS_S, self.overseer.note)
        yield every("room_history", ROOMS_S, self.histories.look)

    async def close(self) -> None:
        for tasks in (self.speaking.tasks, self.hearing.tasks):
            await tasks.settle(1.0)
            await tasks.close()
        await self.members.stop()


def room_parts(core: Core, intake: Intake, delivery: Delivery, staged: StagedJobs) -> RoomParts:
    settings, clock, store, mailroom = core.settings.rooms, core.clock, core.store.rooms, core.mailroom
    openings = intake.openings
    here = RoomsHere(clock)
    notices = RoomNotices(core.presence.instance, mailroom)
    voices = Voices(here, notices, RelayServers(settings, time), settings, openings.sessions.is_held, clock)
    guests = RoomGuests(store, here, notices, core.presence.me.incarnation, settings, clock)
    entry = RoomEntry(core.store.guesses, settings, clock)
    members = RoomMembership(store, voices, guests, entry, settings)
    keeper = RoomKeeper(store, here, members, guests, core.presence.is_alive, clock)
    keeper.grace_s = core.settings.sessions.grace_ms / 1000
    histories = RoomHistories(here, notices, members.tasks, settings, clock)
    voices.on_entered = guests.on_entered = histories.entered
    messages = RoomMessages(here, notices, histories, settings, clock)
    updates = RoomUpdates(store, members, guests, intake.change_terms)
    members.on_resumed += (updates.resumed, histories.resumed)
    captions = RoomCaptions(here, core.presence.instance, core.store.signals, mailroom.seals, clock)
    delivery.on_speaking, delivery.on_partial = captions.speaking, captions.partial
    replays = Replays(REPLAY_BYTES, keeper.grace_s + REPLAY_SPARE_S, clock)
    hearing = Hearing(here, notices, replays, core.settings.delivery, clock)
    hearing.on_said = histories.add
    speaking = RoomSpeech(store, hearing, intake, staged, settings)
    members.catch_up, speaking.restore = hearing.catch_up, keeper.restore
    overdue_s = core.settings.job.deadline_ms / 1000 + keeper.grace_s
    keeper.on_look = partial(hearing.end_overdue, overdue_s)
    openings.on_dropped, openings.on_taken = members.dropped, members.taken
    mailroom.handle(RoomChanged, keeper.changed)
    mailroom.handle(RoomFrame, voices.arrived)
    mailroom.handle(RoomWritten, messages.arrived)
    mailroom.handle(RoomPastAsked, histories.asked)
    mailroom.handle(RoomPastTold, histories.told)
    mailroom.handle(RoomSpoken, hearing.spoken)
    mailroom.handle(RoomSaid, hearing.said)
    mailroom.handle(RoomMissed, speaking.missed)
    overseer = RoomOverseer(store, core.store.live_rooms, here, notices)
    frames = RoomFrames(members, voices, updates, messages)
    return RoomParts(here, entry, members, keeper, overseer, histories, captions, hearing, speaking, frames)
