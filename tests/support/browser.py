"""Chromium for tests, as people have it: headless, with a microphone that plays a file."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def require_browser() -> None:
    """Skip, with a reason, where a page cannot be looked at."""
    pytest.importorskip("playwright.async_api", reason="Playwright is not installed: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine: apt install chromium")


@asynccontextmanager
async def chromium(*flags: str) -> AsyncIterator["Browser"]:
    require_browser()
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", *flags])
        try:
            yield browser
        finally:
            await browser.close()


def microphone(wav: Path) -> tuple[str, ...]:
    """Flags: this file is what the microphone hears, from its beginning when it is opened, and nobody is asked."""
    return (
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-audio-capture={wav}",
    )


async def serious_violations(page: "Page") -> list[str]:
    """What axe-core finds that keeps somebody from using the page."""
    pytest.importorskip("axe_playwright_python", reason="axe is not installed: pip install axe-playwright-python")
    from axe_playwright_python.async_playwright import Axe

    found = (await Axe().run(page)).response["violations"]
    return [
        f"{one['id']}: {one['help']}: {[node['html'] for node in one['nodes']]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
