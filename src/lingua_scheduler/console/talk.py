"""The pages on which people talk: /talk, two people and one browser, and /room, many people with one each.

They are clients like any other, at /ws/session.
"""

from aiohttp import web

from lingua_scheduler.console.assets import serve_folder

_HEADERS = {
    # Older Safaris do not count a socket to the same host as 'self'.
    "Content-Security-Policy": (
        "default-src 'self'; connect-src 'self' ws: wss:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
}


def add_talk(app: web.Application) -> None:
    serve_folder(app, "/talk", "talk", _HEADERS)
    serve_folder(app, "/room", "room", _HEADERS)
