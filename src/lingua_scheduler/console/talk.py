"""The talk page: two people, two languages, one browser. It is a client like any other, at /ws/session."""

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
