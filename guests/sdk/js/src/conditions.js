// Status conditions.

/** Returns the condition of this type. */
export function getCondition(conditions, type) {
  return conditions?.find((condition) => condition.type === type);
}

/** Whether the condition of this type is `True`. */
export function isConditionTrue(conditions, type) {
  return getCondition(conditions, type)?.status === "True";
}

/** Sets a condition in place. Returns whether anything changed. */
export function setCondition(conditions, condition, now) {
  const old = getCondition(conditions, condition.type);
  const kept = old !== undefined && old.status === condition.status ? old.lastTransitionTime : undefined;
  const lastTransitionTime = kept ?? condition.lastTransitionTime ?? `${now.toISOString().slice(0, 19)}Z`;
  const next = { ...condition, reason: condition.reason ?? "", message: condition.message ?? "", lastTransitionTime };
  if (old === undefined) {
    conditions.push(next);
    return true;
  }
  const fields = ["status", "reason", "message", "observedGeneration", "lastTransitionTime"];
  const changed = fields.some((field) => (old[field] ?? "") !== (next[field] ?? ""));
  conditions[conditions.indexOf(old)] = next;
  return changed;
}

/** Removes the condition of this type in place. Returns whether it existed. */
export function removeCondition(conditions, type) {
  const at = conditions.findIndex((condition) => condition.type === type);
  if (at >= 0) conditions.splice(at, 1);
  return at >= 0;
}
