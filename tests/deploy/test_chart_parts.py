"""Autoscalers, monitoring and network of the chart name what exists in the program and in each other."""

import json
from pathlib import Path
from typing import Any

import yaml

from tests.support.charts import documents, needs_helm, of_kind, snapshot
from tests.test_deploy import promtool, samples
from tools import chart


def rules_of_the_adapter() -> Any:
    return yaml.safe_load((chart.CHART / "files" / "prometheus-adapter.yaml").read_text("utf-8"))["rules"]


def test_autoscalers_ask_for_metrics_that_exist_or_that_the_adapter_makes() -> None:
    adapter = rules_of_the_adapter()
    for rule in (*adapter["custom"], *adapter["external"]):
        assert rule["seriesQuery"].partition("{")[0] in samples()
    pods = {rule["seriesQuery"].partition("{")[0] for rule in adapter["custom"]}
    external = {rule["name"]["as"] for rule in adapter["external"]}
    asked = of_kind(snapshot("scaled"), "HorizontalPodAutoscaler")["spec"]["metrics"]
    assert [one["type"] for one in asked] == ["Pods", "External", "Resource"]
    assert {asked[0]["pods"]["metric"]["name"]} == pods
    assert {asked[1]["external"]["metric"]["name"]} == external
    nodes = of_kind(snapshot("older-kubernetes"), "HorizontalPodAutoscaler", "lingua-scheduler-node")["spec"]
    assert {one["external"]["metric"]["name"] for one in nodes["metrics"]} == external
    assert "replicas" not in of_kind(snapshot("scaled"), "Deployment")["spec"]


def test_prometheus_understands_what_the_adapter_asks(tmp_path: Path) -> None:
    adapter = rules_of_the_adapter()
    rules = []
    for number, rule in enumerate((*adapter["custom"], *adapter["external"])):
        series = rule["seriesQuery"].partition("{")[0]
        query = rule["metricsQuery"].replace("<<.Series>>", series).replace("<<.LabelMatchers>>", 'namespace="lingua"')
        rules.append({"record": f"adapter:{number}", "expr": query.replace("<<.GroupBy>>", "pod")})
    generated = tmp_path / "adapter.yml"
    generated.write_text(yaml.safe_dump({"groups": [{"name": "adapter", "rules": rules}]}))
    promtool("check", "rules", str(generated))


def test_keda_asks_the_internal_port_for_wanted_slots() -> None:
    manifests = snapshot("scaled")
    (trigger,) = of_kind(manifests, "ScaledObject", "lingua-scheduler-node")["spec"]["triggers"]
    assert trigger["type"] == "metrics-api"
    service = of_kind(manifests, "Service", "lingua-scheduler-internal")
    host, port = service["metadata"]["name"], service["spec"]["ports"][0]["port"]
    assert trigger["metadata"]["url"] == f"http://{host}.lingua:{port}/v1/scaling"
    args = of_kind(manifests, "Deployment", "lingua-scheduler-node")["spec"]["template"]["spec"]["containers"][0][
        "args"
    ]
    assert f"--slots={trigger['metadata']['targetValue']}" in args
    of_kind(manifests, "TriggerAuthentication", trigger["authenticationRef"]["name"])


@needs_helm
def test_alerts_and_dashboard_are_those_of_deploy() -> None:
    manifests = documents(chart.rendered("public"))
    alerts, dashboard = (source.read_text("utf-8") for source in chart.COPIES.values())
    assert of_kind(manifests, "PrometheusRule")["spec"] == yaml.safe_load(alerts)
    shown = of_kind(manifests, "ConfigMap", "lingua-scheduler-dashboard")["data"]["lingua-scheduler.json"]
    assert json.loads(shown) == json.loads(dashboard)
    assert len(shown) < 1_000_000, "a ConfigMap holds 1 MiB"


def test_prometheus_scrapes_each_pod_under_the_job_that_the_alerts_name() -> None:
    manifests = snapshot("public")
    monitor = of_kind(manifests, "ServiceMonitor")["spec"]
    service = of_kind(manifests, "Service", "lingua-scheduler-internal")
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    public = of_kind(manifests, "Service")
    assert not monitor["selector"]["matchLabels"].items() <= public["metadata"]["labels"].items()
    (endpoint,) = monitor["endpoints"]
    assert endpoint["port"] == service["spec"]["ports"][0]["name"]
    (job,) = (one["replacement"] for one in endpoint["relabelings"] if one["targetLabel"] == "job")
    assert f'up{{job="{job}"}}' in (chart.CHART / "files" / "alerts.yml").read_text("utf-8")


# The network


def test_only_named_peers_reach_the_internal_port_and_pods_reach_only_what_they_need() -> None:
    policy = of_kind(snapshot("public"), "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    public, internal = policy["ingress"]
    assert [rule["ports"][0]["port"] for rule in (public, internal)] == ["http", "internal"]
    components = [
        [
            one["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
            for one in rule["from"]
            if "podSelector" in one
        ]
        for rule in (public, internal)
    ]
    assert components == [["node", "test"], ["test"]]
    assert [one["port"] for rule in policy["egress"] for one in rule["ports"]] == [53, 53, 6379, 26379]
    assert policy["egress"][1]["to"]
    secure = of_kind(snapshot("secure"), "NetworkPolicy")["spec"]
    assert [one["port"] for rule in secure["egress"] for one in rule["ports"]] == [53, 53, 6379, 443, 4318]
    nodes = of_kind(snapshot("public"), "NetworkPolicy", "lingua-scheduler-node")["spec"]
    assert nodes["policyTypes"] == ["Ingress"]
    assert "ingress" not in nodes


def test_what_is_public_leads_to_the_public_port() -> None:
    (rule,) = of_kind(snapshot("public"), "Ingress")["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    ports = {one["name"]: one["targetPort"] for one in of_kind(snapshot("public"), "Service")["spec"]["ports"]}
    assert ports[path["backend"]["service"]["port"]["name"]] == "http"
    (route,) = of_kind(snapshot("secure"), "HTTPRoute")["spec"]["rules"]
    numbers = {one["port"]: one["targetPort"] for one in of_kind(snapshot("secure"), "Service")["spec"]["ports"]}
    assert numbers[route["backendRefs"][0]["port"]] == "http"
    assert route["timeouts"] == {"request": "0s"}
