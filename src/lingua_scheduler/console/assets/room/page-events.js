// What happens to the page itself: it is out of sight, has another address, is left, or has its network back.

/**
 * @param {{back(): void, away(): void, moved(): void, left(): void}} on
 */
export function watchPage(on) {
  window.addEventListener("online", () => on.back());
  document.addEventListener("visibilitychange", () => (document.hidden ? on.away() : on.back()));
  window.addEventListener("hashchange", () => on.moved());
  window.addEventListener("pagehide", () => on.left());
  // A page that comes back from the browser's memory has lost its connections.
  window.addEventListener("pageshow", ({ persisted }) => persisted && location.reload());
}
