// Starts the viewer. What is typed into it, a key too, stays in this window's memory.

/** @typedef {(options: Record<string, unknown>) => unknown} Viewer */

const { SwaggerUIBundle } = /** @type {{ SwaggerUIBundle: Viewer }} */ (/** @type {unknown} */ (window));

const dark = matchMedia("(prefers-color-scheme: dark)");
const paint = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", paint);
paint();

SwaggerUIBundle({
  url: "../openapi.json",
  dom_id: "#viewer",
  filter: true,
  deepLinking: true,
  docExpansion: "list",
  tryItOutEnabled: true,
  displayRequestDuration: true,
  persistAuthorization: false,
  // It would ask a server on the internet what it thinks of the document.
  validatorUrl: null,
});
