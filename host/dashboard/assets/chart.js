// Lines over time, as SVG.

import { h, put, s, say } from "./dom.js";
import { clock } from "./format.js";

const HOUR = 3600e3;
// A sample that covers more time than this is drawn from its beginning to its end.
const LONG = 15e3;

/** A line without axes: `show(values)` draws values of equal distance. */
export class Spark {
  constructor(width = 96, height = 24) {
    this.size = [width, height];
    this.line = s("path.line");
    this.area = s("path.area");
    this.element = s(
      "svg.spark",
      { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      this.area,
      this.line,
    );
  }

  show(values) {
    const shown = values.join();
    if (shown === this.shown) return;
    this.shown = shown;
    this.element.classList.toggle("idle", values.length === 0);
    const [width, height] = this.size;
    const most = Math.max(...values, 1e-9);
    const y = (value) => (height - 1.5 - (value / most) * (height - 3)).toFixed(1);
    const points =
      values.length > 1
        ? values.map((value, at) => `${((at / (values.length - 1)) * width).toFixed(1)} ${y(value)}`)
        : [`0 ${y(0)}`, `${width} ${y(0)}`];
    this.line.setAttribute("d", `M${points.join("L")}`);
    this.area.setAttribute("d", `M0 ${height}L${points.join("L")}L${width} ${height}Z`);
  }
}

/**
 * A chart of the last hour. `series` are `{name, look}`; `format` shows a value, and the axis ends at `least` or above.
 * `show(trend, columns)` draws arrays of the trend, one for each series.
 */
export class Chart {
  constructor({ title, series, format, least = 0, isBinary = false }) {
    this.series = series;
    this.format = format;
    this.least = least;
    this.nice = isBinary ? niceBytes : nice;
    this.at = null;
    this.plot = s("g");
    this.cursor = s("line.cursor", { visibility: "hidden" });
    this.svg = s("svg", { role: "img", "aria-label": title, preserveAspectRatio: "none" }, this.plot, this.cursor);
    this.values = series.map(({ name, look }) => {
      const value = h("b", "–");
      return { value, element: h(`span.${look}`, h("i", { "aria-hidden": "true" }), `${name} `, value) };
    });
    this.time = h("time", "");
    this.top = h("span.top", { "aria-hidden": "true" });
    this.frame = h(
      "div.plot",
      { tabindex: "0", role: "group", "aria-label": `${title}: the arrow keys read values` },
      this.svg,
      this.top,
    );
    this.readout = h(
      "p.readout",
      this.values.map(({ element }) => element),
      this.time,
    );
    this.element = h(
      "figure.chart",
      h("figcaption", title),
      this.readout,
      this.frame,
      h("p.axis", { "aria-hidden": "true" }, h("span", "1 h ago"), h("span", "30 min"), h("span", "now")),
    );
    this.frame.addEventListener("pointermove", (event) => this.#point(event));
    this.frame.addEventListener("pointerleave", () => this.#choose(null));
    this.frame.addEventListener("blur", () => this.#choose(null));
    this.frame.addEventListener("keydown", (event) => this.#onKey(event));
    this.observer = new ResizeObserver(() => this.#draw());
    this.observer.observe(this.frame);
  }

  leave() {
    this.observer.disconnect();
  }

  show(trend, columns) {
    this.samples = trend.at.map((end, at) => ({
      end,
      start: end - trend.seconds[at] * 1e3,
      values: columns.map((column) => column[at]),
    }));
    this.now = Math.max(Date.now(), trend.at.at(-1) ?? 0);
    this.#draw();
  }

  #draw() {
    if (!this.samples) return;
    const width = Math.max(60, this.frame.clientWidth);
    const height = Math.max(40, this.frame.clientHeight);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const most = this.nice(Math.max(this.least, ...this.samples.flatMap((sample) => sample.values)));
    this.x = (time) => ((time - this.now + HOUR) / HOUR) * width;
    const y = (value) => height - 1 - (value / most) * (height - 6);
    const lines = this.series.map(({ look }, index) => {
      const runs = this.#runs(index);
      const path = runs
        .map((run) => `M${run.map(([time, value]) => `${this.x(time).toFixed(1)} ${y(value).toFixed(1)}`).join("L")}`)
        .join("");
      const line = s(`path.line.${look}`, { d: path });
      if (index > 0 || runs.length === 0) return line;
      const under = runs
        .map(
          (run) =>
            `M${this.x(run[0][0]).toFixed(1)} ${height}L${run.map(([time, value]) => `${this.x(time).toFixed(1)} ${y(value).toFixed(1)}`).join("L")}L${this.x(run.at(-1)[0]).toFixed(1)} ${height}Z`,
        )
        .join("");
      return [s(`path.area.${look}`, { d: under }), line];
    });
    const grid = [0.5, 1].map((part) => s("line.grid", { x1: 0, x2: width, y1: y(most * part), y2: y(most * part) }));
    this.plot.replaceChildren(...grid, ...lines.flat());
    say(this.top, this.format(most));
    this.cursor.setAttribute("y2", String(height));
    this.#read();
  }

  /** The points of a series, as runs without gaps. */
  #runs(index) {
    const runs = [];
    let end = -Infinity;
    for (const sample of this.samples) {
      if (sample.end < this.now - HOUR) continue;
      const value = sample.values[index];
      if (sample.start - end > LONG || runs.length === 0) runs.push([]);
      if (sample.end - sample.start > LONG) runs.at(-1).push([Math.max(sample.start, this.now - HOUR), value]);
      runs.at(-1).push([sample.end, value]);
      end = sample.end;
    }
    return runs;
  }

  #point(event) {
    if (!this.samples?.length) return;
    const box = this.frame.getBoundingClientRect();
    const time = this.now - HOUR + ((event.clientX - box.left) / box.width) * HOUR;
    const found = this.samples.findIndex((sample) => sample.end >= time);
    this.#choose(found < 0 ? this.samples.length - 1 : found);
  }

  #onKey(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    if (!(event.key in moves) || !this.samples?.length) return;
    event.preventDefault();
    const last = this.samples.length - 1;
    this.#choose(Math.min(last, Math.max(0, (this.at ?? last) + moves[event.key])));
  }

  #choose(at) {
    this.at = at;
    this.#read();
  }

  /** Shows the values of the chosen sample, or of the last one. */
  #read() {
    const sample = this.samples?.[this.at ?? this.samples.length - 1];
    this.values.forEach(({ value }, index) => say(value, sample ? this.format(sample.values[index]) : "–"));
    const isChosen = this.at !== null && sample;
    say(this.time, isChosen ? clock(sample.end) : "");
    this.cursor.setAttribute("visibility", isChosen ? "visible" : "hidden");
    if (isChosen) {
      const x = String(this.x(Math.min(sample.end, this.now)));
      this.cursor.setAttribute("x1", x);
      this.cursor.setAttribute("x2", x);
    }
  }
}

/** The next number with one digit that ends an axis well. */
function nice(value) {
  if (!(value > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * unit).find((step) => step >= value * 0.999);
}

/** The next power of two. */
function niceBytes(value) {
  return 2 ** Math.ceil(Math.log2(value));
}

/** A bar that shows how much of a limit is used. */
export function meter(part, label) {
  const look = part >= 0.9 ? "bad" : part >= 0.7 ? "warn" : "good";
  const fill = h(`span.fill.${look}`);
  fill.style.width = `${Math.min(100, Math.max(part > 0 ? 1 : 0, part * 100))}%`;
  return put(
    h("span.meter", {
      role: "meter",
      "aria-label": label,
      "aria-valuemin": "0",
      "aria-valuemax": "100",
      "aria-valuenow": String(Math.round(part * 100)),
    }),
    fill,
  );
}
