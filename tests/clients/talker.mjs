// Speaks until it is dismissed, and prints the translations: a program to lingua conformance client.
// node talker.mjs <built package> <folder of the package ws> chunks|whole
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [built, tools, kind] = process.argv.slice(2);
const { connect } = await import(pathToFileURL(`${built}/index.js`).href);
const webSocket = createRequire(pathToFileURL(`${tools}/`))("ws");

const EVERY_MS = 50;
const SPEECH = new Int16Array(800).fill(256);
const url = process.env.LINGUA_URL.replace("/ws/session", "");
const session = await connect({ url, source: "en", target: "zh", webSocket });

async function speak() {
  for (;;) {
    if (kind === "whole") await session.utterance(SPEECH);
    else await session.send(SPEECH, true);
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
  }
}

speak().catch(() => {}); // The iteration ends with the same error.
for await (const result of session) process.stdout.write(`${result.translated ?? ""}\n`);
