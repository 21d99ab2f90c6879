// Builds the package into a folder, by default dist: `node build.mjs [folder]`. The tools are those of tools/js.
// `node build.mjs --pages` updates the two files of it that the scheduler's own pages load, and which are kept in the repository,
// so that neither the scheduler nor an installation needs Node.js.
import { execFileSync } from "node:child_process";
import { copyFileSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const [given] = process.argv.slice(2);
const forPages = given === "--pages";
const out = resolve(forPages || !given ? join(here, "dist") : given);
const tool = (/** @type {string} */ name) => join(here, "../../tools/js/node_modules/.bin", name);
const run = (/** @type {string} */ name, /** @type {string[]} */ options) =>
  execFileSync(tool(name), options, { cwd: here, stdio: "inherit" });
const BANNER = "// Built from clients/js by `make pages`. Do not edit.";
const FILES = ["client.js", "sound.worklet.js"];

rmSync(out, { recursive: true, force: true });
run("tsc", ["-p", ".", "--outDir", out]);
const bundle = (/** @type {string} */ from, /** @type {string} */ to) =>
  run("esbuild", [
    ...[`src/${from}`, "--bundle", "--format=esm", "--target=es2022", "--charset=utf8", "--log-level=warning"],
    ...["--allow-overwrite", `--banner:js=${BANNER}`, `--outfile=${join(out, to)}`],
  ]);
// An audio worklet is one file, because bundlers copy it as it is.
bundle("sound.worklet.ts", "sound.worklet.js");
bundle("bundle.ts", "client.js");
if (forPages) {
  const shared = join(here, "../../src/lingua_scheduler/console/assets/shared");
  for (const name of FILES) copyFileSync(join(out, name), join(shared, name));
}
