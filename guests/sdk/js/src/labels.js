// Label selectors: as a text, as a LabelSelector and as a plain map of labels.

/** Returns the text of a selector, as in `app=web,tier in (a,b),!canary`. */
export function selectorText(selector) {
  if (typeof selector === "string") return selector;
  return requirementsOf(selector).map(requirementText).join(",");
}

/** Whether a selector matches labels. */
export function matchesSelector(selector, labels) {
  const requirements = typeof selector === "string" ? parseSelector(selector) : requirementsOf(selector);
  return requirements.every((requirement) => matches(requirement, labels ?? {}));
}

function requirementsOf(selector) {
  const isLabelSelector = ["matchLabels", "matchExpressions"].some((field) => typeof selector[field] === "object");
  const { matchLabels, matchExpressions } = isLabelSelector ? selector : { matchLabels: selector };
  const equal = Object.entries(matchLabels ?? {}).map(([key, value]) => ({ key, operator: "In", values: [value] }));
  return [...equal, ...(matchExpressions ?? [])];
}

function requirementText({ key, operator, values }) {
  switch (operator) {
    case "In": return values.length === 1 ? `${key}=${values[0]}` : `${key} in (${values.join(",")})`;
    case "NotIn": return values.length === 1 ? `${key}!=${values[0]}` : `${key} notin (${values.join(",")})`;
    case "Exists": return key;
    case "DoesNotExist": return `!${key}`;
    default: throw new TypeError(`\`${operator}\` is not an operator of a label selector`);
  }
}

function matches({ key, operator, values }, labels) {
  const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
  switch (operator) {
    case "In": return value !== undefined && values.includes(value);
    case "NotIn": return value === undefined || !values.includes(value);
    case "Exists": return value !== undefined;
    case "DoesNotExist": return value === undefined;
    default: throw new TypeError(`\`${operator}\` is not an operator of a label selector`);
  }
}

const FORMS = [
  [/^!\s*(\S+)$/, ([, key]) => ({ key, operator: "DoesNotExist" })],
  [/^(\S+)\s+in\s*\((.*)\)$/, ([, key, values]) => ({ key, operator: "In", values: listed(values) })],
  [/^(\S+)\s+notin\s*\((.*)\)$/, ([, key, values]) => ({ key, operator: "NotIn", values: listed(values) })],
  [/^([^\s!=]+)\s*!=\s*(\S*)$/, ([, key, value]) => ({ key, operator: "NotIn", values: [value] })],
  [/^([^\s!=]+)\s*==?\s*(\S*)$/, ([, key, value]) => ({ key, operator: "In", values: [value] })],
  [/^([^\s!=()]+)$/, ([, key]) => ({ key, operator: "Exists" })],
];

/** Parses the text of a selector into requirements. */
export function parseSelector(text) {
  // Commas within parentheses separate values.
  const parts = text.split(/,(?![^(]*\))/).map((part) => part.trim()).filter((part) => part !== "");
  return parts.map((part) => {
    for (const [form, requirement] of FORMS) {
      const found = form.exec(part);
      if (found !== null) return requirement(found);
    }
    throw new TypeError(`\`${part}\` in \`${text}\` is not a requirement of a label selector`);
  });
}

const listed = (values) => values.split(",").map((value) => value.trim());
