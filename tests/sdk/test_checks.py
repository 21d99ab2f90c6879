"""Mistakes in engines are named in a sentence."""

from typing import Any

import pytest

from lingua_sdk import portrait
from lingua_sdk.audio import Audio
from lingua_sdk.checks import checked, checked_batch
from lingua_sdk.engines import Abilities
from lingua_sdk.failures import BrokenContract
from lingua_sdk.node import Node
from lingua_sdk.pipeline import Pipeline
from lingua_sdk.self_test import pairs_of
from tests.support.toys import Ears, Mind, Voice, job


def with_(engine: Any, **attributes: Any) -> Any:
    for name, value in attributes.items():
        setattr(engine, name, value)
    return engine


@pytest.mark.parametrize(
    ("languages", "said"),
    [
        ("en", 'Ears.languages is the text "en"; write a list of languages: ["en"]'),
        (7, "Ears.languages must be a list of languages"),
        (["English"], "Ears.languages has 'English', which is not a language tag"),
    ],
)
def test_languages_must_be_a_list_of_tags(languages: Any, said: str) -> None:
    with pytest.raises(BrokenContract) as found:
        Pipeline(with_(Ears(), languages=languages))
    assert said in str(found.value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Pipeline(Ears(), translator=with_(Mind(), pairs="en:pt")), "Mind.pairs must be a list of pairs"),
        (lambda: Pipeline(Ears(), translator=with_(Mind(), pairs=["en-pt"])), "Mind.pairs has 'en-pt'"),
        (lambda: Pipeline(Ears(), speaker=with_(Mind())), "Mind has no method speak()"),
        (lambda: Pipeline(with_(Ears)), "Ears is a class; pass an object: Ears()"),
        (lambda: Pipeline(Ears(), speaker=type("Mute", (), {"speak": print})()), "Mute has no attribute languages"),
    ],
)
def test_what_an_engine_declares_must_be_readable(make: Any, said: str) -> None:
    with pytest.raises(BrokenContract) as found:
        make()
    assert said in str(found.value)


def test_languages_that_become_unreadable_later_are_named_too() -> None:
    ears = Ears()
    pipeline = Pipeline(ears, translator=Mind(), speaker=Voice())
    ears.languages = "en"
    with pytest.raises(BrokenContract, match="is the text"):
        pipeline.abilities()


def test_abilities_that_are_given_are_checked() -> None:
    engine: Any = with_(Ears(), name="whole")
    with pytest.raises(BrokenContract, match=r"Abilities\.recognises is the text"):
        Node("ws://127.0.0.1:1", engine, Abilities(recognises="en", repairs=["en"], speaks=["en"]))
    with pytest.raises(BrokenContract, match=r"Abilities\.translates has"):
        Node("ws://127.0.0.1:1", engine, Abilities(["en"], ["en"], ["en"], translates=[("en",)]))  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("method", "made", "said"),
    [
        ("translate", None, "translate() must return str, got None"),
        ("recognise", b"hello", "recognise() must return str, got bytes"),
        ("speak", b"", "speak() must return Audio, got bytes"),
    ],
)
def test_what_a_method_returns_must_be_of_its_type(method: str, made: Any, said: str) -> None:
    with pytest.raises(BrokenContract) as found:
        checked(method, made)
    assert str(found.value) == said
    assert checked("speak", Audio(b"")) == Audio(b"")


def test_a_batch_has_one_result_for_each_input() -> None:
    assert checked_batch("translate", ["a", "b"], 2) == ["a", "b"]
    for made, said in (("ab", "must return a list, got str"), (["a"], "of 2 inputs, got 1"), (["a", None], "got None")):
        with pytest.raises(BrokenContract, match=said):
            checked_batch("translate", made, 2)


@pytest.mark.parametrize("limit", ["concurrency", "batch_size"])
@pytest.mark.parametrize(
    ("value", "got"), [(0, "0"), (-1, "-1"), ("one", "'one'"), (1.5, "1.5"), (True, "True"), ([], "[]")]
)
def test_limits_of_an_engine_are_counts(limit: str, value: Any, got: str) -> None:
    with pytest.raises(BrokenContract) as found:
        Pipeline(Ears(), translator=with_(Mind(), **{limit: value}))
    assert str(found.value) == f"Mind.{limit} must be an int of at least 1, got {got}"


def test_limits_of_an_engine_may_be_absent() -> None:
    Pipeline(with_(Ears(), concurrency=None, batch_size=None), translator=with_(Mind(), concurrency=1, batch_size=2))


PAIRS = [("en", "pt"), ("en", "zh_CN")]


@pytest.mark.parametrize(
    "declared",
    [
        PAIRS,
        [["en", "pt"], ["en", "zh_CN"]],
        ["en:pt", "en -> zh_CN"],
        ["en→pt", ["en", "zh_CN"]],
        {"en": ["pt", "zh_CN"]},
        [{"en": ["pt", "zh_CN"]}],
        dict.fromkeys(PAIRS),
    ],
)
async def test_pairs_may_be_written_as_nodes_write_them(declared: Any) -> None:
    pipeline = Pipeline(Ears(), translator=with_(Mind(), pairs=declared), speaker=Voice("zh_CN"))
    assert pipeline.abilities().translates == PAIRS
    made = await pipeline.translate(job(tgt_lang="zh-CN"), lambda _: None)
    assert made.text_translated == "um hello [en>zh_CN]"
    able = Abilities(["en"], ["en"], ["pt"], translates=declared)
    assert pairs_of(able) == [("en", "pt"), ("en", "zh-CN")]
    who = portrait.Identity("node-1", "b", 3)
    said = portrait.registration(who, "whole", able, [], takes_jobs=True).language_capabilities
    assert said is not None
    assert said.nmt_capabilities == [{"from": "en", "to": "pt"}, {"from": "en", "to": "zh_CN"}]


@pytest.mark.parametrize(
    "declared",
    [["en-pt"], ["en"], [["en"]], [("en", "pt", "es")], [{"en": "pt"}], [{"en": [7]}], [7], {"en": ["Portuguese"]}],
)
def test_pairs_that_cannot_be_read_are_named_with_the_forms_that_can(declared: Any) -> None:
    with pytest.raises(BrokenContract) as found:
        Pipeline(Ears(), translator=with_(Mind(), pairs=declared))
    assert str(found.value).startswith("Mind.pairs has ")
    assert str(found.value).endswith('write ("en", "pt"), ["en", "pt"], "en:pt" or {"en": ["pt"]}')
