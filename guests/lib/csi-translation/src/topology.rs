//! The zones and regions of PersistentVolumes.
//!
//! An in-tree volume has them in its labels or in its node affinity, under Kubernetes' keys or the keys that those
//! replaced. A CSI driver has keys of its own, in the node affinity only.
//!
//! Upstream: staging/src/k8s.io/csi-translation-lib/plugins/in_tree_volume.go: replaceTopology, getTopologyValues,
//! addTopology, translateTopologyFromInTreeToCSI, getTopologyLabel, TopologyKeyExist.
//! Upstream: staging/src/k8s.io/csi-translation-lib/plugins/vsphere_volume.go:
//! translateTopologyFromInTreevSphereToCSI.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const ZONE_BETA: &str = "failure-domain.beta.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const REGION_BETA: &str = "failure-domain.beta.kubernetes.io/region";
/// Separates the zones in a label.
pub(crate) const SEPARATOR: &str = "__";

/// How the zones and regions of a plugin's volumes are translated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Topology {
    Unchanged,
    /// Zones get this key. Regions keep Kubernetes' key.
    Zone(&'static str),
    /// Zones and regions get these keys. A label holds a single zone.
    ZoneAndRegion(&'static str, &'static str),
}

impl Topology {
    /// Translates the node affinity in the spec of a PersistentVolume with these labels.
    pub(crate) fn translate(self, labels: &Value, spec: &mut Value) {
        let (zone, region) = keys(labels, spec);
        match self {
            Self::Unchanged => {}
            Self::Zone(key) => {
                if !rename(spec, zone, key)
                    && let Some(label) = labels[zone].as_str()
                {
                    add(spec, key, label.split(SEPARATOR));
                }
                if region == REGION_BETA {
                    rename(spec, region, REGION);
                }
            }
            Self::ZoneAndRegion(zone_key, region_key) => {
                for (old, new) in [(zone, zone_key), (region, region_key)] {
                    if !rename(spec, old, new)
                        && let Some(label) = labels[old].as_str()
                    {
                        add(spec, new, [label]);
                    }
                }
            }
        }
    }
}

/// Returns the keys of zones and regions that a volume uses. A volume has both of them from the same generation.
fn keys(labels: &Value, spec: &Value) -> (&'static str, &'static str) {
    let in_affinity = |key: &str| expressions(spec).any(|expression| expression["key"] == key);
    let is_beta = !in_affinity(ZONE)
        && (in_affinity(ZONE_BETA)
            || labels[ZONE].as_str().is_none() && labels[ZONE_BETA].as_str().is_some());
    match is_beta {
        true => (ZONE_BETA, REGION_BETA),
        false => (ZONE, REGION),
    }
}

/// The node selector's expressions.
fn expressions(spec: &Value) -> impl Iterator<Item = &Value> {
    let terms = spec["nodeAffinity"]["required"]["nodeSelectorTerms"].as_array();
    terms
        .into_iter()
        .flatten()
        .filter_map(|term| term["matchExpressions"].as_array())
        .flatten()
}

/// Renames a key of the node selector. Returns false, and changes nothing, if no expression with it has a value.
fn rename(spec: &mut Value, old: &str, new: &str) -> bool {
    let has_value = |expression: &Value| {
        let values = expression["values"].as_array();
        expression["key"] == old && values.is_some_and(|values| !values.is_empty())
    };
    if !expressions(spec).any(has_value) {
        return false;
    }
    let terms = spec.pointer_mut("/nodeAffinity/required/nodeSelectorTerms");
    let terms = terms.and_then(Value::as_array_mut).into_iter().flatten();
    let expressions = terms.filter_map(|term| term.get_mut("matchExpressions")?.as_array_mut());
    for expression in expressions.flatten() {
        if expression["key"] == old {
            expression["key"] = new.into();
        }
    }
    true
}

/// Requires one of these values in each term of the node selector. Does nothing if all are blank.
fn add<'a>(spec: &mut Value, key: &str, values: impl IntoIterator<Item = &'a str>) {
    let values: BTreeSet<&str> = values
        .into_iter()
        .map(str::trim)
        .filter(|value| !value.is_empty())
        .collect();
    if values.is_empty() {
        return;
    }
    let required = field(field(spec, "nodeAffinity"), "required");
    let terms = list(required, "nodeSelectorTerms");
    if terms.is_empty() {
        terms.push(json!({}));
    }
    for term in terms {
        let expression = json!({"key": key, "operator": "In", "values": values});
        list(term, "matchExpressions").push(expression);
    }
}

/// The field of an object, which is created if it is missing.
fn field<'a>(object: &'a mut Value, name: &str) -> &'a mut Value {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    &mut object[name]
}

/// The list in a field of an object, which is created if it is missing.
fn list<'a>(object: &'a mut Value, name: &str) -> &'a mut Vec<Value> {
    let value = field(object, name);
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    value.as_array_mut().expect("it was set to a list")
}
