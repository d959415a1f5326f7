// Everything that grows with the page is counted. What was left out is said in `cut`.

const DEFAULT_BUDGET = { nodes: 200000, ms: 400, elements: 2000, lines: 1000, chars: 40000 };
const MOST_DEPTH = 500;
const CHECK_EVERY = 128;

class Budget {
  constructor(asked) {
    const wanted = asked && typeof asked === 'object' ? asked : {};
    for (const key of Object.keys(DEFAULT_BUDGET)) {
      const value = Number(wanted[key]);
      this[`most_${key}`] = Number.isFinite(value) && value > 0 ? Math.floor(value) : DEFAULT_BUDGET[key];
      this[key] = 0;
    }
    this.started = performance.now();
    this.cut = null;
    this.over = false;
  }

  stop(by, message) {
    this.over = true;
    return this.note(by, message);
  }

  // Something is left out, and the walk goes on.
  note(by, message) {
    if (!this.cut) this.cut = { by, message };
    return false;
  }

  tooDeep() {
    return this.note('nodes', `elements nested deeper than ${MOST_DEPTH} are left out`);
  }

  // One more node; false when the walk has to end.
  node() {
    if (this.over) return false;
    this.nodes += 1;
    if (this.nodes > this.most_nodes) return this.stop('nodes', `only the first ${this.most_nodes} nodes of the page were looked at`);
    return this.nodes % CHECK_EVERY !== 0 || performance.now() - this.started <= this.most_ms || this.late();
  }

  late() {
    return this.stop('ms', `the page was looked at for ${this.most_ms} ms, and only its first ${this.nodes} nodes were reached`);
  }

  spend(what, amount) {
    if (this.over) return false;
    this[what] += amount;
    return this[what] <= this[`most_${what}`] || this.stop(what, `only the first ${this[`most_${what}`]} ${what} are given`);
  }
}
