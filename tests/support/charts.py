"""Manifests as values, and the tools that make and check them: without a tool, the tests that need it are skipped."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tools import chart

needs_helm = pytest.mark.skipif(
    chart.helm() is None, reason="helm is not installed; make check-chart installs it and runs this test"
)
Manifest = dict[str, Any]
SNAPSHOTS = {path.stem: path for path in chart.SNAPSHOTS.glob("*.yaml")}


def validator() -> str:
    found = shutil.which("kubernetes-validate", path=str(chart.ROOT / ".venv-chart" / "bin"))
    if found is None:
        pytest.skip("kubernetes-validate is not installed; make check-chart installs it and runs this test")
    return found


def documents(text: str) -> list[Manifest]:
    return [document for document in yaml.safe_load_all(text) if document]


def snapshot(name: str) -> list[Manifest]:
    """As it was rendered for the tests that need no Helm; another test checks that it is current."""
    return documents(SNAPSHOTS[name].read_text("utf-8"))


def of_kind(manifests: list[Manifest], kind: str, name: str = "lingua-scheduler") -> Manifest:
    (found,) = (one for one in manifests if one["kind"] == kind and one["metadata"]["name"] == name)
    return found


def pod_specs(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    for one in manifests:
        name = f"{one['kind']}/{one['metadata']['name']}"
        match one["kind"]:
            case "Pod":
                yield name, one["spec"]
            case "CronJob":
                yield name, one["spec"]["jobTemplate"]["spec"]["template"]["spec"]
            case "Deployment":
                yield name, one["spec"]["template"]["spec"]
