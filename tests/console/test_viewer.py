"""The viewer of /docs/browse is the one that tools/viewer.py names, and browsers get it compressed."""

import gzip
import hashlib

import aiohttp
import pytest

from tests.support.peers import Field
from tools import viewer


@pytest.mark.parametrize("name", viewer.FILES)
def test_a_file_of_the_viewer_is_what_its_version_has(name: str) -> None:
    body = gzip.decompress((viewer.FOLDER / f"{name}.gz").read_bytes())
    assert hashlib.sha256(body).hexdigest() == viewer.FILES[name], "run python -m tools.viewer"


def test_its_licence_is_beside_it() -> None:
    told = (viewer.FOLDER / "LICENSE.txt").read_text("utf-8")
    assert viewer.PACKAGE.name in told.splitlines()[0]
    assert "Apache License" in told


@pytest.mark.parametrize(("accepted", "encoding"), [("gzip", "gzip"), ("identity", None)])
async def test_it_is_sent_as_it_is_kept_to_those_who_can_read_that(
    peers: Field, accepted: str, encoding: str | None
) -> None:
    async with (
        aiohttp.ClientSession(auto_decompress=False) as http,
        http.get(
            f"http://127.0.0.1:{peers.port}/docs/browse/swagger-ui.css", headers={"Accept-Encoding": accepted}
        ) as response,
    ):
        assert response.status == 200
        assert response.headers.get("Content-Encoding") == encoding
        assert response.headers["Content-Type"] == "text/css; charset=utf-8"
        assert response.headers["Vary"] == "Accept-Encoding"
        body = await response.read()
    kept = (viewer.FOLDER / "swagger-ui.css.gz").read_bytes()
    assert body == (kept if encoding else gzip.decompress(kept))


async def test_it_may_run_no_script_but_its_own_and_call_no_one_else(peers: Field) -> None:
    async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{peers.port}/docs/browse") as response:
        policy = response.headers["Content-Security-Policy"]
        text = await response.text()
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["default-src"] == "'none'"
    assert directives["script-src"] == directives["connect-src"] == "'self'"
    assert "<style" not in text
    assert text.count("<script") == text.count("<script src=") + text.count('<script type="module" src=')
