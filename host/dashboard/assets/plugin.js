// The page of one plugin.

import { Chart, meter } from "./chart.js";
import { command, h, put, say } from "./dom.js";
import { bytes, clock, cores, count, digits, duration, precise, rate, short, state, things } from "./format.js";
import { rehearsal } from "./rehearsal.js";

// Lines of the log that the page keeps.
const LINES = 1000;

export class PluginView {
  constructor(name) {
    this.name = name;
    this.document = {};
    this.charts = charts();
    this.title = h("h1", name);
    this.badge = h("span.badge", "…");
    this.facts = h("p.facts");
    this.reason = h("div.reason", { hidden: true });
    this.logLines = h("ol.log", { tabindex: "0", "aria-label": "Log" });
    this.follows = h("input", { type: "checkbox", id: "follow", checked: true });
    this.grep = h("input", {
      type: "search",
      placeholder: "Filter",
      "aria-label": "Filter the log",
      oninput: () => this.#filterLog(),
    });
    this.parts = Object.fromEntries(
      ["candidates", "failures", "recent", "limits", "queues", "grants", "versions"].map((part) => [
        part,
        h("div.part"),
      ]),
    );
    const { candidates, failures, recent, limits, queues, grants, versions } = this.parts;
    this.element = h(
      "article.plugin",
      h("nav.crumbs", h("a", { href: "#/" }, "Plugins"), " / ", name),
      h("header.title", this.title, this.badge),
      this.facts,
      this.reason,
      h(
        "div.charts",
        this.charts.map(({ chart }) => chart.element),
      ),
      h(
        "div.cards",
        candidates,
        h("div.column", failures, queues, versions),
        h("div.column", limits, grants),
        recent,
        h(
          "section.card.wide",
          h("header.split", h("h2", "Log"), h("span.grow"), this.grep, h("label.follow", this.follows, " Follow")),
          this.logLines,
        ),
      ),
    );
  }

  leave() {
    for (const { chart } of this.charts) chart.leave();
  }

  update(changed) {
    Object.assign(this.document, changed);
    const { document } = this;
    if (changed.status) this.#head(document);
    if (changed.trend)
      for (const { chart, columns } of this.charts)
        chart.show(
          document.trend,
          columns.map((column) => document.trend[column]),
        );
    if ("shadow" in changed || "canary" in changed) put(this.parts.candidates, rehearsal(this.name, document));
    if (changed.failures) put(this.parts.failures, failures(document.failures));
    if (changed.recent) put(this.parts.recent, recent(document.recent));
    if (changed.limits) put(this.parts.limits, limits(document.limits));
    if (changed.queues) put(this.parts.queues, queues(document.queues));
    if ("asks" in changed || "rules" in changed || "account" in changed) put(this.parts.grants, grants(document));
    if (changed.versions) put(this.parts.versions, versions(this.name, document.versions));
  }

  #head({ status }) {
    const [words, look] = state(status.state);
    this.badge.dataset.look = look;
    say(this.badge, words);
    const version = [status.version, status.digest && short(status.digest), status.rolledBack && "rolled back"]
      .filter(Boolean)
      .join(" · ");
    put(
      this.facts,
      version && [version, " · "],
      status.origin,
      ` · ${things(status.reconciles, "reconcile")}, ${count(status.errors)} failed · ${things(status.instances, "instance")} · memo ${bytes(status.memo)}`,
      status.routeWaiting > 0 &&
        ` · ${things(status.routeWaiting, "object")} waiting for route, ${count(status.routeFailing)} failing`,
    );
    this.reason.hidden = !status.reason;
    if (status.reason) put(this.reason, h("p", status.reason), advice(status));
    this.reason.dataset.look = look === "good" ? "warn" : look;
  }

  log({ all, lines }) {
    if (all) put(this.logLines);
    const isAtEnd = this.follows.checked;
    const text = this.grep.value.toLowerCase();
    this.logLines.append(...lines.map((line) => logLine(line, text)));
    while (this.logLines.childElementCount > LINES) this.logLines.firstElementChild.remove();
    if (isAtEnd) this.logLines.scrollTop = this.logLines.scrollHeight;
  }

  #filterLog() {
    const text = this.grep.value.toLowerCase();
    for (const line of this.logLines.children) line.hidden = !line.textContent.toLowerCase().includes(text);
  }
}

function charts() {
  return [
    {
      chart: new Chart({
        title: "Reconciles",
        series: [
          { name: "all", look: "a" },
          { name: "failed", look: "bad" },
        ],
        format: rate,
        least: 0.1,
      }),
      columns: ["perSecond", "errorsPerSecond"],
    },
    {
      chart: new Chart({
        title: "Latency",
        series: [
          { name: "p99", look: "a" },
          { name: "p50", look: "b" },
        ],
        format: duration,
        least: 0.1,
      }),
      columns: ["p99Ms", "p50Ms"],
    },
    {
      chart: new Chart({ title: "CPU", series: [{ name: "cores", look: "a" }], format: cores, least: 0.001 }),
      columns: ["cores"],
    },
    {
      chart: new Chart({
        title: "Memory of guests",
        series: [{ name: "memory", look: "a" }],
        format: bytes,
        least: 1 << 20,
        isBinary: true,
      }),
      columns: ["memory"],
    },
    {
      chart: new Chart({ title: "Queued keys", series: [{ name: "keys", look: "a" }], format: count, least: 1 }),
      columns: ["queued"],
    },
  ];
}

/** The command that helps in a state. */
function advice(status) {
  const { name } = status;
  if (status.state === "pending") return command(`flyball approve ${name}`);
  if (status.state === "quarantined")
    return h(
      "p",
      command(`flyball resume ${name}`),
      " ",
      status.origin !== "built-in" && command(`flyball rollback ${name}`),
    );
  return null;
}

function card(title, ...children) {
  return h("section.card", h("h2", title), children);
}

function objectLink(name) {
  return h("a.object", { href: `#/object/${encodeURIComponent(name)}` }, name);
}

function failures(all) {
  if (all.length === 0) return card("Last errors", h("p.note", "None of the last reconciles failed."));
  const items = all.map((failure) =>
    h(
      "li",
      h(
        "header",
        h("time", { datetime: failure.at, title: failure.at }, clock(failure.at)),
        objectLink(failure.key),
        failure.attempt > 0 && h("span.note", `attempt ${failure.attempt + 1}`),
        h("span.note", short(failure.digest)),
      ),
      h("pre", failure.failed),
      h("p.note", `because: ${failure.why}`),
      // The command that saves the recording of the call, once the host keeps one.
      failure.recording && command(failure.recording),
    ),
  );
  return card("Last errors", h("ol.failures", items));
}

function recent(all) {
  const rows = all
    .slice(0, 25)
    .map((done) =>
      h(
        "tr",
        { "data-look": done.failed ? "bad" : null },
        h("td", h("time", { title: done.at }, precise(done.at))),
        h("td", objectLink(done.key)),
        h("td", done.why, done.coalesced > 0 && h("span.note", ` and ${done.coalesced} more`)),
        h("td.number", duration(done.tookMs)),
        h("td", done.failed ?? (done.wrote.length > 0 ? done.wrote.join(", ") : h("span.note", "no writes"))),
      ),
    );
  return h(
    "section.card.wide",
    h("h2", "Last reconciles"),
    all.length === 0
      ? h("p.note", "None yet.")
      : h(
          "div.scroll",
          { tabindex: "0", role: "region", "aria-label": "Last reconciles" },
          h(
            "table",
            h(
              "thead",
              h(
                "tr",
                ["At", "Key", "Why", "Took", "Outcome"].map((title) => h("th", { scope: "col" }, title)),
              ),
            ),
            h("tbody", rows),
          ),
        ),
  );
}

const FORMATS = { bytes, cores, milliseconds: duration, "per-second": (value) => `${digits(value)}/s`, count };

function limits(all) {
  const part = (limit) => (limit.used !== null && limit.limit ? limit.used / limit.limit : 0);
  const sorted = [...all].sort((a, b) => part(b) - part(a) || b.hits - a.hits);
  const rows = sorted.map((limit) => {
    const format = FORMATS[limit.unit] ?? count;
    const most = limit.limit === null ? "no limit" : format(limit.limit);
    const used = limit.used === null ? most : `${format(limit.used)} of ${most}`;
    return h(
      "tr",
      h("th", { scope: "row" }, h("code", limit.name)),
      h("td.number", used),
      h("td", limit.used !== null && limit.limit && meter(part(limit), limit.name)),
      h("td.number", { class: limit.hits > 0 ? "number bad" : "number" }, limit.hits > 0 ? count(limit.hits) : "–"),
    );
  });
  return card(
    "Limits",
    h(
      "table.limits",
      h(
        "thead",
        h(
          "tr",
          h("th", { scope: "col" }, "In the policy"),
          h("th.number", { scope: "col" }, "Used"),
          h("th", ""),
          h("th.number", { scope: "col" }, "Hit"),
        ),
      ),
      h("tbody", rows),
    ),
  );
}

function queues(all) {
  const rows = all.map((queue) =>
    h(
      "tr",
      h("th", { scope: "row" }, queue.name),
      [queue.waiting, queue.delayed, queue.processing].map((value) => h("td.number", count(value))),
      h("td.number", duration(queue.longestMs)),
    ),
  );
  return card(
    "Queues",
    h(
      "table",
      h(
        "thead",
        h(
          "tr",
          h("th", { scope: "col" }, "Queue"),
          ["Waiting", "Delayed", "In work", "Longest"].map((title) => h("th.number", { scope: "col" }, title)),
        ),
      ),
      h("tbody", rows),
    ),
  );
}

function grants({ asks, rules, account }) {
  const items = (asks ?? []).map((ask) =>
    h(
      "li",
      { "data-look": ask.granted ? "good" : "bad" },
      h("b.mark", ask.granted ? "granted" : "denied"),
      ` ${ask.text}`,
    ),
  );
  const given = (rules ?? []).map((rule) => h("li", h("code", rule)));
  return card(
    "Grants",
    h(
      "p.note",
      account ? ["Acts as the service account ", h("code", account), "."] : "Acts with the host's own credentials.",
    ),
    items.length > 0 ? h("ul.plain.grants", items) : h("p.note", "It asks for nothing."),
    given.length > 0 &&
      h("details", h("summary", `${things(given.length, "rule")} of the policy`), h("ul.plain", given)),
  );
}

function versions(name, all) {
  const items = all.map((version) =>
    h(
      "li",
      h("b", version.version || "no version"),
      h("code", { title: version.digest }, short(version.digest)),
      h("span.note", ROLES[version.role] ?? version.role),
      version.canRollBack && command(`flyball rollback ${name} --to ${short(version.digest)}`),
    ),
  );
  return card("Versions", items.length > 0 ? h("ul.plain.versions", items) : h("p.note", "Part of the host."));
}

const ROLES = { runs: "runs", waits: "the file's, waits", before: "ran before" };

const LEVELS = /^(\S+)\s+(TRACE|DEBUG|INFO|WARN|ERROR)\s+(.*)$/s;

function logLine(line, text) {
  const [, at, level, rest] = LEVELS.exec(line) ?? [null, "", "INFO", line];
  const item = h(
    "li",
    { "data-level": level.toLowerCase() },
    at && h("time", { title: at }, precise(at)),
    " ",
    h("b", level),
    " ",
    h("span", rest),
  );
  item.hidden = !line.toLowerCase().includes(text);
  return item;
}
