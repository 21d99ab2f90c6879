"""Prometheus itself scrapes a real scheduler by our own configuration, and our own alert fires."""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from lingua_sdk.processes import die_with_parent, stop
from tests.support.peers import field
from tests.support.schedulers import serve_process
from tests.support.waiting import until
from tools import docs

SAMPLES = docs.ROOT / "deploy" / "prometheus"
SOON = "1s"


def prepare(folder: Path, port: int) -> Path:
    """The samples as they are, but impatient, and pointed at this scheduler."""
    alerts = yaml.safe_load((SAMPLES / "alerts.yml").read_text("utf-8"))
    for group in alerts["groups"]:
        for rule in group["rules"]:
            if "for" in rule:
                rule["for"] = SOON
    (folder / "alerts.yml").write_text(yaml.safe_dump(alerts))
    config = yaml.safe_load((SAMPLES / "prometheus.yml").read_text("utf-8"))
    config["global"] = {"scrape_interval": SOON, "evaluation_interval": SOON}
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{port}"]
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    return path


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Prometheus:
    def __init__(self, http: aiohttp.ClientSession, port: int) -> None:
        self._http = http
        self._address = f"http://127.0.0.1:{port}"

    async def ask(self, path: str, **query: str) -> Any:
        """None while it does not answer."""
        try:
            async with self._http.get(self._address + path, params=query) as response:
                return (await response.json())["data"] if response.status == 200 else None
        except (aiohttp.ClientError, OSError):
            return None

    async def value(self, query: str) -> float | None:
        found = await self.ask("/api/v1/query", query=query)
        return float(found["result"][0]["value"][1]) if found and found["result"] else None

    async def firing(self) -> dict[str, dict[str, str]]:
        """Alerts by name, with their labels."""
        alerts = (await self.ask("/api/v1/alerts") or {"alerts": []})["alerts"]
        return {alert["labels"]["alertname"]: alert["labels"] for alert in alerts if alert["state"] == "firing"}


@asynccontextmanager
async def prometheus(folder: Path, scheduler_port: int) -> AsyncIterator[Prometheus]:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed")
    config, port = prepare(folder, scheduler_port), free_port()
    with (folder / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            program,
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
            stdout=log,
            stderr=log,
            preexec_fn=die_with_parent,
        )
    try:
        async with aiohttp.ClientSession() as http:
            yield Prometheus(http, port)
    finally:
        await stop(process, 15.0)


async def test_prometheus_scrapes_a_scheduler_and_tells_when_a_pair_loses_its_last_node(tmp_path: Path) -> None:
    async with serve_process(tmp_path, "--data-dir", str(tmp_path / "data")) as serving:
        port = await until(lambda: serving.port, 60)
        async with field(port) as peers, prometheus(tmp_path, port) as watching:
            leaving = await peers.node(languages=("en", "zh"))
            await peers.node(languages=("fr", "de"))
            client = await peers.client()
            for index in range(3):
                await client.utterance(index)
                assert (await client.outcome())["type"] == "translation_result"

            async def has(query: str, value: float) -> bool:
                return await watching.value(query) == value

            await until(lambda: has('up{job="lingua"}', 1), 60)
            await until(lambda: has('lingua_jobs_ended_total{state="DONE"}', 3), 30)
            await until(lambda: has('lingua_pair_nodes{src="en",tgt="zh"}', 1), 30)
            await until(lambda: has('node_registration_total{status="success"}', 2), 30)
            assert "LinguaPairLost" not in await watching.firing()

            await leaving.stop()

            async def lost() -> dict[str, str] | None:
                return (await watching.firing()).get("LinguaPairLost")

            labels = await until(lost, 60, "the alert")
            assert (labels["src"], labels["severity"]) in {("en", "critical"), ("zh", "critical")}
            assert await watching.value('ALERTS{alertname="LinguaPairLost",alertstate="firing",src="en",tgt="zh"}') == 1
            assert await watching.value('ALERTS{alertname="LinguaPairLost",src="fr",tgt="de"}') is None
            assert "LinguaNoNodes" not in await watching.firing()

            await peers.node(languages=("en", "zh"))

            async def is_over() -> bool:
                return "LinguaPairLost" not in await watching.firing()

            await until(is_over, 60, "the end of the alert")
