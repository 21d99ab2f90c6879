"""Who is let in, with which credential, and what the others are told."""

import hmac
from typing import Any

import pytest

from lingua_scheduler.domain.access.credentials import Revocation, tenant_name
from lingua_scheduler.domain.access.node_certificates import PeerCertificate
from lingua_scheduler.domain.access.principals import (
    ANONYMOUS,
    LOCAL,
    Denied,
    Principal,
    PrincipalKind,
    holder_of,
    token_expired,
    unauthenticated,
)
from lingua_scheduler.domain.access.scopes import LANGUAGES, OPEN, Needs, Role, Scope
from lingua_scheduler.services.access import doorkeeper as module
from lingua_scheduler.services.access.doorkeeper import Doorkeeper
from lingua_scheduler.services.access.visits import Shown, Via, Visit
from lingua_sdk.domain.key_texts import KeyKind, KeyText, fresh_key
from tests.support.access import CALLERS, FakeBook, MadeKey, Times, doorkeeper_of, made_key

HERE = Visit("127.0.0.1", None, is_local=True)
THERE = Visit("203.0.113.7", None, is_local=False)
READ: Needs = (Scope.FLEET_READ,)
SPEAK: Needs = (Scope.SESSION_OPEN,)
SAME = "the credential is not accepted"


def shown(key: MadeKey | str, via: Via = Via.HEADER) -> Shown:
    return Shown(key if isinstance(key, str) else key.text, via)


def denied(found: Principal | Denied) -> Denied:
    assert isinstance(found, Denied), found
    return found


def admitted(found: Principal | Denied) -> Principal:
    assert isinstance(found, Principal), found
    return found


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.mark.parametrize(
    ("mode", "visit", "is_free"),
    [
        ("auto", HERE, True),
        ("auto", THERE, False),
        ("required", HERE, False),
        ("required", THERE, False),
        ("off", HERE, True),
        ("off", THERE, True),
    ],
)
def test_the_mode_decides_who_needs_a_credential(mode: str, visit: Visit, is_free: bool) -> None:
    keeper = doorkeeper_of(FakeBook(), mode=mode)
    found = keeper.admit(None, visit, READ)
    if is_free:
        assert found is LOCAL
    else:
        assert denied(found)[:2] == (401, "UNAUTHENTICATED")
        assert "Authorization: Bearer" in denied(found).detail
    assert keeper.admit(None, visit, OPEN) is (LOCAL if is_free else ANONYMOUS)


@pytest.mark.parametrize("mode", ["auto", "off", "required"])
def test_a_credential_that_is_given_is_checked_in_every_mode(mode: str) -> None:
    key = made_key(KeyKind.METRICS)
    keeper = doorkeeper_of(FakeBook(key), mode=mode)
    assert denied(keeper.admit(shown("rubbish"), HERE, READ)).status == 401
    assert denied(keeper.admit(shown(key), HERE, READ))[:2] == (403, "PERMISSION_DENIED")
    assert admitted(keeper.admit(shown(key), HERE, (Scope.METRICS_READ,))).kind is PrincipalKind.METRICS


def test_whoever_comes_through_a_proxy_of_this_computer_is_told_why_a_credential_is_missing() -> None:
    found = denied(doorkeeper_of(FakeBook()).admit(None, HERE._replace(is_local=False), READ))
    assert "proxy" in found.detail


def test_a_key_makes_its_principal() -> None:
    key = made_key(
        KeyKind.SERVICE, tenant="acme", act_for=("beta",), pairs=("zh:en",), created_ms=5, expires_ms=9_000_000_000_000
    )
    book = FakeBook(key)
    found = admitted(doorkeeper_of(book).admit(shown(key), THERE, (Scope.DISPATCH_CALL,)))
    assert found == Principal(
        kind=PrincipalKind.SERVICE,
        scopes=key.credential.scopes,
        tenant="acme",
        key_id=key.credential.id,
        issued_ms=5,
        expires_ms=9_000_000_000_000,
        act_for=("beta",),
        pairs=("zh:en",),
    )
    assert book.uses == [key.credential.id]


def test_a_node_key_brings_its_node_and_its_slots() -> None:
    key = made_key(KeyKind.NODE, node_id="node-a", max_slots=4)
    found = admitted(doorkeeper_of(FakeBook(key)).admit(shown(key), THERE, (Scope.NODE_REGISTER,)))
    assert (found.kind, found.node_id, found.max_slots) == (PrincipalKind.NODE, "node-a", 4)


@pytest.mark.parametrize("who", CALLERS)
@pytest.mark.parametrize("scope", sorted(set(Scope) - {Scope.OPEN}))
def test_a_key_may_do_what_its_scopes_say_and_nothing_else(who: str, scope: Scope) -> None:
    key = CALLERS[who]()
    found = doorkeeper_of(FakeBook(key)).admit(shown(key), THERE, (scope,))
    if scope in key.credential.scopes:
        admitted(found)
    else:
        assert denied(found)[:2] == (403, "PERMISSION_DENIED")
        assert scope.value in denied(found).detail


def test_any_one_of_the_scopes_is_enough() -> None:
    client, metrics = made_key(KeyKind.CLIENT), made_key(KeyKind.METRICS)
    keeper = doorkeeper_of(FakeBook(client, metrics))
    admitted(keeper.admit(shown(client), THERE, LANGUAGES))
    assert (
        "fleet:read or session:open or dispatch:call" in denied(keeper.admit(shown(metrics), THERE, LANGUAGES)).detail
    )


def refusals(times: Times) -> dict[str, tuple[FakeBook, str, str]]:
    """Why: the book, the text that is shown, and the reason in the log."""
    key, node = made_key(KeyKind.CLIENT), made_key(KeyKind.NODE)
    other = KeyText.parse(key.text)._replace(secret=fresh_key(KeyKind.CLIENT).secret)
    kind = KeyText.parse(key.text)._replace(kind=KeyKind.OPERATOR)
    revoked, voided = FakeBook(key), FakeBook(key)
    revoked.change(key, revoked_ms=1)
    voided.revocations[tenant_name("default")] = Revocation(2**50, 2**50)
    return {
        "unknown": (FakeBook(node), key.text, "unknown key"),
        "wrong secret": (FakeBook(key), str(other), "wrong secret"),
        "another kind": (FakeBook(key), str(kind), "wrong secret"),
        "revoked": (revoked, key.text, "key revoked"),
        "tenant": (voided, key.text, "tenant revoked"),
        "no key": (FakeBook(key), "lk_", "not a key of this scheduler; a key looks like lk_sv_…"),
        "token": (FakeBook(key), "a.b.c", "no key, and tokens are not read"),
        "empty": (FakeBook(key), "", "no key, and tokens are not read"),
    }


@pytest.mark.parametrize("why", refusals(Times()))
def test_every_refusal_sounds_the_same(why: str, times: Times) -> None:
    book, text, reason = refusals(times)[why]
    found = denied(doorkeeper_of(book, times).admit(shown(text), THERE, SPEAK))
    assert found == Denied(401, "UNAUTHENTICATED", SAME, reason=reason)
    assert not book.uses


def test_a_typing_error_is_told(times: Times) -> None:
    key = made_key(KeyKind.CLIENT)
    wrong = key.text[:-1] + ("a" if key.text[-1] != "a" else "b")
    found = denied(doorkeeper_of(FakeBook(key), times).admit(shown(wrong), THERE, SPEAK))
    assert (found.status, found.detail) == (401, "the key has a typing error")


def test_that_a_key_has_expired_is_told_only_to_its_owner(times: Times) -> None:
    key = made_key(KeyKind.CLIENT, expires_ms=times.wall_ms() + 1)
    keeper = doorkeeper_of(FakeBook(key), times)
    admitted(keeper.admit(shown(key), THERE, SPEAK))
    times.now_s += 1
    assert denied(keeper.admit(shown(key), THERE, SPEAK))[:2] == (401, "TOKEN_EXPIRED")
    guess = KeyText.parse(key.text)._replace(secret=fresh_key(KeyKind.CLIENT).secret)
    assert denied(keeper.admit(shown(str(guess)), THERE, SPEAK)).detail == SAME


def test_an_unknown_id_takes_the_same_path_as_a_wrong_secret(monkeypatch: pytest.MonkeyPatch, times: Times) -> None:
    compared: list[tuple[str, str]] = []

    def compare(one: str, other: str) -> bool:
        compared.append((one, other))
        return hmac.compare_digest(one, other)

    monkeypatch.setattr(module, "hmac", type("hmac", (), {"compare_digest": staticmethod(compare)}))
    known, unknown = made_key(KeyKind.CLIENT), made_key(KeyKind.CLIENT)
    guess = str(KeyText.parse(known.text)._replace(secret=KeyText.parse(unknown.text).secret))
    keeper = doorkeeper_of(FakeBook(known), times)
    for text in (guess, unknown.text):
        denied(keeper.admit(shown(text), THERE, SPEAK))
    assert [len(one) for pair in compared for one in pair] == [64] * 4


@pytest.mark.parametrize("kind", [KeyKind.OPERATOR, KeyKind.ENROLMENT])
def test_keys_that_open_much_are_refused_in_a_url_with_the_reason(kind: KeyKind) -> None:
    key = made_key(kind, role=Role.ADMIN if kind is KeyKind.OPERATOR else None)
    needs = READ if kind is KeyKind.OPERATOR else (Scope.NODE_ENROL,)
    keeper = doorkeeper_of(FakeBook(key))
    found = denied(keeper.admit(shown(key, Via.QUERY), THERE, needs))
    assert found.status == 401
    assert "must not be in a URL" in found.detail
    admitted(keeper.admit(shown(key), THERE, needs))


@pytest.mark.parametrize("kind", [KeyKind.CLIENT, KeyKind.SERVICE])
def test_keys_that_existing_peers_have_may_be_in_a_url(kind: KeyKind) -> None:
    key = made_key(kind)
    admitted(doorkeeper_of(FakeBook(key)).admit(shown(key, Via.QUERY), THERE, SPEAK))


@pytest.mark.parametrize("kind", [KeyKind.CLIENT, KeyKind.NODE])
def test_where_urls_are_logged_no_credential_may_be_in_one(kind: KeyKind) -> None:
    key, needs = made_key(kind), (Scope.NODE_REGISTER,) if kind is KeyKind.NODE else SPEAK
    tokens = Tokens(holder_of(key.credential))
    keeper = doorkeeper_of(FakeBook(key), tokens=tokens, query_tokens=False)
    for text in (key.text, "a.b.c"):
        found = denied(keeper.admit(Shown(text, Via.QUERY), THERE, needs))
        assert (found.status, found.code) == (401, "UNAUTHENTICATED")
        assert "must not be in a URL here" in found.detail
    assert not tokens.read_at
    for via in (Via.HEADER, Via.SUBPROTOCOL):
        admitted(keeper.admit(shown(key, via), THERE, needs))


@pytest.mark.parametrize(
    ("networks", "address", "may"),
    [
        (("203.0.113.0/24",), "203.0.113.7", True),
        (("203.0.113.0/24",), "203.0.114.7", False),
        (("10.0.0.0/8", "2001:db8::/32"), "2001:db8::1", True),
        (("10.0.0.0/8",), "::ffff:10.1.2.3", True),
        (("10.0.0.0/8",), "", False),
        (("nonsense",), "203.0.113.7", False),
    ],
)
def test_a_key_is_used_from_its_networks(networks: tuple[str, ...], address: str, may: bool) -> None:
    key = made_key(KeyKind.NODE, networks=networks)
    found = doorkeeper_of(FakeBook(key)).admit(shown(key), Visit(address, None, False), (Scope.NODE_REGISTER,))
    if may:
        admitted(found)
    else:
        assert denied(found)[:2] == (403, "PERMISSION_DENIED")


@pytest.mark.parametrize(
    ("origin", "may"),
    [
        ("https://app.example", True),
        ("HTTPS://APP.example:443", True),
        ("https://app.example.evil.example", False),
        ("http://app.example", False),
        ("null", False),
        (None, False),
    ],
)
def test_a_publishable_key_is_used_by_its_pages(origin: str | None, may: bool) -> None:
    key = made_key(KeyKind.CLIENT, origins=("https://app.example",))
    found = doorkeeper_of(FakeBook(key)).admit(shown(key), Visit("203.0.113.7", origin, False), SPEAK)
    if may:
        admitted(found)
    else:
        assert denied(found)[:2] == (403, "ORIGIN_NOT_ALLOWED")


class Tokens:
    def __init__(self, answer: Principal | Denied) -> None:
        self.answer = answer
        self.read_at: list[tuple[str, int]] = []

    def knows(self, _text: str) -> bool:
        return False

    def read(self, text: str, now_ms: int) -> Principal | Denied:
        self.read_at.append((text, now_ms))
        return self.answer


def test_what_is_no_key_is_a_token(times: Times) -> None:
    user = Principal(kind=PrincipalKind.CLIENT, scopes=frozenset(SPEAK), subject="ann")
    tokens = Tokens(user)
    keeper = doorkeeper_of(FakeBook(), times, tokens)
    assert keeper.admit(shown("a.b.c"), THERE, SPEAK) is user
    assert denied(keeper.admit(shown("a.b.c"), THERE, READ)).status == 403
    assert tokens.read_at == [("a.b.c", times.wall_ms())] * 2
    tokens.answer = Denied(401, "TOKEN_EXPIRED", "too late")
    assert denied(keeper.admit(shown("a.b.c"), THERE, SPEAK)) == tokens.answer


# Too many failures


def tries(keeper: Doorkeeper, text: str, visit: Visit, count: int = 21) -> list[int]:
    return [denied(keeper.admit(shown(text), visit, SPEAK)).status for _ in range(count)]


def guess_for(key: MadeKey) -> str:
    return str(KeyText.parse(key.text)._replace(secret=fresh_key(KeyKind.CLIENT).secret))


def test_after_twenty_wrong_secrets_wrong_ones_must_wait_and_the_right_one_works(times: Times) -> None:
    key, other = made_key(KeyKind.CLIENT), made_key(KeyKind.CLIENT)
    keeper = doorkeeper_of(FakeBook(key, other), times)
    assert tries(keeper, guess_for(key), THERE) == [401] * 20 + [429]
    found = denied(keeper.admit(shown(guess_for(key)), THERE, SPEAK))
    assert (found.status, found.code, found.retry_after_s) == (429, "RATE_LIMITED", 61)
    admitted(keeper.admit(shown(key), THERE, SPEAK))
    # Other addresses and other keys are counted by themselves.
    assert tries(keeper, guess_for(key), THERE._replace(address="203.0.113.8"), 1) == [401]
    assert tries(keeper, guess_for(other), THERE, 1) == [401]
    times.now_s += 60
    assert tries(keeper, guess_for(key), THERE, 1) == [401]


def test_guesses_at_unknown_keys_count_together_whatever_they_are(times: Times) -> None:
    key = made_key(KeyKind.CLIENT)
    keeper = doorkeeper_of(FakeBook(key), times)
    for number in range(20):
        text = made_key(KeyKind.CLIENT).text if number % 2 else f"token.{number}.x"
        assert denied(keeper.admit(shown(text), THERE, SPEAK)).status == 401
    assert tries(keeper, made_key(KeyKind.SERVICE).text, THERE, 1) == [429]
    admitted(keeper.admit(shown(key), THERE, SPEAK))


def test_a_whole_ipv6_network_is_one_address(times: Times) -> None:
    keeper = doorkeeper_of(FakeBook(), times)
    for number in range(20):
        tries(keeper, "x", THERE._replace(address=f"2001:db8::{number:x}"), 1)
    assert tries(keeper, "x", THERE._replace(address="2001:db8::ffff"), 1) == [429]
    assert tries(keeper, "x", THERE._replace(address="2001:db8:1::1"), 1) == [401]


@pytest.mark.parametrize(("mode", "last"), [("auto", 401), ("off", 401), ("required", 429)])
def test_this_computer_is_limited_only_where_it_needs_a_credential(mode: str, last: int, times: Times) -> None:
    keeper = doorkeeper_of(FakeBook(), times, mode=mode)
    assert tries(keeper, "x", HERE)[-1] == last


def test_a_missing_credential_or_scope_is_no_failed_guess(times: Times) -> None:
    key = made_key(KeyKind.CLIENT)
    keeper = doorkeeper_of(FakeBook(key), times)
    for _ in range(100):
        denied(keeper.admit(None, THERE, SPEAK))
        assert denied(keeper.admit(shown(key), THERE, READ)).status == 403
    admitted(keeper.admit(shown(key), THERE, SPEAK))


def test_an_expired_token_is_no_failed_guess(times: Times) -> None:
    """Pages that are left open go on trying with theirs, and everybody else in the house has the same address."""

    class Expiring:
        def knows(self, _text: str) -> bool:
            return False

        def read(self, text: str, _now_ms: int) -> Principal | Denied:
            if text == "good":
                return Principal(kind=PrincipalKind.CLIENT, scopes=frozenset(SPEAK))
            return token_expired() if text == "late" else unauthenticated("wrong signature")

    keeper = doorkeeper_of(FakeBook(), times, Expiring())
    assert tries(keeper, "late", THERE, 100) == [401] * 100
    admitted(keeper.admit(shown("good"), THERE, SPEAK))
    assert tries(keeper, "forged", THERE) == [401] * 20 + [429]
    admitted(keeper.admit(shown("good"), THERE, SPEAK))


# Live connections


def test_a_live_connection_ends_when_its_key_is_revoked_forgotten_or_long_expired(times: Times) -> None:
    key = made_key(KeyKind.CLIENT, expires_ms=times.wall_ms() + 1_000)
    book = FakeBook(key)
    keeper = doorkeeper_of(book, times, expired_grace_ms=5_000)
    principal = admitted(keeper.admit(shown(key), THERE, SPEAK))
    times.now_s += 5.9
    assert keeper.objection(principal) is None
    times.now_s += 0.1
    assert (keeper.objection(principal) or LOCAL) == Denied(
        401, "TOKEN_EXPIRED", "the token has expired; send a newer one", reason="token expired"
    )
    book.change(key, revoked_ms=1)
    assert getattr(keeper.objection(principal), "code", "") == "UNAUTHENTICATED"
    book.credentials.clear()
    assert getattr(keeper.objection(principal), "reason", "") == "unknown key"


def test_an_expiry_that_was_moved_earlier_counts_for_live_connections(times: Times) -> None:
    key = made_key(KeyKind.CLIENT)
    book = FakeBook(key)
    keeper = doorkeeper_of(book, times, expired_grace_ms=0)
    principal = admitted(keeper.admit(shown(key), THERE, SPEAK))
    assert keeper.due_ms(principal) == 0
    book.change(key, expires_ms=times.wall_ms())
    assert getattr(keeper.objection(principal), "code", "") == "TOKEN_EXPIRED"


def test_nothing_ends_for_whoever_needs_no_credential() -> None:
    keeper = doorkeeper_of(FakeBook())
    assert keeper.objection(LOCAL) is None
    assert keeper.due_ms(LOCAL) == 0


# The start


class OneToken:
    """Reads one text, as a token of this principal."""

    def __init__(self, **about: Any) -> None:
        told: dict[str, Any] = {
            "kind": PrincipalKind.CLIENT,
            "scopes": frozenset({Scope.SESSION_OPEN}),
            "tenant": "acme",
        }
        self.principal = Principal(**told | {"subject": "u", "expires_ms": 2**50} | about)

    def knows(self, _text: str) -> bool:
        return False

    def read(self, text: str, now_ms: int) -> Principal | Denied:
        return self.principal if text == "newer" else unauthenticated("not a token")


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        ({}, ""),
        ({"key_id": "another"}, ""),
        ({"subject": "v"}, "a newer token of another user"),
        ({"tenant": "beta"}, "a newer token of another user"),
        ({"subject": "", "key_id": "u"}, "a newer token of another user"),
        ({"scopes": frozenset({Scope.DISPATCH_CALL})}, "scope"),
    ],
    ids=["same", "signed by another", "other user", "other tenant", "no user", "no session"],
)
def test_a_newer_token_must_be_of_the_same_user_and_may_do_the_same(about: dict[str, Any], reason: str) -> None:
    tokens, before = OneToken(**about), OneToken().principal
    keeper = doorkeeper_of(FakeBook(), tokens=tokens)
    found = keeper.renew(before, "newer", THERE, (Scope.SESSION_OPEN,))
    if reason:
        assert denied(found).reason == reason
    else:
        assert found is tokens.principal


def test_neither_a_key_nor_nonsense_is_a_newer_token() -> None:
    key = made_key(KeyKind.CLIENT)
    keeper = doorkeeper_of(FakeBook(key), tokens=OneToken())
    by_key = admitted(keeper.admit(shown(key), THERE, (Scope.SESSION_OPEN,)))
    assert (
        denied(keeper.renew(by_key, key.text, THERE, (Scope.SESSION_OPEN,))).reason == "a key in place of a newer token"
    )
    assert denied(keeper.renew(by_key, "nonsense", THERE, (Scope.SESSION_OPEN,))).status == 401
    # Without a credential there is none to renew.
    assert denied(keeper.renew(LOCAL, "newer", HERE, (Scope.SESSION_OPEN,))).status == 401


def test_every_refusal_is_told_with_what_may_be_shown_of_the_key() -> None:
    key, wrong = made_key(KeyKind.CLIENT), made_key(KeyKind.CLIENT)
    keeper = doorkeeper_of(FakeBook(key), mode="required")
    told: list[tuple[str, str]] = []
    keeper.on_denied = lambda address, key_id: told.append((address, key_id))
    here = Visit("203.0.113.7", None, is_local=False)
    for given in (None, Shown(wrong.text, Via.HEADER), Shown(key.text, Via.HEADER)):
        keeper.admit(given, here, (Scope.SESSION_OPEN,))
    assert told == [("203.0.113.7", ""), ("203.0.113.7", f"lk_cl_{wrong.credential.id}")]


class ReadsAs:
    """Reads every certificate as one principal, or refuses it."""

    def __init__(self, found: Principal | Denied) -> None:
        self.found = found

    def read(self, certificate: PeerCertificate, visit: Visit, now_ms: int) -> Principal | Denied:
        return self.found


def test_a_certificate_is_the_credential_and_what_is_beside_it_must_be_of_the_same_node() -> None:
    own, other, unbound = (made_key(KeyKind.NODE, node_id=name) for name in ("gpu-7", "gpu-8", ""))
    foreign = made_key(KeyKind.NODE, node_id="gpu-7", tenant="acme")
    book = FakeBook(own, other, unbound, foreign)
    door = doorkeeper_of(book, mode="auto")
    node = holder_of(own.credential)
    door.certificates = ReadsAs(node)
    needs: Needs = (Scope.NODE_REGISTER,)
    # Also where none would be needed, and whatever cookie a browser adds.
    for visit in (HERE, THERE):
        certified = visit._replace(certificate=PeerCertificate(("spiffe://lingua/default/node/gpu-7",)))
        assert door.admit(None, certified, needs) == node
        assert door.admit(shown("a login", Via.COOKIE), certified, needs) == node
        assert door.admit(shown(own), certified, needs) == node
        for key in (other, unbound, foreign):
            assert denied(door.admit(shown(key), certified, needs)).status == 400
        assert denied(door.admit(shown("rubbish"), certified, needs)).status == 401
        assert denied(door.admit(None, certified, READ)).status == 403
        door.certificates = ReadsAs(unauthenticated("banned"))
        assert denied(door.admit(None, certified, needs)).reason == "banned"
        assert denied(door.admit(shown(own), certified, needs)).reason == "banned"
        assert door.admit(None, certified, OPEN) in (LOCAL, ANONYMOUS)
        door.certificates = ReadsAs(node)
    assert own.credential.id in book.uses
    door.certificates = None
    assert denied(door.admit(None, certified, needs)).status == 401
