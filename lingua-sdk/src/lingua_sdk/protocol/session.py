"""Messages between a client and the scheduler, one struct each."""

from typing import Annotated, Any, ClassVar

from msgspec import Meta

from lingua_sdk.domain.vocabulary import MAX_TOKEN_CHARS
from lingua_sdk.protocol.shapes import (
    Count,
    Degraded,
    ErrorMessage,
    FeatureFlags,
    LanguagesUsed,
    Message,
    Name,
    Names,
    NetworkTimings,
    Number,
    PipelineChoice,
    SampleRate,
    ServiceTimings,
    Shape,
    Text,
)

# Of a text message in a room.
MAX_ROOM_TEXT_CHARS = 2000

# Client → scheduler


class SessionInit(Message, kw_only=True, tag="session_init"):
    """The first message after connecting, and after every reconnect."""

    client_version: Name
    platform: Name
    src_lang: Name
    tgt_lang: Name
    dialect: Name | None = None
    features: FeatureFlags | None = None
    pairing_code: Text | None = None
    tenant_id: Name | None = None
    mode: Name | None = None
    lang_a: Name | None = None
    lang_b: Name | None = None
    auto_langs: Names | None = None
    enable_streaming_asr: bool | None = None
    partial_update_interval_ms: Number | None = None
    trace_id: Name | None = None
    resume_token: Name | None = None
    # With a resume token: the last utterance whose outcome the client has.
    last_utterance_index: Count | None = None
    # Asks for binary audio frames; the acknowledgement says whether they may be sent.
    use_binary_frame: bool | None = None
    # True: the client sends `token_refresh` before its token expires. Its socket then ends 25 s after the token.
    refreshes_token: bool | None = None
    # False: no translation by way of a third language (`pools.pivot_langs`), rather none.
    allow_pivot: bool | None = None
    # With a resume token: every outcome of its room with a `room_seq` up to this one has arrived.
    last_room_seq: Count | None = None


class AudioChunk(Message, kw_only=True, tag="audio_chunk"):
    session_id: Name
    seq: Count
    is_final: bool
    payload: bytes | None = None
    client_timestamp_ms: Number | None = None


class Utterance(Message, kw_only=True, tag="utterance"):
    """A whole utterance in one message, as the mobile app and the API gateway send it."""

    session_id: Name
    utterance_index: Count
    manual_cut: bool
    src_lang: Name
    tgt_lang: Name
    audio: bytes
    audio_format: Name
    sample_rate: SampleRate
    dialect: Name | None = None
    features: FeatureFlags | None = None
    mode: Name | None = None
    lang_a: Name | None = None
    lang_b: Name | None = None
    auto_langs: Names | None = None
    enable_streaming_asr: bool | None = None
    partial_update_interval_ms: Number | None = None
    trace_id: Name | None = None
    pipeline: PipelineChoice | None = None
    request_id: Name | None = None


class ClientHeartbeat(Message, kw_only=True, tag="client_heartbeat"):
    session_id: Name
    timestamp: Number | None = None


class SessionClose(Message, kw_only=True, tag="session_close"):
    session_id: Name
    reason: Text | None = None


class TtsStarted(Message, kw_only=True, tag="tts_started"):
    """Playback of a result has started. A result without text has no group, so its playback has none either."""

    session_id: Name
    trace_id: Name | None = None
    group_id: Name | None = None
    ts_start_ms: Number


class TtsPlayEnded(Message, kw_only=True, tag="tts_play_ended"):
    """Playback of a result has ended."""

    session_id: Name
    trace_id: Name | None = None
    group_id: Name | None = None
    ts_end_ms: Number


class TokenRefresh(Message, kw_only=True, tag="token_refresh"):
    """A newer token of the same user, before the one that the socket was opened with expires."""

    token: Annotated[str, Meta(max_length=MAX_TOKEN_CHARS)]


class RoomCreate(Message, kw_only=True, tag="room_create"):
    """Room messages name no session: they are of the one that their socket has initialised last."""

    client_ts: Number | None = None
    display_name: Name | None = None
    preferred_lang: Name | None = None
    # Whether the client can read `ice_servers` of the acknowledgement.
    ice_servers: bool | None = None
    # Whether the client can read `room_caption`, `room_speaking`, `room_message`, `room_history`, and outcomes that are
    # numbered by their speaker. Without it results are numbered for the listener, and speech is PCM16.
    room_events: bool | None = None
    # False: translations as text only.
    speech: bool | None = None


class RoomJoin(Message, kw_only=True, tag="room_join"):
    room_code: Name
    display_name: Name | None = None
    preferred_lang: Name | None = None
    # As in `room_create`.
    ice_servers: bool | None = None
    room_events: bool | None = None
    speech: bool | None = None
    # A guest hears and reads, and is counted, not listed.
    listen_only: bool | None = None


class RoomUpdate(Message, kw_only=True, tag="room_update"):
    """Changes what a member said of itself when it joined; what is absent stays."""

    room_code: Name
    display_name: Name | None = None
    # The language in which it wants to hear and read the others.
    preferred_lang: Name | None = None
    # The language that it speaks from its next utterance on.
    src_lang: Name | None = None
    speech: bool | None = None


class RoomSay(Message, kw_only=True, tag="room_say"):
    """A text message to everyone in the room who can read it. Guests cannot send one."""

    room_code: Name
    text: Annotated[str, Meta(max_length=MAX_ROOM_TEXT_CHARS)]


class RoomLeave(Message, kw_only=True, tag="room_leave"):
    room_code: Name


class RoomRawVoicePreference(Message, kw_only=True, tag="room_raw_voice_preference"):
    room_code: Name
    target_session_id: Name
    receive_raw_voice: bool


class RoomLock(Message, kw_only=True, tag="room_lock"):
    """Of the host: let no one else join, or let them again."""

    room_code: Name
    locked: bool


class RoomRemove(Message, kw_only=True, tag="room_remove"):
    """Of the host: remove a member, who gets `room_expired`."""

    room_code: Name
    target_session_id: Name


class RoomClose(Message, kw_only=True, tag="room_close"):
    """Of the host: end the room for all."""

    room_code: Name


# Both ways: forwarded with the sender's session id in `to`. What is inside is between the two browsers.


class WebrtcOffer(Message, kw_only=True, tag="webrtc_offer"):
    room_code: Name
    to: Name
    sdp: Any


class WebrtcAnswer(Message, kw_only=True, tag="webrtc_answer"):
    room_code: Name
    to: Name
    sdp: Any


class WebrtcIce(Message, kw_only=True, tag="webrtc_ice"):
    room_code: Name
    to: Name
    candidate: Any


# Scheduler → client


class SessionInitAck(Message, kw_only=True, tag="session_init_ack"):
    """`negotiated_codec` is always opus, the recommended format; PCM16 is accepted too, and told from the bytes."""

    session_id: str
    message: str
    trace_id: str
    protocol_version: str
    use_binary_frame: bool
    negotiated_codec: str
    negotiated_audio_format: str
    negotiated_sample_rate: SampleRate
    negotiated_channel_count: Count
    resume_token: str | None = None
    # Of a resumed session: what the client should send next.
    resumed: bool = False
    next_seq: Count | None = None
    next_utterance_index: Count | None = None
    # Absent while no node serves what was asked for.
    languages_used: LanguagesUsed | None = None
    # Why no connected node serves these languages now; absent if one does. One may still connect.
    unserved: str | None = None
    # When the client's credential expires; absent if it does not. Before that a newer token can be sent.
    expires_at_ms: Count = 0


class TranslationResult(Message, kw_only=True, tag="translation_result"):
    """The translation of an utterance. Missing texts and audio are ""; `tts_audio` is the node's base64, unchanged."""

    session_id: str
    utterance_index: Count
    job_id: str
    trace_id: str
    text_asr: str
    text_translated: str
    tts_audio: str
    tts_format: str
    scheduler_sent_at_ms: Number
    extra: dict[str, Any] | None = None
    group_id: str | None = None
    part_index: Count | None = None
    service_timings: ServiceTimings | None = None
    network_timings: NetworkTimings | None = None
    asr_quality_level: str | None = None
    reason_codes: list[str] | None = None
    quality_score: Number | None = None
    rerun_count: Count | None = None
    segments_meta: Any = None
    # True when an outcome that was said after this one has left before it.
    late: bool = False
    # What was given up to serve this language; absent if nothing was.
    degraded: Degraded | None = None
    # Of speech in a room, for clients with `room_events`: its place in the room, the same for every listener;
    # `session_id` and `utterance_index` are the speaker's. And the language of `text_translated`.
    room_seq: Count | None = None
    lang: str | None = None


class AsrPartial(Message, kw_only=True, tag="asr_partial"):
    may_be_dropped: ClassVar[bool] = True

    session_id: str
    utterance_index: Count
    job_id: str
    text: str
    is_final: bool
    trace_id: str


class MissingResult(Message, kw_only=True, tag="missing_result"):
    session_id: str
    utterance_index: Count
    reason: str
    created_at_ms: Number
    trace_id: str | None = None
    # As in `translation_result`.
    late: bool = False
    # Of `job_failed`: an error code, such as JOB_TIMEOUT or JOB_CANCELLED, and a sentence.
    code: str | None = None
    detail: str | None = None
    # As in `translation_result`.
    room_seq: Count | None = None
    lang: str | None = None


class UiEvent(Message, kw_only=True, tag="ui_event"):
    may_wait: ClassVar[bool] = True

    trace_id: str
    session_id: str
    job_id: str
    utterance_index: Count
    event: str
    status: str
    elapsed_ms: Number | None = None
    error_code: str | None = None
    hint: str | None = None


class Backpressure(Message, kw_only=True, tag="backpressure"):
    """Back-pressure: asks the client to pause.

    The action is always PAUSE, because existing browser clients stop for ever on any other.
    """

    action: str
    resume_after_ms: Number
    message: str


class ServerHeartbeat(Message, kw_only=True, tag="server_heartbeat"):
    session_id: str
    timestamp: Number


class SessionCloseAck(Message, kw_only=True, tag="session_close_ack"):
    session_id: str


class TokenRefreshed(Message, kw_only=True, tag="token_refreshed"):
    """The newer token is accepted. One that is not closes the socket with 4003."""

    expires_at_ms: Count


class IceServer(Shape, kw_only=True):
    """A STUN or TURN server, in the form that RTCPeerConnection takes."""

    urls: list[str]
    username: str | None = None
    credential: str | None = None


class RoomCreateAck(Message, kw_only=True, tag="room_create_ack"):
    """The client is in the room. Also the answer to `room_join`: existing clients enter on this message alone."""

    room_code: str
    room_id: str
    # Only for a client that said it can read them, and if there are any.
    ice_servers: list[IceServer] | None = None
    # For clients with `room_events`: the number of the latest utterance. Outcomes of later ones follow.
    room_seq: Count | None = None


class RoomMember(Shape, kw_only=True):
    participant_id: str
    session_id: str
    display_name: str | None = None
    preferred_lang: str | None = None
    # By the session id of a listener: whether that one wants this member's voice.
    raw_voice_preferences: dict[str, bool]
    joined_at: str
    # `host`; absent for other members.
    role: str | None = None
    # The language that it speaks.
    src_lang: str | None = None


class RoomMembers(Message, kw_only=True, tag="room_members"):
    """Everyone in the room, in the order they joined; sent after every change."""

    room_code: str
    members: list[RoomMember]
    # Absent if it is not.
    locked: bool = False
    # How many listen only; they are not among the members. Absent if there are none.
    guests: Count = 0


class RoomCaption(Message, kw_only=True, tag="room_caption"):
    """What a member is saying, as far as it is recognised, in its own language. The translation follows."""

    may_be_dropped: ClassVar[bool] = True

    room_code: str
    session_id: str
    utterance_index: Count
    text: str
    lang: str
    is_final: bool


class RoomSpeaking(Message, kw_only=True, tag="room_speaking"):
    """A member begins or ends to speak."""

    may_be_dropped: ClassVar[bool] = True

    room_code: str
    session_id: str
    speaking: bool


class RoomMessage(Message, kw_only=True, tag="room_message"):
    """A text message of a member; also to the sender itself."""

    room_code: str
    session_id: str
    display_name: str | None = None
    text: str
    sent_at_ms: Number


class RoomLine(Shape, kw_only=True):
    """What was said or written before, in the language of the reader where it was translated into it."""

    session_id: str
    display_name: str | None = None
    text: str
    lang: str | None = None
    # As it was said.
    text_asr: str | None = None
    room_seq: Count | None = None
    at_ms: Number


class RoomHistory(Message, kw_only=True, tag="room_history"):
    """What was said and written in the last minutes, oldest first, to one that joins; to one that resumes its session,
    what was written. A client drops lines that it has: of the same `room_seq`, or without one, of the same `session_id`
    and `at_ms` (`sent_at_ms` of a message)."""

    room_code: str
    lines: list[RoomLine]


class RoomError(Message, kw_only=True, tag="room_error"):
    code: str
    message: str


class RoomExpired(Message, kw_only=True, tag="room_expired"):
    room_code: str
    message: str


WebrtcFrame = WebrtcOffer | WebrtcAnswer | WebrtcIce
RoomIncoming = (
    RoomCreate
    | RoomJoin
    | RoomLeave
    | RoomUpdate
    | RoomSay
    | RoomRawVoicePreference
    | RoomLock
    | RoomRemove
    | RoomClose
    | WebrtcOffer
    | WebrtcAnswer
    | WebrtcIce
)

SessionIncoming = (
    SessionInit
    | AudioChunk
    | Utterance
    | ClientHeartbeat
    | SessionClose
    | TtsStarted
    | TtsPlayEnded
    | TokenRefresh
    | RoomCreate
    | RoomJoin
    | RoomLeave
    | RoomUpdate
    | RoomSay
    | RoomRawVoicePreference
    | RoomLock
    | RoomRemove
    | RoomClose
    | WebrtcOffer
    | WebrtcAnswer
    | WebrtcIce
)

SessionOutgoing = (
    SessionInitAck
    | TranslationResult
    | AsrPartial
    | MissingResult
    | ErrorMessage
    | UiEvent
    | Backpressure
    | ServerHeartbeat
    | SessionCloseAck
    | TokenRefreshed
    | RoomCreateAck
    | RoomMembers
    | RoomCaption
    | RoomSpeaking
    | RoomMessage
    | RoomHistory
    | RoomError
    | RoomExpired
    | WebrtcOffer
    | WebrtcAnswer
    | WebrtcIce
)
