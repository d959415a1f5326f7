// From a number to a point a pointer can press, tested at that moment; else a refusal that says why.

const scrollTo = (el, how) => run(Element, drawnElement(el), 'scrollIntoView', how);

const shownOf = (el) => {
  const style = getComputedStyle(el);
  const box = boxOf(el);
  const listed = el instanceof SVGElement || localName(el) === 'input' || Number(style.opacity) > 0;
  return { style, box, ok: style.visibility === 'visible' && listed && (box.width > 0 || box.height > 0) && isDrawn(drawnElement(el)) };
};
const isDrawn = (el) => run(Element, el, 'checkVisibility');

// The part of an element that its scrolling and clipping ancestors let through, in the viewport.
const clipOf = (target) => {
  const el = drawnElement(target);
  let clip = viewportBox();
  let position = getComputedStyle(el).position;
  for (let node = elementParent(el), steps = 0; node && steps < 1000; node = elementParent(node), steps += 1) {
    if (position === 'fixed') break;
    const style = getComputedStyle(node);
    const tag = localName(node);
    const holds = style.position !== 'static' || style.transform !== 'none';
    if (position === 'absolute' && !holds) continue;
    position = holds ? style.position : position === 'absolute' ? position : 'static';
    if (style.overflowX !== 'visible' && style.display !== 'inline' && tag !== 'body' && tag !== 'html') clip = meet(clip, boxOf(node));
  }
  return clip;
};

// At most five points that act on the element, the one nearest to its middle first.
const pointsOf = (el, style, isHit) => {
  const clip = clipOf(el);
  const points = [];
  for (const box of aimBoxes(el, style)) {
    const seen = meet(box, clip);
    if (seen.right <= seen.left && seen.bottom <= seen.top) continue;
    for (const [x, y] of pointsIn(seen)) {
      if (aimsLate()) return points;
      if (x < 0 || y < 0 || x >= VIEW.innerWidth || y >= VIEW.innerHeight || !hitsAt(el, x, y, isHit)) continue;
      points.push([hundredth(x), hundredth(y)]);
    }
  }
  if (points.length === 0) return drawnPoints(el, clip, isHit);
  const free = points.filter((point) => !aimsLate() && isFree(el, point, isHit));
  return [...free, ...points.filter((point) => !free.includes(point))];
};
// Whether the points around belong to the element as well: a press is rounded to pixels, in a scaled frame to coarse ones.
const AROUND = [[3, 0], [-3, 0], [0, 3], [0, -3]];
const isFree = (el, [x, y], isHit) => AROUND.every(([dx, dy]) => hitsAt(el, x + dx, y + dy, isHit));
const hundredth = (value) => Math.round(value * 100) / 100;

// Outlines and lines are hit on their stroke alone: their length is tried.
const drawnPoints = (el, clip, isHit) => {
  if (!(el instanceof SVGGeometryElement)) return gridPoints(el, clip, isHit);
  const matrix = el.getScreenCTM();
  const length = el.getTotalLength();
  const points = [];
  for (let i = 1; matrix && !aimsLate() && i < 16 && points.length < 5; i += 1) {
    const on = el.getPointAtLength((length * i) / 16);
    const at = new DOMPoint(on.x, on.y).matrixTransform(matrix);
    if (at.x >= clip.left && at.x < clip.right && at.y >= clip.top && at.y < clip.bottom && hitsAt(el, at.x, at.y, isHit)) points.push([hundredth(at.x), hundredth(at.y)]);
  }
  return points;
};

// A last, finer search for elements of which only a strip is free.
const GRID = 12;
const gridPoints = (el, clip, isHit) => {
  const seen = meet(boxOf(el), clip);
  const points = [];
  for (let i = 0; i < GRID && !empty(seen); i += 1) {
    for (let j = 0; j < GRID && !aimsLate(); j += 1) {
      const x = seen.left + ((seen.right - seen.left) * (i + 0.5)) / GRID;
      const y = seen.top + ((seen.bottom - seen.top) * (j + 0.5)) / GRID;
      if (hitsAt(el, x, y, isHit)) points.push([hundredth(x), hundredth(y)]);
      if (points.length === 5) return points;
    }
  }
  return points;
};

const inWindow = (box) => box.left >= 0 && box.top >= 0 && box.right <= VIEW.innerWidth && box.bottom <= VIEW.innerHeight;

const locateElement = (el, { scroll = true, enabled = true, hover = false } = {}) => {
  const isHit = hover ? holds : actsOn;
  aimFor(AIM_MS);
  const entry = describe(el);
  const more = { t: entry.t };
  if (enabled && isDisabled(el)) refuse('disabled', `The element ${entry.t} is disabled and does not react.`, more);
  let { style, box, ok } = shownOf(el);
  if (!ok) refuse('hidden', `The element ${entry.t} is not drawn now.`, more);
  let points = pointsOf(el, style, isHit);
  if (scroll && (points.length === 0 || (!inWindow(box) && empty(meet(box, clipOf(el)))))) {
    for (const block of ['nearest', 'center', 'start', 'end']) {
      scrollTo(el, { block, inline: block === 'nearest' ? 'nearest' : 'center', behavior: 'instant' });
      points = pointsOf(el, style, isHit);
      if (points.length > 0) break;
    }
    box = boxOf(el);
  }
  if (points.length === 0 && aimsLate()) refuse('slow', `The page is so large that no free point of ${more.t} was found in ${AIM_MS} ms.`, more);
  if (points.length === 0) explain(el, box, more);
  return { n: numberOf(el), t: entry.t, points: points.slice(0, 5) };
};

// Why no point was found.
const explain = (el, box, more) => {
  const clip = clipOf(el);
  const seen = meet(box, clip);
  if (seen.right <= seen.left || seen.bottom <= seen.top) refuse('outside', `The element ${more.t} lies outside what can be scrolled into view.`, more);
  const hit = hitAt((seen.left + seen.right) / 2, (seen.top + seen.bottom) / 2);
  if (hit === null) refuse('outside', `The element ${more.t} lies outside the viewport.`, more);
  const by = briefOf(listedAround(hit));
  const inner = holds(el, hit);
  const message = inner
    ? `A press on ${more.t} would act on ${by.t} inside it; use that element instead.`
    : `The element ${more.t} is covered by ${by.t || localName(hit)}; close or move that first.`;
  refuse('covered', message, { ...more, by: by.t, by_n: by.n });
};

const locate = (args) => {
  const el = elementOf(args.number);
  return settleBox(el).then(() => locateElement(el, args));
};

// An element that is being moved is aimed at when it stands still for a frame; after half a second as it is.
const frame = () => new Promise((resolve) => {
  const timer = setTimeout(resolve, 60);
  requestAnimationFrame(() => {
    clearTimeout(timer);
    resolve();
  });
});
const isAnimated = (el) => {
  for (let node = el, steps = 0; node && steps < 50; node = elementParent(node), steps += 1) {
    if (run(Element, node, 'getAnimations').some((one) => one.playState === 'running')) return true;
  }
  return false;
};
const settleBox = async (el) => {
  if (!isAnimated(el)) return;
  for (let i = 0; i < 30 && isConnected(el); i += 1) {
    const before = boxOf(el);
    await frame();
    await frame();
    const after = boxOf(el);
    if (before.left === after.left && before.top === after.top && before.width === after.width) return;
  }
};

// The first match that is drawn, as pages often hold a menu for narrow windows too. Else the first.
const MOST_MATCHES = 64;
const bySelector = (selector) => {
  let found = null;
  let drawn = null;
  try {
    eachRoot((root) => {
      const matches = [...queryAll(root, selector)].slice(0, MOST_MATCHES);
      found = found || matches[0] || null;
      drawn = matches.find((one) => shownOf(one).ok) || null;
      return drawn === null;
    });
  } catch (error) {
    refuse('bad_selector', `The selector ${oneLine(String(selector), 100)} is not valid CSS.`);
  }
  if (!found) refuse('no_match', `No element of the page matches the selector ${oneLine(String(selector), 100)}.`);
  return drawn || found;
};

const locateSelector = (args) => {
  const el = bySelector(args.selector);
  return settleBox(el).then(() => locateElement(el, { ...args, enabled: false }));
};

// Where the pointer was last seen by this document. In a frame it proves that the way from the point here to the point on
// the screen is right: what the parents' transforms do to it is not known here.
let pointer = null;
const seePointer = (event) => {
  if (event.isTrusted) pointer = { x: event.clientX, y: event.clientY, at: performance.now() };
};
VIEW.addEventListener('pointermove', seePointer, { capture: true, passive: true });

const MOST_OFF = 2; // pixels
const pointerIsNear = (x, y) => pointer !== null && Math.abs(pointer.x - x) <= MOST_OFF && Math.abs(pointer.y - y) <= MOST_OFF;
const pointerIsAt = (x, y) => VIEW.parent === VIEW || pointerIsNear(x, y);
// What is under the pointer: a press lands where the pointer is, which rounding may have moved from where it was sent.
const underPointer = (x, y) => (pointerIsNear(x, y) ? hitAt(pointer.x, pointer.y) : hitAt(x, y));

// Asked while the pointer moves there: what hovering changes is drawn a frame after the pointer came, and what it loads may
// take longer, so a miss is looked at again for a third of a second.
const HOVER_ROUNDS = 20;
// Frames after which the move counts as done even if it was not seen: a page can keep it from this script, and a pointer
// that was there already moves nothing.
const MOVE_ROUNDS = 2;
// How long before this is asked the move may have come, in milliseconds. What came earlier was another call's.
const MOVED_BEFORE = 100;
const hits = async (args) => {
  const el = elementOf(args.number);
  let hit = null;
  let hovered = 0;
  const asked = performance.now();
  const hasMoved = () => pointerIsNear(args.x, args.y) && pointer.at >= asked - MOVED_BEFORE;
  for (let round = 0; round < HOVER_ROUNDS; round += 1) {
    await frame();
    hit = isConnected(el) ? underPointer(args.x, args.y) : null;
    if (hasMoved() || round >= MOVE_ROUNDS) hovered += 1;
    if (hit !== null && actsOn(el, hit) && pointerIsAt(args.x, args.y) && hovered > 1) break;
  }
  if (!pointerIsAt(args.x, args.y)) return { hit: false, by: 'something outside the frame', by_n: null };
  const brief = briefOf(hit && listedAround(hit));
  return { hit: hit !== null && actsOn(el, hit), by: brief.t, by_n: brief.n };
};

const at = (args) => {
  const hit = hitAt(args.x, args.y);
  return briefOf(hit && listedAround(hit));
};
