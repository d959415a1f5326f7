// Runs in each new page, in the script's isolated world, and records whether a script ever was in the page, and the time of the last
// change, so that nobody waits for a page that is quiet already. The parser's own changes do not count: observing all of them
// would slow down loading. The browser runs this in every frame; only the main one needs it.
(() => {
  if (globalThis.parent !== globalThis) return;
  // A page with more nodes counts as one with scripts.
  const MOST_NODES = 4000;
  let nodes = 0;
  globalThis.hadScript = false;
  const untilScript = new MutationObserver((records) => {
    for (const { addedNodes } of records) {
      for (const node of addedNodes) {
        nodes += 1;
        globalThis.hadScript ||= node.localName === 'script' || nodes > MOST_NODES;
      }
    }
    if (globalThis.hadScript) untilScript.disconnect();
  });
  untilScript.observe(document, { subtree: true, childList: true });
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
