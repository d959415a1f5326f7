// Where an element is drawn and whether a pointer reaches it. Nothing here writes, so one layout serves the whole walk.

const viewportBox = () => ({ left: 0, top: 0, right: VIEW.innerWidth, bottom: VIEW.innerHeight });

const meet = (a, b) => ({
  left: Math.max(a.left, b.left), top: Math.max(a.top, b.top), right: Math.min(a.right, b.right), bottom: Math.min(a.bottom, b.bottom),
});
const empty = (box) => box.right - box.left < 1 || box.bottom - box.top < 1;
const EVERYWHERE = { left: -1e9, top: -1e9, right: 1e9, bottom: 1e9 };

// Areas of a picture have no box of their own: they are drawn where the first picture with their map is.
const pictures = new WeakMap();
const pictureOf = (area) => {
  const map = closest(area, 'map');
  if (!map) return null;
  const name = `#${attr(map, 'name') || idOf(map)}`;
  const known = pictures.get(area);
  if (known && isConnected(known) && attr(known, 'usemap') === name) return known;
  const found = [...queryAll(rootOf(area), 'img[usemap]')].find((one) => attr(one, 'usemap') === name) || null;
  if (found) pictures.set(area, found);
  return found;
};
const areaBox = (area) => {
  const picture = pictureOf(area);
  if (!picture) return new DOMRect();
  const { left, top, width, height } = picture.getBoundingClientRect();
  const [x, y, ...more] = (attr(area, 'coords') || '').split(/[\s,;]+/).map(Number);
  const shape = (attr(area, 'shape') || 'rect').toLowerCase();
  const at = (x1, y1, x2, y2) => new DOMRect(left + clientLeft(picture) + Math.min(x1, x2), top + clientTop(picture) + Math.min(y1, y2), Math.abs(x2 - x1), Math.abs(y2 - y1));
  if (shape === 'default') return new DOMRect(left, top, width, height);
  if (![x, y, ...more].every(Number.isFinite) || more.length === 0) return new DOMRect();
  if (shape.startsWith('circ')) return at(x - more[0], y - more[0], x + more[0], y + more[0]);
  const xs = [x, ...more.filter((_, i) => i % 2 === 0)];
  const ys = [y, ...more.filter((_, i) => i % 2 === 1)];
  return at(Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys));
};
// The element that is drawn: for an area, its picture.
const drawnElement = (el) => (el instanceof HTMLAreaElement && pictureOf(el)) || el;

// The boxes a pointer can aim at: each line of an inline element, else the border box.
const aimBoxes = (el, style) => {
  if (style.display !== 'inline') return [boxOf(el)];
  const boxes = [...boxesOf(el)].filter((box) => box.width >= 1 && box.height >= 1).slice(0, 8);
  return boxes.length > 0 ? boxes : [boxOf(el)];
};

// Points to try in a box: the middle, then four around it, then near the edges.
const SPREAD = [[0.5, 0.5], [0.25, 0.5], [0.75, 0.5], [0.5, 0.25], [0.5, 0.75], [0.1, 0.1], [0.9, 0.1], [0.1, 0.9], [0.9, 0.9], [0.03, 0.5], [0.97, 0.5], [0.5, 0.03], [0.5, 0.97]];
const pointsIn = (box) => SPREAD.map(([x, y]) => [box.left + (box.right - box.left) * x, box.top + (box.bottom - box.top) * y]);

const ACTIONABLE = new Set(['a', 'button', 'input', 'select', 'textarea', 'summary', 'iframe']);

// Whether a press on `hit` acts on `el`: it is inside it, and no other control lies between.
const actsOn = (el, hit) => {
  for (let node = hit, steps = 0; node && steps < 1000; node = flatParent(node), steps += 1) {
    if (node === el) return true;
    if (!(node instanceof Element)) continue;
    const tag = localName(node);
    if (tag === 'label' && labelControl(node) === el) return true;
    if (isBarrier(node, tag) && !isLabelOf(el, node)) return false;
  }
  return false;
};
// A control that would take the press for itself. What is declared as presentation belongs to the control around it.
const isBarrier = (node, tag) => {
  if (!ACTIONABLE.has(tag) || (tag === 'a' && attr(node, 'href') === null)) return false;
  const role = attr(node, 'role');
  return role !== 'presentation' && role !== 'none';
};
const isLabelOf = (el, control) => localName(el) === 'label' && labelControl(el) === control;

// `isHit`: what has to be under the pointer. For a press what acts on the element, for the pointer alone anything inside it.
const hitsAt = (el, x, y, isHit = actsOn) => {
  const hit = hitAt(x, y);
  return hit !== null && isHit(el, hit);
};

// On a page of a million nodes one look at a point takes a tenth of a second. Until when points are tried:
let aimUntil = Infinity;
const AIM_MS = 1500;
const aimsLate = () => performance.now() > aimUntil;
const aimFor = (ms) => {
  aimUntil = performance.now() + ms;
};

// The first point at which a pointer reaches `el` inside `clip`, or null.
const reach = (el, style, clip) => {
  for (const box of aimBoxes(el, style)) {
    const seen = meet(box, clip);
    if (empty(seen)) continue;
    for (const [x, y] of pointsIn(seen)) {
      if (aimsLate()) return null;
      if (hitsAt(el, x, y)) return [x, y];
    }
  }
  return null;
};

const whereOf = (box, clip) => {
  if (box.bottom <= clip.top) return 'above';
  if (box.top >= clip.bottom) return 'below';
  if (box.right <= clip.left) return 'left';
  if (box.left >= clip.right) return 'right';
  return 'in';
};
