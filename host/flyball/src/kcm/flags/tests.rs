//! Compares the table with the flags of kube-controller-manager. Those of controllers of a later release are not among them.

use super::*;

#[test]
fn the_table_equals_kube_controller_managers() {
    let golden = include_str!("../../../testdata/kcm-1.37-flags.txt")
        .lines()
        .filter(|line| !line.starts_with('#'));
    let is_current = |flag: &&Flag| {
        let later = { CONTROLLERS.iter() }.filter(|controller| controller.since.is_some());
        let mut flags = later.flat_map(|controller| controller.flags);
        !flags.any(|later| later.flag == **flag)
    };
    let ours: Vec<String> = all()
        .filter(is_current)
        .map(|flag| format!("{}\t{}\t{}", flag.name, flag.kind.go_type(), flag.default))
        .collect();
    assert_eq!(golden.collect::<Vec<_>>(), ours);
}
