"""Programs written for lingua_scheduler.sdk go on for one more release, and are told."""

import subprocess
import sys

# As programs in the field have it: docs/sdk.md of release 0.1.
PROGRAM = """
from lingua_scheduler.protocol.node import JobAssign
from lingua_scheduler.sdk import wav
from lingua_scheduler.sdk.client import Client, Partial, SessionFailed, Translation, paced
from lingua_scheduler.sdk.microphone import listening, speech_of
from lingua_scheduler.sdk.node import Abilities, Audio, BadAddress, Node, Partial, Pipeline, Translation, run_node
from lingua_scheduler.sdk.room_events import Caption, Ended, History, MembersChanged, Said, TextMessage
from lingua_scheduler.sdk.watching import Failures, get, post, trouble_of, watch
import lingua_sdk.client, lingua_sdk.node, lingua_sdk.trouble
assert Client is lingua_sdk.client.Client and Node is lingua_sdk.node.Node
assert trouble_of is lingua_sdk.trouble.trouble_of
print(Client.__module__, wav.__name__)
"""


def test_former_imports_are_the_same_objects_and_warn_once() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert ran.stdout == "lingua_sdk.client lingua_sdk.wav\n"
    assert ran.stderr.count("DeprecationWarning: lingua_scheduler.sdk is now the package lingua_sdk") == 1
    assert ran.stderr.count("DeprecationWarning: lingua_scheduler.protocol.node is now") == 1


def test_the_package_itself_does_not_warn() -> None:
    words = "import lingua_scheduler.cli.main, lingua_scheduler.app, lingua_sdk.client, lingua_sdk.node"
    ran = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:lingua", "-c", words],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stderr == ""
