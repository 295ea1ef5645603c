// Stack traces with the files and lines of the sources. `flyball build` bundles them into one file, and appends its
// source map as the global `flyballSourceMap`.

const FRAME = /\/?\b([\w.-]+\.js):(\d+)(?::(\d+))?/g;

let lines;

/** Returns the name, the message and the stack of an error and of its causes. */
export function traceOf(error) {
  if (!(error instanceof Error)) return String(error);
  const trace = ownTrace(error);
  return error.cause === undefined ? trace : `${trace}\ncaused by ${traceOf(error.cause)}`;
}

function ownTrace(error) {
  // QuickJS leaves name and message out of the stack.
  const stack = (error.stack ?? "").replace(/\n+$/, "");
  const own = stack.startsWith(error.name) ? stack : `${error.name}: ${error.message}\n${stack}`;
  return own.replace(FRAME, sourceOf).replace(/\n$/, "");
}

/** A line of a stack: `at reconcile (src/controller.ts:11:3)`, or without a function. */
const LINE = /^ *at (?:(?:async )?(.+) \()?(?:file:\/\/)?([^()\s]+?:\d+)(?::\d+)?\)?$/;
/** Files that are not the author's: packages, the SDK, and Node's own. */
const OTHERS = /(^|\/)node_modules\/|(^|\/)flyball-sdk\/|guests\/sdk\/js\/src\/|^node:/;

/**
 * Returns where in the author's code an error was thrown, as ` (FILE:LINE in FUNCTION)`: its innermost line that is not in a
 * package, or else its innermost line. Empty if the stack has no line.
 */
export function placeOf(error) {
  const lines = ownTrace(error).split("\n").flatMap((line) => {
    const [, name, place] = LINE.exec(line) ?? [];
    return place === undefined ? [] : [{ name: name?.replace(/ \[as .+\]$/, ""), place }];
  });
  const found = lines.find(({ place }) => !OTHERS.test(place)) ?? lines[0];
  if (found === undefined) return "";
  return found.name === undefined ? ` (${found.place})` : ` (${found.place} in ${found.name})`;
}

function sourceOf(whole, file, line, column = "1") {
  const map = globalThis.flyballSourceMap;
  if (map === undefined || map.file !== file) return whole;
  lines ??= decode(map.mappings);
  const segments = lines[line - 1] ?? [];
  // The last segment that starts at the column or before it.
  const segment = segments.findLast(([start]) => start <= column - 1) ?? segments[0];
  if (segment === undefined) return whole;
  const [, source, sourceLine, sourceColumn] = segment;
  return `${map.sources[source]}:${sourceLine + 1}:${sourceColumn + 1}`;
}

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** Decodes the mappings of a source map: for each line, segments of column, source, line and column, all from 0. */
export function decode(mappings) {
  const position = [0, 0, 0, 0];
  return mappings.split(";").map((line) => {
    position[0] = 0;
    const segments = [];
    for (const segment of line === "" ? [] : line.split(",")) {
      const deltas = decodeNumbers(segment);
      deltas.slice(0, 4).forEach((delta, at) => { position[at] += delta; });
      if (deltas.length >= 4) segments.push([...position]);
    }
    return segments;
  });
}

/** Decodes numbers of a variable length: five bits a digit, the lowest bit first and the sign in the first one. */
function decodeNumbers(text) {
  const numbers = [];
  let value = 0;
  let shift = 0;
  for (const digit of text) {
    const bits = DIGITS.indexOf(digit);
    value += (bits & 31) << shift;
    shift += 5;
    if ((bits & 32) === 0) {
      numbers.push((value & 1) === 1 ? -(value >> 1) : value >> 1);
      value = 0;
      shift = 0;
    }
  }
  return numbers;
}
