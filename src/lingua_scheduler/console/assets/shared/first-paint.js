// A classic script that runs before the first paint, so that a page that should be dark never flashes white.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    let chosen = null;
    try {
      // A classic script cannot import: this is storage.js's name of the choice in theme.js.
      chosen = localStorage.getItem("lingua.theme");
    } catch {
      // No storage: the system decides.
    }
    const isDark = chosen === "dark" || (chosen !== "light" && system.matches);
    document.documentElement.dataset.theme = isDark ? "dark" : "light";
  };
  apply();
  system.addEventListener("change", apply);
})();
