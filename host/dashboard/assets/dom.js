// Builds elements. Texts of plugins and of the API server only ever become text nodes.

const SVG = "http://www.w3.org/2000/svg";

// Characters that change how the text around them is shown: controls, and the marks of writing directions.
const MARKS =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Returns a text with its invisible marks spelled out, so that no text can imitate another. */
export function printable(text) {
  return String(text).replace(MARKS, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Returns an element: `h("a.link", {href: "#/"}, "text", child)`. */
export function h(spec, ...rest) {
  const [tag, ...classes] = spec.split(".");
  return fill(document.createElement(tag || "div"), classes, rest);
}

/** Returns an element of SVG. */
export function s(spec, ...rest) {
  const [tag, ...classes] = spec.split(".");
  return fill(document.createElementNS(SVG, tag), classes, rest);
}

function fill(element, classes, rest) {
  if (classes.length > 0) element.setAttribute("class", classes.join(" "));
  const [first] = rest;
  const hasAttributes = first && typeof first === "object" && !(first instanceof Node) && !Array.isArray(first);
  if (hasAttributes) {
    rest.shift();
    for (const [name, value] of Object.entries(first)) {
      if (value === false || value === null || value === undefined) continue;
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...nodes(rest));
  return element;
}

function nodes(children) {
  return children
    .flat(2)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(printable(child))));
}

/** Replaces the children of an element. */
export function put(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

/** Sets the text of an element, if it differs. */
export function say(element, text) {
  const shown = printable(text);
  if (element.textContent !== shown) element.textContent = shown;
}

/** A button that copies a command. */
export function command(text) {
  const button = h(
    "button.command",
    { type: "button", title: "Copy", "aria-label": `Copy the command: ${text}` },
    h("code", text),
    h("span.copy", { "aria-hidden": "true" }, "copy"),
  );
  button.addEventListener("click", async () => {
    const label = button.querySelector(".copy");
    try {
      await navigator.clipboard.writeText(text);
      say(label, "copied");
    } catch {
      say(label, "select it");
    }
    setTimeout(() => say(label, "copy"), 1500);
  });
  return button;
}
