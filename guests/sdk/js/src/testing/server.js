// The process that holds the clusters of a test program: `flyball test-server`. It ends with the tests, when its input
// is closed.
//
// The host's functions are synchronous, and a process in Node.js is not: a worker talks to the process while this
// thread waits.

import { env } from "node:process";
import { MessageChannel, Worker, receiveMessageOnPort } from "node:worker_threads";

import { work } from "./worker.js";

const SOURCE = `(${work})(require("node:worker_threads").workerData, require("node:child_process").spawn)`;

let connection;

function connect() {
  const answered = new Int32Array(new SharedArrayBuffer(4));
  const { port1: port, port2 } = new MessageChannel();
  const workerData = { program: env.FLYBALL || "flyball", port: port2, answered };
  const worker = new Worker(SOURCE, { eval: true, workerData, transferList: [port2] });
  worker.unref();
  port.unref();
  return { port, answered };
}

function ask(line) {
  connection ??= connect();
  const { port, answered } = connection;
  Atomics.store(answered, 0, 0);
  port.postMessage(line);
  Atomics.wait(answered, 0, 0);
  const { reply, failure } = receiveMessageOnPort(port).message;
  if (failure !== undefined) throw new Error(failure);
  return JSON.parse(reply);
}

/**
 * Makes a call and returns its result. Throws the error that the controller gets, as the world's bindings throw it, or
 * a TypeError if the test makes a mistake.
 */
export function call(cluster, name, args) {
  const { ok, error, mistake } = ask(JSON.stringify({ cluster, call: name, with: args ?? null }));
  if (mistake !== undefined) throw new TypeError(`${name}: ${mistake}`);
  if (error !== undefined) throw Object.assign(new Error(error.message), { payload: error });
  return ok;
}
