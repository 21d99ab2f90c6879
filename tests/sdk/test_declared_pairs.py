"""Pairs of translators are read in several forms, as they are written."""

from typing import Any

import pytest

from lingua_sdk.declared_pairs import pairs_in


@pytest.mark.parametrize(
    ("declared", "pairs"),
    [
        ([("EN", "zh_CN")], [("EN", "zh_CN")]),
        ([["en", "pt"], "en:es", "en -> fr", "en→de"], [("en", "pt"), ("en", "es"), ("en", "fr"), ("en", "de")]),
        ({"en": ["pt", "es"], "fr": ("pt",)}, [("en", "pt"), ("en", "es"), ("fr", "pt")]),
        ([{"en": ["pt"]}, ("fr", "pt")], [("en", "pt"), ("fr", "pt")]),
        ({("en", "pt"): "a model"}, [("en", "pt")]),
        (["en-pt", "en", "a:b:c", ["en"], 7, {"en": "pt"}, {7: ["pt"]}], []),
        ((), []),
    ],
)
def test_each_form_is_read_in_order(declared: Any, pairs: list[tuple[str, str]]) -> None:
    assert list(pairs_in(declared)) == pairs
