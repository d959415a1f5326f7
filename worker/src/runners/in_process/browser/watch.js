// Runs in each page from its beginning on, in the world of the script: notes when the document changed last, so that a page
// that has been quiet is not waited for. What its parser adds is no change, and watching that would cost. Frames have it too,
// because the browser can't be told otherwise, and leave at once.
(() => {
  if (globalThis.parent !== globalThis) return;
  const change = () => {
    globalThis.changedAt = performance.now();
  };
  const watch = () => {
    change();
    new MutationObserver(change).observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
    // Only where changes are seen: a page can keep the other event from this script.
    globalThis.addEventListener('load', change, { once: true });
  };
  document.addEventListener('DOMContentLoaded', watch, { once: true });
})();
