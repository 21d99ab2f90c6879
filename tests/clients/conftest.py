"""The JavaScript client, built once for all tests of a worker."""

from pathlib import Path

import pytest

from tests.support.js_client import build


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("client"))
