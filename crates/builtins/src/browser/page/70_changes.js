// What an action changed: the listing before against the listing after.

const MOST_MARKS = 4;
const MOST_TEXTS = 20;
const marks = new Map();
let lastMark = 0;

const pageTexts = (walk) => walk.entries.filter((entry) => entry.kind === 'text').map((entry) => oneLine(entry.text, LINE_CHARS));

// The line without what only place and focus change.
const essence = (t) => t.replace(/ focused\b/, '').replace(/ \((?:above|below|left|right)\)$/, '');

const snapshot = (budget) => {
  const { walk, elements } = listing({ budget, texts: true });
  const texts = new Set(pageTexts(walk));
  for (const entry of walk.entries) {
    if (entry.kind === 'element' && !entry.n && entry.name) texts.add(finish(entry, walk.active).t);
  }
  return { elements, texts, cut: walk.budget.cut };
};

const mark = (args) => {
  const { elements, texts } = snapshot(args.budget);
  lastMark += 1;
  const listed = new Map(elements.map((entry) => [entry.n, essence(entry.t)]));
  marks.set(lastMark, { listed, texts });
  if (marks.size > MOST_MARKS) marks.delete(marks.keys().next().value);
  return { mark: lastMark };
};

const changed = (args) => {
  const before = marks.get(args.mark);
  if (!before) refuse('no_mark', 'The page is not the same as before; list it again.');
  const now = snapshot(args.budget);
  const listed = new Set(now.elements.map((entry) => entry.n));
  const altered = [];
  const fresh = [];
  for (const entry of now.elements) {
    const was = before.listed.get(entry.n);
    if (was === undefined) fresh.push(publicOf(entry));
    else if (was !== essence(entry.t)) altered.push({ n: entry.n, t: entry.t, was });
  }
  const gone = [];
  for (const [n, t] of before.listed) if (!listed.has(n)) gone.push({ n, t });
  const active = focused();
  return {
    new: fresh, gone: now.cut ? [] : gone, altered, text: [...now.texts].filter((text) => text && !before.texts.has(text)).slice(0, MOST_TEXTS),
    focus: active ? briefOf(active) : null, info: info(),
  };
};

// Elements that may change a page without its user. `meta` is one of them if it loads another page.
const ACTIVE = new Set(['script', 'iframe', 'frame', 'fencedframe', 'object', 'embed', 'animate', 'animateMotion', 'animateTransform', 'set']);
// Events that come from the user alone. Those of a pointer that moves are not: layout may move elements below it.
const USER_EVENTS = new Set([
  'onclick', 'ondblclick', 'onauxclick', 'oncontextmenu', 'onmousedown', 'onmouseup', 'onwheel', 'onpointerdown', 'onpointerup', 'ontouchstart',
  'ontouchend', 'ontouchmove', 'onkeydown', 'onkeyup', 'onkeypress', 'oninput', 'onchange', 'onsubmit', 'onreset', 'ondragstart', 'ondrag',
  'ondragend', 'ondragover', 'ondrop', 'oncopy', 'oncut', 'onpaste',
]);
// A page with more elements counts as one that may change.
const MOST_STILL = 2000;

const isInert = (el) => {
  const tag = localName(el);
  if (ACTIVE.has(tag) || openRoot(el) || (tag === 'meta' && /^\s*refresh/i.test(attr(el, 'http-equiv') || ''))) return false;
  return run(Element, el, 'getAttributeNames').every((name) => !name.startsWith('on') || USER_EVENTS.has(name));
};

// Whether only its user can change a page that has loaded: it never had a script, no other page can reach it, nothing in it moves.
const isStill = () => {
  if (VIEW.hadScript !== false || VIEW.opener !== null || ofDocument('readyState') !== 'complete') return false;
  if (run(Document, DOC, 'getAnimations').length > 0) return false;
  const elements = queryAll(DOC, '*');
  return elements.length <= MOST_STILL && [...elements].every(isInert);
};

// Resolves when the document has not changed for `quiet_ms`, at the latest after `most_ms`. With `loaded`, the quiet time
// before this call counts too, if the watch runs: a page can stop the watch's events. A page that only its
// user can change is `still`.
const settle = (args) => new Promise((resolve) => {
  const quiet = Math.min(Math.max(Number(args.quiet_ms) || 80, 1), 5000);
  const most = Math.min(Math.max(Number(args.most_ms) || 1500, quiet), 10000);
  const started = performance.now();
  if (args.loaded === true && isStill()) return resolve({ quiet: true, still: true });
  const isWatched = args.loaded === true && typeof VIEW.changedAt === 'number';
  const since = isWatched ? Math.min(VIEW.changedAt, started) : started;
  const end = (calm) => {
    observer.disconnect();
    clearTimeout(timer);
    clearTimeout(limit);
    resolve({ quiet: calm });
  };
  let timer = setTimeout(() => end(true), Math.max(since + quiet - started, 0));
  const limit = setTimeout(() => end(false), most);
  const observer = new MutationObserver(() => {
    clearTimeout(timer);
    timer = setTimeout(() => end(true), quiet);
  });
  observer.observe(DOC, { subtree: true, childList: true, attributes: true, characterData: true });
});
