"""Whether a caller's credential still counts, for all kinds of callers."""

import pytest

from lingua_scheduler.domain.access.credentials import subject_name, tenant_name, token_name
from lingua_scheduler.domain.access.principals import LOCAL, Principal, PrincipalKind
from lingua_scheduler.domain.access.scopes import Scope
from lingua_scheduler.services.access.standing import objection
from lingua_sdk.domain.key_texts import KeyKind, fresh_key
from tests.support.tokens import NOW_MS, Book, issuer, service

KEY = fresh_key(KeyKind.SERVICE)


def caller(**changed: object) -> Principal:
    known = {"kind": PrincipalKind.CLIENT, "scopes": frozenset({Scope.SESSION_OPEN}), "tenant": "acme"}
    return Principal(**{**known, "issued_ms": NOW_MS, **changed})  # type: ignore[arg-type]


def test_a_caller_without_a_key_stands() -> None:
    assert objection(Book(), LOCAL, NOW_MS) == ""


@pytest.mark.parametrize("key_id", [KEY.id, "app"], ids=["service", "issuer"])
def test_a_caller_stands_as_long_as_its_key(key_id: str) -> None:
    book = Book(service(KEY), issuer())
    assert objection(book, caller(key_id=key_id), NOW_MS) == ""
    book.change(key_id, expires_ms=NOW_MS + 1)
    assert objection(book, caller(key_id=key_id), NOW_MS) == ""
    assert objection(book, caller(key_id=key_id), NOW_MS + 1) == "key revoked or expired"
    assert objection(Book(), caller(key_id=key_id), NOW_MS) == "unknown key"


def test_what_was_issued_earlier_is_void() -> None:
    book = Book()
    holder = caller(subject="u", token_id="t")
    for name, reason in (
        (tenant_name("acme"), "tenant revoked"),
        (subject_name("acme", "u"), "subject revoked"),
    ):
        book.voids = {name: NOW_MS}
        assert objection(book, holder, NOW_MS) == ""
        book.voids = {name: NOW_MS + 1}
        assert objection(book, holder, NOW_MS) == reason


def test_a_token_is_void_whatever_its_issuers_clock_said() -> None:
    book = Book()
    book.voids = {token_name("", "t"): NOW_MS - 60_000}
    assert objection(book, caller(token_id="t"), NOW_MS) == "token revoked"
    assert objection(book, caller(token_id="u"), NOW_MS) == ""
    book.voids = {token_name("", ""): NOW_MS, subject_name("acme", ""): NOW_MS + 1}
    assert objection(book, caller(), NOW_MS) == ""
