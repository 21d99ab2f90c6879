// Recordings: a WAV file is cut at its pauses, and each sentence is sent as a whole utterance.
import { LinguaError } from "./errors.js";
import { pcm, RATE, Resampler } from "./resampler.js";
import type { UtteranceOptions } from "./first-words.js";
import type { Session } from "./session.js";

const FRAME_SAMPLES = RATE / 50;
// Silence as long as this ends a sentence. Of it this much is sent, for words that begin or end softly.
const PAUSE_FRAMES = 40;
const AROUND_FRAMES = 15;
// A longer sentence is cut at its quietest moment.
const MAX_FRAMES = 20 * 50;
const MIN_FRAMES = MAX_FRAMES / 2;
// Silence is near the quietest moments of the recording and far below the loudest; a click or a gap is neither.
const MOMENTS = 25;
const TIMES_THE_QUIETEST = 3;
const SURELY_SILENT = 0.02;
const SURELY_HEARD = 0.1;

const PCM_FORMAT = 1;
const FLOAT_FORMAT = 3;
const EXTENSIBLE = 0xfffe;

/** The file is no WAV file, or of a kind that cannot be read. */
export class CannotRead extends LinguaError {
  constructor(message: string) {
    super("CANNOT_READ", message);
  }
}

/** Sends every sentence of a WAV file (any rate, 16 bit or float); returns their numbers. Throws CannotRead. */
export async function sendFile(session: Pick<Session, "utterance">, file: Blob | ArrayBuffer | Uint8Array, options: UtteranceOptions = {}): Promise<number[]> {
  const indexes = [];
  for (const sentence of sentences(readWav(await bytesIn(file)))) indexes.push(await session.utterance(sentence, options));
  return indexes;
}

async function bytesIn(file: Blob | ArrayBuffer | Uint8Array): Promise<Uint8Array> {
  if (file instanceof Uint8Array) return file;
  return new Uint8Array(file instanceof ArrayBuffer ? file : await file.arrayBuffer());
}

/** A WAV file as 16 kHz mono PCM16. Throws CannotRead. */
export function readWav(bytes: Uint8Array): Int16Array {
  const { format, view } = chunksOf(bytes);
  const channels = format.getUint16(2, true);
  const rate = format.getUint32(4, true);
  const read = reader(format, view);
  const size = (format.getUint16(14, true) / 8) * channels;
  if (!channels || !rate || !size) throw new CannotRead("the header of the WAV file is broken");
  const mono = new Float32Array(Math.floor(view.byteLength / size));
  for (let i = 0; i < mono.length; i++) {
    let sum = 0;
    for (let channel = 0; channel < channels; channel++) sum += read(i * size + (channel * size) / channels);
    mono[i] = sum / channels;
  }
  return resampled(mono, rate);
}

function reader(format: DataView, view: DataView): (at: number) => number {
  const tag = format.getUint16(0, true);
  // The extensible form has its tag at the beginning of a longer one.
  const kind = tag === EXTENSIBLE && format.byteLength >= 26 ? format.getUint16(24, true) : tag;
  const bits = format.getUint16(14, true);
  if (kind === PCM_FORMAT && bits === 16) return (at) => view.getInt16(at, true) / 32_768;
  if (kind === FLOAT_FORMAT && bits === 32) return (at) => view.getFloat32(at, true);
  throw new CannotRead(`only WAV files with 16-bit or 32-bit float samples can be read, not format ${kind} with ${bits} bits`);
}

function chunksOf(bytes: Uint8Array): { format: DataView; view: DataView } {
  const all = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const name = (at: number) => String.fromCharCode(...bytes.subarray(at, at + 4));
  if (bytes.length < 12 || name(0) !== "RIFF" || name(8) !== "WAVE") throw new CannotRead("this is not a WAV file");
  let format: DataView | undefined;
  for (let at = 12; at + 8 <= bytes.length; ) {
    const size = Math.min(all.getUint32(at + 4, true), bytes.length - at - 8);
    const chunk = new DataView(bytes.buffer, bytes.byteOffset + at + 8, size);
    if (name(at) === "fmt " && size >= 16) format = chunk;
    if (name(at) === "data" && format) return { format, view: chunk };
    at += 8 + size + (size % 2);
  }
  throw new CannotRead("the WAV file has no sound");
}

function resampled(samples: Float32Array, rate: number): Int16Array {
  if (rate === RATE) return Int16Array.from(samples, pcm);
  const resampler = new Resampler(rate);
  const result = new Int16Array(Math.ceil((samples.length * RATE) / rate) + 1);
  let count = 0;
  const emit = (sample: number) => {
    if (count < result.length) result[count++] = pcm(sample);
  };
  const step = Math.max(1, Math.floor(rate / 10));
  for (let at = 0; at < samples.length; at += step) resampler.push(samples.subarray(at, at + step), emit);
  resampler.flush(emit);
  return result.subarray(0, count);
}

/** Stretches between the pauses of a recording. One that is all alike is one sentence, however quiet it is. */
export function* sentences(samples: Int16Array): Generator<Int16Array> {
  const levels = levelsOf(samples);
  for (const [start, end] of stretches(levels, silenceOf(levels))) {
    for (const [from, to] of pieces(levels, Math.max(0, start - AROUND_FRAMES), end + AROUND_FRAMES)) {
      yield samples.subarray(from * FRAME_SAMPLES, to * FRAME_SAMPLES);
    }
  }
}

/** The level below which it is silent. */
function silenceOf(levels: Float64Array): number {
  const ranked = levels.slice().sort();
  const skipped = Math.min(MOMENTS, Math.floor(ranked.length / 10));
  const quietest = ranked[skipped] ?? 0;
  const loudest = ranked[ranked.length - 1 - skipped] ?? 0;
  return Math.min(Math.max(quietest * TIMES_THE_QUIETEST, loudest * SURELY_SILENT), loudest * SURELY_HEARD);
}

/** Where speech begins and ends, in frames. */
function* stretches(levels: Float64Array, silentBelow: number): Generator<[number, number]> {
  let start = -1;
  let end = 0;
  for (let frame = 0; frame < levels.length; frame++) {
    if (levels[frame]! < silentBelow) continue;
    if (start >= 0 && frame - end >= PAUSE_FRAMES) {
      yield [start, end];
      start = frame;
    }
    if (start < 0) start = frame;
    end = frame + 1;
  }
  if (start >= 0) yield [start, end];
}

function* pieces(levels: Float64Array, start: number, end: number): Generator<[number, number]> {
  let from = start;
  while (end - from > MAX_FRAMES) {
    let cut = from + MIN_FRAMES;
    for (let frame = cut; frame < from + MAX_FRAMES; frame++) if (levels[frame]! < levels[cut]!) cut = frame;
    yield [from, cut];
    from = cut;
  }
  yield [from, end];
}

/** The root mean square of each 20 ms. */
function levelsOf(samples: Int16Array): Float64Array {
  return Float64Array.from({ length: Math.ceil(samples.length / FRAME_SAMPLES) }, (_, frame) => {
    const part = samples.subarray(frame * FRAME_SAMPLES, (frame + 1) * FRAME_SAMPLES);
    return Math.sqrt(part.reduce((sum, sample) => sum + sample * sample, 0) / part.length);
  });
}
