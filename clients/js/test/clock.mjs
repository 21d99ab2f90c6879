// A clock in the hands of a test.
import { mock } from "node:test";

/** All timers stand still; returns what lets time pass. */
export function stopTime() {
  let elapsedMs = 1_000_000;
  mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"], now: elapsedMs });
  mock.method(performance, "now", () => elapsedMs);
  return async (ms) => {
    for (let left = ms; left > 0; left -= 50) {
      const step = Math.min(50, left);
      elapsedMs += step;
      mock.timers.tick(step);
      await settle();
    }
  };
}

export function restoreTime() {
  mock.timers.reset();
  mock.restoreAll();
}

/** Lets everything that waits for a promise go on. */
export async function settle() {
  for (let turn = 0; turn < 30; turn += 1) await Promise.resolve();
}
