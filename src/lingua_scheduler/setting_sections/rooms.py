"""Settings of rooms."""

from typing import Annotated

import msgspec
from msgspec import Meta

from lingua_scheduler.setting_sections.kinds import DAY_MS, Bytes, Count, PeriodMs, UpToThousand, doc


class RoomsSettings(msgspec.Struct, frozen=True, kw_only=True):
    max_members: Annotated[UpToThousand, doc("Maximum members of a room; further ones get `ROOM_FULL`")] = 50
    max_guests: Annotated[
        int, Meta(ge=0, le=1_000_000), doc("Maximum guests of a room, who only listen; further ones get `ROOM_FULL`")
    ] = 5000
    max_rooms: Annotated[
        Count, doc("Maximum rooms with members at one instance; further ones cannot be created there")
    ] = 10_000
    max_languages: Annotated[
        UpToThousand,
        doc("Maximum languages into which one utterance in a room is translated; those of members come first"),
    ] = 16
    max_jobs: Annotated[
        UpToThousand,
        doc(
            "Maximum jobs of one room under way at one instance; a further utterance is refused whole. A speaker "
            "gets at most half of what the others leave of it"
        ),
    ] = 128
    shared_recognition: Annotated[
        bool,
        doc(
            "true = speech for several languages is recognised once, and then translated from text, where nodes take "
            "text (`text_input`); false = each language is a whole job"
        ),
    ] = True
    expire_ms: Annotated[int, Meta(ge=1000, le=DAY_MS), doc("Time after the last join or speech when a room ends")] = (
        1_800_000
    )
    joins_per_min: Annotated[
        Count,
        doc(
            "Rooms that one principal may create or join per minute from one address; without a credential: one session"
        ),
    ] = 10
    misses_per_min: Annotated[
        Count,
        doc("Wrong room codes per address and minute before it is refused; `server.unmetered_addresses` are exempt"),
    ] = 5
    all_misses_per_min: Annotated[
        Count,
        doc(
            "Wrong room codes per tenant and minute, from all addresses and at all instances, after which each address "
            "has one try"
        ),
    ] = 60
    max_sdp_bytes: Annotated[Bytes, doc("Maximum size of a WebRTC offer or answer; larger ones are dropped")] = 32_768
    max_candidate_bytes: Annotated[Bytes, doc("Maximum size of a WebRTC candidate; larger ones are dropped")] = 4096
    max_signals_per_s: Annotated[
        Count, doc("WebRTC frames per second from one member, with bursts of ten times as many; the rest is dropped")
    ] = 200
    messages_per_min: Annotated[Count, doc("Text messages per minute from one member; further ones are refused")] = 30
    history_ms: Annotated[
        int, Meta(ge=0, le=DAY_MS), doc("Text of the last minutes for those who join a room; in memory; 0 = none")
    ] = 300_000
    history_bytes: Annotated[
        Bytes, doc("Maximum memory of that text of all rooms at one instance; the oldest is forgotten first")
    ] = 67_108_864
    turn_urls: Annotated[
        tuple[str, ...], doc("STUN and TURN servers told to clients that ask, e.g. turn:turn.example:3478")
    ] = ()
    turn_secret_file: Annotated[
        str,
        doc("File with the shared secret of the TURN servers (coturn: static-auth-secret); empty = no credentials"),
    ] = ""
    turn_credential_ms: Annotated[PeriodMs, doc("Time for which a TURN credential is valid")] = 3_600_000
