// What runs in each frame: an expression whose value is an object with `call`. It lives in an isolated world, so the
// page cannot replace its functions; the page's text is data here, and is escaped before it leaves.
(() => {
'use strict';

const VIEW = globalThis;
const DOC = document;

// A form hides its own properties behind fields of that name (`<input name=id>`), and a document does so with named
// images: every property is therefore read with the getter of its prototype.
const getter = (proto, name) => {
  const get = Object.getOwnPropertyDescriptor(proto, name).get;
  return (target) => get.call(target);
};
const method = (proto, name) => {
  const call = proto[name];
  return (target, ...rest) => call.apply(target, rest);
};

const firstChild = getter(Node.prototype, 'firstChild');
const nextSibling = getter(Node.prototype, 'nextSibling');
const parentNode = getter(Node.prototype, 'parentNode');
const isConnected = getter(Node.prototype, 'isConnected');
const nodeType = getter(Node.prototype, 'nodeType');
const textContent = getter(Node.prototype, 'textContent');
const rootOf = method(Node.prototype, 'getRootNode');
const textData = getter(CharacterData.prototype, 'data');
const localName = getter(Element.prototype, 'localName');
const idOf = getter(Element.prototype, 'id');
const openRoot = getter(Element.prototype, 'shadowRoot');
const slotOf = getter(Element.prototype, 'assignedSlot');
const childCount = getter(Element.prototype, 'childElementCount');
const matches = method(Element.prototype, 'matches');
const closest = method(Element.prototype, 'closest');
const scrollTop = getter(Element.prototype, 'scrollTop');
const scrollLeft = getter(Element.prototype, 'scrollLeft');
const scrollHeight = getter(Element.prototype, 'scrollHeight');
const scrollWidth = getter(Element.prototype, 'scrollWidth');
const clientHeight = getter(Element.prototype, 'clientHeight');
const clientWidth = getter(Element.prototype, 'clientWidth');
const clientTop = getter(Element.prototype, 'clientTop');
const clientLeft = getter(Element.prototype, 'clientLeft');
const hostOf = getter(ShadowRoot.prototype, 'host');
const getAttribute = Element.prototype.getAttribute;
const getBox = Element.prototype.getBoundingClientRect;
const getBoxes = Element.prototype.getClientRects;
const attr = (el, name) => getAttribute.call(el, name);
const boxOf = (el) => getBox.call(el);
const boxesOf = (el) => getBoxes.call(el);
const rootElement = () => getter(Document.prototype, 'documentElement')(DOC);
const bodyElement = () => getter(Document.prototype, 'body')(DOC);
const queryAll = (root, selector) => {
  const proto = root instanceof Document ? Document : root instanceof Element ? Element : DocumentFragment;
  return proto.prototype.querySelectorAll.call(root, selector);
};
const byId = (root, id) => {
  if (root instanceof Document) return Document.prototype.getElementById.call(root, id);
  return root instanceof DocumentFragment ? DocumentFragment.prototype.getElementById.call(root, id) : null;
};

const HTML = 'http://www.w3.org/1999/xhtml';
const SVG = 'http://www.w3.org/2000/svg';
const namespaceOf = getter(Element.prototype, 'namespaceURI');

// A refusal is thrown as this and becomes `{ok: false, error}`.
class Refusal {
  constructor(code, message, more = {}) {
    this.error = { code, message, ...more };
  }
}
const refuse = (code, message, more) => {
  throw new Refusal(code, message, more);
};
