// Runs in each page from its beginning on, in the world of the script: notes when the document changed last, so that a page
// that has been quiet is not waited for. What its parser adds is no change, and watching that would cost.
(() => {
  if (globalThis.parent !== globalThis) return;
  const change = () => {
    globalThis.changedAt = performance.now();
  };
  const watch = () => {
    change();
    new MutationObserver(change).observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
  };
  document.addEventListener('DOMContentLoaded', watch, { once: true });
  globalThis.addEventListener('load', change, { once: true });
})();
