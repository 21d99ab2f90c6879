"""The code in the documents of the JavaScript client compiles against the package."""

import json
import re
import subprocess
from pathlib import Path

from tests.support.js_client import PACKAGE, ROOT, TOOLS

BLOCK = re.compile(r"^```js\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = (PACKAGE / "README.md", ROOT / "docs" / "javascript.md")
# Of what an application installs beside it.
AMBIENT = """
declare module "ws" {
  const WebSocket: new (url: string, protocols: string[]) => import("@lingua-scheduler/client").WebSocketLike;
  export default WebSocket;
}
declare module "node:fs/promises" {
  export function readFile(name: string): Promise<Uint8Array>;
}
"""
# A page looks for its elements and knows that they are there; and a gap has no text.
LOOSE = {"strict": False, "lib": ["ES2023", "DOM", "DOM.Iterable"], "types": []}


def test_every_example_compiles(built: Path, tmp_path: Path) -> None:
    blocks = [block for page in PAGES for block in BLOCK.findall(page.read_text("utf-8"))]
    assert len(blocks) >= 4
    for number, block in enumerate(blocks):
        typed = block.replace('document.querySelector("#talk")', 'document.querySelector<HTMLElement>("#talk")')
        # JavaScript may read a field that only one of two kinds has.
        typed = typed.replace("const result of session", "const result of session as AsyncIterable<any>")
        (tmp_path / f"example-{number}.ts").write_text(typed, "utf-8")
    (tmp_path / "ambient.d.ts").write_text(AMBIENT, "utf-8")
    paths = {"@lingua-scheduler/client": [f"{built}/index"], "@lingua-scheduler/client/*": [f"{built}/*"]}
    options = LOOSE | {"noEmit": True, "target": "ES2022", "module": "ES2022", "moduleResolution": "Bundler"}
    config = {"compilerOptions": options | {"paths": paths}, "include": ["*.ts"]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(config))
    command = [str(TOOLS / "node_modules/.bin/tsc"), "-p", str(tmp_path)]
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout
