/** A condition of an object's status. */
export interface Condition {
  type: string;
  status: "True" | "False" | "Unknown";
  observedGeneration?: number;
  lastTransitionTime?: string;
  /** One CamelCase word. */
  reason?: string;
  message?: string;
}

/** Returns the condition of this type. */
export function getCondition(conditions: readonly Condition[] | undefined, type: string): Condition | undefined;
/** Whether the condition of this type is `True`. */
export function isConditionTrue(conditions: readonly Condition[] | undefined, type: string): boolean;
/**
 * Sets a condition in place, as apimachinery's `SetStatusCondition`: the transition time changes only if the status
 * does. Returns whether anything changed.
 */
export function setCondition(conditions: Condition[], condition: Condition, now: Date): boolean;
/** Removes the condition of this type in place. Returns whether it existed. */
export function removeCondition(conditions: Condition[], type: string): boolean;
