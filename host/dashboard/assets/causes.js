// The picture of causes: a lane for each plugin, time from left to right, and arrows from causes to effects.

import { h, s } from "./dom.js";
import { duration } from "./format.js";

const LANE = 58;
const BOX = 26;
// The name of a lane stands above its boxes.
const NAME = 16;
const TOP = 22;
const LEAST_BOX = 14;

/**
 * Returns the picture of steps `{id, plugin, key, startMs, queuedMs, tookMs, from, about, failed}`, the oldest first.
 * `onChoose(step)` is called for a click and for Enter.
 */
export function picture(steps, onChoose) {
  const lanes = [...new Set(steps.map((step) => step.plugin))];
  const scale = timeScale(steps);
  const height = TOP + lanes.length * LANE + 8;
  const boxes = new Map(steps.map((step) => [step.id, box(step, lanes.indexOf(step.plugin), scale)]));
  const ticks = scale.ticks.map(({ x, text }) => [
    s("line.grid", { x1: x, x2: x, y1: TOP - 4, y2: height }),
    s("text.tick", { x, y: 12 }, text),
  ]);
  const arrows = steps
    .filter((step) => boxes.has(step.from))
    .map((step) => arrow(boxes.get(step.from), boxes.get(step.id), step));
  const shapes = steps.map((step) => shape(step, boxes.get(step.id), onChoose));
  const head = s(
    "defs",
    s(
      "marker",
      { id: "head", viewBox: "0 0 8 8", refX: "7", refY: "4", markerWidth: "7", markerHeight: "7", orient: "auto" },
      s("path.tip", { d: "M0 0 8 4 0 8Z" }),
    ),
  );
  const lines = lanes.map((_, at) => s("line.lane", { x1: 0, x2: "100%", y1: middle(at), y2: middle(at) }));
  const svg = s(
    "svg",
    {
      width: scale.width,
      height,
      role: "group",
      "aria-label": `${steps.length} reconciles of ${lanes.length} plugins over time`,
    },
    head,
    ticks.flat(),
    lines,
    arrows,
    shapes,
  );
  const names = h(
    "div.lanes",
    { "aria-hidden": "true" },
    lanes.map((lane, at) => {
      const name = h("span", lane);
      name.style.top = `${TOP + at * LANE}px`;
      return name;
    }),
  );
  return h("div.picture", { tabindex: "0", role: "region", "aria-label": "Causes over time" }, names, svg);
}

function middle(lane) {
  return TOP + lane * LANE + NAME + (LANE - NAME) / 2;
}

/**
 * Places times so that all can be seen: a gap grows with the logarithm of its length, because a chain of causes takes
 * milliseconds, and hours may pass before the next one.
 */
function timeScale(steps) {
  const times = steps.flatMap((step) => [step.startMs - step.queuedMs, step.startMs, step.startMs + step.tookMs]);
  const distinct = [...new Set(times)].sort((a, b) => a - b);
  const places = new Map();
  const ticks = [];
  let x = 16;
  let lastTick = -Infinity;
  distinct.forEach((time, at) => {
    const gap = at === 0 ? 0 : time - distinct[at - 1];
    x += Math.min(140, 7 * Math.log2(1 + gap * 4));
    places.set(time, x);
    if (at === 0 || x - lastTick > 84) {
      ticks.push({ x, text: at === 0 ? "0" : `+${duration(time - distinct[0])}` });
      lastTick = x;
    }
  });
  return { at: (time) => places.get(time), ticks, width: x + 60 };
}

function box(step, lane, scale) {
  const x = scale.at(step.startMs);
  return {
    x,
    queued: scale.at(step.startMs - step.queuedMs),
    width: Math.max(LEAST_BOX, scale.at(step.startMs + step.tookMs) - x),
    y: middle(lane),
  };
}

function arrow(from, to, step) {
  const [x1, x2] = [from.x + from.width, to.queued];
  const isAhead = x2 > x1 + 6;
  const bend = Math.max(18, Math.abs(x2 - x1) / 2);
  const [y1, y2] = [from.y + (to.y > from.y ? 4 : to.y < from.y ? -4 : 0), to.y];
  const path =
    from.y === to.y && isAhead
      ? `M${x1} ${y1}C${x1 + bend / 2} ${y1 - 20} ${x2 - bend / 2} ${y2 - 20} ${x2} ${y2}`
      : `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
  return s("path.arrow", { d: path, "marker-end": "url(#head)", "data-link": step.link });
}

function shape(step, place, onChoose) {
  const text = `${step.plugin} reconciled ${step.key}, because ${step.why}; took ${duration(step.tookMs)}${step.failed ? "; failed" : ""}`;
  const look = step.failed ? "bad" : step.about ? "own" : "other";
  const group = s(
    "g.box",
    { tabindex: "0", role: "button", "aria-label": text, "data-look": look },
    s("title", text),
    s("line.queued", { x1: place.queued, x2: place.x, y1: place.y, y2: place.y }),
    s("rect", { x: place.x, y: place.y - BOX / 2, width: place.width, height: BOX, rx: 5 }),
    step.objects.length > 0 &&
      s("text.writes", { x: place.x + place.width / 2, y: place.y + 4 }, String(step.objects.length)),
  );
  group.addEventListener("click", () => onChoose(step));
  group.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      onChoose(step);
    }
  });
  return group;
}
