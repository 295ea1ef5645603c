/** The API's LabelSelector. */
export interface LabelSelector {
  matchLabels?: Record<string, string>;
  matchExpressions?: LabelRequirement[];
}

export interface LabelRequirement {
  key: string;
  operator: "In" | "NotIn" | "Exists" | "DoesNotExist";
  values?: string[];
}

/** A selector as a text such as `app=web,tier in (a,b),!canary`, as a LabelSelector, or as a map of labels. */
export type Selector = string | LabelSelector | Record<string, string>;

/** Returns the text of a selector. An empty selector matches everything. */
export function selectorText(selector: Selector): string;
/**
 * Whether a selector matches labels.
 *
 * @throws TypeError if the selector is malformed.
 */
export function matchesSelector(selector: Selector, labels: Record<string, string> | undefined): boolean;
/**
 * Parses the text of a selector into requirements.
 *
 * @throws TypeError if the text is malformed.
 */
export function parseSelector(text: string): LabelRequirement[];
