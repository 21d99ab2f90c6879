"""deploy/compose/: what its containers would run, as processes, with the files, commands and variables it names."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from lingua_scheduler.configuration.loading import load
from lingua_scheduler.setting_sections.server import ServerSettings
from lingua_scheduler.store.rights import acl_line
from lingua_scheduler.store.scripts import read_library
from lingua_scheduler.store.servers.embedded import shipped_binary
from lingua_scheduler.store.servers.local_cluster import free_port
from lingua_sdk.processes import die_with_parent, stop
from tests.support.proxies import DEPLOY
from tests.support.waiting import until
from tools.docs import ROOT

COMPOSE = DEPLOY / "compose"
SAMPLE = ROOT / "src/lingua_scheduler/cli/assets/sample-en.wav"


def services(name: str = "compose.yaml") -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((COMPOSE / name).read_text("utf-8"))["services"]
    return found


def section(text: str, title: str) -> str:
    (found,) = re.findall(rf"^{title}\n(?:[ \n].*\n|\n)*", text, re.MULTILINE)
    return re.sub(r"^\s*(#.*)?\n", "", str(found), flags=re.MULTILINE)


class Stack:
    """The services as processes on this machine: each name of a service is a port of loopback."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        instances = (f"scheduler-{one}:{port}" for one in "ab" for port in (5010, 5011))
        self.ports = {name: free_port() for name in ("valkey:6379", "proxy:5010", "proxy:5019", *instances)}
        shutil.copytree(COMPOSE, folder / "compose", ignore=shutil.ignore_patterns("secrets"))
        for _ in range(2):  # again: it changes nothing that it has made
            subprocess.run(["sh", str(folder / "compose/prepare.sh")], check=True, capture_output=True)
        self.secrets = folder / "compose/secrets"

    def here(self, text: str) -> str:
        for name, port in self.ports.items():
            text = text.replace(name, f"127.0.0.1:{port}")
        return text.replace("/run/secrets", str(self.secrets)).replace("/data", str(self._folder))

    def environment(self, service: str) -> dict[str, str]:
        told = services()[service].get("environment", {})
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        given = {name: self.here(value) for name, value in told.items()}
        if service.startswith("scheduler"):
            # What the image says, and the volume; containers have the same ports, processes need their own.
            given |= {"LINGUA_SERVER_HOST": "0.0.0.0", "LINGUA_REDIS_DATA_DIR": str(self._folder / "state")}
            given["LINGUA_SERVER_PORT"] = str(self.ports[f"{service}:5010"])
            given["LINGUA_SERVER_INTERNAL_PORT"] = str(self.ports[f"{service}:5011"])
            given["LINGUA_SERVER_TRUSTED_PROXIES"] = "127.0.0.1"
        return kept | given

    @asynccontextmanager
    async def started(self, name: str, words: list[str], **environment: str) -> AsyncIterator[Process]:
        with (self._folder / f"{name}.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *words,
                env=environment or None,
                cwd=self._folder,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )
        try:
            yield process
        finally:
            await stop(process, 15.0)

    def valkey(self) -> list[str]:
        words = [self.here(word) for word in services()["valkey"]["command"]]
        more = ("--port", str(self.ports["valkey:6379"]), "--bind", "127.0.0.1", "--dir", str(self._folder))
        return [str(shipped_binary()), *words[1:], *more, "--save", ""]

    def lingua(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "lingua_scheduler", *(self.here(word) for word in words)]

    async def run(self, service: str, *words: str, **environment: str) -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(
            *self.lingua(*words),
            env=self.environment(service) | environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(120):
            told, wrong = await process.communicate()
        return process.returncode, (told or wrong).decode()

    def proxy(self) -> list[str]:
        program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
        if program is None:
            pytest.skip("haproxy is not on this machine")
        text = self.here((COMPOSE / "haproxy.cfg").read_text("utf-8")).replace("maxconn 9000", "maxconn 100")
        for port in (5010, 5019):
            text = text.replace(f"bind :{port}\n", f"bind 127.0.0.1:{self.ports[f'proxy:{port}']}\n")
        config = self._folder / "haproxy.cfg"
        config.write_text(text)
        return [program, "-f", str(config)]

    async def status(self, place: str, path: str, key: str = "") -> int:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            async with (
                aiohttp.ClientSession(headers=headers) as http,
                http.get(f"http://127.0.0.1:{self.ports[place]}{path}") as answer,
            ):
                return answer.status
        except aiohttp.ClientError:
            return 0


@pytest.mark.slow
async def test_what_the_containers_run_translates_also_while_one_scheduler_stops(tmp_path: Path) -> None:
    stack = Stack(tmp_path)
    async with AsyncExitStack() as running:
        await running.enter_async_context(stack.started("valkey", stack.valkey()))
        made: dict[str, str] = {}
        for kind in ("node", "service", "operator"):
            # As docs/deploy-compose.md says; the service `lingua` has the same settings.
            words = (
                "keys",
                "create",
                "--kind",
                kind,
                *(("--role", "viewer", "--tenant", "*") if kind == "operator" else ()),
            )
            code, made[kind] = await stack.run("scheduler-a", *words)
            assert code == 0, made[kind]
        # Not left to the search for keys that were written by mistake.
        (stack.secrets / "node_key").write_text(made["node"])
        running.callback((stack.secrets / "node_key").unlink)
        schedulers = {}
        for name in ("scheduler-a", "scheduler-b"):
            serve = stack.lingua("serve", "--wait-for-redis")
            started = stack.started(name, serve, **stack.environment(name))
            schedulers[name] = await running.enter_async_context(started)
        await running.enter_async_context(stack.started("proxy", stack.proxy()))
        node = stack.lingua(*services()["node"]["command"])
        await running.enter_async_context(stack.started("node", node, **stack.environment("node")))

        async def is_healthy(name: str) -> bool:
            return (await stack.run(name, "health", "--ready"))[0] == 0

        for name in schedulers:
            await until(lambda name=name: is_healthy(name), 120, what=f"{name} is ready")  # type: ignore[misc]
        await until(lambda: translated(stack, made["service"].strip()), 120, what="a sentence is translated")
        await everything_is_where_it_should_be(stack, made["operator"].strip())

        schedulers["scheduler-a"].send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            assert await schedulers["scheduler-a"].wait() == 0
        await until(lambda: translated(stack, made["service"].strip()), 120, what="the other one translates")


async def translated(stack: Stack, key: str) -> bool:
    url = f"http://127.0.0.1:{stack.ports['proxy:5010']}/v1/translate?src=en&tgt=pt"
    try:
        async with (
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"}) as http,
            http.post(url, data=SAMPLE.read_bytes()) as answer,
        ):
            told = await answer.json(content_type=None)
    except (aiohttp.ClientError, json.JSONDecodeError):
        return False
    return answer.status == 200 and bool(told.get("utterances"))


async def everything_is_where_it_should_be(stack: Stack, operator: str) -> None:
    # The public port has nothing for operators, even with their key; the other one asks for it.
    assert [await stack.status("proxy:5010", path, operator) for path in ("/metrics", "/dashboard", "/v1/nodes")] == [
        404
    ] * 3
    assert await stack.status("proxy:5010", "/talk") == 200
    assert await stack.status("proxy:5019", "/dashboard") == 200
    assert await stack.status("proxy:5019", "/v1/nodes") == 401
    assert await stack.status("proxy:5019", "/v1/nodes", operator) == 200
    # What Prometheus asks, without a key.
    for target in yaml.safe_load((COMPOSE / "prometheus.yml").read_text("utf-8"))["scrape_configs"][0][
        "static_configs"
    ]:
        assert [await stack.status(name, "/metrics") for name in target["targets"]] == [200, 200]


# The files themselves


def test_the_user_of_the_schedulers_has_exactly_the_rights_they_need() -> None:
    default, user = (COMPOSE / "users.acl").read_text("utf-8").splitlines()
    rights = acl_line(read_library(), "lingua:v1").removeprefix("ACL SETUSER ")
    assert f"user {rights}".replace(" reset on >PASSWORD ", " on #@DIGEST@ ") == user
    assert default.startswith("user default off ")


def test_the_public_listener_is_that_of_the_sample() -> None:
    ours, sample = ((folder / "haproxy.cfg").read_text("utf-8") for folder in (COMPOSE, DEPLOY))
    for title in ("global", "defaults", "frontend lingua"):
        assert len(section(ours, title).splitlines()) > 1
        assert section(ours, title) == section(sample, title)


def test_schedulers_get_the_time_to_stop_that_they_need() -> None:
    for name in ("scheduler-a", "scheduler-b"):
        grace = services()[name]["stop_grace_period"]
        assert int(grace.removesuffix("s")) > ServerSettings().stop_timeout_ms / 1000 + 10


def test_no_container_may_more_than_it_needs_and_secrets_are_files() -> None:
    whole = yaml.safe_load((COMPOSE / "compose.yaml").read_text("utf-8"))
    for name, service in whole["services"].items():
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"]), name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert set(service.get("secrets", [])) <= set(whole["secrets"]), name
        assert not [key for key in service.get("environment", {}) if re.search("PASSWORD$|SECRET$|_KEY$", key)], name
        # Only what the proxy has is for all; the rest is published on loopback.
        published = [port for port in service.get("ports", []) if not port.startswith("127.0.0.1:")]
        assert published == (["5010:5010"] if name == "proxy" else []), name
    assert whole["networks"]["front"]["ipam"]["config"][0]["subnet"].startswith("172.30.57.")
    trusted = whole["services"]["scheduler-a"]["environment"]["LINGUA_SERVER_TRUSTED_PROXIES"]
    assert whole["services"]["proxy"]["networks"]["front"]["ipv4_address"] == trusted


def test_the_images_are_those_of_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    images = {service["image"] for service in services().values() if service["image"].startswith("lingua")}
    assert images == {f"lingua-scheduler:${{LINGUA_VERSION:-{version}}}"}


@pytest.mark.parametrize("name", ["compose.yaml", "compose.dev.yaml"])
def test_files_that_are_mounted_exist(name: str) -> None:
    whole = yaml.safe_load((COMPOSE / name).read_text("utf-8"))
    sources = [volume.split(":")[0] for service in whole["services"].values() for volume in service.get("volumes", [])]
    files = [source for source in sources if source.startswith(".")]
    assert files
    assert [source for source in files if not (COMPOSE / source).exists()] == []
    assert {source for source in sources if not source.startswith(".")} <= set(whole.get("volumes", {}))


@pytest.mark.parametrize("name", ["compose.yaml", "compose.dev.yaml"])
def test_variables_of_our_containers_are_settings_that_can_be_loaded(name: str, tmp_path: Path) -> None:
    (tmp_path / "redis_password").write_text("secret")
    ours = {name: one for name, one in services(name).items() if one["image"].startswith("lingua-")}
    assert ours
    for service in ours.values():
        told = {name: value.replace("/run/secrets", str(tmp_path)) for name, value in service["environment"].items()}
        words = service.get("command", [])
        flags = dict(word.split("=", 1) for before, word in pairwise(words) if before == "--set")
        load(config_path=None, environment=told, flags=flags)


def test_contributors_run_the_source_of_both_distributions_and_it_is_watched() -> None:
    distributions = {folder.resolve() for folder in (ROOT / "src", ROOT / "lingua-sdk" / "src")}
    for service in services("compose.dev.yaml").values():
        mounts = dict(volume.removesuffix(":ro").split(":") for volume in service["volumes"])
        paths = service["environment"]["PYTHONPATH"].split(":")
        assert {(COMPOSE / source).resolve() for source, inside in mounts.items() if inside in paths} == distributions
        watched = {(COMPOSE / one["path"]).resolve(): one["action"] for one in service["develop"]["watch"]}
        assert {path for path, action in watched.items() if action == "restart"} == distributions


def test_promtool_accepts_the_configuration_of_prometheus(tmp_path: Path) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    for file in (COMPOSE / "prometheus.yml", DEPLOY / "prometheus" / "alerts.yml"):
        shutil.copy(file, tmp_path)
    command = [program, "check", "config", str(tmp_path / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_secrets_are_made_once_and_in_a_folder_for_the_owner_alone(tmp_path: Path) -> None:
    stack = Stack(tmp_path)
    assert stack.secrets.stat().st_mode & 0o777 == 0o700
    password = (stack.secrets / "redis_password").read_text("utf-8")
    assert re.fullmatch("[0-9a-f]{48}", password)
    whole = yaml.safe_load((COMPOSE / "compose.yaml").read_text("utf-8"))
    made = {path.name for path in stack.secrets.iterdir()}
    assert made == {Path(secret["file"]).name for secret in whole["secrets"].values()}
    # Readable for the users in the containers, whose numbers are others.
    assert {path.stat().st_mode & 0o777 for path in stack.secrets.iterdir()} == {0o644}
