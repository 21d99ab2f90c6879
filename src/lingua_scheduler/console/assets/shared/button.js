// Hold to talk, or tap to start and tap to stop: by finger, mouse, keyboard or screen reader.

const TAP_MS = 350;
const KEYS = new Set([" ", "Enter"]);

/** @typedef {{isTalking: boolean, start(): void, stop(): void, latch(): void}} Talk */
/** @typedef {{button: HTMLButtonElement, gesture: {down(): void, up(): void}}} Control */

/**
 * `latch` means: continue although the button is not held.
 * @param {HTMLButtonElement} button
 * @param {Talk} talk
 */
export function holdOrTap(button, talk) {
  let downAt = 0;
  let handledAt = -Infinity;

  const down = () => {
    handledAt = performance.now();
    if (talk.isTalking) {
      downAt = 0;
      talk.stop();
    } else {
      downAt = handledAt;
      talk.start();
    }
  };
  const up = () => {
    handledAt = performance.now();
    if (!downAt) return;
    if (handledAt - downAt < TAP_MS) talk.latch();
    else talk.stop();
    downAt = 0;
  };

  button.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || button.disabled) return;
    button.setPointerCapture(event.pointerId);
    down();
  });
  button.addEventListener("pointerup", up);
  button.addEventListener("pointercancel", up);
  button.addEventListener("contextmenu", (event) => event.preventDefault());
  button.addEventListener("click", () => {
    // A screen reader clicks without having pressed anything.
    if (performance.now() - handledAt < 1_000) return;
    if (talk.isTalking) talk.stop();
    else {
      talk.start();
      talk.latch();
    }
  });
  return { down, up, isHeld: () => downAt > 0 };
}

/**
 * The space bar works on controls that have the focus, and anywhere else on the page for the first of them.
 * @param {Control[]} controls
 */
export function keyboard(controls) {
  /** @type {Control | null} */
  let held = null;
  const target = (/** @type {KeyboardEvent} */ event) => {
    const focused = controls.find(({ button }) => button === document.activeElement);
    if (focused) return KEYS.has(event.key) ? focused : null;
    const isElsewhere = document.activeElement?.closest("select, button, input, a, summary, dialog");
    return event.key === " " && !isElsewhere ? controls[0] : null;
  };
  document.addEventListener("keydown", (event) => {
    const found = target(event);
    if (!found || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    if (event.repeat || held || found.button.disabled) return;
    held = found;
    found.gesture.down();
  });
  const release = (/** @type {Event} */ event) => {
    if (!held || (event instanceof KeyboardEvent && !KEYS.has(event.key))) return;
    event.preventDefault();
    held.gesture.up();
    held = null;
  };
  document.addEventListener("keyup", release);
  // The key may come up where we do not see it.
  window.addEventListener("blur", release);
}
