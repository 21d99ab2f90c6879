"""The pairs a node declares: every form in the field is read, and what cannot be read never stands for any pair."""

import json
from time import thread_time

import pytest

from lingua_scheduler.protocol.schema import asyncapi
from lingua_sdk.protocol.pairs import complaint_about, count_translations, read_translations
from tests.sdk.protocol.test_node import NODE_REGISTER
from tests.support.schemas import Wire

WIRE = Wire(json.loads(asyncapi("1.2.3")))

SPELLINGS: list[object] = ["zh:en", ["zh-en"], ["zh:en"], ["zh->en"], ["zh=>en"], ["zh→en"], [" zh -> en "], ["ZH:EN"]]
OBJECTS: list[object] = [
    [["zh", "en"]],
    [{"from": "zh", "to": "en"}],
    [{"src": "zh", "tgt": "en"}],
    [{"source": "zh", "target": "en"}],
    [{"src_lang": "zh", "tgt_lang": "en", "model_id": "m"}],
    [{"model_id": "m", "supported_pairs": [{"from": "zh", "to": "en"}]}],
    [{"model_id": "m", "supported_pairs": [["zh", "en"]]}],
    [{"model_id": "m", "rule": "specific_pairs", "supported_pairs": [{"src": "zh", "tgt": "en"}]}],
    [{"model_id": "m", "rule": "any_to_en", "languages": ["zh", "en"]}],
    {"supported_pairs": ["zh-en"]},
    {"zh": ["en"]},
    [{"zh": ["en"]}],
]
NOTHING: list[object] = [None, [], {}, ""]
UNREADABLE: list[object] = [
    *(7, "zh", "zh-Hant", "zh-TW", "a:b:c", "zh:", "->en", "zh-en-fr", "Chinese:English", ["zh", "en"]),
    [None, 7, [], {}, {"from": "zh"}, {"from": "", "to": "en"}, {"from": 1, "to": 2}, ["zh", "en", "fr"], ["zh", 1]],
    [{"supported_pairs": None}],
    [{"supported_pairs": []}],
    [{"model_id": "m", "languages": ["zh", "en"], "rule": "by_moonlight"}],
    [{"model_id": "m", "rule": "any_to_any"}],
    {"zh": "en"},
]


@pytest.mark.parametrize("declared", SPELLINGS + OBJECTS)
def test_a_declared_pair_is_read_in_every_form(declared: object) -> None:
    assert read_translations(declared) == ([("zh", "en")], None)


@pytest.mark.parametrize("declared", SPELLINGS + OBJECTS + NOTHING)
def test_the_published_schema_has_every_form(declared: object) -> None:
    register = json.loads(NODE_REGISTER) | {"node_id": "n", "language_capabilities": {"nmt_capabilities": declared}}
    assert WIRE.faults("node.receive", register) == []


@pytest.mark.parametrize("declared", [7, [7], [["zh", "en", "fr"]], [{"rule": "by_moonlight"}], {"zh": "en"}])
def test_the_published_schema_has_no_other_form(declared: object) -> None:
    register = json.loads(NODE_REGISTER) | {"node_id": "n", "language_capabilities": {"nmt_capabilities": declared}}
    assert WIRE.faults("node.receive", register) != []


@pytest.mark.parametrize(
    ("entry", "pairs"),
    [
        ({"en": ["de", "fr"], "de": ["en"]}, [("en", "de"), ("en", "fr"), ("de", "en")]),
        ({"rule": "any_to_any", "languages": ["en", "de"]}, [("en", "de"), ("de", "en")]),
        (
            {"rule": "any_to_any", "languages": ["en", "de"], "blocked_pairs": [{"src": "de", "tgt": "en"}]},
            [("en", "de")],
        ),
        ({"rule": "en_to_any", "languages": ["en", "de", "fr"]}, [("en", "de"), ("en", "fr")]),
    ],
)
def test_one_entry_may_stand_for_several_pairs(entry: object, pairs: list[tuple[str, str]]) -> None:
    assert read_translations([entry]).pairs == pairs
    assert read_translations(entry).pairs == pairs


@pytest.mark.parametrize(
    ("spelling", "pair"),
    [
        ("zh-Hant:en", ("zh-Hant", "en")),
        ("en->zh-Hant", ("en", "zh-Hant")),
        ("zh-Hant-en", ("zh-Hant", "en")),
        ("en-US-pt-BR", ("en-US", "pt-BR")),
        ("yue-zh-Hant-TW", ("yue", "zh-Hant-TW")),
        ("zh_CN:EN", ("zh-CN", "en")),
    ],
)
def test_the_hyphen_inside_a_code_does_not_split_it(spelling: str, pair: tuple[str, str]) -> None:
    assert read_translations([spelling]).pairs == [pair]


@pytest.mark.parametrize("nothing", NOTHING)
def test_a_node_that_declares_nothing_translates_any_pair(nothing: object) -> None:
    assert read_translations(nothing) == (None, None)


@pytest.mark.parametrize("unreadable", UNREADABLE)
def test_what_cannot_be_read_is_not_any_pair(unreadable: object) -> None:
    assert read_translations(unreadable) == ([], 0)


def test_an_unreadable_entry_is_left_out_and_the_first_is_named() -> None:
    declared = ["zh-en", 7, {"from": "en", "to": "zh"}, "zh-Hant", {"supported_pairs": [None, "ja:en", "ko:en"]}]
    assert read_translations(declared) == ([("zh", "en"), ("en", "zh"), ("ja", "en"), ("ko", "en")], 1)
    assert complaint_about(1).startswith('nmt_capabilities[1] is not a language pair; write "en:de"')


@pytest.mark.parametrize(
    ("declared", "pairs"),
    [
        (["en:de", "de:en"], 2),
        ([{"supported_pairs": ["en:de"] * 5}, "en:de"], 6),
        ({"en": ["de"] * 3, "de": ["en"]}, 4),
        ([{"rule": "any_to_any", "languages": ["en"] * 200}], 200 * 199),
        (["en:de"] * 30, 30),
    ],
)
def test_pairs_are_counted_before_any_is_read(declared: object, pairs: int) -> None:
    assert count_translations(declared, most=20) == pairs


def test_a_text_that_is_too_long_for_a_pair_costs_nothing() -> None:
    began_s = thread_time()
    assert read_translations(["en" + " " * 30_000 + "zh", "en" + " " * 60 + ":zh"]).pairs == [("en", "zh")]
    # The square of its length: four seconds, and an hour for the longest message.
    assert thread_time() - began_s < 1
