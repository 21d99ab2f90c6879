"""Login of operators through an identity provider (OpenID Connect): its start, and its end when they come back."""

import hmac
import os
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from lingua_scheduler.domain.access.logins import MAX_SECRET_CHARS
from lingua_scheduler.domain.access.oidc_flows import OidcFlow, OidcRefused, flow_of
from lingua_scheduler.domain.access.people import ProvenIdentity
from lingua_scheduler.domain.guards.private_files import is_exposed
from lingua_scheduler.services.access.logins import Logins
from lingua_scheduler.setting_sections.access import OidcSettings

INSTALL = 'pip install "lingua-scheduler[oidc]"'
MAX_CODE_CHARS = 4_096
MAX_SECRET_BYTES = 4_096


class OidcUnusable(Exception):
    """It is configured and cannot work. The message tells the operator what to do."""


class Returned(NamedTuple):
    """What the provider has sent back through the browser."""

    state: str
    code: str
    error: str
    issuer: str

    def __repr__(self) -> str:
        """Without what it holds: a traceback may show it."""
        return "Returned()"


class Provider(Protocol):
    async def authorization_url(self, flow: OidcFlow, redirect_uri: str) -> str: ...

    async def identity(self, code: str, flow: OidcFlow, redirect_uri: str) -> ProvenIdentity: ...


class OidcLogins:
    def __init__(self, provider: Provider, logins: Logins, settings: OidcSettings) -> None:
        self._provider = provider
        self._logins = logins
        self._issuer = settings.issuer
        self.callback_url = settings.callback_url
        # For people to read.
        self.name = urlsplit(settings.issuer).hostname or settings.issuer

    async def begin(self, redirect_uri: str) -> tuple[str, str]:
        """Where to send the browser, and the secret that it must keep. Raises ProviderAway and RedisAway."""
        secret = await self._logins.begin_flow()
        return await self._provider.authorization_url(flow_of(secret), redirect_uri), secret

    async def finish(self, secret: str, returned: Returned, redirect_uri: str) -> ProvenIdentity:
        """Who came back. Each start ends once, whatever the outcome. Raises OidcRefused, ProviderAway, RedisAway."""
        if not secret or len(secret) > MAX_SECRET_CHARS:
            raise OidcRefused("this browser has not begun a login")
        flow = flow_of(secret)
        if not hmac.compare_digest(flow.state.encode(), returned.state.encode(errors="replace")):
            raise OidcRefused("the state is not the one of this browser")
        if not await self._logins.take_flow(secret):
            raise OidcRefused("the login has ended already, or began too long ago")
        if returned.issuer and returned.issuer != self._issuer:
            raise OidcRefused("another provider answers")
        if returned.error:
            raise OidcRefused("the provider has refused the login")
        if not 0 < len(returned.code) <= MAX_CODE_CHARS:
            raise OidcRefused("there is no code")
        return await self._provider.identity(returned.code, flow, redirect_uri)


def provider_of(settings: OidcSettings) -> Provider | None:
    """None if it is not configured. Raises OidcUnusable."""
    if not settings.issuer:
        return None
    secret = _secret(Path(settings.client_secret_file).expanduser()) if settings.client_secret_file else ""
    try:
        # At the first use: it needs an extra.
        from lingua_scheduler.services.access.oidc_provider import OidcProvider
    except ImportError as error:
        package = (error.name or "authlib").partition(".")[0]
        raise OidcUnusable(f"auth.oidc.issuer is set and {package} is not installed: {INSTALL}") from None
    return OidcProvider(settings, secret)


def _secret(path: Path) -> str:
    try:
        with path.open("rb") as file:
            about, body = os.fstat(file.fileno()), file.read(MAX_SECRET_BYTES + 1)
        text = body.decode("utf-8").strip()
    except OSError as error:
        raise OidcUnusable(f"auth.oidc.client_secret_file: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        text = ""
    if is_exposed(about.st_mode, about.st_uid, os.geteuid()):
        raise OidcUnusable(f"auth.oidc.client_secret_file: other users can read {path}; chmod 600 {path}")
    if not text or len(body) > MAX_SECRET_BYTES or not text.isprintable():
        raise OidcUnusable(f"auth.oidc.client_secret_file: {path} does not hold one secret")
    return text
