"""Settings of sessions: where utterances are cut, limits of clients, and the order of results."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from lingua_scheduler.setting_sections.kinds import Bytes, Count, PeriodMs, WaitMs, doc

UiEvents = Literal["steps", "errors"]
# An ordinary registration needs at least this much.
_MessageBytes = Annotated[int, Meta(ge=16_384, le=2**30)]


class SessionsSettings(msgspec.Struct, frozen=True, kw_only=True):
    pause_ms: Annotated[PeriodMs, doc("Time without speech that ends an utterance")] = 3000
    silence_opus_bytes: Annotated[
        int, Meta(ge=0, le=1275), doc("Opus packets up to this size count as silence; 0 = everything counts as speech")
    ] = 12
    silence_pcm_rms: Annotated[
        int,
        Meta(ge=0, le=32_767),
        doc("PCM16 audio below this root mean square counts as silence; 0 = everything counts as speech"),
    ] = 130
    merge_below_ms: Annotated[
        WaitMs,
        doc(
            "Whole utterances shorter than this, and not marked as cut by hand, are joined (the mobile app sends "
            "such pieces); 0 = never"
        ),
    ] = 1000
    short_merge_ms: Annotated[
        WaitMs, doc("Speech shorter than this waits for one more pause, so that what follows can be joined to it")
    ] = 400
    max_duration_ms: Annotated[
        PeriodMs, doc("Maximum speech in one utterance before it is cut; silence at its end does not count")
    ] = 10_000
    max_utterance_bytes: Annotated[Bytes, doc("Maximum audio in one utterance before the stream is cut")] = 512_000
    hangover_auto_ms: Annotated[WaitMs, doc("Time to wait for remaining audio after an automatic cut")] = 150
    hangover_manual_ms: Annotated[WaitMs, doc("Time to wait for remaining audio after a manual cut")] = 260
    grace_ms: Annotated[
        WaitMs, doc("Time a session stays open after its socket closed, so that the client can resume it")
    ] = 30_000
    max_per_socket: Annotated[Count, doc("Maximum open sessions per socket; further ones are refused")] = 16
    max_opens_per_s: Annotated[
        Count,
        doc("Sessions one socket may open per second, with bursts of four times as many; further ones are delayed"),
    ] = 5
    max_per_address: Annotated[
        Count, doc("Maximum open sessions per address; `server.unmetered_addresses` are exempt")
    ] = 200
    idle_socket_ms: Annotated[PeriodMs, doc("Time after which a client's socket without an open session is closed")] = (
        120_000
    )
    idle_ms: Annotated[
        WaitMs, doc("Time without speech after which a session that is in no room is closed; 0 = never")
    ] = 14_400_000
    max_audio_bytes: Annotated[Bytes, doc("Maximum audio of one session waiting for translation")] = 16_777_216
    max_frames_per_s: Annotated[
        Count, doc("Maximum frames per second from one client; above it the client is read more slowly")
    ] = 500
    max_bytes_per_s: Annotated[
        Bytes, doc("Maximum bytes per second from one client; above it the client is read more slowly")
    ] = 4_194_304
    max_message_bytes: Annotated[_MessageBytes, doc("Maximum size of a client's frame, not counting speech")] = 65_536
    ui_events: Annotated[
        UiEvents, doc("`ui_event` messages sent to clients: `steps` = progress and errors, `errors` = errors only")
    ] = "steps"
    use_binary_frame: Annotated[bool, doc("Ask clients to send audio as binary frames")] = False


class DeliverySettings(msgspec.Struct, frozen=True, kw_only=True):
    hold_ms: Annotated[WaitMs, doc("Maximum time a result waits for an earlier one; then it is delivered first")] = 2500
    silent_hold_ms: Annotated[
        WaitMs,
        doc(
            "The same if the node of the earlier one has already answered a later job and may never answer the earlier"
        ),
    ] = 1200
    max_held: Annotated[Count, doc("Maximum results held back per session")] = 64
