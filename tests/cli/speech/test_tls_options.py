"""`lingua node --ca/--cert/--key`: what is wrong is told before anything connects."""

from pathlib import Path

from tests.support.certificates import NODE_URI, Authority
from tests.support.keyed import lingua


async def test_files_that_cannot_be_used_end_the_command_with_their_name(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files, other = authority.node(NODE_URI), authority.node(NODE_URI, name="other")
    none = str(tmp_path / "none.pem")
    for words, why in (
        (("--ca", none), f"{none} cannot be used: No such file or directory"),
        (("--cert", str(files.cert), "--key", str(other.key)), "the key does not belong to the certificate"),
        (("--key", str(files.key)), "--key needs --cert"),
        (
            ("--cert", str(files.cert), "--key", str(files.key), "--join", "lingua-join_x"),
            "--join and --cert exclude each other",
        ),
    ):
        ended = await lingua("node", "--engine", "sim", *words)
        assert (ended.exit_code, why in ended.output) == (2, True), ended.output
