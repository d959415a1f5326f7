// The way from a point in a child frame to a point in this document.

// What the transforms of an element and those around it do to directions: [a, b, c, d] maps (x, y) to (a x + c y, b x + d y).
// Refused where depth makes far parts smaller, for then no such map exists.
const directionsOf = (el) => {
  let total = new DOMMatrix();
  for (let node = el, steps = 0; node && steps < 500; node = elementParent(node), steps += 1) {
    const { transform, rotate, scale, perspective } = getComputedStyle(node);
    if (perspective !== 'none' || /perspective|^(?:[xyz]|[\d.-]+ [\d.-]+ [\d.-]+ )/.test(`${rotate} ${transform}`)) {
      refuse('turned', 'The frame lies in a space with perspective.');
    }
    if (transform !== 'none') total = new DOMMatrix(transform).multiply(total);
    if (scale !== 'none') total = new DOMMatrix().scale(...scale.split(' ').map(Number)).multiply(total);
    if (rotate !== 'none') total = new DOMMatrix(`rotate(${rotate})`).multiply(total);
  }
  return [total.m11, total.m12, total.m21, total.m22];
};

// Such a map keeps the middle of a box in the middle of its bounds; from there the point is reached along the directions.
// Zoom scales both alike, and is what is left between the bounds expected and those found.
const through = (el, args) => {
  const [a, b, c, d] = directionsOf(el);
  const bounds = boxOf(el);
  const [width, height] = [el.offsetWidth, el.offsetHeight];
  const style = getComputedStyle(el);
  const pad = (side) => parseFloat(style[`padding${side}`]) || 0;
  const inner = {
    left: clientLeft(el) + pad('Left'), top: clientTop(el) + pad('Top'),
    width: clientWidth(el) - pad('Left') - pad('Right'), height: clientHeight(el) - pad('Top') - pad('Bottom'),
  };
  const zoom = bounds.width / (Math.abs(a) * width + Math.abs(c) * height) || 1;
  const x = (inner.left + (args.x * inner.width) / args.width - width / 2) * zoom;
  const y = (inner.top + (args.y * inner.height) / args.height - height / 2) * zoom;
  return [bounds.left + bounds.width / 2 + a * x + c * y, bounds.top + bounds.height / 2 + b * x + d * y];
};

const enter = (args) => {
  const el = elementOf(args.number);
  const { ok } = shownOf(el);
  const brief = briefOf(el);
  if (!ok) refuse('hidden', `The frame ${brief.t} is not drawn now.`, { t: brief.t });
  let [x, y] = through(el, args);
  if (!hitsFrame(el, x, y)) {
    scrollTo(el, { block: 'nearest', inline: 'nearest', behavior: 'instant' });
    [x, y] = through(el, args);
    if (!hitsFrame(el, x, y)) {
      bring(x, y);
      [x, y] = through(el, args);
    }
  }
  if (hitsFrame(el, x, y)) return { x: hundredth(x), y: hundredth(y) };
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
