//! StorageClasses: parameters and allowed topologies.
//!
//! Upstream: staging/src/k8s.io/csi-translation-lib/plugins/aws_ebs.go: TranslateInTreeStorageClassToCSI.
//! Upstream: staging/src/k8s.io/csi-translation-lib/plugins/azure_disk.go: TranslateInTreeStorageClassToCSI,
//! replaceFailureDomainsToCSI.
//! Upstream: staging/src/k8s.io/csi-translation-lib/plugins/azure_file.go: TranslateInTreeStorageClassToCSI.
//! Upstream: staging/src/k8s.io/csi-translation-lib/plugins/gce_pd.go: TranslateInTreeStorageClassToCSI.
//! Upstream: staging/src/k8s.io/csi-translation-lib/plugins/openstack_cinder.go: TranslateInTreeStorageClassToCSI.
//! Upstream: staging/src/k8s.io/csi-translation-lib/plugins/portworx.go: TranslateInTreeStorageClassToCSI.
//! Upstream: staging/src/k8s.io/csi-translation-lib/plugins/vsphere_volume.go: TranslateInTreeStorageClassToCSI.
//! Upstream: staging/src/k8s.io/csi-translation-lib/plugins/in_tree_volume.go: translateAllowedTopologies.

use serde_json::{Map, Value, json};

use crate::Untranslatable;
use crate::topology::{ZONE, ZONE_BETA};

/// How the StorageClasses of a plugin are translated.
#[derive(Debug)]
pub(crate) struct Class {
    /// The topology key of the driver that replaces Kubernetes' zones.
    pub(crate) zone: Option<&'static str>,
    /// Whether a zone that is a number becomes empty. Azure's in-tree plugin has these numbers for zones in regions
    /// without any.
    pub(crate) clears_numbered_zones: bool,
    /// The parameters that change, by their name in lower case.
    pub(crate) parameters: &'static [(&'static str, Parameter)],
    /// Whether parameters that are not listed are dropped.
    pub(crate) drops_other_parameters: bool,
    /// Parameters that each class gets.
    pub(crate) added: &'static [(&'static str, &'static str)],
    /// The new provisioner.
    pub(crate) provisioner: Option<&'static str>,
}

/// What a parameter becomes.
#[derive(Debug)]
pub(crate) enum Parameter {
    /// Parameters with these names.
    Renamed(&'static [&'static str]),
    /// The same parameter, and another one with a fixed value.
    KeptWith(&'static str, &'static str),
    /// An allowed topology.
    Zone,
    /// An allowed topology; the value is a list, separated by commas.
    Zones,
}

impl Class {
    /// Changes nothing.
    pub(crate) const UNCHANGED: Self = Self {
        zone: None,
        clears_numbered_zones: false,
        parameters: &[],
        drops_other_parameters: false,
        added: &[],
        provisioner: None,
    };

    /// Translates a StorageClass in place.
    pub(crate) fn translate(&self, class: &mut Map<String, Value>) -> Result<(), Untranslatable> {
        let (parameters, zones) = self.parameters(class.get("parameters"));
        set_or_remove(class, "parameters", Value::Object(parameters));
        let allowed = class.remove("allowedTopologies").unwrap_or_default();
        let allowed = match (zones, allowed) {
            (Some(_), Value::Array(terms)) if !terms.is_empty() => {
                return Err(Untranslatable(
                    "zones are set both as parameters and as allowed topologies".into(),
                ));
            }
            (Some(zones), _) => {
                json!([{"matchLabelExpressions": [{"key": self.zone, "values": zones}]}])
            }
            (None, allowed) => allowed,
        };
        set_or_remove(class, "allowedTopologies", self.topologies(allowed));
        if let Some(provisioner) = self.provisioner {
            class.insert("provisioner".into(), provisioner.into());
        }
        Ok(())
    }

    /// Translates the parameters. Also returns the zones among them.
    fn parameters(&self, parameters: Option<&Value>) -> (Map<String, Value>, Option<Vec<String>>) {
        let (mut translated, mut zones) = (Map::new(), None);
        let parameters = parameters.and_then(Value::as_object).into_iter().flatten();
        for (name, value) in parameters {
            let lower = name.to_lowercase();
            let text = value.as_str().unwrap_or_default();
            let rule = self.parameters.iter().find(|(known, _)| *known == lower);
            match rule.map(|(_, rule)| rule) {
                Some(Parameter::Renamed(names)) => {
                    translated.extend(names.iter().map(|name| ((*name).into(), value.clone())));
                }
                Some(Parameter::KeptWith(other, fixed)) => {
                    translated.insert(name.clone(), value.clone());
                    translated.insert((*other).into(), (*fixed).into());
                }
                Some(Parameter::Zone) => zones = Some(vec![text.into()]),
                Some(Parameter::Zones) => zones = Some(text.split(',').map(Into::into).collect()),
                None if self.drops_other_parameters => {}
                None => drop(translated.insert(name.clone(), value.clone())),
            }
        }
        let added = self.added.iter();
        translated.extend(added.map(|(name, value)| ((*name).into(), (*value).into())));
        (translated, zones)
    }

    /// Replaces Kubernetes' zones by the driver's key.
    fn topologies(&self, mut allowed: Value) -> Value {
        let Some(zone) = self.zone else {
            return allowed;
        };
        let terms = allowed.as_array_mut().into_iter().flatten();
        let expressions =
            terms.filter_map(|term| term.get_mut("matchLabelExpressions")?.as_array_mut());
        for expression in expressions.flatten() {
            if expression["key"] == ZONE || expression["key"] == ZONE_BETA {
                expression["key"] = zone.into();
            }
            if self.clears_numbered_zones && expression["key"] == zone {
                clear_numbers(&mut expression["values"]);
            }
        }
        allowed
    }
}

/// Makes values that are numbers empty.
fn clear_numbers(values: &mut Value) {
    for value in values.as_array_mut().into_iter().flatten() {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if value.as_str().is_some_and(is_number) {
            *value = "".into();
        }
    }
}

/// Sets a field, or removes it if the value is empty: the API leaves out empty maps and lists.
fn set_or_remove(object: &mut Map<String, Value>, field: &str, value: Value) {
    let is_empty = match &value {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        other => other.is_null(),
    };
    if is_empty {
        object.remove(field);
    } else {
        object.insert(field.into(), value);
    }
}
