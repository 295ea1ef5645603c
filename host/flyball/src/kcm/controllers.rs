//! Compares the table of controllers with kube-controller-manager's.
//!
//! `testdata/kcm-1.37-controllers.txt` is generated from kube-controller-manager's own code.

use flyball_controllers::{CONTROLLERS, Controller, Start};

use crate::kcm::feature_gates::FeatureGates;
use crate::kcm::versions::{CURRENT, Minor, Versions};

const GOLDEN: &str = include_str!("../../testdata/kcm-1.37-controllers.txt");

/// Gates that a controller's constructor checks. The table generated from kube-controller-manager's code lacks them.
const CHECKED_BY_CONSTRUCTOR: [(&str, &[&str]); 1] = [(
    "storage-version-migrator-controller",
    &["StorageVersionMigrator", "InformerResourceVersion"],
)];

#[test]
fn the_table_has_the_controllers_of_kube_controller_manager() {
    let lines = GOLDEN.lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let [name, aliases, disabled, gates] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line:?} does not have four columns")
        };
        let found = CONTROLLERS
            .iter()
            .find(|controller| controller.name == name);
        let controller = found.unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(aliases, controller.aliases.join(","), "{name}");
        assert_eq!(
            disabled == "true",
            controller.start == Start::Disabled,
            "{name}"
        );
        check_gates(controller, gates);
    }
}

#[test]
fn controllers_that_kube_controller_manager_lacks_are_of_a_later_release_and_off() {
    let gates = FeatureGates::new([], Versions::default()).expect("the defaults fit");
    let names: Vec<&str> = GOLDEN
        .lines()
        .filter_map(|line| line.split('\t').next())
        .collect();
    let of_kcm = CONTROLLERS.iter().filter(|one| one.start != Start::Cloud);
    for controller in of_kcm {
        let since = controller.since.map(|minor| format!("1.{minor}"));
        let since = since.map(|text| Minor::parse(&text).expect("a minor release"));
        let is_later = since.is_some_and(|since| since > CURRENT);
        let (name, is_known) = (controller.name, names.contains(&controller.name));
        assert_eq!(is_later, !is_known, "{name}");
        let is_off = controller.gates.iter().any(|gate| !gates.is_enabled(gate));
        assert!(is_known || is_off, "{name} is on by default");
    }
}

/// A manifest names all gates of its controller, unless none of them can be off.
fn check_gates(controller: &Controller, golden: &str) {
    let gates = FeatureGates::new([], Versions::default()).expect("the defaults fit");
    let can_be_off =
        |gate: &str| FeatureGates::new([(gate.to_owned(), false)], Versions::default()).is_ok();
    let by_constructor = { CHECKED_BY_CONSTRUCTOR.iter() }
        .filter(|(name, _)| *name == controller.name)
        .flat_map(|(_, gates)| *gates);
    let golden = golden.split(',').filter(|gate| !gate.is_empty());
    let golden: Vec<&str> = golden.chain(by_constructor.copied()).collect();
    match controller.gates {
        [] => assert!(
            !golden.iter().any(|gate| can_be_off(gate)),
            "{}: {golden:?}",
            controller.name
        ),
        named => assert_eq!(golden, named, "{}", controller.name),
    }
    assert!(
        controller
            .gates
            .iter()
            .all(|gate| gates.all().any(|(name, _)| name == *gate)),
        "{}",
        controller.name
    );
}
