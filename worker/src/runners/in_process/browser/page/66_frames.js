// The way from a point in a child frame to a point in this document.

// The content box of a frame element and the scale between it and the child's viewport; refused when it is turned.
const contentOf = (el, args) => {
  const box = boxOf(el);
  const scaleX = layoutWidth(el) > 0 ? box.width / layoutWidth(el) : 1;
  const scaleY = layoutHeight(el) > 0 ? box.height / layoutHeight(el) : 1;
  for (let node = el, steps = 0; node && steps < 500; node = elementParent(node), steps += 1) {
    const { transform, rotate, perspective } = getComputedStyle(node);
    if (rotate !== 'none' || perspective !== 'none' || (transform !== 'none' && !isUpright(transform))) {
      refuse('turned', 'The frame is rotated or skewed.');
    }
  }
  const style = getComputedStyle(el);
  const pad = (side) => parseFloat(style[`padding${side}`]) || 0;
  return {
    left: box.left + (clientLeft(el) + pad('Left')) * scaleX, top: box.top + (clientTop(el) + pad('Top')) * scaleY,
    x: ((clientWidth(el) - pad('Left') - pad('Right')) * scaleX) / args.width, y: ((clientHeight(el) - pad('Top') - pad('Bottom')) * scaleY) / args.height,
  };
};
const layoutWidth = getter(HTMLElement.prototype, 'offsetWidth');
const layoutHeight = getter(HTMLElement.prototype, 'offsetHeight');

// A scale with or without a shift keeps the axes; anything else does not.
const isUpright = (transform) => {
  const matrix = new DOMMatrix(transform);
  return matrix.is2D && matrix.b === 0 && matrix.c === 0 && matrix.a > 0 && matrix.d > 0;
};

const through = (el, args) => {
  const content = contentOf(el, args);
  return [content.left + args.x * content.x, content.top + args.y * content.y];
};

const enter = (args) => {
  const el = elementOf(args.number);
  const { ok } = shownOf(el);
  const brief = briefOf(el);
  if (!ok) refuse('hidden', `The frame ${brief.t} is not drawn now.`, { t: brief.t });
  let [x, y] = through(el, args);
  let scrolled = false;
  if (args.scroll !== false && !hitsFrame(el, x, y)) {
    scrolled = true;
    scrollTo(el, { block: 'nearest', inline: 'nearest', behavior: 'instant' });
    [x, y] = through(el, args);
    if (!hitsFrame(el, x, y)) {
      bring(x, y);
      [x, y] = through(el, args);
    }
  }
  if (hitsFrame(el, x, y)) return { x: hundredth(x), y: hundredth(y), hit: true, scrolled };
  const hit = hitAt(x, y);
  if (hit === null) refuse('outside', `The point in the frame ${brief.t} lies outside what can be scrolled into view.`, { t: brief.t });
  const by = briefOf(listedAround(hit));
  refuse('covered', `The frame ${brief.t} is covered by ${by.t} there.`, { t: brief.t, by: by.t, by_n: by.n });
};

const hitsFrame = (el, x, y) => hitAt(x, y) === el;

// Scrolls the document so that a point of it comes to the middle of the viewport.
const bring = (x, y) => {
  VIEW.scrollBy({ left: x - VIEW.innerWidth / 2, top: y - VIEW.innerHeight / 2, behavior: 'instant' });
};
