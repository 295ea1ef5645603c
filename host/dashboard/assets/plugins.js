// The page of all plugins.

import { Spark } from "./chart.js";
import { h, put, say } from "./dom.js";
import { bytes, cores, count, digits, duration, rate, short, state, things } from "./format.js";
import { Table } from "./table.js";

// Rows whose values change every second keep their places this long.
const SORT_PAUSE = 4000;
const RANKS = { bad: 0, warn: 1, busy: 2, good: 3 };
const NOTHING = { rate: [], reconciles: 0, errors: 0, cores: 0, cpuSeconds: 0, p99Ms: 0 };

const CHIPS = [
  ["all", "All", () => true],
  ["attention", "Need attention", (row) => needsAttention(row)],
  ["good", "Running", (row) => row.state === "running"],
  ["dropped-in", "Dropped in", (row) => row.origin !== "built-in"],
];

function needsAttention(row) {
  return (
    ["bad", "warn"].includes(state(row.state)[1]) || row.rolledBack || row.trend.errors > 0 || row.routeFailing > 0
  );
}

/** An element with a name and a number. */
function tile(title) {
  const value = h("b", "–");
  const note = h("small", "");
  return { value, note, element: h("div.tile", h("span", title), value, note) };
}

export class PluginsView {
  constructor() {
    this.rows = new Map();
    this.trendOf = {};
    this.text = "";
    this.chip = "all";
    this.sortedAt = 0;
    this.tiles = {
      running: tile("Running"),
      rate: tile("Reconciles"),
      errors: tile("Errors, 1 h"),
      queued: tile("Queued keys"),
      cpu: tile("CPU"),
      memory: tile("Memory of guests"),
    };
    this.spark = new Spark(160, 32);
    this.tiles.rate.element.append(this.spark.element);
    this.chips = CHIPS.map(([key, title]) => {
      const number = h("span.count", "0");
      const button = h(
        "button.chip",
        { type: "button", "aria-pressed": String(key === this.chip), onclick: () => this.#choose(key) },
        title,
        number,
      );
      return { key, number, button };
    });
    this.ask = h("a.ask", { hidden: true });
    this.table = new Table({
      label: "Plugins",
      columns: columns(),
      onOpen: (row) => go(row),
      sortBy: { key: "state", down: false },
    });
    this.empty = h("p.empty", "Loading…");
    this.element = h(
      "section.plugins",
      h("h1.hidden", "Plugins"),
      h(
        "div.tiles",
        Object.values(this.tiles).map(({ element }) => element),
      ),
      h(
        "div.chips",
        { role: "group", "aria-label": "Filter" },
        this.chips.map(({ button }) => button),
        this.ask,
      ),
      this.table.element,
      this.empty,
    );
  }

  leave() {
    this.table.leave();
  }

  plugins({ all, rows, gone }) {
    this.isKnown = true;
    if (all) this.rows.clear();
    for (const id of gone) this.rows.delete(id);
    for (const row of rows) this.rows.set(row.id, { ...row, trend: this.trendOf[row.name] ?? NOTHING });
    this.#update(all || gone.length > 0);
  }

  trends(changed) {
    for (const [name, trend] of Object.entries(changed)) this.trendOf[name] = trend ?? NOTHING;
    for (const row of this.rows.values()) row.trend = this.trendOf[row.name] ?? NOTHING;
    this.#update(false);
  }

  filter(text) {
    this.text = text.trim().toLowerCase();
    this.ask.hidden = !this.text;
    if (this.text) {
      put(this.ask, "What happened to ", h("b", text.trim()), "?");
      this.ask.href = `#/object/${encodeURIComponent(text.trim())}`;
    }
    this.#update(true);
  }

  /** Opens the plugin that a text names, or the only one that it leaves. Returns whether there is one. */
  open(text) {
    const named = [...this.rows.values()].find((row) => row.name === text);
    const row = named ?? (this.shown.length === 1 ? this.shown[0] : null);
    if (row) go(row);
    return Boolean(row);
  }

  focus() {
    this.table.element.focus();
  }

  #choose(key) {
    this.chip = key;
    for (const chip of this.chips) chip.button.setAttribute("aria-pressed", String(chip.key === key));
    this.#update(true);
  }

  get shown() {
    const [, , isChosen] = CHIPS.find(([key]) => key === this.chip);
    return [...this.rows.values()].filter(
      (row) => isChosen(row) && (!this.text || row.name.toLowerCase().includes(this.text)),
    );
  }

  #update(hasNewRows) {
    if (!this.isKnown) return;
    const all = [...this.rows.values()];
    this.#summarize(all);
    CHIPS.forEach(([, , isChosen], at) => say(this.chips[at].number, String(all.filter(isChosen).length)));
    const { shown } = this;
    const isDue = performance.now() - this.sortedAt > SORT_PAUSE;
    if (hasNewRows || isDue || shown.length !== this.table.rows.length) {
      this.sortedAt = performance.now();
      this.table.set(shown);
    } else {
      const current = new Map(shown.map((row) => [row.id, row]));
      if (this.table.rows.every((row) => current.has(row.id))) {
        this.table.rows = this.table.rows.map((row) => current.get(row.id));
        this.table.refresh();
      } else {
        this.table.set(shown);
      }
    }
    this.empty.hidden = shown.length > 0;
    if (shown.length === 0)
      say(this.empty, all.length > 0 ? "No plugin is named like this." : "The host has no plugins.");
  }

  #summarize(all) {
    const { tiles } = this;
    const sum = (value) => all.reduce((total, row) => total + value(row), 0);
    const troubled = all.filter((row) => ["bad", "warn"].includes(state(row.state)[1])).length;
    say(tiles.running.value, String(all.filter((row) => row.state === "running").length));
    say(tiles.running.note, troubled > 0 ? `of ${all.length}; ${troubled} in trouble` : `of ${all.length}`);
    tiles.running.element.classList.toggle("bad", troubled > 0);
    say(tiles.rate.value, rate(sum((row) => row.perSecond)));
    say(tiles.rate.note, `${count(sum((row) => row.trend.reconciles))} in 1 h`);
    const errors = sum((row) => row.trend.errors);
    say(tiles.errors.value, count(errors));
    say(
      tiles.errors.note,
      errors > 0 ? `by ${things(all.filter((row) => row.trend.errors > 0).length, "plugin")}` : "",
    );
    tiles.errors.element.classList.toggle("bad", errors > 0);
    say(tiles.queued.value, count(sum((row) => row.queued)));
    say(tiles.queued.note, `${sum((row) => row.processing)} in work`);
    say(tiles.cpu.value, cores(sum((row) => row.trend.cores)));
    say(tiles.cpu.note, `cores; ${digits(sum((row) => row.trend.cpuSeconds))} s in 1 h`);
    say(tiles.memory.value, bytes(sum((row) => row.memory)));
    say(
      tiles.memory.note,
      things(
        sum((row) => row.instances),
        "instance",
      ),
    );
    const rates = all.map((row) => row.trend.rate).filter((values) => values.length > 0);
    const length = Math.max(0, ...rates.map((values) => values.length));
    this.spark.show(Array.from({ length }, (_, at) => rates.reduce((total, values) => total + (values[at] ?? 0), 0)));
  }
}

function go(row) {
  location.hash = link(row);
}

function link(row) {
  return `#/plugin/${encodeURIComponent(row.name)}`;
}

function columns() {
  const number = (key, title, value, format, isBad) => ({
    key,
    title,
    value,
    down: true,
    show: (cell, row) => {
      say(cell, value(row) ? format(value(row)) : "–");
      cell.classList.toggle("bad", Boolean(isBad?.(row)));
    },
  });
  return [
    {
      key: "name",
      title: "Plugin",
      value: (row) => row.name,
      build: (cell) => cell.append(h("a"), h("small")),
      show: (cell, row) => {
        const [name, note] = cell.children;
        say(name, row.name);
        if (name.getAttribute("href") !== link(row)) name.setAttribute("href", link(row));
        const version = [row.version, row.digest && short(row.digest)].filter(Boolean).join(" · ");
        say(
          note,
          row.reason && row.state !== "running"
            ? row.reason
            : `${row.origin === "built-in" ? "built-in" : version || row.origin}${row.rolledBack ? " · rolled back" : ""}`,
        );
      },
    },
    {
      key: "state",
      title: "State",
      value: (row) => RANKS[state(row.state)[1]] * 10 + (row.rolledBack || row.trend.errors > 0 ? 0 : 1),
      build: (cell) => cell.append(h("span.badge")),
      show: (cell, row) => {
        const [words, look] = state(row.state);
        const badge = cell.firstElementChild;
        if (badge.dataset.look !== look) badge.dataset.look = look;
        say(badge, words);
      },
    },
    {
      key: "rate",
      title: "Reconciles, 1 h",
      value: (row) => row.perSecond,
      down: true,
      build: (cell) => {
        cell.spark = new Spark();
        cell.append(cell.spark.element, h("span"));
      },
      show: (cell, row) => {
        cell.spark.show(row.trend.rate);
        say(cell.lastElementChild, row.perSecond > 0 ? rate(row.perSecond) : "idle");
      },
    },
    number("queued", "Queued", (row) => row.queued, count),
    number("p99", "p99", (row) => row.trend.p99Ms, duration),
    number(
      "errors",
      "Errors, 1 h",
      (row) => row.trend.errors,
      count,
      (row) => row.trend.errors > 0,
    ),
    number("cpu", "CPU", (row) => row.trend.cores, cores),
    number("memory", "Memory", (row) => row.memory, bytes),
  ];
}
