"""Pairing codes: what is one, and what is kept of it."""

import pytest

from lingua_sdk.domain.pairing import CODE_CHARS, Pairing, code_in, digest_of_code, fresh_code


def test_every_code_is_read_as_one() -> None:
    codes = {fresh_code() for _ in range(200)}
    assert len(codes) == 200
    assert all(len(code) == CODE_CHARS and code_in(code) == code for code in codes)


@pytest.mark.parametrize(("text", "code"), [(" abcd2345\n", "ABCD2345"), ("ABCDEFGH", "ABCDEFGH")])
def test_a_code_may_be_typed_in_small_letters(text: str, code: str) -> None:
    assert code_in(text) == code


@pytest.mark.parametrize(
    "text", [None, "", "1234", "ABCD-234", "ABCD2340", "ABCD23456", "配对码", "ⅧBCD2345", "ABCD 345"]
)
def test_any_other_text_is_no_code(text: str | None) -> None:
    assert code_in(text) == ""


def test_a_pairing_is_read_back_as_it_was_written() -> None:
    pairing = Pairing("acme", "gpu-7")
    assert Pairing.parse(str(pairing)) == pairing
    for strange in ("", "acme", "acme ", "ACME gpu-7", "acme gpu 7", " gpu-7"):
        assert Pairing.parse(strange) is None


def test_a_digest_does_not_tell_the_code() -> None:
    assert "ABCD2345" not in digest_of_code("ABCD2345")
    assert digest_of_code("ABCD2345") != digest_of_code("ABCD2346")
