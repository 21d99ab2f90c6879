"""Keys as text: what is made can be read, and typing errors are found."""

import hashlib
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_sdk.domain.key_texts import (
    CHECKSUM_CHARS,
    ID_CHARS,
    SECRET_CHARS,
    BadKey,
    KeyKind,
    KeyText,
    fresh_key,
    looks_like_a_key,
    shown,
)

ALPHABET = string.ascii_letters + string.digits
kinds = st.sampled_from(KeyKind)
keys = st.builds(
    KeyText,
    kinds,
    st.text(ALPHABET, min_size=ID_CHARS, max_size=ID_CHARS),
    st.text(ALPHABET, min_size=SECRET_CHARS, max_size=SECRET_CHARS),
)


@given(keys)
def test_a_key_that_was_written_is_read_as_it_was(key: KeyText) -> None:
    assert KeyText.parse(str(key)) == key
    assert looks_like_a_key(str(key))


def test_the_text_of_a_key_stays_what_it_is() -> None:
    """Keys that people have must work for ever."""
    key = KeyText(KeyKind.SERVICE, "k" * ID_CHARS, "s" * SECRET_CHARS)
    assert str(key).startswith(f"lk_sv_{'k' * ID_CHARS}_{'s' * SECRET_CHARS}")
    assert str(key)[-CHECKSUM_CHARS:] == "3TjsBK"
    assert key.digest == hashlib.sha256(b"s" * SECRET_CHARS).hexdigest()


@given(keys, st.data())
def test_any_wrong_character_is_found(key: KeyText, data: st.DataObject) -> None:
    text = str(key)
    place = data.draw(st.integers(0, len(text) - 1))
    wrong = data.draw(st.sampled_from(ALPHABET + "_").filter(lambda char: char != text[place]))
    with pytest.raises(BadKey):
        KeyText.parse(text[:place] + wrong + text[place + 1 :])


@pytest.mark.parametrize("kind", KeyKind)
def test_every_single_wrong_character_is_found(kind: KeyKind) -> None:
    text = str(fresh_key(kind))
    for place, right in enumerate(text):
        for wrong in ALPHABET + "_":
            if wrong != right:
                with pytest.raises(BadKey):
                    KeyText.parse(text[:place] + wrong + text[place + 1 :])


@given(keys, st.data())
def test_swapped_neighbours_are_found(key: KeyText, data: st.DataObject) -> None:
    text = str(key)
    place = data.draw(st.integers(0, len(text) - 2))
    swapped = text[:place] + text[place + 1] + text[place] + text[place + 2 :]
    if swapped != text:
        with pytest.raises(BadKey):
            KeyText.parse(swapped)


@given(keys, st.data())
def test_a_missing_or_an_added_character_is_found(key: KeyText, data: st.DataObject) -> None:
    text = str(key)
    place = data.draw(st.integers(0, len(text) - 1))
    for wrong in (text[:place] + text[place + 1 :], text[:place] + "a" + text[place:], text + "\n", " " + text):
        with pytest.raises(BadKey):
            KeyText.parse(wrong)


@given(st.text(max_size=100))
def test_what_is_no_key_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(BadKey) as caught:
        KeyText.parse(text)
    assert str(caught.value) == "not a key of this scheduler; a key looks like lk_sv_…"


def test_an_error_tells_a_typing_error_from_an_unknown_kind() -> None:
    text = str(fresh_key(KeyKind.CLIENT))
    with pytest.raises(BadKey, match="typing error"):
        KeyText.parse(text[:-1] + ("a" if text[-1] != "a" else "b"))
    with pytest.raises(BadKey, match="unknown kind of key: zz"):
        KeyText.parse(text.replace("lk_cl_", "lk_zz_"))


def test_fresh_keys_differ() -> None:
    made = [fresh_key(KeyKind.NODE) for _ in range(100)]
    assert len({key.id for key in made}) == len({key.secret for key in made}) == 100
    assert {key.kind for key in made} == {KeyKind.NODE}


@pytest.mark.parametrize("word", ["localhost", "LOCALHOST", "LocalHost"])
@pytest.mark.parametrize("place", [0, 3, ID_CHARS, ID_CHARS + SECRET_CHARS - len("localhost")])
def test_localhost_is_in_no_key(word: str, place: int) -> None:
    """Existing nodes replace it in their URL, wherever it stands, and would break their own key."""
    first = list("0" * place + word + "0" * (ID_CHARS + SECRET_CHARS - place - len(word)))
    dice = iter([*first, *"1" * (ID_CHARS + SECRET_CHARS)])
    key = fresh_key(KeyKind.NODE, lambda _: next(dice))
    assert key == KeyText(KeyKind.NODE, "1" * ID_CHARS, "1" * SECRET_CHARS)


def test_the_name_of_a_key_in_logs_has_no_secret() -> None:
    key = fresh_key(KeyKind.OPERATOR)
    assert shown(key.kind, key.id) == f"lk_op_{key.id}"
    assert key.secret not in shown(key.kind, key.id)
