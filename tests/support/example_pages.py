"""The pages of examples/pages as their README has them served, with the client in node_modules."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlencode

from aiohttp import web

from tests.support.js_client import PACKAGE, ROOT

PAGES = ROOT / "examples" / "pages"
CLIENT = Path("node_modules/@lingua-scheduler/client")


def with_client(folder: Path, built: Path) -> Path:
    """As `npm install` leaves the folder of an example."""
    shutil.copytree(built, folder / CLIENT / "dist")
    shutil.copy(PACKAGE / "package.json", folder / CLIENT)
    return folder


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[str]:
    """The address of the folder, as `python -m http.server` serves it."""
    app = web.Application()
    app.router.add_static("/", folder)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def address_of(origin: str, page: str, port: int, **options: str) -> str:
    """With a scheduler at this port, and options as the page reads them."""
    return f"{origin}/{page}#{urlencode({'scheduler': f'ws://127.0.0.1:{port}'} | options)}"
