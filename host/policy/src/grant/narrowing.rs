//! The rules that an approval adds to a policy: for all that a plugin asks for, or only in some namespaces.

use std::collections::BTreeSet;

use flyball_types::Kind;

use super::{Ask, Asks};
use crate::{PluginPolicy, Rule};

impl Asks {
    /// Returns the rules and imports to add to a policy, so that it grants this. What is asked for in one namespace is
    /// granted only there. If the policy limits the fields of a kind, only the fields that the watch reads are granted.
    pub fn grants(&self, policy: &PluginPolicy) -> (Vec<Rule>, BTreeSet<String>) {
        let rules = self.0.iter().filter_map(|ask| ask.rule(policy));
        (joined(rules), self.imports())
    }

    /// Like [`Asks::grants`], but only in some namespaces, and only what the policy does not grant there yet.
    /// Cluster-scoped kinds have no namespace: they are granted as they are asked for.
    ///
    /// # Errors
    /// A watch is of none of the namespaces. The text is half a sentence about it: the plugin can't work without it.
    pub fn grants_within(
        &self,
        policy: &PluginPolicy,
        narrowing: &Narrowing,
    ) -> Result<(Vec<Rule>, BTreeSet<String>), String> {
        let mut rules = Vec::new();
        for ask in &self.0 {
            let Some(mut rule) = ask.rule(policy) else {
                continue;
            };
            let kind = &rule.kinds[0];
            let verb = rule.verbs.first().cloned().unwrap_or_default();
            let is_granted =
                |namespace: &str| policy.grants_in(&verb, kind, &rule.subresource, namespace);
            if narrowing.is_cluster_scoped(kind) {
                rules.extend((!is_granted("")).then_some(rule));
                continue;
            }
            let asked = rule.namespaces.clone();
            let within = narrowing.namespaces.iter();
            let within: Vec<&String> = within
                .filter(|name| asked.is_empty() || asked.contains(name))
                .collect();
            if within.is_empty() && matches!(ask, Ask::Watch { .. }) {
                return Err(ask.to_string());
            }
            let missing = within.into_iter().filter(|name| !is_granted(name));
            rule.namespaces = missing.cloned().collect();
            if !rule.namespaces.is_empty() {
                rules.push(rule);
            }
        }
        Ok((joined(rules.into_iter()), self.imports()))
    }

    fn imports(&self) -> BTreeSet<String> {
        let imports = self.0.iter().filter_map(|ask| match ask {
            Ask::Use { import } => Some(import.clone()),
            _ => None,
        });
        imports.collect()
    }
}

/// The namespaces that an operator limits a grant to.
#[derive(Clone, Debug, Default)]
pub struct Narrowing {
    pub namespaces: BTreeSet<String>,
    /// The kinds whose objects have no namespace.
    pub cluster_scoped: BTreeSet<Kind>,
}

impl Narrowing {
    /// Whether the kind, as it is written, is cluster-scoped. Patterns are not.
    pub(crate) fn is_cluster_scoped(&self, kind: &str) -> bool {
        let kind: Option<Kind> = kind.parse().ok();
        kind.is_some_and(|kind| self.cluster_scoped.contains(&kind))
    }
}

/// Joins rules of one verb each. Rules that differ only in their verbs become one, and then those that differ only in
/// their namespaces.
fn joined(single: impl Iterator<Item = Rule>) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for rule in single {
        let alike = rules.iter_mut().find(|known| {
            (&known.kinds, &known.subresource) == (&rule.kinds, &rule.subresource)
                && (&known.namespaces, &known.fields) == (&rule.namespaces, &rule.fields)
        });
        match alike {
            Some(known) => known.verbs.extend(rule.verbs),
            None => rules.push(rule),
        }
    }
    let mut joined: Vec<Rule> = Vec::new();
    for rule in rules {
        let alike = joined.iter_mut().find(|known| {
            (&known.kinds, &known.subresource) == (&rule.kinds, &rule.subresource)
                && (&known.verbs, &known.fields) == (&rule.verbs, &rule.fields)
                && !known.namespaces.is_empty()
                && !rule.namespaces.is_empty()
        });
        match alike {
            Some(known) => known.namespaces.extend(rule.namespaces),
            None => joined.push(rule),
        }
    }
    joined
}
