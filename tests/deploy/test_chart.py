"""The Helm chart: what it takes from elsewhere is current, and Kubernetes accepts what it renders."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from lingua_scheduler.configuration.fields import fields
from lingua_scheduler.setting_sections.server import ServerSettings
from tests.support.charts import SNAPSHOTS, Manifest, documents, needs_helm, of_kind, pod_specs, snapshot, validator
from tools import chart

# The oldest that Chart.yaml allows has no sleep action, which the manifests for kubectl use.
OLDEST = "1.25"
VERSIONS = (OLDEST, "1.32", "1.37")
VALKEY = chart.MANIFESTS.with_name("valkey.yaml")
# Kinds of the Prometheus operator, KEDA and the Gateway API: no schema of theirs is in kubernetes-validate.
FOREIGN = {"HTTPRoute", "PrometheusRule", "ScaledObject", "ServiceMonitor", "TriggerAuthentication"}
DOMAINS = ("", ".lingua", ".lingua.svc")
each_set = pytest.mark.parametrize("name", chart.value_sets())


def scheduler(name: str) -> Manifest:
    pod: Manifest = of_kind(snapshot(name), "Deployment")["spec"]["template"]["spec"]
    return pod


# Copies and products


@pytest.mark.parametrize("path", chart.parts(), ids=lambda path: path.name)
def test_what_the_chart_takes_from_elsewhere_is_current(path: Path) -> None:
    assert path.read_text("utf-8") == chart.parts()[path], f"run make docs, which writes {path}"


@needs_helm
@each_set
def test_what_is_rendered_is_what_the_snapshot_shows(name: str) -> None:
    assert SNAPSHOTS[name].read_text("utf-8") == chart.snapshot(name), "run make chart, and look at what changed"


@needs_helm
def test_the_manifests_for_kubectl_are_current() -> None:
    assert chart.MANIFESTS.read_text("utf-8") == chart.manifests(), "run make chart"


@needs_helm
@each_set
def test_helm_finds_nothing_wrong_with_the_chart(name: str) -> None:
    done = chart.run_helm("lint", "--strict", str(chart.CHART), "--values", str(chart.SETS / f"{name}.yaml"))
    assert done.returncode == 0, done.stdout


@needs_helm
@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_accepts_every_manifest(version: str, tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.yaml" for name in chart.value_sets()}
    for name, path in files.items():
        path.write_text(chart.rendered(name, version))
    others = [VALKEY] if version == OLDEST else [VALKEY, chart.MANIFESTS]
    paths = [str(path) for path in (*files.values(), *others)]
    done = subprocess.run(
        [validator(), "--kubernetes-version", version, "--strict", *paths], capture_output=True, text=True, check=False
    )
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert set(re.findall(r"Couldn't find schema for kind (\w+)", told)) <= FOREIGN, told
    known = [one for path in paths for one in documents(Path(path).read_text()) if one["kind"] not in FOREIGN]
    assert len(re.findall(r"passed for resource", told)) == len(known) > 50


NOTES = """
apiVersion: v1
kind: ConfigMap
metadata: {name: notes}
data:
  text: |
    {{- tpl (.Files.Get "NOTES.txt") . | nindent 4 }}
"""


@needs_helm
@each_set
def test_notes_name_the_next_step(name: str, tmp_path: Path) -> None:
    """Helm shows them only where there is a cluster, so a copy of the chart has them in a manifest."""
    copy = tmp_path / "chart"
    shutil.copytree(chart.CHART, copy)
    shutil.move(copy / "templates" / "NOTES.txt", copy / "NOTES.txt")
    (copy / "templates" / "notes.yaml").write_text(NOTES)
    words = ("template", "lingua-scheduler", str(copy), "--namespace", "lingua", "--show-only", "templates/notes.yaml")
    done = chart.run_helm(*words, "--values", str(copy / "ci" / f"{name}.yaml"))
    assert done.returncode == 0, done.stderr
    notes = of_kind(documents(done.stdout), "ConfigMap", "notes")["data"]["text"]
    print(notes)
    assert ("lingua keys create --admin" in notes) is (name != "secure")
    assert "kubectl -n lingua rollout status deployment/lingua-scheduler" in notes
    assert ("connect to wss://translate.example" in notes) is (name == "public")
    assert ("connect to ws://lingua-scheduler.lingua:5010;" in notes) is (name not in ("public", "secure"))
    assert ("WARNING: settings.server.trusted_proxies is empty" in notes) is (name == "secure")
    assert ("node.joinSecret is empty" in notes) is (name == "older-kubernetes")


# Settings


def test_the_schema_knows_every_setting_that_the_chart_does_not_set_itself() -> None:
    def names(section: Any, prefix: str) -> set[str]:
        assert section["additionalProperties"] is False
        found: set[str] = set()
        for key, about in section["properties"].items():
            is_section = "properties" in about
            found |= names(about, f"{prefix}{key}.") if is_section else {f"{prefix}{key}"}
        return found

    schema = json.loads((chart.CHART / "values.schema.json").read_text("utf-8"))
    assert names(schema["definitions"]["settings"], "") == {field.name for field in fields()} - chart.CHART_SETS
    assert {field.name for field in fields()} > chart.CHART_SETS


def test_every_value_has_a_default_and_every_default_a_schema() -> None:
    schema = json.loads((chart.CHART / "values.schema.json").read_text("utf-8"))
    values = yaml.safe_load((chart.CHART / "values.yaml").read_text("utf-8"))

    def compare(about: dict[str, Any], value: Any, path: str) -> None:
        about = schema["definitions"][about["$ref"].rpartition("/")[2]] if "$ref" in about else about
        if "properties" not in about or path == ".settings":
            return
        assert about["additionalProperties"] is False, path
        optional = {"global", "initialDelaySeconds", "claims", "limits", "requests"}
        assert set(value) <= set(about["properties"]), path
        assert set(about["properties"]) - set(value) <= optional, path
        for key, inner in value.items():
            compare(about["properties"][key], inner, f"{path}.{key}")

    compare(schema, values, "")


def test_where_host_names_are_listed_those_of_the_services_are_too() -> None:
    server = tomllib.loads(of_kind(snapshot("public"), "ConfigMap")["data"]["lingua.toml"])["server"]
    own = ["lingua-scheduler", "lingua-scheduler-internal"]
    assert server["allowed_hosts"] == ["translate.example", *(f"{name}{end}" for name in own for end in DOMAINS)]
    least = tomllib.loads(of_kind(snapshot("least"), "ConfigMap")["data"]["lingua.toml"])["server"]
    assert "allowed_hosts" not in least, "all names are accepted"


def test_the_oldest_version_that_is_allowed_is_one_that_is_tried() -> None:
    about = yaml.safe_load((chart.CHART / "Chart.yaml").read_text("utf-8"))
    assert about["kubeVersion"] == f">={OLDEST}.0-0"


# What is promised


def test_a_pod_is_told_to_end_after_proxies_noticed_and_gets_the_time_it_needs() -> None:
    default_s = ServerSettings().stop_timeout_ms // 1000
    for name, stop_s, pre_stop_s in (("least", default_s, 5), ("public", 31, 5), ("older-kubernetes", default_s, 12)):
        pod = scheduler(name)
        assert pod["terminationGracePeriodSeconds"] == stop_s + pre_stop_s + 10, name
    assert scheduler("least")["containers"][0]["lifecycle"]["preStop"] == {"sleep": {"seconds": 5}}
    older = scheduler("older-kubernetes")["containers"][0]["lifecycle"]["preStop"]
    assert older == {"exec": {"command": ["python", "-c", "import time; time.sleep(12)"]}}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_new_pod_is_ready_before_an_old_one_ends(name: str) -> None:
    deployment = of_kind(snapshot(name), "Deployment")["spec"]
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    (container,) = deployment["template"]["spec"]["containers"]
    paths = {probe: container[f"{probe}Probe"]["httpGet"] for probe in ("startup", "liveness", "readiness")}
    internal = {"path": "/health", "port": "internal"}
    assert paths == {"startup": internal, "liveness": internal, "readiness": internal | {"path": "/health/ready"}}
    budget = of_kind(snapshot(name), "PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] in (1, "25%")
    assert budget["selector"] == deployment["selector"]
    spread = deployment["template"]["spec"]["topologySpreadConstraints"]
    assert [one["topologyKey"] for one in spread] == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    assert all(one["labelSelector"] == deployment["selector"] for one in spread)


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_every_pod_is_restricted(name: str) -> None:
    """As the Pod Security Standard "restricted" asks, and a read-only root, and no token of the cluster."""
    pods = dict(pod_specs(snapshot(name)))
    assert len(pods) >= 2
    for pod in pods.values():
        assert pod["automountServiceAccountToken"] is False
        # A service called lingua would put LINGUA_PORT into the environment, which is an unknown setting.
        assert pod["enableServiceLinks"] is False
        whole = pod["securityContext"]
        assert (whole["runAsNonRoot"], whole["runAsUser"], whole["fsGroup"]) == (True, 10001, 10001)
        assert whole["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        assert {kind for one in pod.get("volumes", ()) for kind in one} <= {"name", "configMap", "emptyDir", "secret"}
        for container in pod["containers"]:
            own = container["securityContext"]
            assert own["allowPrivilegeEscalation"] is False
            assert own["readOnlyRootFilesystem"] is True
            assert own["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_secrets_are_mounted_for_the_group_of_the_pod_alone_and_never_as_variables_of_a_whole(name: str) -> None:
    for _, pod in pod_specs(snapshot(name)):
        for volume in pod.get("volumes", ()):
            assert volume.get("secret", {"defaultMode": 0o440})["defaultMode"] == 0o440
        assert not any("envFrom" in container for container in pod["containers"])
    settings = of_kind(snapshot(name), "ConfigMap")["data"]["lingua.toml"]
    assert "url" not in settings.replace("turn_urls", "")


@needs_helm
def test_changed_settings_make_new_pods_and_nothing_else_does() -> None:
    def checksum(*words: str) -> str:
        text = chart.template("--values", str(chart.SETS / "least.yaml"), *words)
        meta = of_kind(documents(text), "Deployment")["spec"]["template"]["metadata"]
        return str(meta["annotations"]["checksum/settings"])

    assert checksum() == checksum("--set", "replicas=5")
    assert checksum() != checksum("--set", "settings.logs.level=debug")
