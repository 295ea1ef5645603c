//! Compares the table with the flags of kube-controller-manager.

use super::*;

#[test]
fn the_table_equals_kube_controller_managers() {
    let golden = include_str!("../../../testdata/kcm-1.37-flags.txt")
        .lines()
        .filter(|line| !line.starts_with('#'));
    let ours: Vec<String> = all()
        .map(|flag| format!("{}\t{}\t{}", flag.name, flag.kind.go_type(), flag.default))
        .collect();
    assert_eq!(golden.collect::<Vec<_>>(), ours);
}
