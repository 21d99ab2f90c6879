"""Several engines as one: who does the work, who stands in, and by which way a text goes."""

from collections.abc import Sequence
from typing import Any

import pytest

from lingua_scheduler.engines.combined import Repairers, Speakers, Translators, recognisers, ways
from lingua_sdk.audio import Audio
from lingua_sdk.engines import Identifier

LOUD = Audio(b"\x10\x10" * 100)


class Voice:
    def __init__(self, name: str, languages: Sequence[str], spoken: Audio | Exception = LOUD) -> None:
        self.name = name
        self.languages = languages
        self.asked = 0
        self._spoken = spoken

    def speak(self, text: str, language: str) -> Audio:
        self.asked += 1
        if isinstance(self._spoken, Exception):
            raise self._spoken
        return self._spoken


class Tongue:
    """Translates by writing down where it went."""

    def __init__(self, name: str, *pairs: tuple[str, str]) -> None:
        self.name = name
        self.pairs = pairs

    def translate(self, text: str, source: str, target: str) -> str:
        return f"{text}>{target}"


class Ear:
    languages = ("en",)

    def __init__(self, name: str, hears: str | Exception) -> None:
        self.name = name
        self._hears = hears

    def recognise(self, audio: Audio, language: str, partial: Any) -> str:
        if isinstance(self._hears, Exception):
            raise self._hears
        return self._hears


class KnowingEar(Ear):
    def identify(self, audio: Audio, languages: Sequence[str]) -> str:
        return languages[-1]


def nobody(*_: str) -> None:
    pass


def test_the_first_that_knows_the_language_speaks() -> None:
    better, other = Voice("better", ["es"]), Voice("other", ["es", "pt"])
    voices = Speakers([better, other], nobody, ["es", "pt"])
    voices.speak("hola", "es")
    voices.speak("olá", "pt")
    assert (better.asked, other.asked) == (1, 1)
    assert voices.name == "better+other"


def test_the_next_one_stands_in_for_one_that_fails_and_it_is_told_without_the_words() -> None:
    told: list[tuple[str, str]] = []
    broken = Voice("broken", ["es"], ValueError("cannot say: mi secreto"))
    voices = Speakers([broken, Voice("other", ["es"])], lambda *what: told.append(what), ["es"])
    assert voices.speak("mi secreto", "es") == LOUD
    assert told == [("engine failed", "broken: ValueError")]


def test_a_voice_that_makes_no_sound_has_failed() -> None:
    silent = Voice("silent", ["es"], Audio(bytes(2000)))
    assert Speakers([silent, Voice("other", ["es"])], nobody, ["es"]).speak("你好", "es") == LOUD


def test_when_all_fail_the_job_fails() -> None:
    voices = Speakers([Voice("broken", ["es"], ValueError("no"))], nobody, ["es"])
    with pytest.raises(ValueError, match="no"):
        voices.speak("hola", "es")


def test_recognisers_and_repairers_stand_in_too() -> None:
    ears = recognisers([Ear("broken", OSError("gone")), Ear("other", "hello")], nobody, ["en"])
    assert ears.recognise(LOUD, "en", nobody) == "hello"

    class Mender:
        name = "mender"
        languages = ("en",)

        def repair(self, text: str, language: str) -> str:
            return text.upper()

    assert Repairers([Mender()], nobody, ["en"]).repair("hello", "en") == "HELLO"


def test_an_engine_that_returns_no_text_has_failed() -> None:
    told: list[tuple[str, ...]] = []
    none: Any = None
    both = recognisers([Ear("mute", none), Ear("ear", "hello")], lambda *event: told.append(event), ["en"])
    assert both.recognise(LOUD, "en", nobody) == "hello"
    assert told == [("engine failed", "mute: BrokenContract")]


def test_languages_are_told_apart_only_if_one_of_them_can() -> None:
    deaf = recognisers([Ear("plain", "hello")], nobody, ["en"])
    assert not isinstance(deaf, Identifier)
    both = recognisers([Ear("plain", "hello"), KnowingEar("knowing", "hi")], nobody, ["en"])
    assert isinstance(both, Identifier)
    assert both.identify(LOUD, ["en", "zh"]) == "zh"


def test_a_text_goes_by_way_of_another_language_where_it_must() -> None:
    tongues = Translators(
        [Tongue("neural", ("en", "pt"), ("pt", "en")), Tongue("rules", ("pt", "es"), ("es", "pt"))], nobody
    )
    assert tongues.translate("hi", "en", "es") == "hi>pt>es"
    assert tongues.translate("hi", "en", "pt") == "hi>pt"
    assert tongues.way("es", "en") == ("es", "pt", "en")
    assert ("en", "en") not in tongues.pairs


def test_a_direct_way_is_preferred_and_none_has_more_than_two_steps() -> None:
    found = ways([("zh", "en"), ("en", "pt"), ("pt", "es"), ("en", "es")])
    assert found["en", "es"] == ("en", "es")
    assert found["zh", "es"] == ("zh", "en", "es")
    assert ("zh", "ca") not in ways([("zh", "en"), ("en", "pt"), ("pt", "ca")])
