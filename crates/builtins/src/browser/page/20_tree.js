// The tree as it is drawn: open shadow roots, closed ones that the worker has handed over, and what slots show.

const adopted = new WeakMap(); // host -> closed shadow root
const slotted = new WeakMap(); // node -> slot of an adopted root
const offered = new WeakSet(); // hosts already offered to the worker

const shadowOf = (el) => openRoot(el) || adopted.get(el) || null;

// Calls `visit` with each child of the flat tree until it answers false.
const eachChild = (node, visit) => {
  if (node instanceof Element) {
    const root = shadowOf(node);
    if (root) return eachChild(root, visit);
    if (node instanceof HTMLSlotElement) {
      const shown = node.assignedNodes();
      if (shown.length > 0) {
        for (const child of shown) {
          slotted.set(child, node);
          if (visit(child) === false) return false;
        }
        return true;
      }
    }
  }
  for (let child = firstChild(node); child; child = nextSibling(child)) {
    if (visit(child) === false) return false;
  }
  return true;
};

const flatParent = (node) => {
  const slot = (node instanceof Element && slotOf(node)) || slotted.get(node);
  if (slot && isConnected(slot)) return slot;
  const parent = parentNode(node);
  return parent instanceof ShadowRoot ? parent.host : parent;
};

const holds = (outer, inner) => {
  for (let node = inner, steps = 0; node && steps < 2000; node = flatParent(node), steps += 1) {
    if (node === outer) return true;
  }
  return false;
};

const elementParent = (node) => {
  const parent = flatParent(node);
  return parent instanceof Element ? parent : null;
};

// The element a pointer would hit, looked up through shadow roots.
const hitAt = (x, y) => {
  let hit = run(Document, DOC, 'elementFromPoint', x, y);
  for (let depth = 0; hit && depth < 64; depth += 1) {
    const root = shadowOf(hit);
    const inner = root && root.elementFromPoint(x, y);
    if (!inner || inner === hit || rootOf(inner) !== root) return hit;
    hit = inner;
  }
  return hit;
};

const focused = () => {
  let el = ofDocument('activeElement');
  for (let depth = 0; el && depth < 64; depth += 1) {
    const root = shadowOf(el);
    const deeper = root && root.activeElement;
    if (!deeper) break;
    el = deeper;
  }
  return el === bodyElement() || el === rootElement() ? null : el;
};

// An element without children that still takes space may be the host of a closed root: only the worker can see that.
const HOST_TAGS = new Set('article aside blockquote body div footer h1 h2 h3 h4 h5 h6 header main nav p section span'.split(' '));
const mayHost = (el, tag) => {
  if (offered.has(el) || openRoot(el) || adopted.has(el)) return false;
  if (tag.includes('-')) return true;
  return HOST_TAGS.has(tag) && firstChild(el) === null && clientHeight(el) > 0 && clientWidth(el) > 0;
};

// Each root that can be searched: the document and the shadow roots inside it, at most `most`.
const eachRoot = (visit, most = 2000) => {
  const roots = [DOC];
  for (let i = 0; i < roots.length && i < most; i += 1) {
    if (visit(roots[i]) === false) return;
    for (const el of queryAll(roots[i], '*')) {
      const root = shadowOf(el);
      if (root) roots.push(root);
      if (roots.length > most) break;
    }
  }
};
