// What a plugin may do: the fields that it declares, and the permissions that it asks for.

import { matchesSelector } from "../labels.js";
import { parseKind } from "../objects.js";
import { failure } from "./failure.js";
import { Mask, stringsAt } from "./paths.js";

/** Without a description, everything is allowed. */
export class Access {
  constructor(description) {
    this.description = description;
  }

  /** The plugin's watches of a kind. */
  watches(kind) {
    if (this.description === undefined) return [{ kind, fields: ["."] }];
    const own = (this.description.watches ?? []).filter((watch) => {
      if (watch.discovered === undefined) return watch.kind === kind;
      return kind === "*" || !(watch.discovered.except ?? []).includes(kind);
    });
    if (own.length === 0) throw failure("Denied", `${kind} is not among the plugin's watches`);
    return own;
  }

  mayRead(kind) {
    try {
      return this.watches(kind).length > 0;
    } catch {
      return false;
    }
  }

  /** Whether an object is in the scope of one of the plugin's watches. */
  isInScope(kind, object) {
    return this.watches(kind).some(({ namespace, labelSelector, fieldSelector }) =>
      (!namespace || namespace === object.metadata.namespace) &&
      matchesSelector(labelSelector ?? "", object.metadata.labels) &&
      matchesFields(fieldSelector, object));
  }

  /** The fields of a kind that the plugin reads, narrowed to `fields` if there are any. */
  mask(kind, fields = []) {
    const declared = new Mask(this.watches(kind).flatMap(({ fields = [], metadataOnly, discovered }) =>
      (metadataOnly || discovered !== undefined ? ["metadata", ...fields] : fields)));
    const wanted = new Mask(fields);
    if (!declared.covers(wanted)) {
      throw failure("Denied", `the plugin does not declare all of these fields of ${kind}: ${fields.join(", ")}`);
    }
    return fields.length === 0 ? declared : wanted;
  }

  /** Fails if the plugin does not ask for a verb. */
  admit(verb, kind, subresource) {
    if (!this.#may(verb, kind, subresource)) {
      throw failure("Denied", `the plugin does not ask to ${verb} ${kind}${subresource ? `/${subresource}` : ""}`);
    }
  }

  /** Fails if the host lacks the whole object that an update needs: the plugin neither declares it nor may get it. */
  admitUpdate(kind, subresource, isStatus) {
    const isEnough = (watch) => {
      const mask = new Mask(watch.fields ?? []);
      return watch.kind === kind && subresource !== "scale" && (mask.isWhole || (isStatus && mask.covers(new Mask(["metadata"]))));
    };
    if (this.description === undefined || (this.description.watches ?? []).some(isEnough)) return;
    if (!this.#may("get", kind, subresource === "scale" ? "scale" : "")) {
      throw failure("Denied", `the plugin neither keeps all of ${kind} that an update needs nor asks to get it`);
    }
  }

  admitImport(name) {
    if (this.description !== undefined && !(this.description.imports ?? []).includes(name)) {
      throw failure("Denied", `the plugin does not ask for the import \`${name}\``);
    }
  }

  /** The path of an index. */
  index(kind, name) {
    const found = (this.description?.indexes ?? []).find((index) => index.name === name && index.kind === kind);
    if (found === undefined) throw failure("Invalid", `the plugin declares no index \`${name}\` over ${kind}`);
    return found.path;
  }

  #may(verb, kind, subresource) {
    if (this.description === undefined) return true;
    return (this.description.permissions ?? []).some((permission) =>
      matchesKind(permission.kind, kind) &&
      (permission.subresource ?? "") === (subresource ?? "") &&
      permission.verbs.some((own) => own === verb || own === "*"));
  }
}

function matchesKind(pattern, kind) {
  return pattern === "*" || pattern === kind || (pattern.endsWith("/*") && parseKind(kind).group === pattern.slice(0, -2));
}

/** Whether an object's fields match a field selector such as `metadata.name=web,status.phase!=Failed`. */
export function matchesFields(selector, object) {
  return (selector ?? "").split(",").filter((part) => part !== "").every((part) => {
    const [, path, operator, value] = /^([^!=]+)(!?==?)(.*)$/.exec(part) ?? [];
    if (path === undefined) throw failure("Invalid", `\`${selector}\` is not a field selector`);
    return ((stringsAt(path, object)[0] ?? "") === value) === !operator.startsWith("!");
  });
}
