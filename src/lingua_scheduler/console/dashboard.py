"""HTTP: the dashboard for people on call: static files that use the public API."""

from aiohttp import web

from lingua_scheduler.console.assets import serve_folder


def add_dashboard(app: web.Application) -> None:
    serve_folder(app, "/dashboard", "dashboard")
