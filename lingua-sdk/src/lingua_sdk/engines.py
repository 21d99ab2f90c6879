"""What a node owner brings: four small kinds of engine, or one that does everything; and how they say no.

Every method may be plain or `async`. Plain ones run in threads, so a model may take its time."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from lingua_sdk.audio import Audio
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol.node import JobAssign

# Shows what was understood so far; it may be called from any thread, and as often as one likes.
ShowPartial = Callable[[str], None]


def to_nobody(text: str) -> None:
    """The `partial` of a job whose client wants none: a recogniser that finds it was given this one saves the work."""


class Recogniser(Protocol):
    """Speech to text. `languages` is read again for every heartbeat: it is what can be done now.

    Engines of all kinds may have a `name` (the class's, if not) and a `device` ("cpu", if not, or "gpu").
    """

    @property
    def languages(self) -> Sequence[str]: ...

    def recognise(self, audio: Audio, language: str, partial: ShowPartial) -> str | Awaitable[str]:
        """What was said; "" when nothing was. The audio is 16 kHz."""
        ...


@runtime_checkable
class Identifier(Protocol):
    """A recogniser may also tell languages apart; without one, jobs in `auto` cannot be done."""

    def identify(self, audio: Audio, languages: Sequence[str]) -> str | Awaitable[str]:
        """Which of these languages is spoken."""
        ...


class Repairer(Protocol):
    """Mends what a recogniser got wrong: fillers, repeats, misheard words."""

    @property
    def languages(self) -> Sequence[str]: ...

    def repair(self, text: str, language: str) -> str | Awaitable[str]: ...


class Translator(Protocol):
    """`pairs` are directed: ("en", "pt") is not ("pt", "en")."""

    @property
    def pairs(self) -> Sequence[tuple[str, str]]: ...

    def translate(self, text: str, source: str, target: str) -> str | Awaitable[str]: ...


class Speaker(Protocol):
    """Text to speech, at the sample rate of the voice."""

    @property
    def languages(self) -> Sequence[str]: ...

    def speak(self, text: str, language: str) -> Audio | Awaitable[Audio]: ...


class JobOutput(NamedTuple):
    """What became of an utterance. Empty `text_source` means that nothing was said."""

    text_source: str
    text_translated: str = ""
    speech: bytes = b""
    speech_format: str = "pcm16"
    # How long each stage took: asr, semantic, nmt, tts.
    stage_ms: Mapping[str, float] = {}


class Engine(Protocol):
    """All in one: what a node does with a job. `Pipeline` is one made of the four kinds above."""

    @property
    def name(self) -> str: ...

    async def translate(self, job: JobAssign, partial: ShowPartial) -> JobOutput: ...


class Service(NamedTuple):
    """Something installed on a node, as the scheduler shows it; `kind` is asr, semantic, nmt or tts."""

    service_id: str
    kind: str
    device: str = "cpu"


class Abilities(NamedTuple):
    recognises: Sequence[str]
    repairs: Sequence[str]
    speaks: Sequence[str]
    # None: any pair of the languages above.
    translates: Sequence[tuple[str, str]] | None = None
    slots: int = 4
    # None: one of each kind, named after the engine.
    services: Sequence[Service] | None = None
    # The engine also does jobs that bring `text_input` instead of audio: it translates or speaks the text.
    takes_text: bool = False


class EngineRefused(Exception):
    """An engine says that it cannot do this job, and why. The reason is logged by the node: no words of the speech."""

    code = ErrorCode.PROCESSING_ERROR

    def __init__(self, reason: str, service_id: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        # Whose trouble it is; a pipeline fills it in.
        self.service_id = service_id


class Unsupported(EngineRefused):
    """What is asked for cannot be done, here or elsewhere: the job fails and is not tried again."""

    code = ErrorCode.UNSUPPORTED_FEATURE


class ModelNotAvailable(EngineRefused):
    """A model is missing: another node does the job, and this engine's kind gets none for a minute."""

    code = ErrorCode.MODEL_NOT_AVAILABLE
