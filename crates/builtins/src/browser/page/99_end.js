// The table of calls, and the object the worker keeps.

const CALLS = {
  index, lines, info, locate, locate_selector: locateSelector, hits, at, enter, expect_press: expectPress, pressed, mark, changed, options, choose,
  prepare_text: prepareText, set_value: setField, read_value: readValue, find_text: findText, scroll, content, extract, settle,
};

const failed = (error) => {
  if (error instanceof Refusal) return { ok: false, error: error.error };
  return { ok: false, error: { code: 'script', message: `The page could not be read: ${oneLine(String(error), 200)}` } };
};

const page = {
  async call(name, args) {
    try {
      if (!Object.hasOwn(CALLS, name)) refuse('unknown_call', `There is no call ${oneLine(String(name))}.`);
      return JSON.stringify({ ok: true, value: await CALLS[name](args || {}) });
    } catch (error) {
      return JSON.stringify(failed(error));
    }
  },

  number(el) {
    return el instanceof Element ? numberOf(el) : 0;
  },

  // Elements, each optionally followed by the types of events it listens to.
  heard(...given) {
    given.forEach((el, i) => {
      if (!(el instanceof Element) || el === rootElement() || el === bodyElement()) return;
      const types = typeof given[i + 1] === 'string' ? given[i + 1] : 'click';
      heard.set(el, heard.has(el) ? `${heard.get(el)},${types}` : types);
    });
  },

  host(i) {
    const el = offeredHosts[i];
    if (el) offered.add(el);
    return el || null;
  },

  adopt(...roots) {
    for (const root of roots) {
      if (root instanceof ShadowRoot) adopted.set(root.host, root);
    }
  },
};
