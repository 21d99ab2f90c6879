// Keeps a phone's screen on while people talk, where the browser can.

const LINGER_MS = 60_000;
let lock = null;
let timer = 0;

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
