// `console`, which writes to the host's log.

import { inspect } from "./inspect.js";
import { traceOf } from "./trace.js";

/** Returns a console on a log. */
export function consoleOf(log) {
  let indent = "";
  const counts = new Map();
  const starts = new Map();
  const write = (level, values) => {
    if (log.enabled(level)) log[level](indent + format(values));
  };
  const elapsed = (label) => `${label}: ${Date.now() - (starts.get(label) ?? Date.now())} ms`;
  const console = {
    debug: (...values) => write("debug", values),
    log: (...values) => write("info", values),
    info: (...values) => write("info", values),
    warn: (...values) => write("warn", values),
    error: (...values) => write("error", values),
    trace: (...values) => write("trace", [`${format(values)}\n${traceOf(new Error())}`]),
    dir: (value) => write("info", [inspect(value)]),
    table: (value) => write("info", [inspect(value)]),
    assert: (condition, ...values) => {
      if (!condition) write("error", ["assertion failed", ...values]);
    },
    count: (label = "default") => {
      counts.set(label, (counts.get(label) ?? 0) + 1);
      write("info", [`${label}: ${counts.get(label)}`]);
    },
    countReset: (label = "default") => void counts.delete(label),
    group: (...values) => {
      if (values.length > 0) write("info", values);
      indent += "  ";
    },
    groupEnd: () => {
      indent = indent.slice(2);
    },
    time: (label = "default") => void starts.set(label, Date.now()),
    timeLog: (label = "default", ...values) => write("info", [elapsed(label), ...values]),
    timeEnd: (label = "default") => {
      write("info", [elapsed(label)]);
      starts.delete(label);
    },
  };
  return Object.assign(console, { groupCollapsed: console.group, dirxml: console.dir });
}

/**
 * Formats values as `console.log` does: the first one may hold `%s`, `%d`, `%i`, `%f`, `%j`, `%o`, `%O`, `%c` and `%%`.
 */
export function format(values) {
  let [first, ...rest] = values;
  if (typeof first === "string" && rest.length > 0) {
    first = first.replace(/%([sdifjoOc%])/g, (whole, directive) => {
      if (directive === "%") return "%";
      return rest.length === 0 ? whole : substituted(directive, rest.shift());
    });
  }
  const text = (value) => (typeof value === "string" ? value : inspect(value));
  return values.length === 0 ? "" : [first, ...rest].map(text).join(" ");
}

function substituted(directive, value) {
  switch (directive) {
    case "s": return typeof value === "string" ? value : inspect(value);
    case "d": return String(typeof value === "bigint" ? value : Number(value));
    case "i": return String(Number.parseInt(value, 10));
    case "f": return String(Number.parseFloat(value));
    case "j": return JSON.stringify(value) ?? "undefined";
    case "c": return "";
    default: return inspect(value);
  }
}
