import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { describe, requeueAfter } from "@flyball/sdk";
import { replay, replayFixed } from "@flyball/sdk/testing";

/** A recording of a call that enqueues `a/y` and is called again after five seconds, and of a call of route. */
const RECORDING = `{"flyballRecording":1,"host":"0.2.0","world":"flyball:controller@0.2.0","plugin":"waker","version":"1","digest":"","builtIn":false,"withSecrets":false,"readsSecrets":false,"at":"","limits":{}}
{"call":{"reconcile":{"queue":"waker","key":"a/x","attempt":2}},"digest":"","kept":"asked","steps":[{"import":"queue.add","asked":{"queue":"","key":"a/y","delayMs":0},"answered":{"ok":null}}],"ended":{"requeueAfter":{"ms":5000}}}
{"call":{"route":{"deltas":[{"watch":"v1/ConfigMap","type":"added","new":{"metadata":{"namespace":"a","name":"x"}},"initial":true}]}},"digest":"","kept":"asked","steps":[],"ended":{"routed":{"keys":[{"queue":"","key":"a/x","delayMs":0}]}}}
`;

const waker = (other = "y") => ({
  describe: () => describe("waker", "1"),
  reconcile(host, { key }) {
    host.queue.add({ namespace: key.namespace, name: other });
    return requeueAfter(5000);
  },
  route: (host, deltas) => deltas.map(({ new: { metadata } }) => ({ key: { namespace: metadata.namespace, name: metadata.name } })),
});

/** Runs a function with the file of a recording. */
function recorded(run, recording = RECORDING) {
  const folder = mkdtempSync(join(tmpdir(), "flyball-"));
  try {
    const file = join(folder, "calls.fbrec");
    writeFileSync(file, recording);
    run(file);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test("a recording is repeated", () => recorded((file) => replay(waker(), file)));

test("a controller that does otherwise fails", () => {
  recorded((file) => assert.throws(() => replay(waker("z"), file), /key: "a\/y" → "a\/z"/));
});

test("a recorded failure must no longer fail", () => {
  const failed = RECORDING.replace('"ended":{"requeueAfter":{"ms":5000}}', '"ended":{"failed":{"message":"no"}}');
  recorded((file) => replayFixed(waker(), file), failed);
  // This one asks more than was recorded: it is past the failure.
  const past = failed.replace('{"import":"queue.add","asked":{"queue":"","key":"a/y","delayMs":0},"answered":{"ok":null}}', "");
  recorded((file) => replayFixed(waker(), file), past);
  recorded((file) => assert.throws(() => replayFixed(waker("z"), file), /key: "a\/y" → "a\/z"/), failed);
  recorded((file) => assert.throws(() => replayFixed(waker(), file), /no call that failed/));
});
