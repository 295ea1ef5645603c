//! Values of the configuration.

use crate::settings::Settings;

#[test]
fn ranges_lose_the_bits_beyond_their_prefixes() {
    let settings = Settings::of("10.0.1.9/22, fd00::5/63", "24, 64", "10.0.3.7/24").unwrap();
    let labels: Vec<String> = settings.sets.iter().map(|set| set.label()).collect();
    assert_eq!(labels, ["10.0.0.0/22", "fd00::/63"]);
    assert_eq!(settings.services[0].to_string(), "10.0.3.0/24");
}

#[test]
fn invalid_values_are_terminal_errors_that_name_the_key() {
    for (cluster, sizes, services, key) in [
        ("", "", "", "cluster-cidrs"),
        ("10.0.0.0", "24", "", "cluster-cidrs"),
        ("10.0.0.0/22", "", "", "node-cidr-mask-sizes"),
        ("10.0.0.0/22", "24,64", "", "node-cidr-mask-sizes"),
        ("10.0.0.0/22", "x", "", "node-cidr-mask-sizes"),
        ("10.0.0.0/22", "21", "", "node-cidr-mask-sizes"),
        ("10.0.0.0/22", "33", "", "node-cidr-mask-sizes"),
        ("fd00::/48", "65", "", "node-cidr-mask-sizes"),
        ("10.0.0.0/22", "24", "10.0.3.0", "service-cidrs"),
    ] {
        let error = Settings::of(cluster, sizes, services).unwrap_err();
        assert!(error.is_terminal());
        assert!(
            error.to_string().contains(&format!("setting {key}:")),
            "{error}"
        );
    }
}
