"""The other ends of the sockets: nodes that answer at once, clients that talk without pause."""

import base64
import time
from collections import deque
from typing import Protocol

import msgspec

from bench.frames import FramePeer, SocketClosed
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.node import Hardware, LanguageCapabilities, NodeHeartbeat, NodeRegister, ResourceUsage
from lingua_sdk.protocol.session import SessionClose, SessionInit, SessionInitAck, Utterance
from lingua_sdk.protocol.shapes import CapabilityByType, InstalledService

TRACE_ID = "bench"
# Acknowledging nodes serve other languages, so that an utterance chooses its kind of node.
PLAIN_LANGUAGES = ("zh", "en")
ACKNOWLEDGING_LANGUAGES = ("fr", "de")

ASSIGN = b'{"type":"job_assign",'
_GRANT = b'{"type":"job_grant",'
_RESULT = b'{"type":"translation_result",'
_REGISTERED = b'{"type":"node_register_ack",'
_WELCOME = b'{"type":"session_init_ack",'
_FAILURES = (b'{"type":"error"', b'{"type":"missing_result"')
_EVENT = b'{"type":"ui_event",'
_IS_ERROR = b'"event":"ERROR"'
_SERVICES = ("asr", "semantic", "nmt", "tts")


class Judge(Protocol):
    """Who hears how a run goes."""

    def done(self, talker: "Talker", began_ns: int) -> None: ...

    def failed(self, reason: str) -> None: ...


class Node(FramePeer):
    """Answers every job at once. It cuts what it must repeat out of the frame instead of reading it."""

    def __init__(self, node_id: str, slots: int, acknowledges: bool, judge: Judge) -> None:
        super().__init__("/ws/node")
        self._node_id = node_id
        self._slots = slots
        self._acknowledges = acknowledges
        self._judge = judge
        self.languages = list(ACKNOWLEDGING_LANGUAGES if acknowledges else PLAIN_LANGUAGES)
        # Whether every heartbeat names them again.
        self.tells_languages = False
        self._ack_tail = _tail({"node_id": node_id, "trace_id": TRACE_ID})
        self._result_tail = b""
        self._unconfirmed: dict[bytes, bytes] = {}
        self.registered = self.opened.get_loop().create_future()

    def register(self) -> None:
        self.send(
            codec.encode(
                NodeRegister(
                    node_id=self._node_id,
                    version="2.0.0",
                    capability_schema_version="2.0",
                    platform="linux",
                    hardware=Hardware(cpu_cores=2, memory_gb=8),
                    installed_models=[],
                    installed_services=_services(),
                    capability_by_type=_readiness(),
                    features_supported={},
                    advanced_features=["job_ack"] if self._acknowledges else None,
                    accept_public_jobs=True,
                    language_capabilities=self._capabilities(),
                    max_concurrent_jobs=self._slots,
                )
            )
        )

    def beat(self) -> None:
        self.send(
            codec.encode(
                NodeHeartbeat(
                    node_id=self._node_id,
                    timestamp=int(time.time() * 1000),
                    resource_usage=ResourceUsage(cpu_percent=50, mem_percent=50, running_jobs=0),
                    installed_services=_services(),
                    capability_by_type=_readiness(),
                    language_capabilities=self._capabilities() if self.tells_languages else None,
                )
            )
        )

    def _capabilities(self) -> LanguageCapabilities:
        return LanguageCapabilities(
            asr_languages=self.languages, semantic_languages=self.languages, tts_languages=self.languages
        )

    def answer_with(self, speech: bytes) -> None:
        """What every result carries from now on."""
        self._result_tail = _tail(
            {
                "node_id": self._node_id,
                "success": True,
                "text_asr": "你好，世界",
                "text_translated": "hello, world",
                "tts_audio": base64.b64encode(speech).decode(),
                "tts_format": "pcm16",
                "extra": {"language_probability": 0.9},
                "processing_time_ms": 51,
                "trace_id": TRACE_ID,
            }
        )

    def on_text(self, payload: bytes) -> None:
        if payload.startswith(ASSIGN):
            # "job_id":…,"attempt_id":…,"session_id":…,"utterance_index":…
            self.take(payload[len(ASSIGN) : payload.index(b',"src_lang"')])
        elif payload.startswith(_GRANT):
            about = self._unconfirmed.pop(payload[len(_GRANT) : payload.index(b',"verdict"')])
            self.finish(about)
        elif payload.startswith(_REGISTERED):
            self.registered.set_result(None)
        elif payload.startswith(_FAILURES):
            self._fail(f"a node was told: {payload[:300].decode()}")

    def take(self, about: bytes) -> None:
        """A job."""
        if self._acknowledges:
            self._unconfirmed[about[: about.index(b',"session_id"')]] = about
            self.send(b'{"type":"job_ack",', about, self._ack_tail)
        else:
            self.finish(about)

    def finish(self, about: bytes) -> None:
        self.send(b'{"type":"job_result",', about, self._result_tail)

    def on_closed(self, reason: str) -> None:
        self._fail(f"a node was disconnected: {reason}")

    def _fail(self, reason: str) -> None:
        if not self.registered.done():
            self.registered.set_exception(SocketClosed(reason))
        self._judge.failed(reason)


class Talker(FramePeer):
    """Says things and waits for the answers, which come in order."""

    def __init__(self, path: str, judge: Judge) -> None:
        super().__init__(path)
        self._judge = judge
        self._began_ns: deque[int] = deque()

    def talk(self, began_ns: int = 0) -> None:
        """Say the next thing; `began_ns` is the moment it was due, if that is not now."""
        self._began_ns.append(began_ns or time.perf_counter_ns())
        self._say()

    def on_closed(self, reason: str) -> None:
        self._judge.failed(f"a client was disconnected: {reason}")

    @property
    def under_way(self) -> int:
        """Things said that have no answer yet."""
        return len(self._began_ns)

    def give_up(self) -> list[int]:
        """Wait no longer; when each thing was said that has no answer."""
        unanswered = list(self._began_ns)
        self._began_ns.clear()
        return unanswered

    def _heard(self) -> None:
        self._judge.done(self, self._began_ns.popleft())

    def _say(self) -> None:
        raise NotImplementedError


class Client(Talker):
    """One session; each utterance is a copy of the same frame with its own number."""

    def __init__(self, judge: Judge) -> None:
        super().__init__("/ws/session", judge)
        self._said = self._answered = 0
        self._head = self._tail = b""
        self._session_id = self._complaint = ""
        self.welcomed = self.opened.get_loop().create_future()

    def introduce(self) -> None:
        self.send(codec.encode(SessionInit(client_version="bench", platform="bench", src_lang="zh", tgt_lang="en")))

    def prepare(self, audio: bytes, audio_format: str, languages: tuple[str, str]) -> None:
        """What every utterance says from now on."""
        frame = codec.encode(
            Utterance(
                session_id=self._session_id,
                utterance_index=0,
                manual_cut=True,
                src_lang=languages[0],
                tgt_lang=languages[1],
                audio=audio,
                audio_format=audio_format,
                sample_rate=16_000,
                trace_id=TRACE_ID,
            )
        )
        self._head, _, self._tail = frame.partition(b'"utterance_index":0')
        self._head += b'"utterance_index":'

    def leave(self) -> None:
        """Close the session and go."""
        self.send(codec.encode(SessionClose(session_id=self._session_id)))
        self.close()

    def on_text(self, payload: bytes) -> None:
        if payload.startswith(_RESULT):
            at = payload.index(b'"utterance_index":') + 18
            index = int(payload[at : payload.index(b",", at)])
            if index != self._answered:
                self._judge.failed(f"utterance {self._answered} of {self._session_id} was followed by {index}")
            self._answered += 1
            self._heard()
        elif payload.startswith(_WELCOME):
            welcome = codec.decode_for_client(payload)
            assert isinstance(welcome, SessionInitAck)
            self._session_id = welcome.session_id
            self.welcomed.set_result(None)
        elif payload.startswith(_EVENT):
            if _IS_ERROR in payload:
                self.on_complaint(payload)
        elif payload.startswith(_FAILURES):
            self.on_refused(payload)

    def on_complaint(self, payload: bytes) -> None:
        """Why there will be no result."""
        self._complaint = payload[:400].decode()

    def on_refused(self, payload: bytes) -> None:
        self._fail(self.refusal(payload))

    def refusal(self, payload: bytes) -> str:
        """In words."""
        why = f" because of {self._complaint}" if self._complaint else ""
        return f"a client was told: {payload[:300].decode()}{why}"

    def on_closed(self, reason: str) -> None:
        self._fail(f"a client was disconnected: {reason}")

    def _fail(self, reason: str) -> None:
        if not self.welcomed.done():
            self.welcomed.set_exception(SocketClosed(reason))
        self._judge.failed(reason)

    def _say(self) -> None:
        self.send(self._head, b"%d" % self._said, self._tail)
        self._said += 1


class Echoer(Talker):
    def __init__(self, judge: Judge) -> None:
        super().__init__("/echo", judge)
        self._message = b""

    def prepare(self, message: bytes) -> None:
        self._message = message

    def on_text(self, payload: bytes) -> None:
        if len(payload) != len(self._message):
            self._judge.failed(f"an echo of {len(self._message)} bytes came back with {len(payload)}")
        self._heard()

    def _say(self) -> None:
        self.send(self._message)


def _tail(fields: dict[str, object]) -> bytes:
    """The end of an object that began with other fields."""
    return b"," + msgspec.json.encode(fields)[1:]


def _services() -> list[InstalledService]:
    return [
        InstalledService(service_id=f"bench-{kind}", type=kind, device="cpu", status="running") for kind in _SERVICES
    ]


def _readiness() -> list[CapabilityByType]:
    return [CapabilityByType(type=kind, ready=True) for kind in _SERVICES]
