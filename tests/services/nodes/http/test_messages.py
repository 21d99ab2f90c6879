"""What a node says over HTTP, said as on a socket."""

import pytest

from lingua_scheduler.domain.guards.addresses import read_networks
from lingua_scheduler.domain.guards.destinations import Destinations
from lingua_scheduler.domain.nodes.nodes import LoadLimits
from lingua_scheduler.protocol.http import NodeBeat, NodeRegistration
from lingua_scheduler.services.nodes.capabilities import changed_by, profile_of
from lingua_scheduler.services.nodes.http.messages import HttpNodeClaim, complaint_about, heartbeat_of, registration_of

LIMITS = LoadLimits(cpu=100, memory=100, gpu=100, gpu_memory=100)
BOTH = ["en", "zh"]


def test_what_is_left_out_stays_as_it_was() -> None:
    claim = HttpNodeClaim().changed_by(
        NodeRegistration(health="ok", semantic_langs=BOTH, tts_langs=["zh"], nmt_pairs=["en:zh"])
    )
    assert claim.changed_by(NodeBeat(node_id="node-a")) == claim
    changed = claim.changed_by(NodeBeat(node_id="node-a", tts_langs=[]))
    assert changed == claim._replace(tts_langs=[])


def test_a_node_hears_what_it_repairs_unless_it_says_otherwise() -> None:
    assert HttpNodeClaim(semantic_langs=BOTH).languages.asr_languages == BOTH
    assert HttpNodeClaim(semantic_langs=BOTH, asr_langs=["en"]).languages.asr_languages == ["en"]
    assert HttpNodeClaim(semantic_langs=BOTH, asr_langs=[]).languages.asr_languages == []


def test_such_nodes_acknowledge() -> None:
    says = NodeRegistration(semantic_langs=BOTH, boot_id="boot-1", max_concurrent_jobs=3)
    profile = profile_of(registration_of(says, HttpNodeClaim().changed_by(says)), 4, 256)
    assert (profile.acknowledges, profile.max_jobs, profile.boot_id) == (True, 3, "boot-1")


def test_one_without_a_boot_id_is_known_by_its_address() -> None:
    says = NodeRegistration(semantic_langs=BOTH)
    claim = HttpNodeClaim().changed_by(says)
    assert registration_of(says, claim, "10.0.0.7").boot_id == "address:10.0.0.7"
    assert registration_of(says, claim).boot_id is None


def test_shares_of_its_load_are_percentages_on_a_socket() -> None:
    says = NodeBeat(node_id="node-a", current_load={"gpu": 0.52, "cpu": 0.33, "memory": 7.0, "gpu_memory": -1})
    usage = heartbeat_of("node-a", says, HttpNodeClaim().changed_by(says)).resource_usage
    assert (usage.cpu_percent, usage.gpu_percent, usage.mem_percent, usage.gpu_mem_percent) == (33, 52, 100, 0)
    # A number of jobs, as other nodes give it.
    says = NodeBeat(node_id="node-a", current_load=3)
    usage = heartbeat_of("node-a", says, HttpNodeClaim().changed_by(says)).resource_usage
    assert (usage.cpu_percent, usage.gpu_percent) == (0, None)


@pytest.mark.parametrize("health", ["degraded", "", "Failing", "no"])
def test_one_that_is_not_well_gets_no_work_at_any_moment(health: str) -> None:
    says = NodeRegistration(health=health, semantic_langs=BOTH, tts_langs=BOTH)
    claim = HttpNodeClaim().changed_by(says)
    registered = profile_of(registration_of(says, claim), 4, 256)
    assert registered.languages.asr == frozenset()
    beaten = changed_by(heartbeat_of("node-a", says, claim), registered, 256, LIMITS)
    assert beaten.is_overloaded
    assert beaten.languages.asr == {"en", "zh"}


@pytest.mark.parametrize("health", ["ok", "OK", "ready", "healthy"])
def test_one_that_is_well_takes_work(health: str) -> None:
    says = NodeRegistration(health=health, semantic_langs=BOTH)
    assert profile_of(registration_of(says, HttpNodeClaim().changed_by(says)), 4, 256).languages.asr == {"en", "zh"}


@pytest.mark.parametrize(
    "url",
    ["ftp://host/x", "host/x", "//host/x", "http://", "http://u@host/", "http://host:0/", "http://h:x/", "http://hö/"],
)
def test_only_plain_addresses_are_called(url: str) -> None:
    assert complaint_about(NodeBeat(node_id="node-a", callback_url=url), Destinations())


@pytest.mark.parametrize("url", ["", "http://10.0.0.7:8080/jobs?node=1", "https://[2606::1]/jobs", "https://host"])
def test_plain_addresses_are_fine(url: str) -> None:
    assert (
        complaint_about(NodeBeat(node_id="node-a", callback_url=url), Destinations(read_networks(("10.0.0.7",))))
        is None
    )


@pytest.mark.parametrize("takes_text", [True, False, None])
def test_text_is_given_only_to_those_that_ask_for_it(takes_text: bool | None) -> None:
    says = NodeRegistration(semantic_langs=BOTH, text_input=takes_text)
    profile = profile_of(registration_of(says, HttpNodeClaim().changed_by(says)), 4, 256)
    assert (profile.features.text_input, profile.features.turns) == (bool(takes_text), True)
