"""docs/deploy-kubernetes.md: its values render, and its commands name what is rendered."""

import re
from pathlib import Path

from tests.support.charts import documents, needs_helm, of_kind
from tools import chart, docs

PAGE = (docs.DOCS / "deploy-kubernetes.md").read_text("utf-8")
NOTES = (chart.CHART / "templates" / "NOTES.txt").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@needs_helm
def test_the_values_of_the_page_render_what_its_commands_name(tmp_path: Path) -> None:
    (text,) = blocks("yaml")
    values = tmp_path / "values.yaml"
    values.write_text(text)
    sets = re.findall(r"--set (\S+)", "\n".join(blocks("sh")))
    assert sets == ["node.enabled=true,node.replicas=2,node.joinSecret=lingua-join"]
    manifests = documents(chart.template("--values", str(values), "--set", sets[0]))
    commands = "\n".join(blocks("sh"))
    named = set(re.findall(r"\b(deployment|cronjob)/([\w-]+)", commands))
    assert named == {("deployment", "lingua-scheduler"), ("cronjob", "lingua-scheduler-tools")}
    for kind, name in named:
        assert of_kind(manifests, {"deployment": "Deployment", "cronjob": "CronJob"}[kind], name)
    # The secrets that it creates are those that pods ask for.
    created = set(re.findall(r"create secret generic (\S+) --from-(?:literal|file)=([^=]+)=", commands))
    assert created == {("lingua-redis", "password"), ("lingua-cluster-key", "cluster.key"), ("lingua-join", "join")}
    asked = str(manifests)
    assert [name for name, key in created if f"'{name}'" not in asked or f"'{key}'" not in asked] == []


def test_files_and_values_that_the_page_names_exist() -> None:
    values = (chart.CHART / "values.yaml").read_text("utf-8")
    for path in re.findall(r"\bdeploy/(?:helm|kubernetes)[\w/.-]*", PAGE):
        assert (chart.ROOT / path).exists(), path
    roots = set(re.findall(r"^(\w+):", values, re.MULTILINE))
    named = set(re.findall(r"`([a-zA-Z]+)\.[a-zA-Z.]+`", PAGE)) - {"settings", "server", "values", "keda"}
    assert {"image", "redis", "node", "networkPolicy", "monitoring"} <= named
    assert named <= roots


def test_the_notes_and_the_page_teach_the_same_first_key() -> None:
    def steps(text: str) -> list[str]:
        lines = [line.strip() for line in text.splitlines() if " job tools" in line or "job/tools" in line]
        return [re.sub(r"\{\{[^}]*fullname[^}]*\}\}|\{\{ \$name \}\}", "lingua-scheduler", line) for line in lines]

    shown = [step.replace("{{ .Release.Namespace }}", "speech") for step in steps(NOTES)]
    assert shown == steps("\n".join(blocks("sh")))
    assert len(shown) == 3
