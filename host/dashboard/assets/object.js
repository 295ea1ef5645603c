// The page of one object: what changed it and what followed, as a picture over time and as a list.

import { picture } from "./causes.js";
import { h, put } from "./dom.js";
import { duration, precise } from "./format.js";

export class ObjectView {
  constructor(name) {
    this.name = name;
    this.body = h("div", h("p.empty", "Looking…"));
    this.document = {};
    this.element = h(
      "article.object-page",
      h("nav.crumbs", h("a", { href: "#/" }, "Plugins"), " / object"),
      h("header.title", h("h1", name)),
      this.body,
    );
  }

  update(changed) {
    Object.assign(this.document, changed);
    const { steps, truncated } = this.document;
    if (!steps?.length) {
      put(this.body, h("p.empty", "None of the last reconciles was of this object, was caused by it, or wrote it."));
      return;
    }
    const scroll = this.body.querySelector(".picture")?.scrollLeft;
    put(
      this.body,
      h(
        "p.note",
        "Boxes are reconciles. An arrow leads from one to what its write caused: a reconcile that was queued for a written object within ten seconds of the write.",
        truncated && " There are more; these are the last ones.",
      ),
      picture(steps, (step) => this.#choose(step)),
      h(
        "ol.steps",
        steps.map((step) => this.#item(step, steps)),
      ),
    );
    const drawn = this.body.querySelector(".picture");
    drawn.scrollLeft = scroll ?? drawn.scrollWidth;
  }

  #choose(step) {
    const item = this.body.querySelector(`#step-${step.id}`);
    item?.scrollIntoView({
      block: "center",
      behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth",
    });
    item?.focus({ preventScroll: true });
  }

  #item(step, steps) {
    const from = steps.find((other) => other.id === step.from);
    const cause = step.cause
      ? h("a.object", { href: `#/object/${encodeURIComponent(step.cause)}` }, step.why)
      : step.why;
    const wrote = step.objects.map((object) =>
      h(
        "li",
        h("b", object.verb),
        " ",
        h(
          "a.object",
          { href: `#/object/${encodeURIComponent(`${object.kind}/${object.key}`)}` },
          `${object.kind}${object.subresource ? `/${object.subresource}` : ""} ${object.key}`,
        ),
      ),
    );
    return h(
      "li.step",
      { id: `step-${step.id}`, tabindex: "-1", "data-look": step.failed ? "bad" : step.about ? "own" : null },
      h(
        "header",
        h("time", { datetime: step.at, title: step.at }, precise(step.startMs)),
        h("a", { href: `#/plugin/${encodeURIComponent(step.plugin)}` }, step.plugin),
        h("code", step.key),
        h("span.note", `queued ${duration(step.queuedMs)}, took ${duration(step.tookMs)}`),
      ),
      h(
        "p",
        "because: ",
        cause,
        step.coalesced > 0 && h("span.note", ` and ${step.coalesced} more`),
        from &&
          h(
            "button.quiet.small",
            { type: "button", onclick: () => this.#choose(from) },
            `after ${from.plugin} ${from.key}`,
          ),
      ),
      step.failed && h("pre", step.failed),
      wrote.length > 0 ? h("ul.plain", wrote) : !step.failed && h("p.note", "no writes"),
    );
  }
}
