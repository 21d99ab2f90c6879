// How loud the loudspeaker is: a bar for people, figures for tests.
import { find } from "../shared/elements.js";

/**
 * What is heard goes through it to the loudspeaker.
 * @param {AudioContext} context
 */
export async function loudnessMeter(context) {
  const { dataset, style } = find(HTMLElement, "#loudness");
  await context.audioWorklet.addModule(new URL("./loudness.worklet.js", import.meta.url));
  const meter = new AudioWorkletNode(context, "loudness");
  let played = 0;
  meter.port.onmessage = ({ data: { seconds, peak } }) => {
    played += seconds;
    dataset.playedSeconds = played.toFixed(3);
    dataset.peak = peak.toFixed(4);
    dataset.loudest = Math.max(Number(dataset.loudest ?? 0), peak).toFixed(4);
    style.setProperty("--level", peak.toFixed(3));
  };
  meter.connect(context.destination);
  return meter;
}
