"""Keys as text: what is made can be read, and what is mistyped is found out."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.access.key_texts import BadKey, KeyKind, KeyText, fresh_key, looks_like_a_key, shown


@pytest.mark.parametrize("kind", KeyKind)
def test_a_fresh_key_is_read_as_it_was_made(kind: KeyKind) -> None:
    key = fresh_key(kind)
    assert KeyText.parse(str(key)) == key
    assert (len(key.id), len(key.secret)) == (12, 43)
    assert looks_like_a_key(str(key))
    assert str(key).startswith(shown(kind, key.id) + "_")
    assert key.digest == hashlib.sha256(key.secret.encode()).hexdigest()


@given(st.integers(0, 67), st.sampled_from("0123456789ABCxyz_é"))
def test_one_wrong_character_is_found_out(place: int, character: str) -> None:
    text = str(fresh_key(KeyKind.SERVICE))
    changed = text[:place] + character + text[place + 1 :]
    if changed != text:
        with pytest.raises(BadKey):
            KeyText.parse(changed)


@pytest.mark.parametrize("text", ["", "lk_", "lk_sv_short", "eyJ.e30.x", f"lk_zz_{'a' * 12}_{'a' * 49}"])
def test_what_is_no_key_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(BadKey) as caught:
        KeyText.parse(text)
    assert "aaaa" not in str(caught.value)


def test_a_key_never_contains_the_word_that_nodes_replace_in_their_url() -> None:
    drawn = iter("a" * 12 + "LocalHost" + "b" * 34 + "c" * 55)
    assert fresh_key(KeyKind.NODE, lambda _: next(drawn)).id == "c" * 12
