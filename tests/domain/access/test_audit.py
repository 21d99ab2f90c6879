"""Entries of the audit log: bounded, without secrets, and with one spelling."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.access.audit import (
    HIDDEN,
    MAX_TEXT_CHARS,
    MAX_VALUES,
    AuditActor,
    AuditHead,
    AuditNote,
    actor_of,
    canonical,
    clean,
    cleaned,
    hash_of,
    placed,
    read_entry,
)
from lingua_scheduler.domain.access.principals import LOCAL, Principal, PrincipalKind
from lingua_sdk.domain.key_texts import KeyKind, fresh_key
from tests.support.audits import ACTOR, chain, texts


@pytest.mark.parametrize("text", ["", "x", "1", "0 " + "a" * 64, "-1 " + "a" * 64, "1 " + "A" * 64, "٣ " + "a" * 64])
def test_what_is_no_head_is_none(text: str) -> None:
    assert AuditHead.parse(text) is None


def test_a_head_is_read_as_it_was_written() -> None:
    head = AuditHead(7, "ab" * 32)
    assert AuditHead.parse(str(head)) == head


def test_an_actor_is_who_showed_the_credential_and_from_where() -> None:
    operator = Principal(kind=PrincipalKind.OPERATOR, scopes=frozenset(), key_id="abcdefghijkl", tenant="acme")
    found = actor_of(operator, "10.0.0.1")
    assert found == AuditActor(kind="operator", key_id="abcdefghijkl", tenant="acme", address="10.0.0.1")
    assert str(found) == "operator:abcdefghijkl@10.0.0.1"
    assert str(actor_of(LOCAL, "")) == "local"
    assert str(AuditActor(kind="redis", key_id="ana", address="box")) == "redis:ana@box"


def test_an_entry_has_what_was_noted_and_follows_another() -> None:
    note = AuditNote(actor=ACTOR, action="keys.create", object="k", values={"n": 1}, request_id="r-1")
    entry = placed(note, AuditHead(4, "cd" * 32), 99, "i-1", "key")
    assert (entry.seq, entry.prev, entry.at_ms, entry.writer, entry.key) == (5, "cd" * 32, 99, "i-1", "key")
    assert (entry.action, entry.object, entry.values, entry.request_id) == ("keys.create", "k", {"n": 1}, "r-1")
    assert entry.hash == ""


@pytest.mark.parametrize("kind", KeyKind)
def test_a_key_never_enters_an_entry_wherever_it_stands(kind: KeyKind) -> None:
    key = fresh_key(kind)
    note = AuditNote(
        actor=ACTOR,
        action=f"a{key}",
        object=f"see ({key})",
        values={"name": f"x={key}", f"{key}": "v", "long": "-" * (MAX_TEXT_CHARS - 20) + str(key)},
        request_id=str(key),
    )
    told = canonical(placed(note, AuditHead(), 0, f"w {key}", "k")).decode()
    assert key.secret[:8] not in told
    assert HIDDEN in told


def test_a_token_never_enters_an_entry() -> None:
    token = ".".join(("eyJhbGciOiJFZERTQSJ9", "eyJzdWIiOiJhbmEiLCJleHAiOjF9", "c2lnbmF0dXJlLW9mLWl0"))
    assert clean(f"Bearer {token}") == f"Bearer {HIDDEN}"


@given(st.text(max_size=2_000), st.dictionaries(st.text(max_size=300), st.text() | st.integers() | st.booleans()))
def test_texts_and_values_are_bounded_and_encodable(text: str, values: dict[str, str | int | bool]) -> None:
    text = text + "\ud800"
    assert len(clean(text)) <= MAX_TEXT_CHARS
    clean(text).encode()
    found = cleaned(values)
    assert len(found) <= MAX_VALUES
    assert len(json.dumps(found)) < 200_000
    assert msgspec.json.decode(msgspec.json.encode(found)) == found


def test_small_numbers_stay_numbers_and_large_ones_become_text() -> None:
    assert cleaned({"a": 5, "b": True, "c": 2**60}) == {"a": 5, "b": True, "c": str(2**60)}


def test_an_entry_is_read_as_it_was_written() -> None:
    (entry,) = chain(1)
    assert read_entry(canonical(entry).decode()) == entry


def test_another_spelling_of_an_entry_is_none() -> None:
    (text,) = texts(chain(1))
    loose = json.dumps(json.loads(text))
    assert loose != text
    assert read_entry(loose) is None
    assert read_entry(text.replace('"seq":1', '"seq":1,"seq":1')) is None
    assert read_entry(text.replace('"seq":1', '"more":1,"seq":1')) is None
    for rubbish in ("", "{", "\udcff", "[]", "null", "[" * 100_000):
        assert read_entry(rubbish) is None


def test_the_hash_depends_on_the_key_and_on_every_field() -> None:
    (entry,) = chain(1)
    replace = msgspec.structs.replace
    assert hash_of(entry, b"a") != hash_of(entry, b"b")
    changed = [
        replace(entry, seq=2),
        replace(entry, at_ms=0),
        replace(entry, writer="x"),
        replace(entry, actor=AuditActor(kind="x")),
        replace(entry, action="x"),
        replace(entry, object="x"),
        replace(entry, request_id="x"),
        replace(entry, values={"x": 1}),
        replace(entry, key="x"),
        replace(entry, prev="ab" * 32),
    ]
    assert len({hash_of(one, b"a") for one in (entry, *changed)}) == len(changed) + 1
    assert hash_of(replace(entry, hash="ab" * 32), b"a") == hash_of(entry, b"a")
