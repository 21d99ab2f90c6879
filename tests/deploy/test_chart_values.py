"""Values that cannot work are refused before anything is installed, with what to do."""

import pytest

from tests.support.charts import documents, needs_helm, of_kind
from tools import chart

pytestmark = needs_helm

REDIS = ("--set", "redis.url=redis://valkey:6379/0")
KEY = ("--set", "clusterKey.secret=key")
GOOD = (*REDIS, *KEY)


def sets(*words: str) -> tuple[str, ...]:
    return tuple(part for word in words for part in ("--set", word))


def test_two_values_are_enough() -> None:
    assert of_kind(documents(chart.template(*GOOD)), "Deployment")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "redis.url is empty: name your Redis or Valkey"),
        (REDIS, "clusterKey.secret is empty: make the key with: kubectl create secret"),
        ((*KEY, *sets("redis.url=http://valkey")), "redis.url is no address of Redis: it begins with redis://"),
        # Passwords belong into a secret: values are stored with the release, and shown by helm get values.
        (
            (*KEY, *sets("redis.url=redis://lingua:secret@valkey:6379/0")),
            "redis.url has a password: write redis://USER",
        ),
        ((*KEY, *sets("redis.url=redis://valkey:6379/0?password=secret")), "redis.url has a password"),
        ((*KEY, *sets("redis.url=redis+sentinel://a/b?sentinel_password=secret")), "redis.url has a password"),
        ((*GOOD, *sets("redis.secret.urlKey=u")), "both set: remove one"),
        ((*GOOD, *sets("redis.secret.passwordKey=p")), r"redis.url has no \$\(REDIS_PASSWORD\)"),
        ((*KEY, *sets("redis.url=redis://u:$(REDIS_PASSWORD)@v:6379")), "name the secret that has it"),
        ((*GOOD, *sets("ports.internal=5010")), "ports.http and ports.internal are the same"),
        ((*GOOD, *sets("tls.clientCaKey=ca.crt")), "tls.clientCaKey needs tls.secret"),
        ((*GOOD, *sets("ingress.enabled=true")), "ingress.hosts is empty"),
        ((*GOOD, *sets("httpRoute.enabled=true")), "httpRoute.parentRefs is empty"),
        (
            (*GOOD, *sets("autoscaling.enabled=true", "autoscaling.sessionsPerPod=0", "autoscaling.cpuPercent=0")),
            "autoscaling has no metric",
        ),
        ((*GOOD, *sets("autoscaling.enabled=true", "autoscaling.minReplicas=20")), "minReplicas is above"),
    ],
)
def test_what_is_missing_or_does_not_fit_is_named_with_the_next_step(words: tuple[str, ...], reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refused:
        chart.template(*words)
    assert ":secret" not in str(refused.value)
    assert "=secret" not in str(refused.value)


@pytest.mark.parametrize(
    "word",
    [
        "replica=3",
        "redis.uri=redis://v",
        "node.gpu=1",
        "probes.startup.path=/x",
        "networkPolicy.redis.port=1",
        "monitoring.enabled=true",
        "settings.dispach.queue_wait_ms=1",
        "settings.dispatch.queue_wait=1",
        # The chart sets these.
        "settings.server.port=80",
        "settings.redis.url=redis://v",
    ],
)
def test_unknown_names_are_refused(word: str) -> None:
    with pytest.raises(ValueError, match=r"Additional property .* is not allowed"):
        chart.template(*GOOD, *sets(word))


@pytest.mark.parametrize(
    "word",
    [
        "replicas=many",
        "ports.http=80",
        "image.digest=sha256:123",
        "nameOverride=Not_A_Name",
        "settings.dispatch.queue_wait_ms=-1",
        "settings.logs.level=loud",
        "settings.server.allowed_hosts=one",
        "node.autoscaling.kind=magic",
        "preStopSeconds=-1",
    ],
)
def test_values_out_of_range_are_refused(word: str) -> None:
    with pytest.raises(ValueError, match="don't meet the specifications of the schema"):
        chart.template(*GOOD, *sets(word))
