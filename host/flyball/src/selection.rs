//! Selects the controllers that run, by `--controllers` and kube-controller-manager's rules.

use std::collections::BTreeSet;

use flyball_controllers::{CONTROLLERS, Start, built_in, canonical, find};
use flyball_types::nearest::nearest;

use crate::config::CloudControllers;

/// The value of `--controllers`, with canonical names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    /// `*`, `name` or `-name`, in order.
    items: Vec<String>,
    clouds: CloudControllers,
}

impl Selection {
    /// Creates a selection from the items of the flag.
    pub(crate) fn new(items: &[String]) -> Self {
        let canonical_item = |item: &String| match item.strip_prefix('-') {
            Some(name) => format!("-{}", canonical(name).unwrap_or(name)),
            None => canonical(item).unwrap_or(item).to_owned(),
        };
        Self {
            items: items.iter().map(canonical_item).collect(),
            clouds: CloudControllers::None,
        }
    }

    /// Says whether the cloud controllers run: none, unless this is called.
    pub(crate) fn with_clouds(self, clouds: CloudControllers) -> Self {
        Self { clouds, ..self }
    }

    /// Whether the built-in controller of this canonical name runs. The first of `name` and `-name` decides. Without
    /// either, `*` enables the controllers that are on by default.
    pub(crate) fn enables(&self, name: &str) -> bool {
        let start = find(name).map(|known| known.start);
        let is_excluded = match self.clouds {
            CloudControllers::None => start == Some(Start::Cloud),
            CloudControllers::Also => false,
            CloudControllers::Only => start != Some(Start::Cloud),
        };
        if is_excluded {
            return false;
        }
        let on_by_default = start != Some(Start::Disabled);
        self.explicit(name)
            .unwrap_or_else(|| self.has_star() && on_by_default)
    }

    /// Whether the plugin of this name runs. Plugins need no `*`: each runs unless `-name` disables it.
    pub(crate) fn enables_plugin(&self, name: &str) -> bool {
        self.explicit(name).unwrap_or(true)
    }

    /// Whether any built-in controller runs, as far as the flag decides.
    pub(crate) fn enables_any(&self) -> bool {
        built_in().any(|(controller, _)| self.enables(controller.name))
    }

    /// Returns an error message for each name that is neither a controller of kube-controller-manager nor a plugin. It
    /// suggests the nearest name.
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

    /// Whether `name` comes before `-name`; none if neither is given.
    fn explicit(&self, name: &str) -> Option<bool> {
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

/// Returns `; did you mean "..."?`, or an empty string if no known name is similar.
pub(crate) fn nearest_controller(name: &str, plugins: &[String]) -> String {
    let known = CONTROLLERS
        .iter()
        .flat_map(|controller| controller.aliases.iter().chain([&controller.name]))
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
        Selection::new(&flyball_controllers::flag::list(text).expect("a list"))
    }

    /// Returns the built-in controllers that a selection enables.
    fn enabled(text: &str) -> Vec<&'static str> {
        let selection = selection(text);
        BUILT
            .into_iter()
            .filter(|name| selection.enables(name))
            .collect()
    }

    #[test]
    fn a_star_enables_what_is_on_by_default() {
        assert_eq!(
            enabled("*"),
            ["deployment-controller", "replicaset-controller"]
        );
        assert_eq!(enabled("*,tokencleaner"), BUILT);
    }

    #[test]
    fn the_first_of_a_name_and_its_negation_wins() {
        assert!(selection("*,deployment,-deployment").enables("deployment-controller"));
        assert!(!selection("*,-deployment-controller,deployment").enables("deployment-controller"));
    }

    #[test]
    fn without_a_star_only_the_named_ones_run() {
        assert_eq!(enabled("replicaset"), ["replicaset-controller"]);
        for text in ["-replicaset", ""] {
            assert_eq!(enabled(text), [""; 0]);
            assert!(!selection(text).enables_any());
        }
    }

    #[test]
    fn an_unknown_name_is_reported_with_the_nearest() {
        let selection = selection("*,-replicset,greeter,pod-security");
        let unknown: Vec<String> = selection.unknown(&["greeter".to_owned()]).collect();
        assert_eq!(unknown.len(), 2);
        assert!(
            unknown[1].contains("\"replicset\"")
                && unknown[1].ends_with("did you mean \"replicaset\"?"),
            "{unknown:?}"
        );
    }

    #[test]
    fn a_plugin_runs_unless_it_is_disabled() {
        assert!(selection("").enables_plugin("greeter"));
        assert!(!selection("*,-greeter").enables_plugin("greeter"));
    }
}
