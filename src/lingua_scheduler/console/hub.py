"""Asks a model hub over HTTP."""

import aiohttp

from lingua_scheduler.services.catalogue import HubAway

_PIECE_BYTES = 65_536
_MAX_REDIRECTS = 3


async def fetch(url: str, max_bytes: int) -> bytes:
    """The body of a 200. The caller sets the time limit; more than `max_bytes` are not read."""
    try:
        async with (
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http,
            http.get(url, max_redirects=_MAX_REDIRECTS, headers={"Accept": "application/json"}) as response,
        ):
            if response.status != 200:
                raise HubAway(f"it answers with status {response.status}")
            body = bytearray()
            async for piece in response.content.iter_chunked(_PIECE_BYTES):
                body += piece
                if len(body) > max_bytes:
                    raise HubAway(f"its answer has more than {max_bytes} bytes")
            return bytes(body)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise HubAway(f"{type(error).__name__}: {error}") from error
