"""Commands that read Redis find it by their options, by the settings, or by the scheduler that LINGUA_URL names."""

import asyncio

import pytest
from click.testing import CliRunner, Result

from lingua_scheduler.cli.main import main
from lingua_scheduler.store.servers.local_cluster import free_port
from tests.support.peers import Field
from tests.support.servers import RedisProcess

COMMANDS = [
    ("nodes",),
    ("pools",),
    ("jobs",),
    ("jobs", "--failed"),
    ("instances",),
    ("dead-letters",),
    ("redis", "check"),
]


async def lingua(*arguments: str, **environment: str) -> Result:
    return await asyncio.to_thread(CliRunner(env=environment).invoke, main, list(arguments))


@pytest.mark.parametrize("command", COMMANDS)
async def test_the_scheduler_of_the_environment_is_asked_for_its_redis(peers: Field, command: tuple[str, ...]) -> None:
    shown = await lingua(*command, LINGUA_URL=f"ws://127.0.0.1:{peers.port}")
    assert shown.exit_code == 0, shown.output


async def test_it_is_the_redis_of_that_scheduler(peers: Field) -> None:
    node = await peers.node()
    shown = await lingua("nodes", LINGUA_URL=f"127.0.0.1:{peers.port}")
    assert node.node_id in shown.output


async def test_an_option_or_a_setting_that_names_redis_wins(server: RedisProcess, peers: Field) -> None:
    nowhere = f"ws://127.0.0.1:{free_port()}"
    for words, more in ((("--redis-url", server.url), {}), ((), {"LINGUA_REDIS_URL": server.url})):
        shown = await lingua("nodes", *words, LINGUA_URL=nowhere, **more)
        assert shown.exit_code == 0, shown.output


async def test_a_scheduler_that_is_not_there_is_named(unused_tcp_port: int) -> None:
    refused = await lingua("nodes", LINGUA_URL=f"ws://127.0.0.1:{unused_tcp_port}")
    assert refused.exit_code == 5
    assert f"no scheduler answers at ws://127.0.0.1:{unused_tcp_port}" in refused.stderr
