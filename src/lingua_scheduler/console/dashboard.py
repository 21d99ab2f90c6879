"""HTTP: the dashboard, a page for the person on call; made of files, it reads what every other caller may read."""

import hashlib
from importlib.resources import files
from typing import NamedTuple

from aiohttp import web

_KINDS = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "json": "application/json",
    "svg": "image/svg+xml",
}
_HEADERS = {
    # Nothing from elsewhere, nothing inline: what a peer says can be shown but never run.
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # Kept, but asked about each time: after an upgrade nobody runs half of each.
    "Cache-Control": "no-cache",
}


class Asset(NamedTuple):
    body: bytes
    kind: str
    etag: str


def add_dashboard(app: web.Application) -> None:
    assets = _read()

    async def page(request: web.Request) -> web.Response:
        return _answer(request, assets["index.html"])

    async def asset(request: web.Request) -> web.Response:
        found = assets.get(request.match_info["name"])
        if found is None:
            raise web.HTTPNotFound
        return _answer(request, found)

    async def without_slash(_: web.Request) -> web.Response:
        # Addresses inside the page are relative, so that it also works below a prefix of a proxy.
        raise web.HTTPPermanentRedirect("../dashboard")

    app.router.add_get("/dashboard", page)
    app.router.add_get("/dashboard/", without_slash)
    app.router.add_get("/dashboard/{name}", asset)


def _read() -> dict[str, Asset]:
    folder = files(__package__).joinpath("assets/dashboard")
    bodies = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    return {
        name: Asset(body, _KINDS[name.rpartition(".")[2]], hashlib.sha256(body).hexdigest()[:16])
        for name, body in bodies.items()
    }


def _answer(request: web.Request, asset: Asset) -> web.Response:
    known = request.if_none_match or ()
    is_known = any(tag.value in (asset.etag, "*") for tag in known)
    response = web.Response(status=304) if is_known else web.Response(body=asset.body)
    response.headers.update(_HEADERS)
    response.etag = asset.etag
    if not is_known:
        response.content_type = asset.kind
        response.charset = "utf-8"
    return response
