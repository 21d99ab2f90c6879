// The built package: by default dist, which `node build.mjs` makes.
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const folder = resolve(process.env.LINGUA_BUILT ?? new URL("../dist", import.meta.url).pathname);

export const load = (/** @type {string} */ name) => import(pathToFileURL(`${folder}/${name}.js`).href);
