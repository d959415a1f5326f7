// Names that do not come from an element's own content: labels, attributes, captions. Content is collected by the walk.

const labelControl = (label) => label.control;

// Text of an element as it reads, alternatives of images included, for labels and references.
const plainText = (node, most = NAME_CHARS * 4) => {
  let out = '';
  let steps = 0;
  let depth = 0;
  const walk = (at) => {
    steps += 1;
    if (steps > 2000 || out.length > most || depth > MOST_DEPTH) return false;
    const type = nodeType(at);
    if (type === 3) {
      out += at.data.slice(0, most);
      return true;
    }
    if (type !== 1 && type !== 11) return true;
    if (type === 1) {
      const tag = localName(at);
      if (UNREAD.has(tag) || tag === 'select' || tag === 'textarea') return true;
      if (tag === 'img') out += ` ${attr(at, 'alt') || ''} `;
    }
    const apart = type === 1 && (localName(at) === 'br' || BLOCK_TAGS.has(localName(at))) ? ' ' : '';
    out += apart;
    depth += 1;
    const more = eachChild(at, walk);
    depth -= 1;
    out += apart;
    return more;
  };
  walk(node);
  return collapse(out).trim();
};

const UNREAD = new Set(['script', 'style', 'template', 'noscript', 'head', 'title', 'meta', 'link', 'base']);
const BLOCK_TAGS = new Set('address article aside blockquote dd div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr li main nav ol p pre section table td th tr ul'.split(' '));

// Labels of the controls of each root, found in one pass when a first control asks.
class Labels {
  constructor() {
    this.roots = new Map();
  }

  of(el) {
    const root = rootOf(el);
    let map = this.roots.get(root);
    if (!map) {
      map = new Map();
      this.roots.set(root, map);
      if (root instanceof Document || root instanceof DocumentFragment) {
        for (const label of queryAll(root, 'label')) {
          const control = labelControl(label);
          if (control) map.set(control, [...(map.get(control) || []), label]);
        }
      }
    }
    return map.get(el) || null;
  }
}

const referenced = (el, ids) => {
  const root = rootOf(el);
  const found = ids.trim().split(/\s+/).slice(0, 8).map((id) => byId(root, id)).filter(Boolean);
  return found.map((target) => attr(target, 'aria-label') || plainText(target)).join(' ').trim();
};

const NAMED_FIELDS = new Set(['input', 'textarea', 'select']);
const LABELED = new Set(['input', 'textarea', 'select', 'meter', 'progress', 'output', 'button']);

// The name given by markup, or '' when it is the content that names the element.
const givenName = (el, tag, labels) => {
  const by = attr(el, 'aria-labelledby');
  if (by) {
    const text = referenced(el, by);
    if (text) return text;
  }
  const label = attr(el, 'aria-label');
  if (label && label.trim()) return label;
  if (LABELED.has(tag)) {
    const own = labels.of(el);
    if (own) {
      const text = own.map((one) => plainText(one)).join(' ').trim();
      if (text) return text;
    }
  }
  if (tag === 'input') {
    const type = inputType(el);
    if (CLICK_TYPES.has(type)) {
      return el.value || attr(el, 'alt') || (type === 'submit' ? 'Submit' : type === 'reset' ? 'Reset' : '');
    }
  }
  if (tag === 'img' || tag === 'area') return attr(el, 'alt') || '';
  if (tag === 'iframe' || tag === 'frame') return attr(el, 'title') || attr(el, 'name') || attr(el, 'src') || '';
  const titled = tag === 'fieldset' ? 'legend' : tag === 'table' ? 'caption' : tag === 'figure' ? 'figcaption' : tag === 'svg' ? 'title' : tag === 'optgroup' ? null : undefined;
  if (titled === null) return attr(el, 'label') || '';
  if (titled) {
    for (let child = firstChild(el); child; child = nextSibling(child)) {
      if (child instanceof Element && localName(child) === titled) return plainText(child);
    }
  }
  return '';
};

// What stands in for a name when neither markup nor content gives one.
const lastName = (el) => attr(el, 'title') || attr(el, 'placeholder') || attr(el, 'aria-placeholder') || attr(el, 'data-tooltip')
  || (NAMED_FIELDS.has(localName(el)) && (attr(el, 'name') || idOf(el))) || '';

// What the markup calls an element that nothing names: its id, its classes, or those of the picture in it.
const iconName = (el) => {
  const id = idOf(el) ? `#${oneLine(idOf(el), 40)}` : '';
  const classes = attr(el, 'class') || (id ? '' : [...queryAll(el, '[class]')].map((one) => attr(one, 'class'))[0]);
  const words = oneLine(classes || '', 200).split(' ').filter(Boolean).slice(0, 3);
  return cut(id + words.map((word) => `.${word}`).join(''), 60);
};
