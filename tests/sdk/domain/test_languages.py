"""Which texts are language codes, and how many of them a peer may name."""

import pytest

from lingua_sdk.domain.languages import MAX_LANGUAGES, Pair, is_code, tag_of, valid_codes


@pytest.mark.parametrize(
    "code", ["en", "yue", "zh-Hant", "zh-TW", "zh-Hant-TW", "pt-BR", "sr-Latn-RS", "es-419", "de-at", "en-US-x-twain"]
)
def test_codes_people_use_are_codes(code: str) -> None:
    assert is_code(code)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "e",
        "engl",
        "english",
        "EN",
        "En",
        "e1",
        "en-",
        "-en",
        "en--US",
        "en-U",
        "en-123456789",
        "en_US",
        "en US",
        " en",
        "en ",
        "en\n",
        "en:zh",
        "en#1",
        "en*",
        "{en}",
        "中文",
        "éé",
    ],
)
def test_what_is_no_code_is_not_taken_for_one(text: str) -> None:
    assert not is_code(text)


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("EN", "en"),
        (" en ", "en"),
        ("en_US", "en-US"),
        ("EN-us", "en-US"),
        ("zh_hans_cn", "zh-Hans-CN"),
        ("ZH-HANT", "zh-Hant"),
        ("ES-419", "es-419"),
        ("EN-US-X-TWAIN", "en-US-x-twain"),
        # A code stays as it is: existing peers compare what they wrote.
        ("de-at", "de-at"),
        ("auto", None),
        ("english", None),
        ("en us", None),
        ("", None),
        ("EN" + "-abcd" * 7, None),
    ],
)
def test_a_tag_is_read_as_people_write_it(text: str, tag: str | None) -> None:
    assert tag_of(text) == tag


def test_a_code_has_at_most_35_characters() -> None:
    longest = "en-12345678-12345678-12345678-12345"
    assert len(longest) == 35
    assert is_code(longest)
    assert not is_code(longest + "6")


def test_auto_is_a_wish_and_no_language() -> None:
    assert not is_code("auto")


def test_a_pair_is_directed() -> None:
    assert Pair("zh", "en") != Pair("en", "zh")
    assert str(Pair("zh", "en")) == "zh:en"


def test_unreadable_and_repeated_codes_are_left_out_of_a_list() -> None:
    assert valid_codes(["en", "", "EN", "zh", "en", "zh;drop"]) == {"en", "zh"}


def code(number: int) -> str:
    return f"{chr(97 + number // 26)}{chr(97 + number % 26)}"


def test_a_list_of_exactly_the_limit_is_kept_whole() -> None:
    codes = [code(number) for number in range(MAX_LANGUAGES)]
    assert valid_codes(codes) == set(codes)
