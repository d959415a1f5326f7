// How an element without a name looks: shape, color, size, place. It is what a person would say of it.

const COLORS = {
  black: [0, 0, 0], white: [255, 255, 255], gray: [128, 128, 128], silver: [192, 192, 192], red: [255, 0, 0], maroon: [128, 0, 0],
  yellow: [255, 255, 0], olive: [128, 128, 0], lime: [0, 255, 0], green: [0, 128, 0], aqua: [0, 255, 255], teal: [0, 128, 128],
  blue: [0, 0, 255], navy: [0, 0, 128], magenta: [255, 0, 255], purple: [128, 0, 128], orange: [255, 165, 0], pink: [255, 192, 203],
  brown: [165, 42, 42], violet: [238, 130, 238], gold: [255, 215, 0], tan: [210, 180, 140],
};
const COLOR_NAMES = new Map(Object.entries(COLORS).map(([name, rgb]) => [rgb.join(','), name]));

// `rgb(255, 0, 0)` as `red` when a name fits exactly, else as `#rrggbb`; '' for what is not painted.
const colorName = (paint) => {
  const found = /^rgba?\(([\d.]+), ?([\d.]+), ?([\d.]+)(?:, ?([\d.]+))?\)$/.exec(paint);
  if (!found || Number(found[4] ?? 1) === 0) return '';
  const rgb = found.slice(1, 4).map((part) => Math.round(Number(part)));
  return COLOR_NAMES.get(rgb.join(',')) || `#${rgb.map((part) => part.toString(16).padStart(2, '0')).join('')}`;
};

const SHAPES = new Set(['circle', 'ellipse', 'rect', 'polygon', 'polyline', 'path', 'line', 'text', 'image', 'use']);
const LEAST_DRAWING = 28; // pixels; a smaller SVG is an icon and its parts are not listed

const size = (box) => `${round(box.width)}x${round(box.height)}`;
const round = (value) => Math.round(value);
const place = (box) => `at ${round(box.left + box.width / 2)},${round(box.top + box.height / 2)}`;

const corners = (points) => (points || '').trim().split(/[\s,]+/).length >> 1;

const shapeName = (el, tag) => {
  if (tag === 'rect') {
    return attr(el, 'width') === attr(el, 'height') ? 'square' : 'rectangle';
  }
  if (tag === 'polygon') {
    const count = corners(attr(el, 'points'));
    return count === 3 ? 'triangle' : `polygon of ${count} corners`;
  }
  return tag === 'text' ? 'drawn text' : tag;
};

const lookOfShape = (el, tag, style, box) => {
  const fill = colorName(style.fill);
  const stroke = colorName(style.stroke);
  const paint = tag === 'line' ? stroke : fill || (stroke && `${stroke} outline`);
  const turned = attr(el, 'transform');
  const ends = tag === 'line' ? ` from ${lineEnds(el)}` : '';
  const turn = turned && /rotate|matrix|skew/.test(turned) ? ` ${oneLine(turned, 60)}` : '';
  return [paint, size(box), place(box)].filter(Boolean).join(' ') + ends + turn;
};

// The ends of a line in the viewport, so that its direction is known.
const lineEnds = (el) => {
  const matrix = el instanceof SVGGraphicsElement ? el.getScreenCTM() : null;
  if (!matrix) return 'unknown ends';
  const end = (x, y) => {
    const at = new DOMPoint(Number(attr(el, x)) || 0, Number(attr(el, y)) || 0).matrixTransform(matrix);
    return `${round(at.x)},${round(at.y)}`;
  };
  return `${end('x1', 'y1')} to ${end('x2', 'y2')}`;
};

const lookOfBox = (style, box) => {
  const paint = colorName(style.backgroundColor);
  const image = style.backgroundImage !== 'none' ? 'picture' : '';
  return [paint, image, size(box), place(box)].filter(Boolean).join(' ');
};

const DRAG_CURSORS = /^(move|grab|grabbing|crosshair|(?:[nsew]{1,4}|col|row)-resize)$/;
const DRAG_EVENTS = /mousedown|pointerdown|dragstart|touchstart/;

// Elements that are moved, drawn on or set by place say where they are; for others the number is enough.
const saysPlace = (el, role, style) => role === 'slider' || attr(el, 'draggable') === 'true' || isMoved(el) || DRAG_CURSORS.test(style.cursor)
  || (heard.has(el) && DRAG_EVENTS.test(heard.get(el)));
