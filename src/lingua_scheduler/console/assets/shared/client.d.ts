// The types of client.js, which is built from there. For the type check only.
export * from "../../../../../clients/js/src/bundle.js";
