//! Warnings about flags without effect.

use flyball_controllers::flag::{self, Effect, Kind};

use super::flags::Flags;
use crate::kcm;

impl Flags<'_> {
    /// A sentence with the given flags that have no effect yet.
    pub(super) fn without_effect(&self) -> Option<String> {
        let ignored = kcm::flags::all()
            .filter(|flag| self.is_given(flag.name))
            .filter(|flag| match flag.effect {
                Effect::Yes(_) => false,
                // An empty path asks for nothing.
                Effect::NotYet => self.raw(flag.name) != Some(""),
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
}
