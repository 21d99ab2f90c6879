"""Which engine is asked for a language: the first that knows it, by its own name for it."""

import pytest

from lingua_sdk.choosing import knowing, own_name, service_id
from lingua_sdk.engines import ModelNotAvailable


class Voice:
    def __init__(self, *languages: str, name: str = "") -> None:
        self.languages = languages
        if name:
            self.name = name


def test_the_first_engine_that_knows_a_language_is_taken() -> None:
    first, second, third = Voice("en"), Voice("pt"), Voice("pt")
    assert knowing([first, second, third], "tts", "pt") == (second, "pt")


@pytest.mark.parametrize("written", ["zh-CN", "zh_CN", "ZH-cn"])
def test_an_engine_is_asked_with_its_own_name_of_a_language(written: str) -> None:
    assert own_name("zh-CN", ["en", written]) == written


def test_a_language_that_is_not_listed_has_no_name() -> None:
    assert own_name("zh", ["zh-CN"]) is None


def test_without_an_engine_that_knows_it_the_service_is_lacking() -> None:
    with pytest.raises(ModelNotAvailable, match="no tts for pt is available on this node") as raised:
        knowing([Voice("en", name="piper")], "tts", "pt")
    assert raised.value.service_id == "piper-tts"


def test_a_service_is_named_after_its_engine_or_its_class() -> None:
    assert (service_id(Voice(name="piper"), "tts"), service_id(Voice(), "tts")) == ("piper-tts", "voice-tts")
