"""Two instances behind the proxies of deploy/, with the very files people are told to use."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from lingua_scheduler.processes import die_with_parent, stop
from lingua_scheduler.settings import ServerSettings
from lingua_scheduler.store.servers.local_cluster import free_port
from tests.support.peers import Field, field
from tests.support.schedulers import ServeProcess, serve_process
from tests.support.servers import RedisProcess
from tests.support.waiting import until

DEPLOY = Path(__file__).parents[2] / "deploy"
SAMPLES = {"haproxy": "haproxy.cfg", "nginx": "nginx.conf"}
MOST = 30
# Everybody is on loopback here, where nobody is counted otherwise.
TRUSTING = (
    *("--set", "server.trusted_proxies=127.0.0.1", "--set", "server.unmetered_addresses="),
    *("--set", f"server.max_sockets_per_address={MOST}"),
)
Command = Callable[[str, Path, Path], list[str]]
COMMANDS: dict[str, Command] = {
    "haproxy": lambda program, config, _: [program, "-f", str(config)],
    "nginx": lambda program, config, folder: [
        *(program, "-c", str(config), "-p", str(folder), "-e", str(folder / "error.log")),
        *("-g", f"daemon off; pid {folder / 'nginx.pid'}; user root;" if is_root() else "daemon off;"),
    ],
}


def is_root() -> bool:
    return Path("/proc/self").stat().st_uid == 0


def sample(name: str, port: int, instances: list[int], folder: Path) -> Path:
    """The sample as it is, with the addresses of this test."""
    text = (DEPLOY / SAMPLES[name]).read_text()
    for number, instance in enumerate(instances, start=1):
        assert f"10.0.0.{number}:5010" in text
        text = text.replace(f"10.0.0.{number}:5010", f"127.0.0.1:{instance}")
    # As many as it says takes more open files than every machine lends.
    text = text.replace("maxconn 9000", "maxconn 100")
    text, listening = re.subn(r"^(\s+(?:bind :|listen ))5010", rf"\g<1>{port}", text, flags=re.MULTILINE)
    assert listening == 1
    if name == "nginx":
        # Its own folders would be those of the system.
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        paths = "".join(f"    {kind}_temp_path {folder / kind};\n" for kind in kinds)
        text = text.replace("http {\n", f"http {{\n    access_log off;\n{paths}")
    config = folder / SAMPLES[name]
    config.write_text(text)
    return config


@asynccontextmanager
async def proxy(name: str, instances: list[int], folder: Path) -> AsyncIterator[int]:
    # Debian keeps both where only root looks.
    program = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if program is None:
        pytest.skip(f"{name} is not on this machine")
    port = free_port()
    config = sample(name, port, instances, folder)
    with (folder / "proxy.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *COMMANDS[name](program, config, folder), stdout=log, stderr=log, preexec_fn=die_with_parent
        )
    try:
        await until(lambda: is_ready(port), 30, what=f"{name} answers")
        yield port
    finally:
        await stop(process, 5.0)


async def is_ready(port: int) -> bool:
    try:
        async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{port}/health/ready") as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


@asynccontextmanager
async def two_instances(server: RedisProcess, folder: Path) -> AsyncIterator[list[ServeProcess]]:
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    async with (
        serve_process(folder / "a", "--redis-url", server.url, *TRUSTING) as first,
        serve_process(folder / "b", "--redis-url", server.url, *TRUSTING) as second,
    ):
        await until(lambda: first.port and second.port, within_s=60)
        yield [first, second]


def nodes_on(instance: ServeProcess) -> int:
    return instance.log.count('"node.registered"')


async def speak(peers: Field, count: int) -> None:
    for _ in range(count):
        client = await peers.client()
        await client.utterance(0)
        assert (await client.outcome())["type"] == "translation_result"


async def pages_come_through(port: int) -> None:
    """A page that was served through the proxy may open sockets through it; pages of others may not."""
    url = f"ws://127.0.0.1:{port}/ws/session"
    async with aiohttp.ClientSession() as http:
        async with http.ws_connect(url, origin=f"http://127.0.0.1:{port}"):
            pass
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            await http.ws_connect(url, origin="http://evil.example")
    await strangers_are_counted(url)


async def strangers_are_counted(url: str) -> None:
    """Who calls is what the proxy says, whatever the caller says."""
    statuses, opened = [], []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(local_addr=("127.0.0.2", 0))) as http:
        for number in range(2 * MOST + 5):
            try:
                opened.append(await http.ws_connect(url, headers={"X-Forwarded-For": f"203.0.113.{number}"}))
                statuses.append(101)
            except aiohttp.WSServerHandshakeError as error:
                statuses.append(error.status)
    assert set(statuses) == {101, 429}
    assert MOST <= statuses.count(101) <= 2 * MOST


@pytest.mark.parametrize("name", SAMPLES)
async def test_people_and_nodes_come_through_a_proxy_and_one_instance_may_stop(
    name: str, server: RedisProcess, tmp_path: Path
) -> None:
    async with two_instances(server, tmp_path) as instances:
        async with proxy(name, [instance.port for instance in instances], tmp_path) as port, field(port) as peers:
            while not all(map(nodes_on, instances)):
                assert len(peers.nodes) < 20, "the proxy sends everybody to one instance"
                await peers.node()
            await speak(peers, 4)
            await pages_come_through(port)

            stopping, staying = instances
            former = list(peers.nodes)
            stopping.process.terminate()
            async with asyncio.timeout(20):
                assert await stopping.process.wait() == 0
            gone = [node for node in former if node.socket.socket.closed]
            assert [await node.socket.closed() for node in gone] == [1012] * len(gone), "told to come back"
            assert 0 < len(gone) < len(former)

            before = nodes_on(staying)
            await peers.node()
            assert nodes_on(staying) == before + 1
            await speak(peers, 4)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_proxy_waits_longer_than_the_pause_between_two_pings(name: str) -> None:
    text = (DEPLOY / SAMPLES[name]).read_text()
    waits_s = [int(wait) for wait in re.findall(r"^ +(?:timeout tunnel|proxy_\w+_timeout) (\d+)s", text, re.MULTILINE)]
    longest_silence_s = ServerSettings().ping_interval_ms / 1000
    assert max(waits_s) >= 2 * longest_silence_s
