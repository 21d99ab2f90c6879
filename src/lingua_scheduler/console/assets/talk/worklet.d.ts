// What the audio thread offers to a worklet; TypeScript's own library of the DOM leaves it out.

declare const sampleRate: number;

declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}

declare function registerProcessor(name: string, processor: new () => AudioWorkletProcessor): void;
