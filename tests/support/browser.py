"""A real browser for tests of pages: the machine's own Chromium, headless; tests skip where there is none."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, async_playwright

from tests.support.waiting import PATIENCE_S

DESKTOP = (1440, 900)
PHONE = (360, 740)


def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("there is no Chromium on this machine")
    return found


@asynccontextmanager
async def browser(*flags: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", *flags])
        try:
            yield launched
        finally:
            await launched.close()


def microphone(wav: Path) -> tuple[str, ...]:
    """Flags: this file is what the microphone hears, once, from when it is opened, and nobody is asked."""
    return (
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-audio-capture={wav}%noloop",
    )


@asynccontextmanager
async def page_of(
    opened: Browser, size: tuple[int, int] = DESKTOP, *, theme: str = "light", language: str = "en-GB"
) -> AsyncIterator[Page]:
    """A page of a person who never was here. What goes wrong in it fails the test."""
    context = await opened.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if theme == "dark" else "light",
        locale=language,
    )
    context.set_default_timeout(PATIENCE_S * 1000)
    wrong: list[str] = []
    page = await context.new_page()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
    try:
        yield page
        assert not wrong, wrong
    finally:
        await context.close()


def axe() -> str:
    """The accessibility checker, as a script."""
    module = pytest.importorskip("axe_core_python", reason="axe-core comes with the dev extra")
    return (Path(module.__file__).parent / "axe.min.js").read_text("utf-8")


async def serious_violations(page: Page) -> list[str]:
    """What keeps somebody from using the page."""
    # Not as a script element: the page's policy lets none in.
    await page.evaluate(axe())
    found = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {one['help']}: {[node['html'] for node in one['nodes']]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]
