// All entry points in one file, for pages that have no build step.
export * from "./index.js";
export * from "./files.js";
export * from "./microphone.js";
export * from "./playback.js";
export * from "./rooms.js";
export * from "./voices.js";
