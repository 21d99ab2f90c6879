"""The password of Redis from a file: it gets into the address, and nowhere else."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from lingua_scheduler.cli.main import main
from lingua_scheduler.configuration.errors import SettingsError
from lingua_scheduler.configuration.loading import load
from lingua_scheduler.store.store import Store
from tests.support.servers import RedisProcess


def url_of(url: str, file: Path | str) -> str:
    environment = {"LINGUA_REDIS_URL": url, "LINGUA_REDIS_PASSWORD_FILE": str(file)}
    return load(config_path=None, environment=environment, flags={}).settings.redis.url


@pytest.mark.parametrize(
    ("url", "whole"),
    [
        ("redis://db:6379/0", "redis://:p%40ss%2Fw%3Ard@db:6379/0"),
        ("rediss://lingua@db", "rediss://lingua:p%40ss%2Fw%3Ard@db"),
        ("redis+cluster://lingua@a:1,b:2", "redis+cluster://lingua:p%40ss%2Fw%3Ard@a:1,b:2"),
        ("unix:///run/redis.sock?db=0", "unix://:p%40ss%2Fw%3Ard@/run/redis.sock?db=0"),
        # One that is there already stays, and no address means an embedded server.
        ("redis://lingua:own@db", "redis://lingua:own@db"),
        ("unix:///run/redis.sock?password=own", "unix:///run/redis.sock?password=own"),
        ("", ""),
    ],
)
def test_the_password_of_the_file_is_put_into_the_address(url: str, whole: str, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("p@ss/w:rd\n")
    assert url_of(url, file) == whole


def test_an_empty_file_holds_no_password(tmp_path: Path) -> None:
    (tmp_path / "password").touch()
    assert url_of("redis://db", tmp_path / "password") == "redis://db"


@pytest.mark.parametrize("body", [b"one\ntwo\n", b"\xff\xfe", b"x" * 5_000])
def test_a_file_that_holds_something_else_is_refused_without_showing_it(body: bytes, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(body)
    with pytest.raises(SettingsError) as refused:
        url_of("redis://db", file)
    assert str(refused.value) == (
        f"redis.password_file (environment LINGUA_REDIS_PASSWORD_FILE): {file} does not hold one password on one line"
    )


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere cannot be read: No such file or directory"):
        url_of("redis://db", tmp_path / "nowhere")


async def test_a_server_that_asks_for_the_password_accepts_it(server: RedisProcess, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("p@ss/w:rd\n")
    server.command("ACL", "SETUSER", "guarded", "on", ">p@ss/w:rd", "~*", "&*", "+@all")
    try:
        store = Store(
            url_of(server.url.replace("unix://", "unix://guarded@"), file), key_prefix="lingua:v1", allow_eviction=True
        )
        await store.open()
        await store.close()
    finally:
        server.command("ACL", "DELUSER", "guarded")


def test_the_password_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("geheim")
    words = ["serve", "--redis-url", "redis://lingua@db", "--set", f"redis.password_file={file}", "--print-config"]
    shown = CliRunner().invoke(main, words).output
    assert "redis://***@db" in shown
    assert "geheim" not in shown
