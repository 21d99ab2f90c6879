"""What the chart renders is started as Kubernetes would start it: command, environment, settings, secrets and user."""

import asyncio
import hashlib
import signal
import ssl
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from lingua_scheduler.configuration.loading import load
from lingua_scheduler.store.servers.local_cluster import free_port
from lingua_sdk.client import Client
from lingua_sdk.results import Translation
from tests.support.certificates import Authority
from tests.support.charts import Manifest, documents, needs_helm, of_kind
from tests.support.pods import Pod, node_of_cluster, pod_of
from tests.support.servers import RedisProcess, binaries
from tests.support.waiting import PATIENCE_S, until
from tools import chart

PASSWORD = "p4ssw0rd"
CLUSTER_KEY = {"lingua-cluster-key": {"cluster.key": "5a" * 32}}
SPEECH = b"\x10\x27\xf0\xd8" * 4000
SECRETS = {
    "lingua-redis": {"password": PASSWORD, "url": "redis://valkey:6379/0"},
    "lingua-cluster-key": {"cluster.key": "5a" * 32, "current": "5a" * 32},
    "lingua-join": {"join": "lingua-join_x"},
    **{
        name: dict.fromkeys(("keys.toml", "client-secret", "turn-secret"), "x")
        for name in ("lingua-keys", "lingua-oidc")
    },
    "lingua-turn": {"turn-secret": "x"},
    "lingua-tls": {"tls.crt": "x", "tls.key": "x", "ca.crt": "x"},
    "redis-ca": {"ca.crt": "x"},
}


@pytest.fixture
def place() -> Iterator[Path]:
    with node_of_cluster() as found:
        yield found


@pytest.fixture
def valkey() -> Iterator[tuple[RedisProcess, int]]:
    """With a port and a user that has a password, as on another machine."""
    port = free_port()
    acl = ("--user", "lingua", "on", f">{PASSWORD}", "~*", "&*", "+@all")
    started = RedisProcess(str(binaries()["valkey"]), "--port", str(port), "--bind", "127.0.0.1", *acl)
    yield started, port
    started.stop()


def manifests_with(redis_port: int, *words: str) -> list[Manifest]:
    """On loopback and free ports; the rest is as in a cluster."""
    user = f"redis://lingua:$(REDIS_PASSWORD)@127.0.0.1:{redis_port}/0"
    sets = (
        *("listen=127.0.0.1", f"ports.http={free_port()}", f"ports.internal={free_port()}", f"redis.url={user}"),
        *("redis.secret.name=lingua-redis", "redis.secret.passwordKey=password"),
        # In a cluster the address says so.
        *("clusterKey.secret=lingua-cluster-key", "settings.auth.mode=required", *words),
    )
    return documents(chart.template(*(part for word in sets for part in ("--set", word))))


def scheduler_of(manifests: list[Manifest], secrets: dict[str, dict[str, str]], place: Path, name: str = "pod") -> Pod:
    spec = of_kind(manifests, "Deployment")["spec"]["template"]["spec"]
    return pod_of(spec, manifests, secrets, place, name)


@pytest.mark.parametrize("path", sorted(chart.SNAPSHOTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_settings_of_every_value_set_are_settings_of_the_program(path: Path, place: Path) -> None:
    pod = scheduler_of(documents(path.read_text("utf-8")), SECRETS, place)
    given = {name: value for name, value in pod.environment.items() if name.startswith("LINGUA_")}
    own = {variable["name"] for variable in pod.container["env"]}
    assert given.keys() <= own, "or the image says what counts"
    config = pod.mounts["/etc/lingua"] / "lingua.toml"
    loaded = load(config_path=config, environment=given, flags={})
    assert loaded.hints == ()
    server = loaded.settings.server
    assert {"http": server.port, "internal": server.internal_port} == pod.ports()
    assert loaded.settings.redis.wait
    # Every file that is named is mounted.
    auth, rooms = loaded.settings.auth, loaded.settings.rooms
    files = (
        *(
            loaded.settings.privacy.cluster_key_file,
            auth.keys_file,
            auth.oidc.client_secret_file,
            rooms.turn_secret_file,
        ),
        *(server.tls_cert_file, server.tls_key_file, server.tls_client_ca_file),
    )
    named = [file for file in files if file]
    assert named
    assert [name for name in named if not Path(name).is_file()] == []
    grace_s = pod.spec["terminationGracePeriodSeconds"]
    assert grace_s * 1000 >= server.stop_timeout_ms + 15_000


async def ends(process: asyncio.subprocess.Process, log: Path) -> None:
    """That the grace is longer than the limit of a stop is another test; a busy machine may take longer than both."""
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(PATIENCE_S):
        assert await process.wait() == 0, log.read_text()


@needs_helm
async def test_a_scheduler_and_a_node_of_the_chart_translate_as_a_newcomer_would_have_it(
    valkey: tuple[RedisProcess, int], place: Path, tmp_path: Path
) -> None:
    manifests = manifests_with(valkey[1], "node.enabled=true", "node.joinSecret=lingua-join")
    secrets: dict[str, dict[str, str]] = {"lingua-redis": {"password": PASSWORD}, **CLUSTER_KEY}

    # Without a key it does not start, and says what to do; the pod of the tools has all that command needs.
    early = scheduler_of(manifests, secrets, place, "early")
    code, _, told = await early.run()
    assert (code, "lingua keys create --admin" in told) == (2, True), told
    tools = of_kind(manifests, "CronJob", "lingua-scheduler-tools")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    toolbox = pod_of(tools, manifests, secrets, place, "tools")
    code, key, told = await toolbox.run("lingua", "keys", "create", "--admin")
    assert (code, key.startswith("lk_op_")) == (0, True), told

    pod, log = scheduler_of(manifests, secrets, place), tmp_path / "pod.log"
    async with pod.running(log) as process:
        for probe in ("startup", "readiness", "liveness"):
            await pod.passes(probe, process, log)
        assert "cluster_key.exposed" not in log.read_text()
        await is_tested(manifests, pod, place)
        ports = pod.ports()
        assert await metrics_of(ports["internal"]) == 200
        assert await metrics_of(ports["http"]) == 401

        url = f"ws://127.0.0.1:{ports['http']}"
        words = ("keys", "create", "--kind", "enrol", "--max-nodes", "0", "--ephemeral", "--url", url)
        code, join, told = await toolbox.run("lingua", *words)
        assert code == 0, told
        code, service, told = await toolbox.run("lingua", "keys", "create", "--kind", "service")
        assert code == 0, told
        spec = of_kind(manifests, "Deployment", "lingua-scheduler-node")["spec"]["template"]["spec"]
        node = pod_of(spec, manifests, secrets | {"lingua-join": {"join": join}}, place, "node-0")
        node_log = tmp_path / "node.log"
        async with node.running(node_log) as running, asyncio.timeout(200):
            await until(lambda: "node registered" in node_log.read_text() or running.returncode is not None)
            async with Client(url, "en", "pt", token=service.strip()) as client:
                await client.utterance(SPEECH)
                assert isinstance(await anext(client.results()), Translation), node_log.read_text()
            running.send_signal(signal.SIGTERM)
            assert await running.wait() == 0, node_log.read_text()
        await ends(process, log)


async def is_tested(manifests: list[Manifest], pod: Pod, place: Path) -> None:
    """`helm test` passes, and would not if there were nobody."""
    spec = of_kind(manifests, "Pod", "lingua-scheduler-test")["spec"]
    test = pod_of(spec, manifests, {}, place, "test")
    services = of_kind(manifests, "Service"), of_kind(manifests, "Service", "lingua-scheduler-internal")
    public, internal = (f"{one['metadata']['name']}:{one['spec']['ports'][0]['port']}" for one in services)
    assert (test.environment["PUBLIC"], test.environment["INTERNAL"]) == (public, internal)
    for port, expected in ((pod.ports()["internal"], 0), (free_port(), 1)):
        test.environment.update(PUBLIC=f"127.0.0.1:{pod.ports()['http']}", INTERNAL=f"127.0.0.1:{port}")
        code, out, told = await test.run()
        assert code == expected, out + told


async def metrics_of(port: int) -> int:
    async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{port}/metrics") as response:
        return response.status


@needs_helm
async def test_a_scheduler_with_tls_keys_from_a_file_and_workers_starts_with_mounted_secrets(
    valkey: tuple[RedisProcess, int], place: Path, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "ca")
    certificate = authority.serve()
    digest = hashlib.sha256(b"x").hexdigest()
    keys = f'[[keys]]\nid = "k3jPq0aZ81Ty"\nkind = "operator"\nrole = "admin"\ntenant = "*"\ndigest = "{digest}"\n'
    secrets: dict[str, dict[str, str]] = {
        "lingua-redis": {"password": PASSWORD},
        **CLUSTER_KEY,
        "lingua-keys": {"keys.toml": keys},
        "lingua-turn": {"turn-secret": "secret"},
        "lingua-tls": {
            "tls.crt": certificate.cert.read_text(),
            "tls.key": certificate.key.read_text(),
            "ca.crt": authority.file.read_text(),
        },
    }
    words = (
        "tls.secret=lingua-tls",
        "tls.clientCaKey=ca.crt",
        "keysFile.secret=lingua-keys",
        "turnSecret.secret=lingua-turn",
    )
    more = (
        "settings.server.workers=2",
        "settings.privacy.seal_letters=always",
        "settings.rooms.turn_urls={turn:t.example}",
    )
    manifests = manifests_with(valkey[1], *words, *more)
    pod, log = scheduler_of(manifests, secrets, place), tmp_path / "pod.log"
    async with pod.running(log) as process:
        await pod.passes("startup", process, log)
        await pod.passes("readiness", process, log)
        context = ssl.create_default_context(cafile=str(authority.file))
        async with aiohttp.ClientSession() as http:
            async with http.get(f"https://127.0.0.1:{pod.ports()['http']}/health", ssl=context) as response:
                assert response.status == 200
        await until(lambda: log.read_text().count('"worker.ready"') == 2)
        assert "exposed" not in log.read_text()
        await ends(process, log)


@needs_helm
async def test_the_command_for_older_kubernetes_sleeps_without_a_shell(place: Path) -> None:
    words = ("--set", "redis.url=redis://v:6379", "--set", "clusterKey.secret=lingua-cluster-key")
    manifests = documents(chart.template(*words, "--set", "preStopSeconds=1", kubernetes="1.29"))
    pod = scheduler_of(manifests, {**CLUSTER_KEY}, place)
    command = pod.container["lifecycle"]["preStop"]["exec"]["command"]
    assert command[0] == "python"
    started = asyncio.get_running_loop().time()
    code, out, told = await pod.run(*command)
    assert (code, out, told) == (0, "", "")
    assert asyncio.get_running_loop().time() - started >= 1
