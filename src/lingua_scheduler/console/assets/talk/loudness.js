// How loud the loudspeaker is: a bar for people, figures for tests.
import { find } from "./page.js";

/** Returns what hears {seconds, peak} of the loudspeaker. */
export function loudnessMeter() {
  const { dataset, style } = find(HTMLElement, "#loudness");
  let played = 0;
  return (/** @type {{seconds: number, peak: number}} */ { seconds, peak }) => {
    played += seconds;
    dataset.playedSeconds = played.toFixed(3);
    dataset.peak = peak.toFixed(4);
    dataset.loudest = Math.max(Number(dataset.loudest ?? 0), peak).toFixed(4);
    style.setProperty("--level", peak.toFixed(3));
  };
}
