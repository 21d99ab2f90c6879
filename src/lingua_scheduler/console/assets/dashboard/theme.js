// Runs before the first paint, so that a page that should be dark never flashes white.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    let chosen = null;
    try {
      chosen = localStorage.getItem("lingua.theme");
    } catch {
      // No storage, no memory: the system decides.
    }
    document.documentElement.dataset.theme = chosen ?? (system.matches ? "dark" : "light");
  };
  apply();
  system.addEventListener("change", apply);
})();
