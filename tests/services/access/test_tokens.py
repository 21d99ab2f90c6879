"""Tokens: those of known issuers are read, and everything that an attacker can make of them is refused."""

import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.access.credentials import subject_name, tenant_name, token_name
from lingua_scheduler.domain.access.issuers import Issuer
from lingua_scheduler.domain.access.principals import Denied, Principal, PrincipalKind
from lingua_scheduler.domain.access.scopes import Scope
from lingua_scheduler.services.access import tokens
from lingua_scheduler.services.access.signing import signing_key_of
from lingua_scheduler.services.access.tokens import TokenReader, VerifyingKey, read_jwk, read_pem
from lingua_sdk.domain.key_texts import KeyKind, fresh_key
from tests.support.tokens import (
    ED25519,
    KEYS,
    NOW_MS,
    NOW_S,
    OTHER_ED25519,
    P256,
    RSA,
    Book,
    claims,
    encoded,
    issuer,
    pem,
    service,
    token,
)

DAY_MS = 86_400_000
REFUSED = (401, "UNAUTHENTICATED", "the credential is not accepted")
EXPIRED = (401, "TOKEN_EXPIRED")


class Published:
    """Issuers' keys, each under the issuer and the key id, and what was asked for."""

    def __init__(self, keys: dict[tuple[str, str], VerifyingKey] | None = None) -> None:
        self.keys = keys or {}
        self.asked: list[tuple[str, str]] = []

    def find(self, issuer: Issuer, key_id: str) -> VerifyingKey | None:
        self.asked.append((issuer.id, key_id))
        return self.keys.get((issuer.id, key_id))


def reader(*known: Any, published: Published | None = None) -> TokenReader:
    return reader_of(Book(*(known or (issuer(),))), published)


def reader_of(book: Book, published: Published | None = None) -> TokenReader:
    return TokenReader(book, "lingua", DAY_MS, published_keys=published)


def let_in(found: Principal | Denied) -> Principal:
    assert isinstance(found, Principal), found
    return found


def refusal(found: Principal | Denied) -> str:
    """The reason for the log; the caller is told the same each time."""
    assert isinstance(found, Denied), found
    assert found[:3] == REFUSED
    assert found.reason
    return found.reason


def test_a_token_says_who_its_bearer_is() -> None:
    said = claims(lingua={"tenant": "acme", "grants": ["session"], "pairs": ["zh:en"], "max_sessions": 2})
    assert reader().read(token(said), NOW_MS) == Principal(
        kind=PrincipalKind.CLIENT,
        scopes=frozenset({Scope.SESSION_OPEN}),
        tenant="acme",
        key_id="app",
        subject="user-7",
        token_id="t-1",
        issued_ms=NOW_MS - 10_000,
        expires_ms=NOW_MS + 600_000,
        pairs=("zh:en",),
        max_sessions=2,
    )


@pytest.mark.parametrize("algorithm", ["EdDSA", "ES256", "RS256"])
def test_each_algorithm_counts_with_its_own_key(algorithm: str) -> None:
    found = reader(issuer(algorithm=algorithm))
    assert let_in(found.read(token(key=KEYS[algorithm], algorithm=algorithm), NOW_MS)).tenant == "acme"


@pytest.mark.parametrize("alg", ["none", "None", "NONE", ""])
def test_18_a_token_without_a_signature_is_refused(alg: str) -> None:
    bare = f"{encoded({'alg': alg, 'kid': 'app'})}.{encoded(claims())}."
    assert refusal(reader().read(bare, NOW_MS)) == "not a token"
    assert refusal(reader().read(bare + "AAAA", NOW_MS)) == "alg is not the key's own"


def test_19_a_public_key_is_no_secret_to_sign_with() -> None:
    signing = f"{encoded({'alg': 'HS256', 'typ': 'JWT', 'kid': 'app'})}.{encoded(claims())}"
    signature = hmac.digest(pem(RSA).encode(), signing.encode(), hashlib.sha256)
    forged = f"{signing}.{encoded(signature)}"
    assert refusal(reader(issuer(algorithm="RS256")).read(forged, NOW_MS)) == "alg is not the key's own"


@pytest.mark.parametrize(
    ("own", "named"),
    [("EdDSA", "RS256"), ("RS256", "EdDSA"), ("ES256", "EdDSA"), ("RS256", "PS256"), ("RS256", "RS512")],
)
def test_20_an_algorithm_that_is_not_the_keys_own_is_refused(own: str, named: str) -> None:
    key = KEYS.get(named, RSA)
    found = reader(issuer(algorithm=own)).read(token(key=key, algorithm=named), NOW_MS)
    assert refusal(found) == "alg is not the key's own"


def test_20_a_service_key_counts_for_hs256_alone() -> None:
    key = fresh_key(KeyKind.SERVICE)
    secret = bytes.fromhex(signing_key_of(key.secret))
    known = reader(service(key))
    wide = b"x" * 64  # long enough for HS512
    for said in (claims(iss=None), claims(iss=key.id)):
        assert let_in(known.read(token(said, secret, "HS256", key.id), NOW_MS)).key_id == key.id
    assert refusal(known.read(token(claims(iss=None), wide, "HS512", key.id), NOW_MS)) == "alg is not the key's own"
    assert refusal(known.read(token(claims(iss=None), key.secret, "HS256", key.id), NOW_MS)) == "wrong signature"
    assert refusal(known.read(token(claims(), secret, "HS256", key.id), NOW_MS))


@pytest.mark.parametrize("kind", [kind for kind in KeyKind if kind is not KeyKind.SERVICE])
def test_only_a_service_signs_tokens_with_its_key(kind: KeyKind) -> None:
    key = fresh_key(kind)
    secret = bytes.fromhex(signing_key_of(key.secret))
    found = reader(service(key)).read(token(claims(iss=None), secret, "HS256", key.id), NOW_MS)
    assert refusal(found) == "no such kid of such an iss for this tenant"


@pytest.mark.parametrize("kid", ["other", "../../etc/passwd", "' OR 1=1 --", "app\x00", "APP", "", "a" * 5000, None, 7])
def test_21_an_unknown_key_id_is_refused(kid: Any) -> None:
    published = Published()
    named = f"{encoded({'alg': 'EdDSA', 'kid': kid})}.{encoded(claims())}.AAAA"
    assert refusal(reader(published=published).read(named, NOW_MS))
    assert published.asked == []


@pytest.mark.parametrize("name", ["exp", "iat", "aud", "lingua"])
def test_22_what_a_token_must_say_is_not_left_out(name: str) -> None:
    assert refusal(reader().read(token(claims(**{name: None})), NOW_MS)) == "a claim is missing, unknown or malformed"


def test_22_an_expired_token_is_told_so_after_the_leeway() -> None:
    text = token(claims(exp=NOW_S))
    for known in (reader(), reader()):
        assert let_in(known.read(text, NOW_MS + 30_000)).expires_ms == NOW_MS
        late = known.read(text, NOW_MS + 30_001)
        assert isinstance(late, Denied)
        assert late[:2] == EXPIRED
    cold = reader().read(text, NOW_MS + 30_001)
    assert isinstance(cold, Denied)
    assert cold[:2] == EXPIRED


@pytest.mark.parametrize("name", ["nbf", "iat"])
def test_22_a_token_from_the_future_is_refused(name: str) -> None:
    assert refusal(reader().read(token(claims(**{name: NOW_S + 31})), NOW_MS)) == "not valid yet"
    let_in(reader().read(token(claims(**{name: NOW_S + 30})), NOW_MS))


@pytest.mark.parametrize("value", ["1800000600", True, -1, 1e300, [NOW_S], {"a": 1}, 10**30])
@pytest.mark.parametrize("name", ["exp", "iat", "nbf"])
def test_22_a_time_is_a_number_of_seconds(name: str, value: Any) -> None:
    assert refusal(reader().read(raw(claims(**{name: value})), NOW_MS)) == "a claim is missing, unknown or malformed"


def raw(said: dict[str, Any], **headers: Any) -> str:
    """Signed as it is, where the library would object to what is said."""
    return jwt.PyJWS().encode(json.dumps(said).encode(), ED25519, "EdDSA", {"kid": "app", **headers})


def test_23_a_token_of_ten_years_is_refused() -> None:
    long = {"iat": NOW_S - 10, "exp": NOW_S - 10 + 10 * 365 * 86_400}
    assert refusal(reader().read(token(claims(**long)), NOW_MS)) == "its lifetime is too long or negative"
    day = {"iat": NOW_S, "exp": NOW_S + 86_400}
    let_in(reader().read(token(claims(**day)), NOW_MS))
    assert refusal(reader().read(token(claims(**{**day, "exp": NOW_S + 86_401})), NOW_MS))
    assert refusal(reader().read(token(claims(iat=NOW_S + 5, exp=NOW_S + 5)), NOW_MS))


@pytest.mark.parametrize("aud", ["other", "ling", "linguas", "Lingua", "", [], ["other"], ["lin", "gua"]])
def test_24_a_token_for_others_is_refused(aud: Any) -> None:
    assert refusal(reader().read(raw(claims(aud=aud)), NOW_MS)) == "for another audience"


def test_24_ours_may_be_one_of_several_audiences() -> None:
    let_in(reader().read(token(claims(aud=["other", "lingua"])), NOW_MS))


@pytest.mark.parametrize(
    "iss", ["https://app.exampl", "https://app.example/", "https://app.example.evil", "HTTPS://APP.EXAMPLE", "", None]
)
def test_25_an_issuer_is_compared_whole(iss: str | None) -> None:
    found = reader().read(token(claims(iss=iss)), NOW_MS)
    assert refusal(found) == "no such kid of such an iss for this tenant"


@pytest.mark.parametrize("crit", [["exp"], ["lingua"], [], ["b64"], "b64", None])
def test_26_what_is_critical_and_not_understood_is_refused(crit: Any) -> None:
    header = encoded({"alg": "EdDSA", "kid": "app", "crit": crit})
    signing = f"{header}.{encoded(claims())}"
    signature = encoded(ED25519.sign(signing.encode()))
    assert refusal(reader().read(f"{signing}.{signature}", NOW_MS)) == "crit in the header"


def test_27_keys_that_a_token_brings_along_are_ignored() -> None:
    brought: dict[str, Any] = {
        "jku": "https://evil.example/jwks.json",
        "x5u": "https://evil.example/cert.pem",
        "jwk": json.loads(jwt.algorithms.OKPAlgorithm.to_jwk(OTHER_ED25519.public_key())),
    }
    published = Published()
    known = reader(published=published)
    let_in(known.read(token(**brought), NOW_MS))
    assert refusal(known.read(token(key=OTHER_ED25519, **brought), NOW_MS)) == "wrong signature"
    assert published.asked == []


@pytest.mark.parametrize("tenant", ["beta", "default", "*", "ACME", "", "acme/x", None])
def test_28_a_token_of_another_tenant_is_refused(tenant: Any) -> None:
    assert refusal(reader().read(token(claims(lingua={"tenant": tenant})), NOW_MS))


def test_28_an_issuer_may_speak_for_several_tenants_and_a_service_too() -> None:
    key = fresh_key(KeyKind.SERVICE)
    secret = bytes.fromhex(signing_key_of(key.secret))
    known = reader(issuer(act_for=("beta",)), service(key, act_for=("beta",)))
    for tenant, is_allowed in (("acme", True), ("beta", True), ("gamma", False)):
        said = claims(lingua={"tenant": tenant})
        for text in (token(said), token({**said, "iss": key.id}, secret, "HS256", key.id)):
            assert isinstance(known.read(text, NOW_MS), Principal) is is_allowed
    everybody = reader(issuer(act_for=("*",)))
    assert let_in(everybody.read(token(claims(lingua={"tenant": "gamma"})), NOW_MS)).tenant == "gamma"


@pytest.mark.parametrize(
    "beside",
    [
        {"room": {"code": "483920", "until": 1}},
        {"room": {"code": "048392"}},
        {"room": {"code": "483920", "role": "host"}},
        {"rooms": ["483920"]},
        {"grants": ["admin"]},
        {"grants": ["session", "fleet:operate"]},
        {"grants": "session"},
        {"pairs": ["zh-en"]},
        {"max_sessions": -1},
        {"max_sessions": "1"},
        {"Tenant": "acme"},
        {"act_for": ["*"]},
    ],
)
def test_29_what_a_grant_says_is_understood_or_the_token_refused(beside: dict[str, Any]) -> None:
    found = reader().read(token(claims(lingua={"tenant": "acme", **beside})), NOW_MS)
    assert refusal(found) == "a claim is missing, unknown or malformed"


@pytest.mark.parametrize("lingua", [None, [], "acme", 1, {}])
def test_29_without_grants_there_is_no_token(lingua: Any) -> None:
    assert refusal(reader().read(raw({**claims(), "lingua": lingua}), NOW_MS))


RUBBISH = {
    "5 KiB": token(claims(more="x" * 5000)),
    "dots": "." * 10_000,
    "fewer dots": "." * 4000,
    "base64": "ab!c.d=ef.gh",
    "one character": f"a.{encoded(claims())}.AAAA",
    "NUL": token()[:40] + "\x00" + token()[41:],
    "surrogates": "\ud800.\udfff.a",
    "line": token() + "\n",
    "padded": token() + "==",
    "empty": "",
    "two parts": token().rpartition(".")[0],
    "four parts": token() + ".AAAA",
    "deep": f"{encoded(b'[' * 1500)}.{encoded(b'[' * 1000)}.AAAA",
    "digits of elsewhere": "١٢٣.١٢٣.١٢٣",
}


@pytest.mark.parametrize("text", RUBBISH.values(), ids=RUBBISH.keys())
def test_30_rubbish_is_refused_before_any_cryptography(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "is_signed", None)
    assert refusal(reader().read(text, NOW_MS))


def test_30_a_signature_is_written_in_one_way() -> None:
    """Unused bits of its last character make another text of the same token, under which it could come twice."""
    text = token()
    last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    beside = text[:-1] + last[last.index(text[-1]) + 1]
    assert refusal(reader().read(beside, NOW_MS)) == "wrong signature"


def published_issuer(name: str, tenant: str) -> Issuer:
    url = f"https://{name}.example/jwks.json"
    return Issuer(id=name, tenant=tenant, issuer=f"https://{name}.example", jwks_url=url)


def test_31_a_key_counts_for_its_own_issuer_alone() -> None:
    keys = {("a", "k"): VerifyingKey("EdDSA", ED25519.public_key())}
    known = reader(published_issuer("a", "acme"), published_issuer("b", "beta"), published=Published(keys))
    assert let_in(known.read(token(claims(iss="https://a.example"), kid="k"), NOW_MS)).key_id == "a"
    for tenant in ("acme", "beta"):
        said = claims(iss="https://b.example", lingua={"tenant": tenant})
        assert refusal(known.read(token(said, kid="k"), NOW_MS))


def test_31_two_tenants_may_trust_the_same_issuer_and_each_speaks_for_itself() -> None:
    one, other = (
        Issuer(id=tenant, tenant=tenant, issuer="https://idp.example", jwks_url=f"https://idp.example/{tenant}")
        for tenant in ("acme", "beta")
    )
    keys = {("acme", "k"): VerifyingKey("EdDSA", ED25519.public_key())}
    published = Published(keys)
    known = reader(one, other, published=published)
    said = claims(iss="https://idp.example")
    assert let_in(known.read(token(said, kid="k"), NOW_MS)).key_id == "acme"
    assert refusal(known.read(token({**said, "lingua": {"tenant": "beta"}}, kid="k"), NOW_MS))
    assert ("beta", "k") in published.asked


def test_a_public_key_does_not_count_under_the_name_of_a_published_one() -> None:
    """A tenant that registers an issuer with the key id of another's JWKS neither gets in nor keeps it out."""
    keys = {("a", "k"): VerifyingKey("EdDSA", ED25519.public_key())}
    squatter = issuer("k", tenant="beta", issuer="https://b.example", public_key=pem(OTHER_ED25519))
    known = reader(squatter, published_issuer("a", "acme"), published=Published(keys))
    assert let_in(known.read(token(claims(iss="https://a.example"), kid="k"), NOW_MS)).key_id == "a"
    assert refusal(known.read(token(claims(iss="https://a.example"), OTHER_ED25519, kid="k"), NOW_MS))


def test_nobody_else_is_the_issuer_of_our_own_tokens() -> None:
    assert refusal(reader(issuer(issuer="lingua")).read(token(claims(iss="lingua")), NOW_MS))


@pytest.mark.parametrize("sub", ["", "u" * 129, 7, ["u"]])
def test_a_subject_is_a_short_text(sub: Any) -> None:
    assert refusal(reader().read(raw({**claims(), "sub": sub}), NOW_MS))


def test_a_subject_is_opaque_and_may_be_missing() -> None:
    for sub in ("u" * 128, "../x", "名前", "a/b"):
        assert let_in(reader().read(token(claims(sub=sub)), NOW_MS)).subject == sub
    assert let_in(reader().read(token(claims(sub=None)), NOW_MS)).owner == "acme:app"


def test_half_a_character_is_no_text() -> None:
    """It could be neither logged nor written to Redis."""
    assert refusal(reader().read(raw(claims(sub="\ud800")), NOW_MS))


def test_a_service_grants_no_more_than_it_has() -> None:
    key = fresh_key(KeyKind.SERVICE)
    secret = bytes.fromhex(signing_key_of(key.secret))
    known = reader(service(key, pairs=("zh:*",)))

    def read(**grants: Any) -> Principal | Denied:
        said = claims(iss=None, lingua={"tenant": "acme", **grants})
        return known.read(token(said, secret, "HS256", key.id), NOW_MS)

    assert let_in(read(pairs=["zh:en"])).pairs == ("zh:en",)
    assert let_in(read()).pairs == ("zh:*",)
    for pairs in (["*:en"], ["zh:en", "en:zh"], ["*:*"]):
        assert refusal(read(pairs=pairs)) == "grants more than its signatory has"


@pytest.mark.parametrize("is_known_before", [False, True])
@pytest.mark.parametrize(
    ("name", "before_ms", "counts"),
    [
        (tenant_name("acme"), NOW_MS - 9_999, False),
        (tenant_name("acme"), NOW_MS - 10_000, True),
        (tenant_name("beta"), NOW_MS, True),
        (subject_name("acme", "user-7"), NOW_MS - 9_999, False),
        (subject_name("acme", "user-7"), NOW_MS - 10_000, True),
        (subject_name("acme", "user-8"), NOW_MS, True),
        (subject_name("beta", "user-7"), NOW_MS, True),
        (token_name("app", "t-1"), 1, False),
        (token_name("app", "t-2"), NOW_MS, True),
        (token_name("other", "t-1"), NOW_MS, True),
    ],
)
def test_what_was_issued_before_a_revocation_is_void(
    name: str, before_ms: int, counts: bool, is_known_before: bool
) -> None:
    book = Book(issuer())
    known = reader_of(book)
    if is_known_before:
        let_in(known.read(token(), NOW_MS))
    book.voids[name] = before_ms
    assert isinstance(known.read(token(), NOW_MS), Principal) is counts


@pytest.mark.parametrize("changed", [{"revoked_ms": NOW_MS - 1}, {"expires_ms": NOW_MS}])
def test_a_verified_token_ends_with_its_issuer_or_service(changed: dict[str, int]) -> None:
    key = fresh_key(KeyKind.SERVICE)
    secret = bytes.fromhex(signing_key_of(key.secret))
    book = Book(issuer(), service(key))
    known = reader_of(book)
    for key_id, text in (("app", token()), (key.id, token(claims(iss=None), secret, "HS256", key.id))):
        let_in(known.read(text, NOW_MS))
        book.change(key_id, **changed)
        assert refusal(known.read(text, NOW_MS))


def test_an_issuer_that_was_revoked_is_asked_for_no_keys() -> None:
    published = Published()
    known = published_issuer("a", "acme")
    book = Book(known)
    book.change("a", revoked_ms=NOW_MS)
    refusal(reader_of(book, published).read(token(claims(iss="https://a.example"), kid="k"), NOW_MS))
    assert published.asked == []


def test_a_verified_token_ends_with_its_key() -> None:
    """An issuer that takes a key out of its JWKS has lost it."""
    published = Published({("a", "k"): VerifyingKey("EdDSA", ED25519.public_key())})
    known = reader(published_issuer("a", "acme"), published=published)
    text = token(claims(iss="https://a.example"), kid="k")
    let_in(known.read(text, NOW_MS))
    published.keys["a", "k"] = VerifyingKey("EdDSA", OTHER_ED25519.public_key())
    assert refusal(known.read(text, NOW_MS)) == "wrong signature"
    published.keys.clear()
    assert refusal(known.read(text, NOW_MS + 10_000)) == "no such kid of such an iss for this tenant"


def signatures_checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tokens whose signatures are checked from now on."""
    checked: list[str] = []
    is_signed = tokens.is_signed

    def check(text: str, key: VerifyingKey) -> bool:
        checked.append(text)
        return is_signed(text, key)

    monkeypatch.setattr(tokens, "is_signed", check)
    return checked


def test_a_token_is_verified_once_and_a_wrong_one_again_after_10_s(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = signatures_checked(monkeypatch)
    known, good, bad = reader(), token(), token(key=OTHER_ED25519)
    for _ in range(3):
        let_in(known.read(good, NOW_MS))
        refusal(known.read(bad, NOW_MS + 9_999))
    assert checked == [good, bad]
    refusal(known.read(bad, NOW_MS + 19_999))
    assert checked == [good, bad, bad]


def test_what_is_remembered_is_bounded_and_wrong_tokens_do_not_push_out_right_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tokens, "MAX_REMEMBERED", 3)
    checked = signatures_checked(monkeypatch)
    known = reader()
    right = [token(claims(jti=f"right-{number}")) for number in range(4)]
    for text in right[:3]:
        let_in(known.read(text, NOW_MS))
    for number in range(5):
        refusal(known.read(token(claims(jti=f"wrong-{number}"), OTHER_ED25519), NOW_MS))
    let_in(known.read(right[0], NOW_MS))
    let_in(known.read(right[3], NOW_MS))
    checked.clear()
    for text in (right[0], right[2], right[3]):
        let_in(known.read(text, NOW_MS))
    assert checked == []
    let_in(known.read(right[1], NOW_MS))
    assert checked == [right[1]]


def test_a_key_of_another_kind_or_size_is_none() -> None:
    weak, curve, other = generate_rsa(65537, 1024), generate_private_key(SECP384R1()), Ed448PrivateKey.generate()
    for key, algorithm in ((weak, "RS256"), (curve, "ES256"), (other, "EdDSA"), (P256, "RS256"), (RSA, "HS256")):
        assert read_pem(pem(key), algorithm) is None
    assert read_pem("no key", "EdDSA") is None
    slow = RSAPublicNumbers(2**33 + 1, RSA.public_key().public_numbers().n).public_key()
    text = slow.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    assert read_pem(text, "RS256") is None
    assert read_pem(pem(RSA), "RS256") == VerifyingKey("RS256", RSA.public_key())


def jwk(key: Any, **changed: Any) -> dict[str, Any]:
    algorithm = {id(ED25519): "EdDSA", id(P256): "ES256"}.get(id(key), "RS256")
    found = jwt.PyJWS().get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
    return {**found, "kid": "k", "use": "sig", **changed}


@pytest.mark.parametrize("key", [ED25519, P256, RSA])
def test_a_published_key_is_for_signatures_and_its_own_algorithm(key: Any) -> None:
    found = read_jwk(jwk(key))
    assert found is not None
    assert found.key == key.public_key()
    for changed in ({"use": "enc"}, {"use": None}, {"alg": "HS256"}, {"alg": "none"}, {"kty": "oct"}):
        assert read_jwk(jwk(key, **changed)) is None
    assert read_jwk({"kty": "oct", "k": "c2VjcmV0", "use": "sig"}) is None


def test_a_private_key_that_is_published_counts_no_more() -> None:
    private = jwt.algorithms.OKPAlgorithm.to_jwk(ED25519, as_dict=True)
    assert "d" in private
    assert read_jwk({**private, "kid": "k", "use": "sig"}) is None


@given(st.dictionaries(st.sampled_from(["kty", "crv", "x", "y", "n", "e", "alg", "k"]), st.text() | st.integers()))
def test_whatever_is_published_as_a_key_does_no_harm(rubbish: dict[str, Any]) -> None:
    for kind in ("OKP", "EC", "RSA"):
        assert read_jwk({**rubbish, "kty": kind, "use": "sig"}) is None


@given(st.text())
def test_no_text_does_harm(text: str) -> None:
    assert refusal(reader().read(text, NOW_MS))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(JSON, JSON, st.binary(max_size=64))
def test_no_header_and_no_claims_do_harm(header: Any, said: Any, signature: bytes) -> None:
    assert refusal(reader().read(f"{encoded(header)}.{encoded(said)}.{encoded(signature)}", NOW_MS))


@given(st.sampled_from(sorted(claims())), JSON)
def test_no_claim_does_harm_though_it_is_signed(name: str, value: Any) -> None:
    found = reader().read(raw({**claims(), name: value}), NOW_MS)
    assert isinstance(found, Principal | Denied)


@given(st.integers(0, 5000), st.characters(codec="ascii"))
def test_a_token_with_one_other_character_is_refused(place: int, character: str) -> None:
    text = token()
    place %= len(text)
    changed = text[:place] + character + text[place + 1 :]
    found = reader().read(changed, NOW_MS)
    assert isinstance(found, Principal) is (changed == text)
