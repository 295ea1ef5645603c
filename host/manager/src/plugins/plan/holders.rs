//! Decides which file or package the name of a plugin belongs to, because a file can describe itself under any name.
//!
//! Of several that hold a plugin with the same name, it is the one that the policy names, otherwise the one that runs or
//! ran last, and otherwise none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flyball_types::{listed, printable};

use super::{CurrentState, Inputs, SourceKey, Trouble};
use crate::plugins::load::LoadedPlugin;
use crate::plugins::status::PluginState;

/// The files and packages that hold a plugin with one name.
#[derive(Debug)]
pub(crate) struct Holders<'a> {
    name: &'a str,
    holders: Vec<(&'a SourceKey, &'a LoadedPlugin)>,
    rightful: Rightful,
}

/// Which holder a name belongs to. The numbers are those of holders.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rightful {
    One(usize, Reason),
    /// Nobody until all files are loaded that may hold the name, too. The loads of these take long.
    Awaits(Vec<PathBuf>),
    Nobody,
}

/// Why a name belongs to a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// The policy names it.
    Policy,
    Runs,
    RanLast,
    /// No other file or package holds it.
    Alone,
    /// The policy grants the name to no holder. This one is shown.
    Ungranted,
}

impl<'a> Holders<'a> {
    /// The holders of all names.
    pub(crate) fn all(state: &'a CurrentState, inputs: &Inputs<'_>) -> Vec<Self> {
        let mut by_name: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for (key, source) in &state.sources {
            if let Some(plugin) = &source.plugin {
                let holders = by_name.entry(plugin.name()).or_default();
                holders.push((key, plugin));
            }
        }
        let holders = |(name, holders): (&'a str, Vec<_>)| Self {
            rightful: rightful(name, &holders, state, inputs),
            name,
            holders,
        };
        by_name.into_iter().map(holders).collect()
    }

    pub(crate) fn name(&self) -> &'a str {
        self.name
    }

    /// The holder that the name belongs to.
    pub(crate) fn rightful(&self) -> Option<(&'a SourceKey, &'a LoadedPlugin)> {
        match self.rightful {
            Rightful::One(number, _) => self.holders.get(number).copied(),
            Rightful::Awaits(_) | Rightful::Nobody => None,
        }
    }

    /// Why the name belongs to nobody, although several files or packages hold it; none if it belongs to one of them.
    pub(crate) fn dispute(&self) -> Option<String> {
        self.is_disputed().then(|| {
            format!(
                "{}, and the policy does not say which one is meant: none of them runs; write {} into `[plugins.{}]` of \
                 the policy, or remove the others",
                self.hold(0..self.holders.len()),
                self.binding(0),
                self.name
            )
        })
    }

    /// Whether the name belongs to nobody, although several files or packages hold it.
    pub(crate) fn is_disputed(&self) -> bool {
        match self.rightful {
            Rightful::Nobody => true,
            Rightful::One(_, Reason::Ungranted) => self.holders.len() > 1,
            Rightful::One(..) | Rightful::Awaits(_) => false,
        }
    }

    /// Why holders don't have the name.
    pub(crate) fn refusals(&self) -> Vec<(SourceKey, Trouble)> {
        let refuse = |number: usize, reason| {
            let holder = self.holders.get(number);
            holder.map(|(key, _)| ((*key).clone(), reason))
        };
        let (used, why) = match &self.rightful {
            Rightful::Awaits(files) if files.is_empty() => return Vec::new(),
            Rightful::Awaits(files) => {
                let reason = format!(
                    "waits until {} is loaded, which may hold a plugin with the name `{}`, too; write {} into the policy \
                     to start this one at once",
                    listed(files.iter().map(|file| file.display())),
                    self.name,
                    self.binding(0)
                );
                let state = PluginState::Starting;
                return Vec::from_iter(refuse(0, Trouble { reason, state }));
            }
            Rightful::Nobody | Rightful::One(_, Reason::Ungranted) => {
                // The reason of the holder that is shown is that nothing is granted to it.
                let number = usize::from(self.rightful == Rightful::One(0, Reason::Ungranted));
                let dispute = self.dispute().map(Trouble::failed);
                let refused = dispute.and_then(|dispute| refuse(number, dispute));
                return refused.into_iter().collect();
            }
            Rightful::One(_, Reason::Alone) => return Vec::new(),
            Rightful::One(used, Reason::Policy) => (*used, "the policy names it"),
            Rightful::One(used, Reason::Runs) => (*used, "it runs"),
            Rightful::One(used, Reason::RanLast) => (*used, "it ran last"),
        };
        let others = (0..self.holders.len()).filter(|other| *other != used);
        let refusal = |other| {
            let reason = format!(
                "{}: that of {} is used, because {why}; remove one of them, or write {} into the policy to use the other one",
                self.hold([used, other].into_iter()),
                self.origin(used),
                self.binding(other)
            );
            refuse(other, Trouble::failed(reason))
        };
        others.filter_map(refusal).collect()
    }

    /// A sentence that holders hold a plugin with the name.
    fn hold(&self, holders: impl ExactSizeIterator<Item = usize>) -> String {
        let verb = match holders.len() {
            2 => "both hold",
            _ => "all hold",
        };
        let origins: Vec<_> = holders.map(|number| self.origin(number)).collect();
        let origins = match origins.as_slice() {
            [one, other] => format!("{one} and {other}"),
            all => listed(all),
        };
        format!("{origins} {verb} a plugin with the name `{}`", self.name)
    }

    fn origin(&self, holder: usize) -> Arc<str> {
        self.holders[holder].1.origin.text()
    }

    /// The entries of a policy that say that this holder is meant.
    fn binding(&self, holder: usize) -> String {
        let file = self.holders[holder].1.file();
        match (file.package, file.name) {
            (Some(package), _) => format!("`source = \"{package}\"`"),
            (None, None) => format!("`digest = \"sha256:{}\"`", file.digest),
            (None, Some(name)) => format!(
                "`file = \"{}\"` or `digest = \"sha256:{}\"`",
                printable(name),
                file.digest
            ),
        }
    }
}

fn rightful(
    name: &str,
    holders: &[(&SourceKey, &LoadedPlugin)],
    state: &CurrentState,
    inputs: &Inputs<'_>,
) -> Rightful {
    let grants = inputs.grants;
    let is_bound = grants.is_bound(name);
    let is_granted = grants.trust || grants.plugins.plugins.contains_key(name);
    let is_meant = |number: &usize| grants.is_for(name, holders[*number].1.file());
    let meant: Vec<usize> = (0..holders.len()).filter(is_meant).collect();
    let Some(&first) = meant.first().filter(|_| is_granted) else {
        let shown = runs_or_ran(name, holders, 0..holders.len(), state);
        return Rightful::One(shown.map_or(0, |(number, _)| number), Reason::Ungranted);
    };
    let is_package = |number: &usize| matches!(holders[*number].0, SourceKey::Package(_));
    if let Some(package) = meant.iter().copied().find(is_package) {
        return Rightful::One(package, Reason::Policy);
    }
    if let Some((number, reason)) = runs_or_ran(name, holders, meant.iter().copied(), state) {
        let reason = if is_bound { Reason::Policy } else { reason };
        return Rightful::One(number, reason);
    }
    let is_same = |number: &usize| holders[*number].1.digest == holders[first].1.digest;
    if !meant.iter().all(is_same) {
        return Rightful::Nobody;
    }
    if is_bound {
        return Rightful::One(first, Reason::Policy);
    }
    let awaited = awaited(name, state, inputs);
    if awaited.is_empty() {
        return Rightful::One(first, Reason::Alone);
    }
    let is_slow = |path: &PathBuf| {
        let source = state.sources.get(&SourceKey::File(path.clone()));
        source.is_some_and(|source| source.is_slow)
    };
    Rightful::Awaits(awaited.into_iter().filter(is_slow).collect())
}

/// The holder that runs, is about to run, or ran last under the name.
fn runs_or_ran(
    name: &str,
    holders: &[(&SourceKey, &LoadedPlugin)],
    mut among: impl Iterator<Item = usize> + Clone,
    state: &CurrentState,
) -> Option<(usize, Reason)> {
    let slot = state.slots.get(name);
    let running = slot.and_then(|slot| slot.running.as_ref());
    let next = slot.and_then(|slot| Some(&slot.next.as_ref()?.version));
    let runs = |number: &usize| {
        let mut versions = running.into_iter().chain(next);
        versions.any(|version| version.plugin.origin == holders[*number].1.origin)
    };
    let record = state.record.of(name);
    let ran_last = |number: &usize| {
        let digest = &holders[*number].1.digest;
        record.is_some_and(|ran| {
            let instead_of = ran.pin.as_ref().map(|pin| &pin.instead_of);
            ran.current == *digest || instead_of == Some(digest)
        })
    };
    let running = among
        .clone()
        .find(runs)
        .map(|number| (number, Reason::Runs));
    running.or_else(|| among.find(ran_last).map(|number| (number, Reason::RanLast)))
}

/// The files that may hold a plugin with this name once they are loaded. A file whose load takes long is awaited only if
/// it has the name.
fn awaited(name: &str, state: &CurrentState, inputs: &Inputs<'_>) -> Vec<PathBuf> {
    let has_name = |path: &Path| path.file_stem().is_some_and(|stem| stem == name);
    let may_hold = |path: &&PathBuf| match state.sources.get(&SourceKey::File((*path).clone())) {
        None => true,
        Some(source) => {
            let is_awaited = !source.is_slow || has_name(path);
            source.plugin.is_none() && source.is_loading && is_awaited
        }
    };
    inputs.files.keys().filter(may_hold).cloned().collect()
}
