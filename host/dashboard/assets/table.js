// A table that has elements only for the rows that are seen: a thousand plugins cost as much as twenty.

import { h, say } from "./dom.js";

// Rows beyond both edges of the window, so that a quick scroll shows no gap.
const SPARE = 6;
const WIDE = matchMedia("(min-width: 760px)");
const HEIGHTS = { wide: 46, narrow: 74 };

/**
 * `columns` are `{key, title, value(row), build(cell), show(cell, row)}`: `value` is what rows are sorted by, `build`
 * adds elements to a new cell once, and `show` updates them. `onOpen(row)` is called for Enter and a click.
 */
export class Table {
  constructor({ label, columns, onOpen, sortBy }) {
    this.columns = columns;
    this.onOpen = onOpen;
    this.rows = [];
    this.sorted = sortBy;
    this.active = -1;
    this.pool = new Map();
    this.body = h("div.rows", { role: "rowgroup" });
    this.heads = columns.map((column) => {
      const button = h("button", { type: "button", tabindex: "-1" }, column.title);
      button.addEventListener("click", () => this.sort(column.key));
      return h(`div.cell.${column.key}`, { role: "columnheader" }, button);
    });
    this.element = h(
      "div.table",
      { role: "grid", tabindex: "0", "aria-label": label },
      h("div.head", { role: "row", "aria-rowindex": "1" }, this.heads),
      this.body,
    );
    this.element.addEventListener("keydown", (event) => this.#onKey(event));
    this.element.addEventListener(
      "focus",
      () => this.active < 0 && this.rows.length > 0 && this.#activate(this.#firstSeen(), false),
    );
    this.paint = () => this.#schedule();
    window.addEventListener("scroll", this.paint, { passive: true });
    window.addEventListener("resize", this.paint);
    this.#showSort();
  }

  leave() {
    window.removeEventListener("scroll", this.paint);
    window.removeEventListener("resize", this.paint);
    cancelAnimationFrame(this.frame);
  }

  /** Sets the rows. The active one stays active. */
  set(rows) {
    const active = this.rows[this.active]?.id;
    this.rows = [...rows].sort(this.#order());
    this.active = active === undefined ? -1 : this.rows.findIndex((row) => row.id === active);
    this.element.setAttribute("aria-rowcount", String(this.rows.length + 1));
    this.#schedule();
  }

  /** Shows changed values of the rows, in the order that they have. */
  refresh() {
    this.#schedule();
  }

  /** Sorts by a column; the other way round if it was sorted by it already. */
  sort(key) {
    const isSame = this.sorted.key === key;
    this.sorted = {
      key,
      down: isSame ? !this.sorted.down : (this.columns.find((column) => column.key === key).down ?? false),
    };
    this.#showSort();
    this.set(this.rows);
  }

  #order() {
    const { value } = this.columns.find((column) => column.key === this.sorted.key);
    const sign = this.sorted.down ? -1 : 1;
    return (a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x !== y) return (x < y ? -1 : 1) * sign;
      return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
    };
  }

  #showSort() {
    this.columns.forEach((column, at) => {
      const isSorted = column.key === this.sorted.key;
      this.heads[at].setAttribute("aria-sort", isSorted ? (this.sorted.down ? "descending" : "ascending") : "none");
    });
  }

  #schedule() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.#paint());
  }

  get height() {
    return WIDE.matches ? HEIGHTS.wide : HEIGHTS.narrow;
  }

  #seen() {
    const top = -this.body.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(top / this.height) - SPARE);
    const last = Math.min(this.rows.length, Math.ceil((top + window.innerHeight) / this.height) + SPARE);
    return [first, last];
  }

  #firstSeen() {
    const top = -this.body.getBoundingClientRect().top;
    return Math.min(this.rows.length - 1, Math.max(0, Math.ceil(top / this.height)));
  }

  #paint() {
    const { height } = this;
    this.body.style.height = `${this.rows.length * height}px`;
    const [first, last] = this.#seen();
    const needed = new Set();
    for (let at = first; at < last; at += 1) needed.add(this.rows[at].id);
    const free = [];
    for (const [id, element] of this.pool) {
      if (!needed.has(id)) {
        this.pool.delete(id);
        free.push(element);
      }
    }
    for (let at = first; at < last; at += 1) {
      const row = this.rows[at];
      let element = this.pool.get(row.id);
      if (!element) {
        element = free.pop() ?? this.#build();
        this.pool.set(row.id, element);
      }
      this.#show(element, row, at, height);
    }
    for (const element of free) element.remove();
    const active = this.pool.get(this.rows[this.active]?.id);
    if (active) this.element.setAttribute("aria-activedescendant", active.id);
    else this.element.removeAttribute("aria-activedescendant");
  }

  #build() {
    const cells = this.columns.map((column) => {
      const cell = h(`div.cell.${column.key}`, { role: "gridcell" });
      column.build?.(cell);
      return cell;
    });
    const element = h("div.row", { role: "row" }, cells);
    element.addEventListener("click", (event) => {
      // A link opens by itself, perhaps in another tab.
      if (!event.target.closest("a") && element.row) this.onOpen(element.row);
    });
    return element;
  }

  #show(element, row, at, height) {
    element.row = row;
    element.id = `row-${at}`;
    element.setAttribute("aria-rowindex", String(at + 2));
    element.style.transform = `translateY(${at * height}px)`;
    element.classList.toggle("active", at === this.active);
    this.columns.forEach((column, index) => {
      const cell = element.children[index];
      if (column.show) column.show(cell, row);
      else say(cell, column.value(row));
    });
    if (!element.isConnected) this.body.append(element);
  }

  #onKey(event) {
    const page = Math.max(1, Math.floor(window.innerHeight / this.height) - 3);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in moves && this.rows.length > 0) {
      event.preventDefault();
      this.#activate(Math.min(this.rows.length - 1, Math.max(0, this.active + moves[event.key])), true);
    } else if (event.key === "Enter" && event.target === this.element && this.rows[this.active]) {
      event.preventDefault();
      this.onOpen(this.rows[this.active]);
    }
  }

  #activate(at, scroll) {
    this.active = at;
    if (scroll) {
      const top = this.body.getBoundingClientRect().top + at * this.height;
      const edge = 140;
      if (top < edge) window.scrollBy(0, top - edge);
      else if (top + this.height > window.innerHeight - 16)
        window.scrollBy(0, top + this.height - window.innerHeight + 16);
    }
    this.#schedule();
  }
}
