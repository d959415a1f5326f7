// Runs in each new page, in the script's isolated world, and records the time of the last change, so that nobody waits for a page
// that is quiet already. The parser's own changes do not count: observing them would slow down loading. The browser runs this in
// every frame; only the main one needs it.
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
