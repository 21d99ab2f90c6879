"""What the engines found here make together, and what is said of those that are missing."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from lingua_scheduler.engines import catalogue
from lingua_scheduler.engines.catalogue import PARTS, Choices, EnginePart, Found, Stage, survey
from lingua_scheduler.engines.crew import Crew
from lingua_scheduler.engines.models import Shelf
from lingua_sdk.domain.languages import MAX_LANGUAGES, MAX_TRANSLATIONS

EMPTY = Choices(Shelf(Path("/nowhere")))


class Thing:
    def __init__(self, name: str, languages: list[str], pairs: list[tuple[str, str]] | None = None) -> None:
        self.name = name
        self.languages = languages
        self.pairs = pairs or []
        self.warmed_up = 0
        self.is_closed = False

    def warm_up(self, slots: int) -> None:
        self.warmed_up += slots

    def translate(self, text: str, source: str, target: str) -> str:
        return text

    def close(self) -> None:
        self.is_closed = True


def found(stage: Stage, engine: Thing | None) -> Found:
    return Found(EnginePart(stage, "thing", "", "", lambda _: None), engine, "" if engine else "not installed")


def crew(*parts: Found, **choices: Any) -> Crew:
    return Crew(parts, EMPTY._replace(**choices), lambda *_: None)


EAR = found("recogniser", Thing("ear", ["en", "sw"]))
TONGUE = found("translator", Thing("tongue", [], [("en", "pt"), ("pt", "en"), ("pt", "es")]))
VOICE = found("speaker", Thing("voice", ["pt", "fr", "xx"]))


def test_it_serves_exactly_what_is_understood_translated_and_spoken_here() -> None:
    abilities = crew(EAR, TONGUE, VOICE).pipeline(slots=3).abilities()
    assert list(abilities.recognises) == ["en"]
    assert list(abilities.repairs) == ["en"]
    assert abilities.translates == [("en", "pt"), ("en", "es")]
    assert list(abilities.speaks) == ["pt"]
    assert abilities.slots == 3


def test_a_voice_that_nobody_will_hear_is_let_go() -> None:
    unheard = found("speaker", Thing("unheard", ["en"]))
    services = crew(EAR, TONGUE, VOICE, unheard).pipeline(1).abilities().services or ()
    assert [service.service_id for service in services if service.kind == "tts"] == ["voice-tts"]


def test_languages_may_be_left_out() -> None:
    assert crew(EAR, TONGUE, VOICE, languages=["en", "pt"]).pairs == [("en", "pt")]


def test_named_repairers_are_the_only_ones() -> None:
    only = crew(EAR, TONGUE, VOICE, only={"repairer": ["harper"]})
    assert list(only.pipeline(1).abilities().repairs) == []
    assert crew(EAR, TONGUE, VOICE).names("repairer", "en") == ["cleanup"]


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ((TONGUE, VOICE, found("recogniser", None)), "there is no recogniser"),
        ((EAR, VOICE), "there is no translator"),
        ((found("recogniser", Thing("ear", ["zh"])), TONGUE), "no translator accepts"),
    ],
)
def test_without_a_pair_it_says_what_is_missing(parts: tuple[Found, ...], reason: str) -> None:
    nobody = crew(*parts)
    assert nobody.pairs == []
    assert reason in nobody.lacks


def test_it_declares_no_more_than_a_scheduler_reads() -> None:
    codes = [f"{a}{b}" for a in "abcdefghijklm" for b in "abcdefghij"]
    pairs = [(codes[0], code) for code in codes[1:]] + [(code, codes[0]) for code in codes[1:]]
    many = crew(found("recogniser", Thing("ear", codes)), found("translator", Thing("tongue", [], pairs)))
    assert len(many.pairs) == MAX_TRANSLATIONS
    assert len(many.sources) <= MAX_LANGUAGES


def test_warming_up_reaches_every_engine_and_closing_too() -> None:
    ear, tongue = Thing("ear", ["en"]), Thing("tongue", [], [("en", "pt")])
    shown: list[str] = []
    both = crew(found("recogniser", ear), found("translator", tongue))
    both.warm_up(2, shown.append)
    both.close()
    assert (ear.warmed_up, ear.is_closed, tongue.is_closed) == (2, True, True)
    assert shown == ["ear", "en → pt"]


def test_whatever_is_wrong_with_one_engine_the_others_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Choices) -> Any:
        raise OSError("libgomp.so.1: cannot open shared object file")

    fine = Thing("fine", ["en"])
    parts = (
        EnginePart("recogniser", "broken", "", "", broken),
        EnginePart("recogniser", "fine", "", "", lambda _: fine),
    )
    monkeypatch.setattr(catalogue, "PARTS", parts)
    first, second = survey(EMPTY)
    assert (first.engine, first.problem) == (None, "libgomp.so.1: cannot open shared object file")
    assert second.engine is fine


def test_what_an_owner_brings_goes_first_and_what_is_named_goes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = (
        EnginePart("recogniser", "ours", "", "", lambda _: Thing("ours", [])),
        EnginePart(
            "recogniser", "theirs", "", "", lambda _: Thing("theirs", []), lambda choices: bool(choices.whisper_model)
        ),
    )
    monkeypatch.setattr(catalogue, "PARTS", parts)

    def order(**choices: Any) -> list[str]:
        return [one.part.name for one in survey(EMPTY._replace(**choices))]

    assert order() == ["ours", "theirs"]
    assert order(whisper_model=Path("/model")) == ["theirs", "ours"]
    assert order(only={"recogniser": ["theirs"]}) == ["theirs"]


def test_the_commands_that_get_an_engine_name_the_versions_of_the_extras() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    pinned = {
        requirement.split(";")[0].strip()
        for extra in ("speech", "speech-both", "speech-en", "speech-zh", "gpu")
        for requirement in project["optional-dependencies"][extra]
    }
    named = {pin for part in PARTS for pin in re.findall(r"[\w-]+==[\w.]+", part.get)}
    assert named
    assert named <= pinned
    assert catalogue.get_first().startswith("pip install moonshine-voice==")
