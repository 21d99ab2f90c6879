"""Language lookup: exact, then less specific, then more specific; never a sibling."""

import pytest

from lingua_scheduler.domain.pools.lookup import MAX_CANDIDATES, ServedTags, nearest, ordered, ranges


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("en", ["en"]),
        ("zh-Hans-CN", ["zh-hans-cn", "zh-hans", "zh"]),
        ("de-DE-u-co-phonebk", ["de-de-u-co-phonebk", "de-de-u-co", "de-de", "de"]),
        ("en-US-x-twain", ["en-us-x-twain", "en-us", "en"]),
    ],
)
def test_a_tag_loses_its_subtags_from_the_end_and_single_letters_with_them(tag: str, expected: list[str]) -> None:
    assert ranges(tag) == expected


@pytest.mark.parametrize(
    ("asked", "served", "expected"),
    [
        ("en", ["en", "en-US"], ["en", "en-US"]),
        ("en-US", ["en"], ["en"]),
        ("en-US", ["en", "en-US"], ["en-US", "en"]),
        ("en-US", ["en-us", "en-US"], ["en-US", "en-us"]),
        ("en-us", ["en-US"], ["en-US"]),
        ("zh-Hans-CN", ["zh-Hant", "zh", "zh-Hans"], ["zh-Hans", "zh"]),
        ("zh", ["zh-Hans-CN", "zh-TW", "zh-CN"], ["zh-CN", "zh-TW", "zh-Hans-CN"]),
        ("zh-TW", ["zh-CN"], []),
        ("en", ["eng", "pt"], []),
    ],
)
def test_served_tags_that_stand_for_the_one_asked_for(asked: str, served: list[str], expected: list[str]) -> None:
    assert ServedTags(served).candidates(asked) == expected


def test_variants_without_end_are_not_all_tried() -> None:
    many = [f"en-{region:03}" for region in range(1_000)]
    assert ServedTags(many).candidates("en") == many[:MAX_CANDIDATES]


def test_the_pair_with_the_least_loss_comes_first_and_then_the_better_target() -> None:
    pairs = ordered(["en-US", "en"], ["pt-BR", "pt"])
    assert pairs == [("en-US", "pt-BR"), ("en", "pt-BR"), ("en-US", "pt"), ("en", "pt")]


def test_the_pool_that_stands_for_another() -> None:
    served = {"en:pt:speech", "en-US:es:speech"}
    tags = ServedTags({"en", "pt", "en-US", "es"})
    assert nearest("en-US:pt-BR:speech", tags, served.__contains__) == "en:pt:speech"
    assert nearest("en-US:pt-BR:text", tags, served.__contains__) == "en-US:pt-BR:text"
