// How the other files read the page. They run in an isolated world, so the page cannot replace their functions; the page's
// text is data here, and is escaped before it leaves.

const VIEW = globalThis;
const DOC = document;

// A form hides its own properties behind fields of that name (`<input name=id>`), and a document does so with named
// images: theirs are read from the prototype. Other elements are read directly, which is what costs least.
const clean = (type, target, name) => Reflect.get(type.prototype, name, target);
const run = (type, target, name, ...given) => Reflect.apply(type.prototype[name], target, given);
const isForm = (target) => target instanceof HTMLFormElement;
const ofDocument = (name) => clean(Document, DOC, name);

const firstChild = (node) => (isForm(node) ? clean(Node, node, 'firstChild') : node.firstChild);
const nextSibling = (node) => (isForm(node) ? clean(Node, node, 'nextSibling') : node.nextSibling);
const parentNode = (node) => (isForm(node) ? clean(Node, node, 'parentNode') : node.parentNode);
const isConnected = (node) => (isForm(node) ? clean(Node, node, 'isConnected') : node.isConnected);
const nodeType = (node) => (isForm(node) ? clean(Node, node, 'nodeType') : node.nodeType);
const textContent = (node) => (isForm(node) ? clean(Node, node, 'textContent') : node.textContent);
const localName = (el) => (isForm(el) ? clean(Element, el, 'localName') : el.localName);
const idOf = (el) => (isForm(el) ? clean(Element, el, 'id') : el.id);
const openRoot = (el) => (isForm(el) ? clean(Element, el, 'shadowRoot') : el.shadowRoot);
const slotOf = (el) => (isForm(el) ? clean(Element, el, 'assignedSlot') : el.assignedSlot);
const childElementCount = (el) => (isForm(el) ? clean(Element, el, 'childElementCount') : el.childElementCount);
const scrollTop = (el) => (isForm(el) ? clean(Element, el, 'scrollTop') : el.scrollTop);
const scrollHeight = (el) => (isForm(el) ? clean(Element, el, 'scrollHeight') : el.scrollHeight);
const scrollWidth = (el) => (isForm(el) ? clean(Element, el, 'scrollWidth') : el.scrollWidth);
const clientHeight = (el) => (isForm(el) ? clean(Element, el, 'clientHeight') : el.clientHeight);
const clientWidth = (el) => (isForm(el) ? clean(Element, el, 'clientWidth') : el.clientWidth);
const clientTop = (el) => (isForm(el) ? clean(Element, el, 'clientTop') : el.clientTop);
const clientLeft = (el) => (isForm(el) ? clean(Element, el, 'clientLeft') : el.clientLeft);
const namespaceOf = (el) => (isForm(el) ? clean(Element, el, 'namespaceURI') : el.namespaceURI);

const attr = (el, name) => (isForm(el) ? run(Element, el, 'getAttribute', name) : el.getAttribute(name));
const hasAttributes = (el) => (isForm(el) ? run(Element, el, 'hasAttributes') : el.hasAttributes());
const boxOf = (el) => {
  if (isForm(el)) return run(Element, el, 'getBoundingClientRect');
  return el instanceof HTMLAreaElement ? areaBox(el) : el.getBoundingClientRect();
};
const boxesOf = (el) => run(Element, el, 'getClientRects');
const matches = (el, selector) => run(Element, el, 'matches', selector);
const closest = (el, selector) => run(Element, el, 'closest', selector);
const rootOf = (node) => run(Node, node, 'getRootNode');
const rootElement = () => ofDocument('documentElement');
const bodyElement = () => ofDocument('body');
const queryAll = (root, selector) => {
  const type = root instanceof Document ? Document : root instanceof Element ? Element : DocumentFragment;
  return run(type, root, 'querySelectorAll', selector);
};
const byId = (root, id) => {
  if (root instanceof Document) return run(Document, root, 'getElementById', id);
  return root instanceof DocumentFragment ? root.getElementById(id) : null;
};

const HTML = 'http://www.w3.org/1999/xhtml';
const SVG = 'http://www.w3.org/2000/svg';

// A refusal is thrown as this and becomes `{ok: false, error}`.
class Refusal {
  constructor(code, message, more = {}) {
    this.error = { code, message, ...more };
  }
}
const refuse = (code, message, more) => {
  throw new Refusal(code, message, more);
};
