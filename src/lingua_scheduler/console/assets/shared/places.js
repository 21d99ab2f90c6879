// Where the scheduler's operations are, beside the folder of a page: a proxy may add a prefix.

/** @param {string} path such as v1/pools */
export function httpUrl(path) {
  return new URL(`../${path}`, import.meta.url);
}

/** Where clients connect. */
export function socketUrl() {
  const url = httpUrl("ws/session");
  url.protocol = url.protocol.replace("http", "ws");
  return url;
}
