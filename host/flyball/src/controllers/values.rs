//! Configuration values of controllers that come from kube-controller-manager's flags. `--plugin-config` takes
//! precedence over them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use flyball_controllers::{CONTROLLERS, Need};
use flyball_runtime::context::Lookup;

use super::needs::Needs;
use super::{time_zone, zoneinfo};
use crate::builtins::{NODE_IPAM, that_need};
use crate::config::{NodeIpam, RunConfig};
use crate::kcm::versions::{CURRENT, Minor, Versions};

/// The configuration key of the release that a controller has to emulate.
const EMULATED_VERSION: &str = "emulated-version";

/// Returns the configuration values by controller and key: the values of `--plugin-config`, and values that follow from
/// other flags, from the connection to the API server and from the time zone of this process.
///
/// # Errors
/// Fails if a controller needs the file of `--root-ca-file`, and it can't be read or contains no certificate.
pub(super) fn values(
    config: &RunConfig,
    cluster: &kube::Config,
    needs: &Needs,
) -> anyhow::Result<BTreeMap<String, BTreeMap<String, String>>> {
    let root_ca = match &config.built_ins.root_ca_file {
        Some(file) => needs.read(Need::RootCa, || bundle(file))?,
        None => Some(bundle_of_connection(cluster)),
    };
    let zones = zoneinfo::lookup(config.built_ins.tzdata.as_deref());
    let time_zone = time_zone::of_process(|name| zones(&zoneinfo::key(name)).is_some());
    let from_flags = { config.built_ins.values.iter().chain(&config.cloud.values) }.flat_map(
        |(controller, values)| {
            let values = values.iter();
            values.map(|(key, value)| (*controller, (*key).to_owned(), value.clone()))
        },
    );
    let needed = |need, key: &'static str, value: String| {
        that_need(need).map(move |controller| (controller, key.to_owned(), value.clone()))
    };
    let from_gates = CONTROLLERS.iter().flat_map(|controller| {
        let gates = config.feature_gates.config();
        gates.map(|(key, value)| (controller.name, key, value))
    });
    let from_release = emulated(config.versions).into_iter().flat_map(|release| {
        let key = EMULATED_VERSION.to_owned();
        CONTROLLERS
            .iter()
            .map(move |controller| (controller.name, key.clone(), release.to_string()))
    });
    let all = from_flags
        .chain(
            root_ca
                .into_iter()
                .flat_map(|bundle| needed(Need::RootCa, "root-ca", bundle)),
        )
        .chain(needed(Need::TimeZone, "time-zone", time_zone))
        .chain(
            ranges(config.built_ins.node_ipam.as_ref())
                .map(|(key, value)| (NODE_IPAM, key.to_owned(), value)),
        )
        .chain(from_gates)
        .chain(from_release);
    let mut values = config.plugins.values.clone();
    for (controller, key, value) in all {
        values
            .entry(controller.to_owned())
            .or_default()
            .entry(key)
            .or_insert(value);
    }
    Ok(values)
}

/// Returns the release that controllers have to emulate; `None` for the one that they stand for.
fn emulated(versions: Versions) -> Option<Minor> {
    (versions.emulated != CURRENT).then_some(versions.emulated)
}

/// Returns the lookups of values by controller.
pub(super) fn lookups(config: &RunConfig) -> BTreeMap<String, Arc<Lookup>> {
    let zones = zoneinfo::lookup(config.built_ins.tzdata.as_deref());
    that_need(Need::TimeZone)
        .map(|controller| (controller.to_owned(), zones.clone()))
        .collect()
}

/// Returns the values of the node-ipam-controller.
fn ranges(settings: Option<&NodeIpam>) -> impl Iterator<Item = (&'static str, String)> {
    let values = settings.map(|settings| {
        let NodeIpam {
            cluster_cidrs,
            mask_sizes,
            service_cidrs,
        } = settings.clone();
        [
            ("cluster-cidrs", cluster_cidrs),
            ("node-cidr-mask-sizes", mask_sizes),
            ("service-cidrs", service_cidrs),
        ]
    });
    values.into_iter().flatten()
}

/// Returns the CA bundle that this process uses for the API server; empty if it uses none.
fn bundle_of_connection(cluster: &kube::Config) -> String {
    let certificates = cluster.root_cert.iter().flatten();
    let certificates = certificates.map(|der| pem::Pem::new("CERTIFICATE", der.as_slice()));
    let unix_newlines = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_many_config(&certificates.collect::<Vec<_>>(), unix_newlines)
}

/// Returns the CA bundle of `--root-ca-file`.
fn bundle(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("--root-ca-file={}: can't read it", file.display()))?;
    let parsed = pem::parse_many(&text)
        .with_context(|| format!("--root-ca-file={} is not PEM", file.display()))?;
    let has_certificate = parsed.iter().any(|part| part.tag() == "CERTIFICATE");
    ensure!(
        has_certificate,
        "--root-ca-file={} contains no certificate",
        file.display()
    );
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::parse;

    const AUTOSCALER: &str = "horizontal-pod-autoscaler-controller";
    const CERTIFICATES: &str = "certificatesigningrequest-signing-controller";
    const ENDPOINTS: &str = "endpoints-controller";
    const ENDPOINT_SLICES: &str = "endpointslice-controller";
    const MIRRORING: &str = "endpointslice-mirroring-controller";
    const NODES: &str = "node-lifecycle-controller";
    const POD_GARBAGE_COLLECTOR: &str = "pod-garbage-collector-controller";
    const RESOURCE_QUOTAS: &str = "resourcequota-controller";
    const TOKEN_CLEANER: &str = "legacy-serviceaccount-token-cleaner-controller";

    /// The content of a certificate is not parsed here, so any bytes do.
    const PEM: &str = "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n";

    fn read(args: &[&str]) -> anyhow::Result<BTreeMap<String, BTreeMap<String, String>>> {
        read_for(that_need(Need::RootCa), args)
    }

    /// The values if these controllers run.
    fn read_for(
        chosen: impl IntoIterator<Item = &'static str>,
        args: &[&str],
    ) -> anyhow::Result<BTreeMap<String, BTreeMap<String, String>>> {
        let config = RunConfig::read(&parse(args).expect("it parses")).expect("it is accepted");
        let mut cluster = kube::Config::new("https://127.0.0.1".parse().expect("a URL"));
        cluster.root_cert = Some(vec![vec![1, 2, 3]]);
        values(&config, &cluster, &Needs::new(chosen, false))
    }

    #[test]
    fn pods_get_the_bundle_of_the_flag_or_else_of_the_connection() {
        let of_connection = read(&[]).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("of the file\n{PEM}")).unwrap();
        let given = read(&[&format!("--root-ca-file={}", file.path().display())]).unwrap();
        for controller in that_need(Need::RootCa) {
            assert_eq!(of_connection[controller]["root-ca"], PEM);
            assert_eq!(given[controller]["root-ca"], format!("of the file\n{PEM}"));
        }
    }

    #[test]
    fn a_bundle_without_a_certificate_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let flag = format!("--root-ca-file={}", file.path().display());
        let error = |flag: &str| format!("{:#}", read(&[flag]).unwrap_err());
        assert!(error(&flag).ends_with("contains no certificate"));
        let missing = error("--root-ca-file=/nowhere");
        let expected =
            "-controller can't start: --root-ca-file=/nowhere: can't read it: No such file";
        assert!(missing.contains(expected), "{missing}");
    }

    #[test]
    fn controllers_without_the_bundle_run_although_its_file_is_missing() {
        let values = read_for([NODES], &["--root-ca-file=/nowhere"]).unwrap();
        assert!(values.contains_key(NODES));
    }

    #[test]
    fn built_in_controllers_get_the_gates_that_are_not_at_their_default() {
        let values = read(&["--feature-gates=PodDeletionCost=false,JobManagedBy=true"]).unwrap();
        let of_replicasets = &values["replicaset-controller"];
        assert_eq!(of_replicasets["feature-gates.PodDeletionCost"], "false");
        assert!(!of_replicasets.contains_key("feature-gates.JobManagedBy"));
    }

    #[test]
    fn the_autoscaler_gets_the_values_of_its_flags() {
        let values = read(&[
            "--horizontal-pod-autoscaler-sync-period=2s",
            "--horizontal-pod-autoscaler-tolerance=0.25",
        ])
        .unwrap();
        let own = &values[AUTOSCALER];
        for (key, expected) in [
            ("sync-period", "2000ms"),
            ("downscale-stabilization", "300000ms"),
            ("cpu-initialization-period", "300000ms"),
            ("initial-readiness-delay", "30000ms"),
            ("tolerance", "0.25"),
        ] {
            assert_eq!(own[key], expected, "{key}");
        }
    }

    #[test]
    fn the_threshold_of_ended_pods_is_that_of_the_flag() {
        for (flags, expected) in [
            (&[][..], "12500"),
            (&["--terminated-pod-gc-threshold=-1"], "-1"),
        ] {
            let values = read(flags).unwrap();
            assert_eq!(
                values[POD_GARBAGE_COLLECTOR]["terminated-pod-threshold"],
                expected
            );
        }
    }

    #[test]
    fn the_period_of_quotas_comes_from_its_flag() {
        for (args, period) in [
            (&[][..], "300000ms"),
            (&["--resource-quota-sync-period=90s"], "90000ms"),
            (&["--resource-quota-sync-period=0"], "0ms"),
        ] {
            assert_eq!(read(args).unwrap()[RESOURCE_QUOTAS]["sync-period"], period);
        }
    }

    #[test]
    fn each_controller_gets_the_release_to_emulate_unless_it_is_its_own() {
        let release = |args: &[&str]| read(args).unwrap()[NODES].get("emulated-version").cloned();
        assert_eq!(release(&[]), None);
        assert_eq!(release(&["--emulated-version=1.37"]), None);
        assert_eq!(
            release(&["--emulated-version=1.36"]).as_deref(),
            Some("1.36")
        );
        let own = [
            "--emulated-version=1.36",
            "--plugin-config=node-lifecycle-controller.emulated-version=1.35",
        ];
        assert_eq!(release(&own).as_deref(), Some("1.35"));
    }

    #[test]
    fn the_settings_of_the_node_lifecycle_controller_come_from_its_flags() {
        let of = |flags: &[&str], key: &str| read(flags).unwrap()[NODES][key].clone();
        for (key, default) in [
            ("monitor-period", "5000ms"),
            ("monitor-grace-period", "50000ms"),
            ("startup-grace-period", "60000ms"),
            ("eviction-rate", "0.1"),
            ("secondary-eviction-rate", "0.01"),
            ("large-cluster-size-threshold", "50"),
            ("unhealthy-zone-threshold", "0.55"),
        ] {
            assert_eq!(of(&[], key), default, "{key}");
        }
        let flags = ["--node-monitor-period=1s", "--node-eviction-rate=2.5"];
        assert_eq!(of(&flags, "monitor-period"), "1000ms");
        assert_eq!(of(&flags, "eviction-rate"), "2.5");
    }

    #[test]
    fn the_ranges_of_nodes_come_from_their_flags() {
        assert!(!read(&[]).unwrap().contains_key(NODE_IPAM));
        let values = read(&[
            "--allocate-node-cidrs",
            "--cluster-cidr=10.244.0.0/16,fd00::/48",
            "--service-cluster-ip-range=10.96.0.0/12,fd01::/108",
            "--node-cidr-mask-size-ipv4=25",
        ])
        .unwrap();
        for (key, expected) in [
            ("cluster-cidrs", "10.244.0.0/16,fd00::/48"),
            ("node-cidr-mask-sizes", "25,64"),
            ("service-cidrs", "10.96.0.0/12,fd01::/108"),
        ] {
            assert_eq!(values[NODE_IPAM][key], expected, "{key}");
        }
    }

    #[test]
    fn the_duration_of_certificates_comes_from_its_flag() {
        for (args, duration) in [
            (&[][..], "31536000000ms"),
            (&["--cluster-signing-duration=90m"], "5400000ms"),
        ] {
            assert_eq!(read(args).unwrap()[CERTIFICATES]["duration"], duration);
        }
    }

    #[test]
    fn batch_periods_and_maxima_of_endpoints_come_from_their_flags() {
        let with = |args: &[&str], controller: &str, key: &str| {
            read(args).unwrap()[controller][key].clone()
        };
        for (controller, key, default, flag, value) in [
            (
                ENDPOINT_SLICES,
                "updates-batch-period",
                "0ms",
                "--endpointslice-updates-batch-period=1500ms",
                "1500ms",
            ),
            (
                ENDPOINT_SLICES,
                "max-endpoints-per-slice",
                "100",
                "--max-endpoints-per-slice=7",
                "7",
            ),
            (
                ENDPOINTS,
                "updates-batch-period",
                "0ms",
                "--endpoint-updates-batch-period=1s",
                "1000ms",
            ),
            (
                MIRRORING,
                "updates-batch-period",
                "0ms",
                "--mirroring-endpointslice-updates-batch-period=2s",
                "2000ms",
            ),
            (
                MIRRORING,
                "max-endpoints-per-subset",
                "1000",
                "--mirroring-max-endpoints-per-subset=7",
                "7",
            ),
        ] {
            assert_eq!(with(&[], controller, key), default);
            assert_eq!(with(&[flag], controller, key), value);
        }
    }

    #[test]
    fn plugin_config_takes_precedence_over_other_flags() {
        let flag = "--legacy-service-account-token-clean-up-period=1h30m";
        assert_eq!(
            read(&[flag]).unwrap()[TOKEN_CLEANER]["clean-up-period"],
            "5400000ms"
        );
        let value = format!("--plugin-config={TOKEN_CLEANER}.clean-up-period=1s");
        assert_eq!(
            read(&[flag, &value]).unwrap()[TOKEN_CLEANER]["clean-up-period"],
            "1s"
        );
    }
}
