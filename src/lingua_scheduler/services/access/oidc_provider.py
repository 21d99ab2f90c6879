"""Talks to an identity provider: discovery, exchange of a code, check of the ID token. The protocol is Authlib's."""

import asyncio
import ssl
import warnings
from typing import Any

import httpx
from authlib.deprecate import AuthlibDeprecationWarning
from joserfc.errors import JoseError

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.access.oidc_flows import OidcFlow, OidcRefused, ProviderAway
from lingua_scheduler.domain.access.people import ProvenIdentity, groups_of
from lingua_scheduler.domain.guards.provider_urls import is_safe_url
from lingua_scheduler.setting_sections.access import OidcSettings

with warnings.catch_warnings():
    # It prefers a successor of httpx, which is not what the extra installs.
    warnings.simplefilter("ignore", AuthlibDeprecationWarning)
    from authlib.integrations.base_client import OAuthError
    from authlib.integrations.base_client.async_openid import AsyncOpenIDMixin
    from authlib.integrations.httpx_client import AsyncOAuth2Client

WELL_KNOWN = "/.well-known/openid-configuration"
TIMEOUT_S = 10.0
MAX_BYTES = 262_144
# How long the provider's description and keys count.
FRESH_S = 3600.0
# So long it is not asked again after a failure.
PAUSE_S = 3.0
LEEWAY_S = 30
# Signed by a key that the provider alone has. Never `none`, and never the client secret.
ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})
_DEFAULT_ALGORITHMS = ["RS256"]
_KEY_TYPES = ("RSA", "EC", "OKP")
_NAMES = ("preferred_username", "email", "name")
_MAX_NAME_CHARS = 128
_WRONG_ANSWERS = (httpx.HTTPError, httpx.InvalidURL, ValueError, TypeError, KeyError, AttributeError, RuntimeError)


class OidcProvider(AsyncOpenIDMixin):  # type: ignore[misc] # Authlib ships no types
    """Its addresses are the operator's choice and may be private. Redirects are not followed."""

    def __init__(self, settings: OidcSettings, client_secret: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self.client_id = settings.client_id
        self.server_metadata: dict[str, Any] = {}
        self._settings = settings
        self._client_secret = client_secret
        self._clock = clock
        self._tls = ssl.create_default_context()
        self._asking = asyncio.Lock()
        self._fresh_until = self._paused_until = 0.0

    async def authorization_url(self, flow: OidcFlow, redirect_uri: str) -> str:
        """Where a browser is sent. Raises ProviderAway."""
        described = await self._described()
        client = self._get_session(redirect_uri)
        url, _ = client.create_authorization_url(
            described["authorization_endpoint"], state=flow.state, code_verifier=flow.verifier, nonce=flow.nonce
        )
        return str(url)

    async def identity(self, code: str, flow: OidcFlow, redirect_uri: str) -> ProvenIdentity:
        """Who came back with this code. Raises ProviderAway and OidcRefused."""
        described = await self._described()
        try:
            async with asyncio.timeout(TIMEOUT_S), self._get_session(redirect_uri) as client:
                token = await client.fetch_token(
                    described["token_endpoint"],
                    grant_type="authorization_code",
                    code=code,
                    code_verifier=flow.verifier,
                )
                claims = await self.parse_id_token(token, flow.nonce, self._claims_options(), leeway=LEEWAY_S)
        except OAuthError as error:
            raise OidcRefused(f"the provider did not take the code: {_word(error.error)}") from None
        except JoseError as error:
            raise OidcRefused(f"the ID token is not valid: {_fault(error)}") from None
        except TimeoutError:
            raise ProviderAway("no answer in time") from None
        except _WRONG_ANSWERS as error:
            raise ProviderAway(f"no usable answer: {type(error).__name__}") from None
        return self._read(claims)

    async def load_server_metadata(self) -> dict[str, Any]:
        """As Authlib asks for it."""
        return self.server_metadata

    async def fetch_jwk_set(self, force: bool = False) -> dict[str, Any]:
        """Without keys of other purposes, which the library may not know."""
        found = await super().fetch_jwk_set(force)
        keys = [key for key in found["keys"] if key.get("kty") in _KEY_TYPES and key.get("use", "sig") == "sig"]
        return {"keys": keys}

    def _get_session(self, redirect_uri: str = "") -> Any:
        """One for each login: it remembers tokens."""
        methods = self.server_metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        is_posted = "client_secret_basic" not in methods and "client_secret_post" in methods
        return AsyncOAuth2Client(
            self.client_id,
            self._client_secret or None,
            token_endpoint_auth_method="client_secret_post" if is_posted and self._client_secret else None,
            scope=" ".join(self._settings.scopes),
            redirect_uri=redirect_uri,
            code_challenge_method="S256",
            transport=_BoundedTransport(self._tls),
            timeout=TIMEOUT_S,
            follow_redirects=False,
            trust_env=False,
        )

    async def _described(self) -> dict[str, Any]:
        """The provider's description of itself, kept for a while."""
        async with self._asking:
            now = self._clock()
            if now < self._fresh_until:
                return self.server_metadata
            if now < self._paused_until:
                raise ProviderAway("it did not answer a moment ago")
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    self.server_metadata = await self._discover()
            except (TimeoutError, *_WRONG_ANSWERS) as error:
                self._paused_until = self._clock() + PAUSE_S
                told = str(error) if isinstance(error, _BadDescription) else type(error).__name__
                raise ProviderAway(f"no description of the provider: {told}") from None
            self._fresh_until = self._clock() + FRESH_S
            return self.server_metadata

    async def _discover(self) -> dict[str, Any]:
        issuer = self._settings.issuer
        async with self._get_session() as client:
            answer = await client.request("GET", issuer.rstrip("/") + WELL_KNOWN, withhold_token=True)
        answer.raise_for_status()
        found = answer.json()
        if found["issuer"] != issuer:
            raise _BadDescription("its issuer is not the one of auth.oidc.issuer, letter by letter")
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            # A provider may have a query in an endpoint; all else is as for the issuer itself.
            if not is_safe_url(str(found[name]).partition("?")[0]):
                raise _BadDescription(f"its {name} is not encrypted")
        offered = found.get("id_token_signing_alg_values_supported") or _DEFAULT_ALGORITHMS
        kept = sorted(ALGORITHMS & set(offered))
        if not kept:
            raise _BadDescription("it signs ID tokens with no algorithm that is accepted here")
        # What else a description holds is not needed; keys in it would count as fetched ones.
        names = ("authorization_endpoint", "token_endpoint", "jwks_uri", "token_endpoint_auth_methods_supported")
        described = {name: found[name] for name in names if name in found}
        return described | {"issuer": issuer, "id_token_signing_alg_values_supported": kept}

    def _claims_options(self) -> dict[str, Any]:
        """Authlib itself would take a token for others that names us as the authorized party."""
        return {
            "iss": {"essential": True, "value": self._settings.issuer},
            "aud": {"essential": True, "value": self.client_id},
        }

    def _read(self, claims: dict[str, Any] | None) -> ProvenIdentity:
        if claims is None:
            raise OidcRefused("the provider sent no ID token")
        subject = claims.get("sub")
        if not isinstance(subject, str) or not subject:
            raise OidcRefused("the ID token has no subject")
        names = (claims.get(name) for name in _NAMES)
        name = next((name for name in names if isinstance(name, str) and name), "")
        return ProvenIdentity(subject, groups_of(claims.get(self._settings.groups_claim)), name[:_MAX_NAME_CHARS])


class _BadDescription(ValueError):
    """Its words are ours."""


class _BoundedTransport(httpx.AsyncBaseTransport):
    """Reads no more than a provider has to say, and nothing compressed, which could be far larger than it looks."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._inner = httpx.AsyncHTTPTransport(verify=tls, trust_env=False)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["Accept-Encoding"] = "identity"
        answer = await self._inner.handle_async_request(request)
        body = bytearray()
        try:
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                raise httpx.DecodingError("compressed", request=request)
            async for piece in answer.aiter_raw():
                body += piece
                if len(body) > MAX_BYTES:
                    raise httpx.ReadError("too large", request=request)
        finally:
            await answer.aclose()
        return httpx.Response(answer.status_code, headers=answer.headers, content=bytes(body), request=request)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _fault(error: JoseError) -> str:
    """Which check failed. Its description may quote the token."""
    claim = getattr(error, "claim", "")
    return f"{type(error).__name__} {claim}".strip() if isinstance(claim, str) else type(error).__name__


def _word(code: object) -> str:
    """An error code of OAuth, as far as it looks like one."""
    text = str(code)[:64]
    return text if text.replace("_", "").isalnum() and text.isascii() else "unknown error"
