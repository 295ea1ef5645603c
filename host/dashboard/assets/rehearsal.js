// Shadow and canary: what a candidate would do beside what the running version does. The host sends them once it has
// them, as `shadow` and `canary` of a plugin's document; without them there is nothing to show.

import { command, h } from "./dom.js";
import { ago, count, duration, short } from "./format.js";

/**
 * Returns the section about a plugin's candidates; null without one.
 *
 * `shadow`: `{digest, version, since, calls, diverged, groups: [{how, count, keys: [key]}]}`.
 * `canary`: `{digest, version, since, share, step, steps, next, reason, old: M, new: M}` with measures
 * `M = {reconciles, failures, traps, p99Ms, writesPerReconcile}`.
 */
export function rehearsal(plugin, { shadow, canary }) {
  if (!shadow && !canary) return null;
  return h(
    "section.card.wide",
    h("h2", "Candidates"),
    h("div.pair", shadow && showShadow(plugin, shadow), canary && showCanary(canary)),
  );
}

function head(title, { version, digest, since }) {
  return [h("h3", title), h("p.note", version, digest && h("code", short(digest)), since && ` since ${ago(since)}`)];
}

function showShadow(plugin, shadow) {
  const groups = (shadow.groups ?? []).map((group) =>
    h(
      "li",
      h("b", count(group.count)),
      ` ${group.how} `,
      (group.keys ?? []).slice(0, 5).map((key) => [h("a", { href: `#/object/${encodeURIComponent(key)}` }, key), " "]),
    ),
  );
  return h(
    "div",
    head("Shadow", shadow),
    h("p", `${count(shadow.diverged ?? 0)} of ${count(shadow.calls ?? 0)} calls part from the running version.`),
    h("ul.plain", groups),
    shadow.diverged === 0 && command(`flyball promote ${plugin}`),
  );
}

const MEASURES = [
  ["Reconciles", "reconciles", count],
  ["Failures", "failures", count],
  ["Traps", "traps", count],
  ["p99", "p99Ms", duration],
  ["Writes per reconcile", "writesPerReconcile", (value) => value.toFixed(2)],
];

function showCanary(canary) {
  const cell = (measures, [, key, format]) =>
    h("td.number", measures?.[key] === undefined ? "–" : format(measures[key]));
  const rows = MEASURES.map((measure) =>
    h("tr", h("th", { scope: "row" }, measure[0]), cell(canary.old, measure), cell(canary.new, measure)),
  );
  const steps = canary.steps ? `step ${canary.step} of ${canary.steps}` : "";
  return h(
    "div",
    head("Canary", canary),
    h("p", [canary.share, steps, canary.next && `next step ${canary.next}`].filter(Boolean).join(" · ")),
    canary.reason && h("p.note", canary.reason),
    h(
      "table",
      h(
        "thead",
        h(
          "tr",
          h("th", ""),
          h("th.number", { scope: "col" }, "Running"),
          h("th.number", { scope: "col" }, "Candidate"),
        ),
      ),
      h("tbody", rows),
    ),
  );
}
