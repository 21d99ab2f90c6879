import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { NoMicrophone } from "../../../../src/lingua_scheduler/console/assets/shared/client.js";
import { Talking } from "../../../../src/lingua_scheduler/console/assets/room/talking.js";
import { restoreTime, settle, stopTime } from "../support.mjs";

/** @type {string[]} */
let heard = [];
/** @type {any} */
let sound;
/** @type {((frame: any) => void) | null} */
let onFrame = null;
/** @type {((error: Error) => void) | null} */
let onLost = null;
/** @type {Talking} */
let talking;
/** @type {(ms: number) => Promise<void>} */
let pass;
let isTaken = true;

beforeEach(() => {
  pass = stopTime();
  heard = [];
  isTaken = true;
  Object.defineProperty(globalThis, "navigator", { value: {}, configurable: true });
  sound = {
    wake: async () => true,
    microphone: {
      open: async () => {},
      start: (/** @type {any} */ taker, /** @type {any} */ lost) => ([onFrame, onLost] = [taker, lost]),
      stop: () => onFrame?.(frame(0, true)),
    },
    player: { hold: () => heard.push("hold"), release: () => {} },
  };
  talking = new Talking(sound, {
    send: (_, isFinal) => heard.push(isFinal ? "final" : "part") > 0 && isTaken,
    phase: (phase) => heard.push(phase),
    level: () => {},
    notice: (word) => word && heard.push(word),
  });
});
afterEach(restoreTime);

const news = () => heard.splice(0);
/** @param {number} level */
function frame(level, isLast = false) {
  return { samples: new Int16Array(1_600), level, isLast };
}

/**
 * @param {number} count
 * @param {number} level
 */
async function take(count, level) {
  for (let at = 0; at < count; at += 1) {
    await pass(100);
    onFrame?.(frame(level));
  }
}

test("while the button is held everything is sent, and the end when it is let go", async () => {
  await talking.start(false);
  await take(5, 0);
  talking.stop();
  assert.deepEqual(news(), ["opening", "hold", "held", "part", "part", "part", "part", "part", "final", "off"]);
});

test("hands-free the silence between sentences is not sent, and translations go on", async () => {
  await talking.start(true);
  await take(400, 0);
  assert.deepEqual(news(), ["opening", "latched"]);
  await take(3, 0.5);
  await take(8, 0);
  assert.equal(news().filter((one) => one === "final").length, 1);
  assert(talking.isOn);
});

test("after a tap it stops by itself when nothing is said", async () => {
  await talking.start(false);
  talking.latch();
  await take(301, 0);
  assert(!talking.isOn);
  assert(news().includes("forgotten"));
});

test("without a microphone it says why, and the person still hears", async () => {
  sound.microphone.open = async () => {
    throw new NoMicrophone("DENIED", "no");
  };
  await talking.start(false);
  assert.deepEqual(news(), ["opening", "off", "mic_denied"]);
  sound.microphone = null;
  await talking.start(false);
  assert(news().includes("mic_insecure"));
});

test("a microphone that is unplugged while hands are free turns it off and says so", async () => {
  await talking.start(true);
  onLost?.(new NoMicrophone("NONE", "unplugged"));
  assert(!talking.isOn);
  assert.deepEqual(news(), ["opening", "latched", "off", "mic_none"]);
});

test("a button that is let go before the browser has asked needs a second press", async () => {
  const opening = talking.start(false);
  talking.stop();
  await opening;
  await settle();
  assert(news().includes("mic_ready"));
  assert(!talking.isOn);
});

test("when no more is taken, it stops", async () => {
  await talking.start(false);
  isTaken = false;
  await take(5, 0.5);
  assert(!talking.isOn);
  assert(news().includes("too_long"));
});
