"""One browser for all tests here: it takes longer to start than most of them."""

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser

from tests.support.browser import browser


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def opened() -> AsyncIterator[Browser]:
    async with browser() as found:
        yield found
