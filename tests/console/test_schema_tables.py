"""Schemas as tables, and the examples made of them."""

import pytest

from lingua_scheduler.console.schema_tables import Document, SchemaTables, inline

TABLES = SchemaTables({"Pair": {"type": "object", "required": ["src"], "properties": {"src": {"type": "string"}}}})
PAIR = {"$ref": "#/components/schemas/Pair"}


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"const": "ping"}, '"ping"'),
        ({"enum": ["a", "b"]}, "a or b"),
        ({"type": "array", "items": {"type": "integer"}}, "list of integer"),
        ({"type": "string", "contentEncoding": "base64"}, "base64"),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}, {"type": "null"}]}, "number"),
        (PAIR, "object"),
        ({}, "any JSON"),
    ],
)
def test_a_kind_is_said_as_a_reader_of_json_would(schema: Document, kind: str) -> None:
    assert TABLES.kind(schema) == kind


def test_fields_inside_a_field_are_told_and_needed_ones_marked() -> None:
    schema = {"properties": {"pairs": {"type": "array", "items": PAIR}}}
    told = TABLES.fields(schema, 0, marks_needed=True)
    assert told.count("<details>") == 1
    assert '<code>src</code> <span class="needed"' in told
    assert 'class="needed"' not in TABLES.fields(schema, 0, marks_needed=False)
    assert TABLES.fields({"type": "object"}, 0, marks_needed=True) == "<p>Nothing.</p>"


def test_an_example_has_what_must_be_there() -> None:
    schema = {
        "required": ["type", "pair", "seq", "lang"],
        "properties": {
            "type": {"const": "hello"},
            "pair": PAIR,
            "seq": {"type": "integer", "minimum": 3},
            "lang": {"type": "string", "minLength": 2},
            "more": {"type": "string"},
        },
    }
    assert TABLES.example(schema) == {"type": "hello", "pair": {"src": ""}, "seq": 3, "lang": "en"}


def test_code_is_marked_and_markup_is_shown() -> None:
    assert inline("a `b` <i>") == "a <code>b</code> &lt;i&gt;"
