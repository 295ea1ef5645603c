//! Warnings about flags without effect.

use super::flags::Flags;
use crate::flag::{self, Effect, Kind};
use crate::kcm;

impl Flags<'_> {
    /// A sentence with the given flags that have no effect yet.
    pub(super) fn without_effect(&self) -> Option<String> {
        let ignored = kcm::flags::FLAGS
            .iter()
            .filter(|flag| self.is_given(flag.name))
            .filter(|flag| match flag.effect {
                Effect::Yes(_) => false,
                Effect::NotYet => true,
                Effect::Already(values) => {
                    !self.raw(flag.name).is_some_and(|text| match flag.kind {
                        Kind::Bool => values
                            .iter()
                            .any(|value| flag::bool(value) == flag::bool(text)),
                        _ => values.contains(&text),
                    })
                }
            });
        let names: Vec<String> = ignored.map(|flag| format!("--{}", flag.name)).collect();
        (!names.is_empty()).then(|| format!("these flags have no effect yet: {}", names.join(", ")))
    }

    pub(super) fn unknown_gates(&self) -> Vec<String> {
        let uses = self
            .0
            .get_many::<String>("feature-gates")
            .into_iter()
            .flatten();
        let gates = uses.flat_map(|text| flag::pairs(text).unwrap_or_default().into_keys());
        // A gate may name a component, such as `kube:JobBackoffLimitPerIndex`.
        let gates = gates.map(|gate| gate.rsplit(':').next().unwrap_or_default().to_owned());
        let unknown: Vec<String> = gates.filter(|gate| !kcm::is_feature_gate(gate)).collect();
        if unknown.is_empty() {
            return Vec::new();
        }
        vec![format!(
            "Kubernetes 1.36 has no such feature gates: {}",
            unknown.join(", ")
        )]
    }
}
