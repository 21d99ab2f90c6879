"""HTTP: the dashboard, a page for the person on call; made of files, it reads what every other caller may read."""

from aiohttp import web

from lingua_scheduler.console.assets import serve_folder


def add_dashboard(app: web.Application) -> None:
    serve_folder(app, "/dashboard", "dashboard")
