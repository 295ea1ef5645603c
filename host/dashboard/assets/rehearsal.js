// Shadow and canary: what a candidate would do beside what the running version does. The host sends them once it has
// them, as `shadow` and `canary` of a plugin's document; without them there is nothing to show.

import { command, h } from "./dom.js";
import { ago, count, duration, short } from "./format.js";

/**
 * Returns the section about a plugin's candidates; null without one.
 *
 * `shadow`: `{digest, version, findings: {calls, same, groups: [{how, calls, keys: [key]}]}}`.
 * `canary`: `{candidate: {digest, version}, since, state, step, steps: [text], waitsFor, reason, runningDid: D,
 * candidateDid: D}` with what each version did in the step, `D = {calls, failures, traps, writes, p99Ms}`.
 */
export function rehearsal(plugin, { shadow, canary }) {
  if (!shadow && !canary) return null;
  return h(
    "section.card.wide",
    h("h2", "Candidates"),
    h("div.pair", shadow && showShadow(plugin, shadow), canary && showCanary(canary)),
  );
}

function head(title, { version, digest }, since) {
  return [h("h3", title), h("p.note", version, digest && h("code", short(digest)), since && ` since ${ago(since)}`)];
}

function showShadow(plugin, shadow) {
  const { calls = 0, same = 0, groups = [] } = shadow.findings ?? {};
  const lines = groups.map((group) =>
    h(
      "li",
      h("b", count(group.calls)),
      ` ${group.how} `,
      (group.keys ?? []).slice(0, 5).map((key) => [h("a", { href: `#/object/${encodeURIComponent(key)}` }, key), " "]),
    ),
  );
  return h(
    "div",
    head("Shadow", shadow),
    h("p", `${count(calls - same)} of ${count(calls)} calls part from the running version.`),
    h("ul.plain", lines),
    calls > 0 && calls === same && command(`flyball promote ${plugin}`),
  );
}

const MEASURES = [
  ["Reconciles", "calls", count],
  ["Failures", "failures", count],
  ["Traps", "traps", count],
  ["Writes", "writes", count],
  ["p99", "p99Ms", duration],
];

const STATES = {
  loading: "is being loaded",
  refused: "is refused",
  promoted: "has all keys",
  "went-back": "went back: it has no keys",
};

function showCanary(canary) {
  const cell = (measures, [, key, format]) =>
    h("td.number", measures?.[key] == null ? "–" : format(measures[key]));
  const rows = MEASURES.map((measure) =>
    h("tr", h("th", { scope: "row" }, measure[0]), cell(canary.runningDid, measure), cell(canary.candidateDid, measure)),
  );
  const { step, steps = [] } = canary;
  const state = STATES[canary.state] ?? `step ${step} of ${steps.length}: ${steps[step - 1]}`;
  return h(
    "div",
    head("Canary", canary.candidate, canary.since),
    h("p", [state, canary.waitsFor && `waits for ${canary.waitsFor}`].filter(Boolean).join(" · ")),
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
