// The one pass over the page: entries in reading order, elements and texts, from which the index and the tree are made.
// It reads styles and boxes and writes nothing, so the browser lays the page out at most once.

const CONTAINER_CHARS = NAME_CHARS; // a plain element with more text than this is a container, not named by its content

// Where an element is. What matters for few elements is asked for only there.
class Placement {
  constructor(el, style, { clip, hard }, position, holder) {
    this.el = el;
    this.style = style;
    this.visible = style.visibility === 'visible' && Number(style.opacity) > 0;
    this.cursor = style.cursor;
    this.clip = clip;
    this.hard = hard;
    this.inner = null;
    this.position = position;
    this.holder = holder;
    this.boxOnce = null;
    this.outerOnce = null;
  }

  // The clips of what is placed absolutely in it: its own, if it holds such elements, or those of what holds it.
  get outer() {
    this.outerOnce ??= this.position !== 'static' || this.style.transform !== 'none' ? this.inner : this.holder.outer;
    return this.outerOnce;
  }

  get box() {
    this.boxOnce ??= boxOf(this.el);
    return this.boxOnce;
  }

  get seen() {
    const { box } = this;
    return this.visible && box.width > 0 && box.height > 0 && !empty(meet(box, this.hard));
  }
}

class Walk {
  constructor({ budget, texts = true, hits = true, reads = new Budget({ nodes: 1e9, ms: 1e9 }) } = {}) {
    this.budget = budget || reads;
    this.texts = texts;
    this.hits = hits;
    this.entries = [];
    this.hosts = [];
    this.labels = new Labels();
    this.active = focused();
    this.window = viewportBox();
    this.block = 0;
  }

  start(root) {
    const up = {
      depth: 0, level: 0, clip: EVERYWHERE, hard: EVERYWHERE, holder: { outer: { clip: EVERYWHERE, hard: EVERYWHERE } }, hand: false, visible: true,
      name: null, inside: null, drawing: namespaceOf(root) === SVG && localName(root) !== 'svg',
    };
    this.node(root, up);
    return this;
  }

  node(node, up) {
    if (!this.budget.node()) return false;
    const type = nodeType(node);
    if (type === 3) this.text(node, up);
    else if (type === 1) this.element(node, up);
    return !this.budget.over;
  }

  text(node, up) {
    if (!up.visible) return;
    const data = node.data;
    const text = collapse(data.length > 20000 ? data.slice(0, 20000) : data);
    if (text === '' || (text === ' ' && up.name === null)) return;
    for (let name = up.name; name; name = name.outer) {
      if (name.text.length <= LINE_CHARS) name.text += text;
      else break;
    }
    if (!this.texts || text === ' ') return;
    const last = this.entries[this.entries.length - 1];
    if (last && last.kind === 'text' && last.block === this.block) {
      if (last.text.length <= LINE_CHARS) last.text += text;
    } else {
      this.entries.push({ kind: 'text', d: up.depth, text, block: this.block });
    }
  }

  element(el, up) {
    const tag = localName(el);
    if (UNREAD.has(tag)) return;
    const style = getComputedStyle(el);
    const display = style.display;
    if (display === 'none' && drawnElement(el) === el) return;
    const place = this.placeOf(el, tag, style, up);
    if (place.skip) return;
    const inline = display.startsWith('inline') || display === 'contents';
    if (!inline || tag === 'br') this.breakLine(up);
    const entry = this.entryOf(el, tag, style, place, up);
    const down = this.downOf(el, tag, entry, place, up);
    const first = this.entries.length;
    if (up.level < MOST_DEPTH) {
      if (tag !== 'select' && tag !== 'textarea' && tag !== 'iframe') eachChild(el, (child) => this.node(child, down));
    } else {
      this.budget.tooDeep();
    }
    if (entry) this.close(el, entry, first, down);
    if (!inline) this.breakLine(up);
    if (mayHost(el, tag) && place.visible && this.hosts.length < 64) this.hosts.push(el);
  }

  breakLine(up) {
    this.block += 1;
    for (let name = up.name; name; name = name.outer) {
      if (name.text.length > LINE_CHARS || name.text.endsWith(' ')) break;
      name.text += ' ';
    }
  }

  // Box, visibility and the clips that hold for what is inside.
  placeOf(el, tag, style, up) {
    const position = style.position;
    const base = position === 'fixed' ? { clip: EVERYWHERE, hard: EVERYWHERE } : position === 'absolute' ? up.holder.outer : up;
    const found = new Placement(el, style, base, position, up.holder);
    let { clip, hard } = base;
    if (clips(style, tag)) {
      const { box } = found;
      clip = meet(clip, box);
      hard = meet(hard, hardBox(style, box));
      if (box.width < 1 || box.height < 1) return { skip: true };
    }
    found.inner = { clip, hard };
    return found;
  }

  entryOf(el, tag, style, place, up) {
    const hand = place.cursor === 'pointer';
    const role = roleOf(el, tag);
    let does = up.drawing ? this.shapeDoes(el, tag, role, style, up) : doesOf(el, tag, role, hand && !up.hand);
    if (does && !this.shows(el, tag, role, does, place)) does = null;
    const entry = { kind: 'element', el, tag, role, does, place, style, d: up.depth, n: 0, where: 'in', text: '', outer: up.name };
    if (does) {
      if (!this.reaches(el, style, place, entry)) return this.shown(entry, role);
      entry.n = numberOf(el);
      this.entries.push(entry);
      if (!this.budget.spend('elements', 1)) {
        this.entries.pop();
        return null;
      }
      return entry;
    }
    return place.visible ? this.shown(entry, role) : null;
  }

  shown(entry, role) {
    if (!this.texts || !SHOWN_ROLES.has(role)) return null;
    entry.does = null;
    this.entries.push(entry);
    return entry;
  }

  shapeDoes(el, tag, role, style, up) {
    if (SHAPES.has(tag) && style.pointerEvents !== 'none') return 'graphic';
    return heard.has(el) ? 'click' : doesOf(el, tag, role, false);
  }

  // Whether a person would see it as something to act on. A native check box with no opacity is drawn by its label.
  shows(el, tag, role, does, place) {
    if (place.seen) return true;
    if (tag === 'line' || tag === 'path' || tag === 'polyline') return place.visible && place.box.width + place.box.height > 0;
    return does === 'check' && place.style.visibility === 'visible' && place.box.width > 0 && place.box.height > 0;
  }

  reaches(el, style, place, entry) {
    const clip = meet(place.clip, this.window);
    entry.where = empty(clip) ? whereOf(place.box, this.window) : whereOf(place.box, clip);
    if (entry.where !== 'in') return true;
    if (aimsLate()) return this.budget.late();
    if (!this.hits || style.pointerEvents === 'none' && entry.does !== 'frame') return !this.hits;
    if (entry.does === 'graphic' && empty(place.box)) return true;
    if (reach(el, style, clip) || (entry.does === 'graphic' && drawnPoints(el, clip).length > 0)) return true;
    return this.nestsControl(el, entry);
  }

  // A plain container wholly filled by its own controls still is an element to act on (a row that listens).
  nestsControl(el, entry) {
    const { box } = entry.place;
    const hit = hitAt(box.left + box.width / 2, box.top + box.height / 2);
    return hit !== null && hit !== el && holds(el, hit) && entry.does === 'click' && !ACTIONABLE.has(entry.tag);
  }

  downOf(el, tag, entry, place, up) {
    const drawing = up.drawing || (tag === 'svg' && place.box.width >= LEAST_DRAWING && place.box.height >= LEAST_DRAWING && !up.inside);
    const visible = place.visible || (place.style.visibility === 'visible' && Number(place.style.opacity) > 0);
    return {
      depth: entry ? up.depth + 1 : up.depth, level: up.level + 1, clip: place.inner.clip, hard: place.inner.hard, holder: place,
      hand: place.cursor === 'pointer', visible: visible && (up.visible || place.style.visibility === 'visible'),
      name: entry ? entry : up.name, inside: entry && entry.does ? entry : up.inside, drawing: drawing && namespaceOf(el) === SVG,
    };
  }

  // Gives the entry its name, and takes back the lines of text that the name already says.
  close(el, entry, first) {
    const given = givenName(el, entry.tag, this.labels);
    const content = oneLine(entry.text, LINE_CHARS);
    const inner = this.entries.slice(first);
    const nested = inner.some((one) => one.kind === 'element');
    const native = CONTENT_ROLES.has(entry.role);
    const byContent = native ? !(nested && TEXT_HOLDERS.has(entry.role)) : entry.does === 'click' || entry.does === 'graphic' ? content.length < CONTAINER_CHARS && !nested : PLAIN_HOLDERS.has(entry.role) && !nested;
    entry.name = oneLine(given || (byContent ? content : ''), entry.does || native ? NAME_CHARS : LINE_CHARS) || oneLine(lastName(el));
    if (byContent || entry.does === 'type') this.dropTexts(first);
    if (!entry.does && NAMED_ONLY.has(entry.role) && !entry.name && entry.role !== 'img') this.unwrap(entry, first);
  }

  dropTexts(first) {
    if (this.entries.length === first) return;
    const kept = this.entries.slice(first).filter((one) => one.kind !== 'text');
    this.entries.length = first;
    for (const one of kept) this.entries.push(one);
  }

  // A group without a name says nothing: its lines move up in its place.
  unwrap(entry, first) {
    const at = first - 1;
    if (this.entries[at] !== entry) return;
    this.entries.splice(at, 1);
    for (let i = at; i < this.entries.length; i += 1) this.entries[i].d -= 1;
  }
}

const clips = ({ overflowX, display }, tag) => overflowX !== 'visible' && display !== 'inline' && display !== 'contents' && tag !== 'body' && tag !== 'html';

// What an element cuts off for good: the axes along which it can't be scrolled.
const CUTS = new Set(['hidden', 'clip']);
const hardBox = (style, box) => {
  const x = CUTS.has(style.overflowX);
  const y = CUTS.has(style.overflowY);
  return {
    left: x ? box.left : EVERYWHERE.left, right: x ? box.right : EVERYWHERE.right, top: y ? box.top : EVERYWHERE.top, bottom: y ? box.bottom : EVERYWHERE.bottom,
  };
};

// Roles whose content is their name only while nothing in them can be acted on.
const TEXT_HOLDERS = new Set(['listitem', 'cell', 'columnheader', 'rowheader', 'caption', 'definition', 'term', 'label', 'gridcell']);
const PLAIN_HOLDERS = new Set(['alert', 'status', 'blockquote']);
