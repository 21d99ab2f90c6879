"""Static pages: a directory of `assets/`, served as it is, under a policy that allows no external resources."""

import gzip
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from aiohttp import web

_TYPES = {
    "css": "text/css",
    "html": "text/html",
    "js": "text/javascript",
    "json": "application/json",
    "svg": "image/svg+xml",
}
# What is large is kept as `name.gz`, and sent like that.
_PACKED = ".gz"
_INDEX = "index.html"
_HEADERS = {
    # Cached, but revalidated each time, so that after an upgrade no page mixes old and new files.
    "Cache-Control": "no-cache",
    # Nothing from elsewhere, nothing inline: what a peer says can be shown but never run.
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class _Asset(NamedTuple):
    body: bytes
    content_type: str
    etag: str
    is_packed: bool = False


def serve_folder(app: web.Application, path: str, folder: str, headers: Mapping[str, str] | None = None) -> None:
    """`path` is the folder's index.html, `path/{name}` any other of its files; `headers` add to the usual ones.

    Pages refer to what they need without a leading slash (`talk/style.css`), so that a proxy may add a prefix.
    """
    give = _giver(folder, headers or {})

    async def without_slash(_: web.Request) -> web.Response:
        raise web.HTTPPermanentRedirect(location=f"..{path}")

    app.router.add_get(path, give)
    app.router.add_get(f"{path}/", without_slash)
    app.router.add_get(f"{path}/{{name}}", give)


def serve_shared(app: web.Application) -> None:
    """The files that several pages load: `shared/{name}`."""
    app.router.add_get("/shared/{name}", _giver("shared", {}))


def _giver(folder: str, headers: Mapping[str, str]) -> Callable[[web.Request], Awaitable[web.Response]]:
    all_headers = {**_HEADERS, **headers}

    async def give(request: web.Request) -> web.Response:
        asset = _read(folder).get(request.match_info.get("name", _INDEX))
        if asset is None:
            raise web.HTTPNotFound
        if any(known.value in (asset.etag, "*") for known in request.if_none_match or ()):
            response = web.Response(status=304, headers=all_headers)
        else:
            response = _response(asset, request.headers.get("Accept-Encoding", ""), all_headers)
            response.content_type = asset.content_type
            response.charset = "utf-8"
        response.etag = asset.etag
        return response

    return give


def _response(asset: _Asset, accepted: str, headers: Mapping[str, str]) -> web.Response:
    if not asset.is_packed:
        return web.Response(body=asset.body, headers=headers)
    if "gzip" in accepted:
        return web.Response(body=asset.body, headers={**headers, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"})
    # No browser asks like that.
    return web.Response(body=gzip.decompress(asset.body), headers={**headers, "Vary": "Accept-Encoding"})


@cache
def _read(folder: str) -> Mapping[str, _Asset]:
    """Read with the first request and kept, once for all schedulers of a process: most are dozens of kilobytes."""
    found = {}
    for entry in files(__package__).joinpath("assets", folder).iterdir():
        name = entry.name.removesuffix(_PACKED)
        content_type = _TYPES.get(name.rpartition(".")[2])
        if content_type is not None:
            body = entry.read_bytes()
            found[name] = _Asset(body, content_type, hashlib.sha256(body).hexdigest()[:16], name != entry.name)
    return found
