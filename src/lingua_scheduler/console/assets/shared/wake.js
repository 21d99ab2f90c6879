// Keeps a phone's screen on while people talk, where the browser can.

const LINGER_MS = 60_000;
/** @type {WakeLockSentinel | null | undefined} */
let lock = null;
/** @type {number | undefined} */
let timer;

/** @param {boolean} isTalking */
export async function keepAwake(isTalking) {
  clearTimeout(timer);
  if (!isTalking) {
    timer = setTimeout(() => {
      lock?.release().catch(() => {});
      lock = null;
    }, LINGER_MS);
  } else if (!lock || lock.released) {
    lock = await navigator.wakeLock?.request("screen").catch(() => null);
  }
}
