// The parts of the sandbox side that run without a sandbox.

import assert from "node:assert/strict";
import { readFile, readdir } from "node:fs/promises";
import { test } from "node:test";

import { checked } from "../src/guest/checked.js";
import { consoleOf, format } from "../src/guest/console.js";
import { clone, installRandom } from "../src/guest/globals.js";
import { inspect } from "../src/guest/inspect.js";
import { decode, placeOf, traceOf } from "../src/guest/trace.js";

test("values are formatted as the console does it", () => {
  assert.equal(format(["%s is %d of %i%%, %j", "x", "5", 7.9, { a: 1 }, "rest"]), 'x is 5 of 7%, {"a":1} rest');
  assert.equal(format(["100%", 1]), "100% 1");
  assert.equal(format([]), "");
  const circular = { name: "a", list: [1, "b", undefined, null, 5n], map: new Map([["k", new Set([1])]]), f() {} };
  circular.self = circular;
  assert.equal(
    inspect(circular),
    '{ name: "a", list: [ 1, "b", undefined, null, 5n ], map: Map { "k" => Set { 1 } }, f: [function f], self: [circular] }',
  );
  assert.equal(inspect({ "a/b": new Date(0), empty: {}, none: [] }), '{ "a/b": 1970-01-01T00:00:00.000Z, empty: {}, none: [] }');
});

test("the console writes to the log with its level", () => {
  const lines = [];
  const level = (name) => (message) => lines.push(`${name} ${message}`);
  const log = { ...Object.fromEntries(["trace", "debug", "info", "warn", "error"].map((name) => [name, level(name)])), enabled: (name) => name !== "debug" };
  const console = consoleOf(log);
  console.log("a", { b: 1 });
  console.debug("not kept");
  console.group("group");
  console.warn("w");
  console.groupEnd();
  console.error(new TypeError("broken"));
  console.assert(true, "not written");
  console.assert(false, "why");
  console.count();
  assert.deepEqual(lines.slice(0, 3), ["info a { b: 1 }", "info group", "warn   w"]);
  assert.match(lines[3], /^error TypeError: broken\n +at .*guest\.test\.js:\d+/);
  assert.deepEqual(lines.slice(4), ["error assertion failed why", "info default: 1"]);
});

test("a clone shares nothing with its original", () => {
  const value = { list: [1, { a: null }], map: new Map([["k", new Set([1])]]), date: new Date(5), bytes: new Uint8Array([1, 2]) };
  value.self = value;
  const copy = clone(value, new Map());
  assert.deepEqual(copy, value);
  assert.equal(copy.self, copy);
  value.list[1].a = 1;
  value.map.get("k").add(2);
  value.bytes[0] = 9;
  assert.deepEqual([copy.list[1].a, copy.map.get("k").size, copy.bytes[0]], [null, 1, 1]);
  assert.throws(() => clone({ f() {} }, new Map()), /function can't be cloned/);
});

test("random numbers come from the host", (context) => {
  const { random } = Math;
  context.after(() => { Math.random = random; });
  const asked = [];
  installRandom({ random: (count) => { asked.push(count); return new Uint8Array(count).fill(asked.length === 1 ? 0xff : 0); } });
  const drawn = Array.from({ length: 65 }, () => Math.random());
  assert.equal(drawn[0], 1 - 2 ** -53);
  assert.equal(drawn[64], 0);
  assert.deepEqual(asked, [448, 448]);
});

test("a stack of the bundle is shown with the lines of its sources", (context) => {
  // Line 2: column 0 is line 1 of a.ts, column 6 is line 11, column 3 of b.ts.
  const mappings = ";AAAA,MCUE";
  assert.deepEqual(decode(mappings), [[], [[0, 0, 0, 0], [6, 1, 10, 2]]]);
  globalThis.flyballSourceMap = { file: "controller.js", sources: ["src/a.ts", "src/b.ts"], mappings };
  context.after(() => delete globalThis.flyballSourceMap);
  const error = new TypeError("not a function", { cause: new Error("inner") });
  error.stack = "    at reconcile (/controller.js:2:9)\n    at <anonymous> (/controller.js:2:1)\n    at other (/other.js:1:1)\n    at map (native)\n";
  error.cause.stack = "    at f (/controller.js:1:1)\n";
  assert.equal(traceOf(error), [
    "TypeError: not a function",
    "    at reconcile (src/b.ts:11:3)",
    "    at <anonymous> (src/a.ts:1:1)",
    "    at other (/other.js:1:1)",
    "    at map (native)",
    "caused by Error: inner",
    "    at f (/controller.js:1:1)",
  ].join("\n"));
  assert.equal(placeOf(error), " (src/b.ts:11 in reconcile)");
});

test("the place of an error is the innermost line of the author", () => {
  const error = new Error("no");
  for (const [stack, place] of [
    ["    at put (/a/flyball-sdk/src/host.js:4:2)\n    at new Site (file:///a/src/site.js:7:1)\n    at reconcile (/a/src/c.js:9:1)", " (/a/src/site.js:7 in new Site)"],
    ["    at map (native)\n    at /a/src/c.js:9:1", " (/a/src/c.js:9)"],
    ["    at async f (/a/node_modules/b/c.js:1:2)", " (/a/node_modules/b/c.js:1 in f)"],
    ["    at map (native)", ""],
  ]) {
    error.stack = stack;
    assert.equal(placeOf(error), place);
  }
});

test("what the bindings would trap on is an error that names it", () => {
  const calls = [];
  class Batch {
    update(...args) { calls.push(args); }
  }
  const functions = new Proxy({ Batch }, { get: (target, name) => target[name] ?? ((...args) => void calls.push(args)) });
  let isLoading = true;
  const world = checked(new Proxy({}, { get: () => functions }), () => isLoading);
  assert.throws(() => world.clock.now(), /clock\.now: the host's functions don't work while modules are loaded/);
  isLoading = false;
  const bytes = new Uint8Array();
  const target = { kind: "v1/Pod", namespace: "a", name: "x", subresource: "" };
  const update = (...args) => new world.writer.Batch().update(...args);
  update(target, "1", bytes, bytes, []);
  world.lister.get("v1/Pod", "a", "x", ["spec"]);
  assert.equal(calls.length, 2);
  assert.throws(() => update(target, undefined, bytes, bytes, []), { message: "writer.update: resourceVersion is undefined, not a text" });
  assert.throws(() => update({ ...target, name: 1 }, "1", bytes, bytes, []), /target\.name is 1, not a text/);
  assert.throws(() => world.lister.get("v1/Pod", "a", "x", ["spec", null]), /lister\.get: fields\[1\] is null, not a text/);
  assert.throws(() => world.memo.put("k", 1.5, bytes, "", 0), /expected is 1\.5, not a whole number/);
  assert.throws(() => world.metrics.add("m", "label", 1), /labels is a value of type string, not a list/);
  assert.equal(calls.length, 2);
});

test("the type declarations name what the modules export", async () => {
  const folder = new URL("../src/", import.meta.url);
  const files = (await readdir(folder)).filter((name) => name.endsWith(".d.ts") && name !== "guest.d.ts");
  assert.ok(files.length > 8);
  for (const file of files) {
    const text = await readFile(new URL(file, folder), "utf8");
    const module = await import(new URL(file.replace(".d.ts", ".js"), folder));
    const own = [...text.matchAll(/^export (?:function|class|const) (\w+)/gm)].map(([, name]) => name);
    const others = [...text.matchAll(/^export \{([^}]*)\}/gm)].flatMap(([, names]) => names.split(",").map((name) => name.trim())).filter(Boolean);
    for (const name of [...own, ...others]) assert.ok(name in module, `${file} declares ${name}, which the module does not export`);
  }
});

test("the guest imports the version of the world that is in wit/", async (context) => {
  const wit = await readFile(new URL("../../../../wit/world.wit", import.meta.url), "utf8").catch(() => undefined);
  if (wit === undefined) return context.skip("this copy of the SDK has no wit/ beside it");
  const [, version] = /^package flyball:controller@(\S+);/m.exec(wit);
  const guest = await readFile(new URL("../src/guest.js", import.meta.url), "utf8");
  const imports = [...guest.matchAll(/"flyball:controller\/([\w-]+)@([^"]+)"/g)];
  const declared = [...wit.matchAll(/^ {4}import ([\w-]+);/gm)].map(([, name]) => name);
  assert.deepEqual(imports.map(([, name]) => name).sort(), declared.sort());
  for (const [, name, imported] of imports) assert.equal(imported, version, name);
});
