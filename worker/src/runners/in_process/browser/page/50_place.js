// Where an element is drawn and whether a pointer reaches it. Nothing here writes, so one layout serves the whole walk.

const viewportBox = () => ({ left: 0, top: 0, right: VIEW.innerWidth, bottom: VIEW.innerHeight });

const meet = (a, b) => ({
  left: Math.max(a.left, b.left), top: Math.max(a.top, b.top), right: Math.min(a.right, b.right), bottom: Math.min(a.bottom, b.bottom),
});
const empty = (box) => box.right - box.left < 1 || box.bottom - box.top < 1;
const EVERYWHERE = { left: -1e9, top: -1e9, right: 1e9, bottom: 1e9 };

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

const hitsAt = (el, x, y) => {
  const hit = hitAt(x, y);
  return hit !== null && actsOn(el, hit);
};

// On a page of a million nodes one look at a point takes a tenth of a second. Until when points are tried:
let aimUntil = Infinity;
const AIM_MS = 1500;
const aimsLate = () => performance.now() > aimUntil;
const aimFor = (ms) => {
  aimUntil = performance.now() + ms;
};

// The first point at which a pointer reaches `el` inside `clip`, or null.
const reach = (el, style, clip, most = SPREAD.length) => {
  for (const box of aimBoxes(el, style)) {
    const seen = meet(box, clip);
    if (empty(seen)) continue;
    for (const [x, y] of pointsIn(seen).slice(0, most)) {
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
