// Scales Deployments to zero outside of the hours that their annotations give, and back to the earlier replicas.

import { type Controller, type Host, type KubernetesObject, Mapping, describe, isDeleting, kindOf, requeueAfter, watch } from "@flyball/sdk";

import { Hours, HoursError, type State } from "./hours.ts";

/** The fields of a Deployment that are read. */
export interface Deployment extends KubernetesObject {
  spec?: { replicas?: number };
}

export const DEPLOYMENT = kindOf<Deployment>("apps/v1/Deployment");
/** When the Deployment runs: `Mon-Fri 08:00-18:00`. */
export const HOURS = "idle-scaler.flyball.dev/hours";
/** The time zone of the hours; UTC without it. */
export const TIME_ZONE = "idle-scaler.flyball.dev/time-zone";
/** The replicas to go back to. The controller writes it, in the same update as the zero. */
export const REPLICAS = "idle-scaler.flyball.dev/replicas";

/**
 * The longest time until the clock is read again. After a suspension of the machine or a change of its clock, the
 * controller is late by at most this time.
 */
const LONGEST_MS = 3_600_000;
const FIELDS = [...[HOURS, TIME_ZONE, REPLICAS].map((name) => `metadata.annotations['${name}']`), "spec.replicas"];

export const idleScaler: Controller = {
  describe: () =>
    describe("idle-scaler", "0.1.0")
      .watch(watch(DEPLOYMENT).fields("metadata.deletionTimestamp", ...FIELDS).whenAt(...FIELDS).enqueue(Mapping.itself()))
      .queue("idle-scaler")
      .permission(DEPLOYMENT, "get", "update"),

  reconcile(host, { key }) {
    const deployment = host.get(DEPLOYMENT, key);
    if (deployment === undefined || isDeleting(deployment)) return;
    const { [HOURS]: hours, [TIME_ZONE]: zone = "UTC" } = deployment.metadata.annotations ?? {};
    if (hours === undefined) {
      // The annotation may have been removed while the Deployment slept.
      wake(host, deployment);
      return;
    }
    const now = host.now();
    let state: State;
    try {
      state = new Hours(hours, zone).at(now);
    } catch (error) {
      if (!(error instanceof HoursError)) throw error;
      return warn(host, deployment, "InvalidHours", error.message);
    }
    if (state.isOpen) wake(host, deployment);
    else sleep(host, deployment, state.until);
    return requeueAfter(Math.min(state.until.getTime() - now.getTime(), LONGEST_MS));
  },
};

/** Scales to zero and notes the replicas. */
function sleep(host: Host, deployment: Deployment, until: Date): void {
  const replicas = replicasOf(deployment);
  if (replicas === 0) return;
  scale(host, deployment, 0, String(replicas));
  host.emit(DEPLOYMENT, deployment, "Normal", "ScaledToZero", `scaled from ${replicas} to 0 until ${until.toISOString()}`);
}

/**
 * Scales to the noted replicas, and removes the note. If somebody has scaled the Deployment up meanwhile, it keeps
 * those replicas.
 */
function wake(host: Host, deployment: Deployment): void {
  const note = deployment.metadata.annotations?.[REPLICAS];
  if (note === undefined) return;
  const replicas = replicasOf(deployment);
  if (replicas > 0) return scale(host, deployment, replicas, null);
  if (!/^\d{1,9}$/.test(note)) {
    const message = `\`${note}\` in the annotation ${REPLICAS} is not a number of replicas: scale the Deployment yourself`;
    return warn(host, deployment, "InvalidReplicas", message);
  }
  scale(host, deployment, Number(note), null);
  host.emit(DEPLOYMENT, deployment, "Normal", "ScaledUp", `scaled from 0 to ${Number(note)}`);
}

const replicasOf = (deployment: Deployment): number => deployment.spec?.replicas ?? 1;

/** Fails with a conflict if somebody else has changed the Deployment since it was read; the next try decides anew. */
function scale(host: Host, deployment: Deployment, replicas: number, note: string | null): void {
  host.update(DEPLOYMENT, deployment, { metadata: { annotations: { [REPLICAS]: note } }, spec: { replicas } });
}

/** Warns of a problem that only a change of the Deployment can correct. */
function warn(host: Host, deployment: Deployment, reason: string, message: string): undefined {
  host.emit(DEPLOYMENT, deployment, "Warning", reason, message, { once: true });
}
