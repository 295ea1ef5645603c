// Numbers and times for people.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** Bytes, as in `12.3 MiB`. */
export function bytes(value) {
  let unit = 0;
  let left = value;
  while (left >= 1024 && unit < UNITS.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${digits(left)} ${UNITS[unit]}`;
}

/** A number with three digits or so. */
export function digits(value) {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 0.01) return "<0.01";
  if (size < 10) return trim(value.toFixed(2));
  if (size < 100) return trim(value.toFixed(1));
  return Math.round(value).toLocaleString("en");
}

function trim(text) {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** A number in little room, as in `12.3k`. */
export function count(value) {
  if (value >= 1e6) return `${digits(value / 1e6)}M`;
  if (value >= 1e4) return `${digits(value / 1e3)}k`;
  return digits(value);
}

/** Milliseconds, as in `1.2 s`. */
export function duration(ms) {
  if (ms < 1) return ms === 0 ? "0 ms" : `${Math.max(1, Math.round(ms * 1000))} µs`;
  if (ms < 1000) return `${digits(ms)} ms`;
  if (ms < 120e3) return `${digits(ms / 1e3)} s`;
  if (ms < 7200e3) return `${Math.round(ms / 60e3)} min`;
  return `${digits(ms / 3600e3)} h`;
}

/** Cores, as in `120 m` for 0.12 of one. */
export function cores(value) {
  if (value === 0) return "0";
  return value < 1 ? `${Math.max(1, Math.round(value * 1000))} m` : digits(value);
}

export function rate(value) {
  return `${digits(value)}/s`;
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** A time of day. */
export function clock(at) {
  return CLOCK.format(new Date(at));
}

/** A time of day to the millisecond. */
export function precise(at) {
  const time = new Date(at);
  return `${CLOCK.format(time)}.${String(time.getMilliseconds()).padStart(3, "0")}`;
}

/** A number of things, as in `1 rule` or `3 rules`. */
export function things(value, name) {
  return `${count(value)} ${name}${value === 1 ? "" : "s"}`;
}

/** How long ago a time was, as in `3 min ago`. */
export function ago(at) {
  const passed = Math.max(0, Date.now() - new Date(at).getTime());
  return passed < 2000 ? "just now" : `${duration(Math.floor(passed / 1000) * 1000)} ago`;
}

/** The beginning of a digest. */
export function short(digest) {
  return digest.slice(0, 12);
}

/** The words and the look of a state: the look is one of good, busy, warn, bad. */
export function state(name) {
  const looks = {
    running: ["Running", "good"],
    standby: ["Standby", "busy"],
    loading: ["Loading", "busy"],
    starting: ["Starting", "busy"],
    "waiting-for-kind": ["Waits for a kind", "warn"],
    pending: ["Pending", "warn"],
    quarantined: ["Quarantined", "bad"],
    failed: ["Failed", "bad"],
  };
  return looks[name] ?? [name, "busy"];
}
