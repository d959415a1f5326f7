// Entries as lines (`button "Send" disabled`) and as the elements of the index.

const headingLevel = (entry) => attr(entry.el, 'aria-level') || (/^h[1-6]$/.test(entry.tag) ? entry.tag[1] : '2');

const lookOf = (entry) => {
  if (entry.does === 'graphic' && SHAPES.has(entry.tag)) return lookOfShape(entry.el, entry.tag, entry.style, entry.place.box);
  return FIELDS.has(entry.does) ? `${size(entry.place.box)} ${place(entry.place.box)}` : lookOfBox(entry.style, entry.place.box);
};

const FIELDS = new Set(['type', 'choose', 'set', 'check', 'file']);

const kindOf = (entry) => {
  if (entry.does === 'graphic' && SHAPES.has(entry.tag)) return shapeName(entry.el, entry.tag);
  if (entry.tag === 'svg' && entry.role === 'generic') return 'drawing';
  if (entry.role === 'textbox' && entry.tag === 'input' && inputType(entry.el) === 'password') return 'password';
  return entry.role;
};

// The line of an element; sets `state` on the way.
const finish = (entry, active) => {
  if (entry.t !== undefined) return entry;
  entry.state = stateOf(entry.el, entry.tag, entry.role, active);
  const value = valueOf(entry.el, entry.tag, entry.does);
  const parts = [kindOf(entry)];
  if (entry.role === 'heading') parts.push(headingLevel(entry));
  if (entry.name) parts.push(quoted(entry.name));
  else if (entry.does === 'click' && entry.el instanceof HTMLElement) parts.push(iconName(entry.el));
  if (value !== null && value !== '') parts.push(`value ${quoted(value)}`);
  if (entry.role === 'slider' || entry.role === 'spinbutton') parts.push(rangeOf(entry.el));
  parts.push(...entry.state);
  if (entry.does === 'graphic' || (entry.does && entry.does !== 'frame' && !entry.name)) parts.push(lookOf(entry));
  else if (entry.does && saysPlace(entry.el, entry.role, entry.style)) parts.push(`${size(entry.place.box)} ${place(entry.place.box)}`);
  if (entry.where !== 'in' && entry.does) parts.push(`(${entry.where})`);
  entry.t = parts.filter(Boolean).join(' ');
  if (entry.n) remember(entry);
  return entry;
};

const rangeOf = (el) => {
  const end = (name) => attr(el, name) ?? attr(el, `aria-value${name}`);
  const parts = ['min', 'max'].filter((name) => end(name) !== null).map((name) => `${name} ${oneLine(end(name), 20)}`);
  return parts.join(' ');
};

const MOST_OPTIONS = 20;

const publicOf = (entry) => {
  const { n, t } = entry;
  const out = { n, t };
  if (entry.tag === 'select') {
    const options = entry.el.options;
    out.options = [...options].slice(0, MOST_OPTIONS).map((one) => oneLine(one.text, 60));
    if (options.length > MOST_OPTIONS) out.more_options = options.length - MOST_OPTIONS;
  }
  return out;
};

let offeredHosts = [];

// One walk of the document; entries of elements are finished and remembered.
const listing = ({ budget, texts = false } = {}) => {
  const walk = new Walk({ budget: budget instanceof Budget ? budget : new Budget(budget), texts });
  const root = rootElement();
  aimFor(walk.budget.most_ms);
  if (root) walk.start(root);
  const elements = walk.entries.filter((entry) => entry.n > 0);
  for (const entry of elements) finish(entry, walk.active);
  offeredHosts = walk.hosts;
  return { walk, elements };
};

// One element, described alone: what a refusal or a change says of it.
const describe = (el) => {
  const walk = new Walk({ hits: false, budget: new Budget({ nodes: 3000, ms: 50 }) });
  walk.start(el);
  let entry = walk.entries.find((one) => one.el === el);
  if (!entry) {
    entry = { el, tag: localName(el), role: roleOf(el, localName(el)), does: null, place: { box: boxOf(el) }, style: getComputedStyle(el), where: 'in', n: numbers.get(el) || 0, name: oneLine(plainText(el)) };
  }
  return finish(entry, walk.active);
};

// The nearest element around `el` that is or can be listed.
const listedAround = (el) => {
  for (let node = el, steps = 0; node && steps < 200; node = elementParent(node), steps += 1) {
    if (numbers.has(node)) return node;
    if (doesOf(node, localName(node), roleOf(node, localName(node)), false)) return node;
  }
  return el;
};

const briefOf = (el) => {
  if (!el) return { n: null, t: '' };
  const entry = describe(el);
  return { n: numbers.get(el) || null, t: entry.t };
};

const index = (args) => {
  const { walk, elements } = listing({ budget: args.budget });
  const frames = elements.filter((entry) => entry.does === 'frame');
  return {
    info: info(), elements: elements.map(publicOf), frames: frames.map(({ n, where }) => ({ n, where })), hosts: walk.hosts.length, cut: walk.budget.cut,
  };
};

const lines = (args) => {
  const { walk } = listing({ budget: args.budget, texts: true });
  const out = [];
  for (const entry of walk.entries) {
    const line = entry.kind === 'text' ? textLine(entry) : { n: entry.n || null, d: entry.d, t: finish(entry, walk.active).t };
    if (!line) continue;
    if (!walk.budget.spend('lines', 1)) break;
    out.push(line);
  }
  return { lines: out, hosts: walk.hosts.length, cut: walk.budget.cut };
};

const textLine = (entry) => {
  const text = oneLine(entry.text, LINE_CHARS);
  return text ? { n: null, d: entry.d, t: `text ${quoted(text)}` } : null;
};

const info = () => {
  const page = rootElement();
  const active = focused();
  const dialogs = [...queryAll(DOC, 'dialog[open],[role=dialog],[role=alertdialog]')].slice(0, 8).filter((el) => boxOf(el).width > 0);
  return {
    url: oneLine(VIEW.location.href, 2000), title: oneLine(titleOf(), 300), lang: page ? oneLine(attr(page, 'lang') || '', 20) : '',
    viewport: [VIEW.innerWidth, VIEW.innerHeight], scroll: [round(VIEW.scrollX), round(VIEW.scrollY)],
    size: page ? [scrollWidth(page), scrollHeight(page)] : [0, 0], focus: active ? numbers.get(active) || null : null,
    status: statusOf(), focus_t: active ? describe(active).t : '', dialogs: dialogs.map((el) => describe(el).t),
  };
};

// The status that the server answered the page with; 0 if it is not known.
const statusOf = () => performance.getEntriesByType('navigation')[0]?.responseStatus ?? 0;

const titleOf = () => ofDocument('title');
