//! Which controllers run: `--controllers`, with kube-controller-manager's rules.

use std::collections::BTreeSet;

use flyball_types::nearest::nearest;

use crate::kcm::controllers::{KNOWN, Start, canonical, find};

/// What `--controllers` says, with canonical names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    /// `*`, `name` or `-name`, in the order given.
    items: Vec<String>,
}

/// What a selection means for this binary.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Resolution {
    /// The built-in controllers to run, by canonical name.
    pub(crate) enabled: Vec<String>,
    /// Those asked for that kube-controller-manager has and this binary has not.
    pub(crate) missing: Vec<&'static str>,
    /// Those named (and not only meant by `*`) among them.
    pub(crate) missing_by_name: Vec<&'static str>,
}

impl Resolution {
    /// Leaves out a controller that lacks what it needs. Whether it would have run.
    pub(crate) fn leave_out(&mut self, name: &str) -> bool {
        let before = self.enabled.len();
        self.enabled.retain(|enabled| enabled != name);
        self.enabled.len() < before
    }
}

impl Selection {
    /// Reads the items of the flag.
    pub(crate) fn new(items: &[String]) -> Self {
        let canonical_item = |item: &String| match item.strip_prefix('-') {
            Some(name) => format!("-{}", canonical(name).unwrap_or(name)),
            None => canonical(item).unwrap_or(item).to_owned(),
        };
        Self {
            items: items.iter().map(canonical_item).collect(),
        }
    }

    /// Whether a built-in controller of this canonical name runs: the first of `name` and `-name` decides; without
    /// either, `*` means those that are on by default.
    pub(crate) fn enables(&self, name: &str) -> bool {
        let on_by_default = find(name).is_none_or(|known| known.start != Start::Disabled);
        self.named(name)
            .unwrap_or_else(|| self.has_star() && on_by_default)
    }

    /// Whether a plugin of this name runs: unless it is switched off by name, since it was put there to run.
    pub(crate) fn enables_plugin(&self, name: &str) -> bool {
        self.named(name).unwrap_or(true)
    }

    /// Which of the built-in controllers of these canonical names run, and which are missing.
    pub(crate) fn resolve(&self, available: &[&str]) -> Resolution {
        let enabled = available
            .iter()
            .filter(|name| self.enables(name))
            .map(|name| (*name).to_owned())
            .collect();
        let wanted = |known: &&crate::kcm::controllers::Known| match known.start {
            Start::Cloud => false,
            Start::Gated => self.named(known.name) == Some(true),
            Start::Default | Start::Disabled => self.enables(known.name),
        };
        let missing = KNOWN
            .iter()
            .filter(|known| !available.contains(&known.name))
            .filter(wanted);
        let missing: Vec<&'static str> = missing.map(|known| known.name).collect();
        let missing_by_name = missing
            .iter()
            .copied()
            .filter(|name| self.named(name) == Some(true))
            .collect();
        Resolution {
            enabled,
            missing,
            missing_by_name,
        }
    }

    /// The names that are neither kube-controller-manager's nor a plugin's, each as a sentence with the nearest name.
    pub(crate) fn unknown<'a>(
        &'a self,
        plugins: &'a [String],
    ) -> impl Iterator<Item = String> + 'a {
        let names: BTreeSet<&str> = self
            .items
            .iter()
            .map(|item| item.strip_prefix('-').unwrap_or(item))
            .collect();
        let unknown = names
            .into_iter()
            .filter(|name| *name != "*" && canonical(name).is_none());
        unknown.filter(|name| !plugins.iter().any(|plugin| plugin == name)).map(|name| {
            let guess = nearest_controller(name, plugins);
            format!("--controllers names {name:?}, which is neither a controller of kube-controller-manager nor a plugin{guess}")
        })
    }

    fn named(&self, name: &str) -> Option<bool> {
        self.items
            .iter()
            .find_map(|item| match item.strip_prefix('-') {
                Some(off) if off == name => Some(false),
                None if item == name => Some(true),
                _ => None,
            })
    }

    fn has_star(&self) -> bool {
        self.items.iter().any(|item| item == "*")
    }
}

/// `; did you mean "..."?`, or nothing if no name is near.
pub(crate) fn nearest_controller(name: &str, plugins: &[String]) -> String {
    let known = KNOWN
        .iter()
        .flat_map(|known| known.aliases.iter().chain([&known.name]))
        .copied();
    let near = nearest(name, known.chain(plugins.iter().map(String::as_str)));
    near.map(|near| format!("; did you mean {near:?}?"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILT: [&str; 3] = [
        "deployment-controller",
        "replicaset-controller",
        "token-cleaner-controller",
    ];

    fn selection(text: &str) -> Selection {
        Selection::new(&crate::flag::list(text).expect("a list"))
    }

    #[test]
    fn a_star_enables_what_is_on_by_default() {
        assert_eq!(
            selection("*").resolve(&BUILT).enabled,
            ["deployment-controller", "replicaset-controller"]
        );
        assert_eq!(selection("*,tokencleaner").resolve(&BUILT).enabled, BUILT);
    }

    #[test]
    fn the_first_of_a_name_and_its_negation_wins() {
        assert!(selection("*,deployment,-deployment").enables("deployment-controller"));
        assert!(!selection("*,-deployment-controller,deployment").enables("deployment-controller"));
    }

    #[test]
    fn without_a_star_only_the_named_ones_run() {
        assert_eq!(
            selection("replicaset").resolve(&BUILT).enabled,
            ["replicaset-controller"]
        );
        assert_eq!(
            selection("-replicaset").resolve(&BUILT),
            Resolution::default()
        );
        assert_eq!(selection("").resolve(&BUILT), Resolution::default());
    }

    #[test]
    fn what_is_asked_for_and_not_built_is_missing_but_for_cloud_stubs_and_gated_ones() {
        let resolution =
            selection("*,service,tokencleaner,job").resolve(&["deployment-controller"]);
        assert!(resolution.missing.contains(&"namespace-controller"));
        assert!(!resolution.missing.contains(&"service-lb-controller"));
        assert!(
            !resolution
                .missing
                .contains(&"podgroup-protection-controller")
        );
        assert!(!resolution.missing.contains(&"bootstrap-signer-controller"));
        assert_eq!(
            resolution.missing_by_name,
            ["job-controller", "token-cleaner-controller"]
        );
    }

    #[test]
    fn what_is_left_out_neither_runs_nor_is_missing() {
        let mut resolution = selection("*").resolve(&BUILT);
        assert!(resolution.leave_out("deployment-controller"));
        assert!(!resolution.leave_out("token-cleaner-controller"));
        assert_eq!(resolution.enabled, ["replicaset-controller"]);
        assert!(!resolution.missing.contains(&"deployment-controller"));
    }

    #[test]
    fn an_unknown_name_is_told_with_the_nearest() {
        let selection = selection("*,-replicset,greeter,service,cloud");
        let unknown: Vec<String> = selection.unknown(&["greeter".to_owned()]).collect();
        assert_eq!(unknown.len(), 2);
        assert!(
            unknown[1].contains("\"replicset\"")
                && unknown[1].ends_with("did you mean \"replicaset\"?"),
            "{unknown:?}"
        );
    }

    #[test]
    fn a_plugin_runs_unless_it_is_switched_off() {
        assert!(selection("").enables_plugin("greeter"));
        assert!(!selection("*,-greeter").enables_plugin("greeter"));
    }
}
