//! Reads the command line into a [`RunConfig`].

mod cloud;
mod controllers;
mod flags;
mod leader_election;
mod metrics;
mod node_ipam;
mod serving;
mod signing;
mod traces;
mod warnings;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::ArgMatches;
use flyball_controllers::{canonical, flag};

pub(crate) use self::flags::ConfigError;
use self::flags::Flags;
use super::{BuiltInsConfig, ClusterConfig, PaceConfig, PluginsConfig, RequestsConfig, RunConfig};
use crate::builtins::NODE_IPAM;
use crate::kcm::feature_gates::FeatureGates;
use crate::kcm::versions::Versions;
use crate::logging::{self, LogOptions};
use crate::selection::Selection;

impl RunConfig {
    /// Reads the flags of `flyball run` that clap parsed. Fails if a value is invalid.
    pub(crate) fn read(matches: &ArgMatches) -> Result<Self, ConfigError> {
        Self::read_for(matches, false)
    }

    /// Reads the flags of `flyball cloud run`.
    pub(crate) fn read_cloud(matches: &ArgMatches) -> Result<Self, ConfigError> {
        Self::read_for(matches, true)
    }

    fn read_for(matches: &ArgMatches, is_ccm: bool) -> Result<Self, ConfigError> {
        let flags = Flags(matches);
        let burst = flags.int("kube-api-burst");
        let qps = flags.float("kube-api-qps") as f32;
        let controller_settings = flags.controller_settings()?;
        let plugins = PluginsConfig {
            dirs: flags
                .list("plugin-dir")
                .into_iter()
                .map(PathBuf::from)
                .collect(),
            policy: flags.path("policy"),
            state_dir: flags.path("state-dir"),
            trust: flags.bool("trust-plugins"),
            values: flags.plugin_config()?,
            concurrency: controller_settings.concurrency,
        };
        let cloud = flags.cloud(is_ccm, plugins.may_load())?;
        let versions = flags.versions()?;
        let feature_gates = flags.feature_gates(versions)?;
        let controllers = Selection::new(&flags.list("controllers")).with_clouds(cloud.controllers);
        let (node_ipam, ignored) = flags.node_ipam(controllers.enables(NODE_IPAM))?;
        let (serving, unsupported) = flags.serving(is_ccm)?.unzip();
        Ok(Self {
            cluster: ClusterConfig {
                kubeconfig: flags.path("kubeconfig"),
                context: flags.text("context"),
                master: flags.text("master"),
            },
            admin_socket: flags.path("admin-socket"),
            controllers,
            plugins,
            cloud,
            built_ins: BuiltInsConfig {
                values: controller_settings.values,
                resync_periods: controller_settings.resync_periods,
                turned_off: controller_settings.turned_off,
                root_ca_file: flags.path("root-ca-file"),
                service_account_key_file: flags.path("service-account-private-key-file"),
                cluster_signing: flags.cluster_signing()?,
                authorities: flags.other_authorities()?,
                tzdata: flags.tzdata()?,
                node_ipam,
            },
            requests: RequestsConfig {
                qps: if qps == 0.0 {
                    Some(5.0)
                } else {
                    Some(qps).filter(|qps| *qps > 0.0)
                },
                burst: if burst == 0 {
                    10
                } else {
                    flags.at_least("kube-api-burst", 1)?
                },
                use_service_account_credentials: flags.bool("use-service-account-credentials"),
            },
            pace: PaceConfig {
                start_interval: flags.duration("controller-start-interval")?,
                min_resync_period: flags.duration("min-resync-period")?,
                shutdown_timeout: flags.duration("controller-shutdown-timeout")?,
            },
            serving,
            metrics: flags.metrics()?,
            logging: flags.logging()?,
            tracing: flags.tracing()?,
            given: flags.given(),
            leader_election: flags.leader_election()?,
            warnings: flags
                .without_effect()
                .into_iter()
                .chain(unknown_gates(&feature_gates))
                .chain(unsupported.into_iter().flatten())
                .chain(ignored)
                .collect(),
            feature_gates,
            versions,
        })
    }
}

impl Flags<'_> {
    fn logging(&self) -> Result<LogOptions, ConfigError> {
        let json = match self.raw("logging-format") {
            Some("json") => true,
            Some("text" | "") | None => false,
            Some(_) => return Err(self.error("logging-format", "it must be text or json")),
        };
        let modules = self.0.get_many::<String>("vmodule").into_iter().flatten();
        let modules = modules.map(|text| logging::modules(text));
        let modules: Result<Vec<Vec<_>>, String> = modules.collect();
        let modules = modules.map_err(|reason| self.error("vmodule", reason))?;
        let modules = modules.concat();
        if json && !modules.is_empty() {
            return Err(self.error("vmodule", "Only supported for text log format"));
        }
        Ok(LogOptions {
            json,
            verbosity: self.int("v"),
            modules,
        })
    }

    /// The folder of the time zone database.
    fn tzdata(&self) -> Result<Option<PathBuf>, ConfigError> {
        let folder = self.path("tzdata");
        if folder.as_ref().is_some_and(|folder| !folder.is_dir()) {
            return Err(self.error("tzdata", "it must be a folder such as /usr/share/zoneinfo"));
        }
        Ok(folder)
    }

    fn versions(&self) -> Result<Versions, ConfigError> {
        let lists = ["emulated-version", "min-compatibility-version"].map(|name| self.list(name));
        let [emulated, min_compatibility] = lists;
        Versions::new(&emulated, &min_compatibility)
            .map_err(|(flag, reason)| self.error(flag, reason))
    }

    /// Fails if gates can't have these values. A later use of the flag takes precedence over an earlier one.
    fn feature_gates(&self, versions: Versions) -> Result<FeatureGates, ConfigError> {
        let uses = self.0.get_many::<String>("feature-gates");
        let pairs = uses
            .into_iter()
            .flatten()
            .flat_map(|text| flag::pairs(text).unwrap_or_default());
        let pairs = pairs.map(|(gate, value)| (gate, flag::bool(&value) == Ok(true)));
        FeatureGates::new(pairs, versions).map_err(|reason| self.error("feature-gates", reason))
    }

    /// `<controller>.<key>=<value>`: the controller's name ends at the first dot.
    fn plugin_config(&self) -> Result<BTreeMap<String, BTreeMap<String, String>>, ConfigError> {
        let mut config: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for text in self
            .0
            .get_many::<String>("plugin-config")
            .into_iter()
            .flatten()
        {
            let parts = text
                .split_once('=')
                .and_then(|(path, value)| Some((path.split_once('.')?, value)));
            let Some(((controller, key), value)) =
                parts.filter(|((c, k), _)| !c.is_empty() && !k.is_empty())
            else {
                let reason = "it must be <controller>.<key>=<value>".to_owned();
                return Err(ConfigError {
                    flag: "plugin-config",
                    value: text.clone(),
                    reason,
                });
            };
            let controller = canonical(controller).unwrap_or(controller).to_owned();
            config
                .entry(controller)
                .or_default()
                .insert(key.to_owned(), value.to_owned());
        }
        Ok(config)
    }
}

fn unknown_gates(gates: &FeatureGates) -> Option<String> {
    let names = gates.unknown.join(", ");
    (!names.is_empty()).then(|| format!("Kubernetes 1.37 has no such feature gates: {names}"))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use flyball_cache::ListMode;
    use flyball_serving::{AuthorizationOptions, RequestHeaderOptions};

    use super::*;
    use crate::flags::parse;

    fn read(args: &[&str]) -> RunConfig {
        RunConfig::read(&parse(args).expect("they parse")).expect("valid flags")
    }

    fn error(args: &[&str]) -> String {
        RunConfig::read(&parse(args).expect("they parse"))
            .expect_err("invalid flags")
            .to_string()
    }

    #[test]
    fn the_defaults_are_kube_controller_managers() {
        let config = read(&[]);
        assert_eq!(
            (config.requests.qps, config.requests.burst),
            (Some(20.0), 30)
        );
        assert_eq!(config.cluster, ClusterConfig::default());
        let serving = config.serving.expect("it serves");
        assert_eq!(
            serving.options.address,
            SocketAddr::from(([0, 0, 0, 0], 10257))
        );
        assert_eq!(serving.authorization, AuthorizationOptions::default());
        assert_eq!(
            serving.authentication.request_header,
            RequestHeaderOptions::default()
        );
        assert_eq!(config.pace.shutdown_timeout, Duration::from_secs(10));
        assert_eq!(
            config.pace.min_resync_period,
            Duration::from_secs(12 * 3600)
        );
        assert_eq!(
            config.built_ins.resync_periods["namespace-controller"],
            Duration::from_secs(300)
        );
        assert_eq!(config.pace.start_interval, Duration::ZERO);
        assert!(config.controllers.enables("deployment-controller"));
        assert_eq!(config.warnings, Vec::<String>::new());
    }

    #[test]
    fn kubeadms_flags_are_accepted_and_one_warning_names_those_without_effect() {
        let config = read(&[
            "--allocate-node-cidrs=true",
            "--authentication-kubeconfig=/etc/kubernetes/controller-manager.conf",
            "--bind-address=127.0.0.1",
            "--controllers=*,bootstrapsigner,tokencleaner",
            "--kubeconfig=/etc/kubernetes/controller-manager.conf",
            "--leader-elect=true",
            "--cluster-cidr=10.0.0.0/8",
            "--use-service-account-credentials=true",
            "--cert-dir=/var/run",
            "--flex-volume-plugin-dir=/plugins",
            "--log-text-split-stream=true",
            "--profiling=false",
            "--cluster-name=kubernetes",
            "--cluster-signing-cert-file=",
            "--log-flush-frequency=1s",
            "--kube-api-content-type=application/vnd.kubernetes.protobuf",
            "--min-resync-period=1h",
            "--contention-profiling=false",
        ]);
        let expected =
            "these flags have no effect yet: --flex-volume-plugin-dir, --log-text-split-stream";
        assert_eq!(config.warnings, [expected]);
        assert!(
            config.requests.use_service_account_credentials
                && config.controllers.enables("token-cleaner-controller")
        );
    }

    #[test]
    fn invalid_settings_of_leader_election_are_errors() {
        for (args, expected) in [
            (
                &["--leader-elect-lease-duration=10s"][..],
                "longer than --leader-elect-renew-deadline",
            ),
            (&["--leader-elect-lease-duration=15500ms"], "whole seconds"),
            (&["--leader-elect-retry-period=9s"], "1.2 times its value"),
            (&["--leader-elect-resource-lock=endpoints"], "only leases"),
            (&["--leader-elect-resource-namespace="], "needs a namespace"),
        ] {
            let error = error(args);
            assert!(error.contains(expected), "{args:?}: {error}");
        }
        assert!(
            !read(&["--leader-elect=false", "--leader-elect-lease-duration=1s"])
                .leader_election
                .enabled
        );
    }

    #[test]
    fn concurrency_and_values_are_kept_by_canonical_name() {
        let config = read(&[
            "--concurrent-deployment-syncs=9",
            "--concurrent_rc_syncs",
            "2",
            "--plugin-config=replicaset.burst=5",
            "--plugin-config=greeter.greeting=Hello, a=b.c",
        ]);
        let expected = [
            ("deployment-controller", 9),
            ("replicationcontroller-controller", 2),
        ];
        assert_eq!(
            config.plugins.concurrency,
            expected.map(|(name, n)| (name.to_owned(), n)).into()
        );
        assert_eq!(config.plugins.values["replicaset-controller"]["burst"], "5");
        assert_eq!(config.plugins.values["greeter"]["greeting"], "Hello, a=b.c");
    }

    #[test]
    fn a_file_that_a_flag_names_is_read_as_json() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pod.yaml");
        let flag = format!("--pv-recycler-pod-template-filepath-nfs={}", path.display());
        assert!(error(&[&flag]).contains("can't read it"));
        std::fs::write(&path, "metadata: {name: a}\nspec: {volumes: [{name: b}]}\n").unwrap();
        let values = read(&[&flag]).built_ins.values;
        let values = &values["persistentvolume-binder-controller"];
        let expected = r#"{"metadata":{"name":"a"},"spec":{"volumes":[{"name":"b"}]}}"#;
        assert_eq!(values["nfs-recycler-pod"], expected);
        assert!(!values.contains_key("hostpath-recycler-pod"));
        std::fs::write(&path, "a: [").unwrap();
        assert!(error(&[&flag]).contains("neither YAML nor JSON"));
    }

    #[test]
    fn an_invalid_value_is_an_error() {
        assert_eq!(
            error(&["--concurrent-job-syncs=0"]),
            "--concurrent-job-syncs=0: it must be at least 1"
        );
        assert_eq!(
            error(&["--max-endpoints-per-slice=1001"]),
            "--max-endpoints-per-slice=1001: it must be from 1 to 1000"
        );
        assert!(error(&["--mirroring-max-endpoints-per-subset=0"]).contains("from 1 to 1000"));
        assert_eq!(
            error(&["--concurrent-service-endpoint-syncs=51"]),
            "--concurrent-service-endpoint-syncs=51: it must be from 1 to 50"
        );
        for (flag, reason) in [
            (
                "--tls-min-version=VersionTLS9",
                "unknown tls version \"VersionTLS9\"",
            ),
            (
                "--tls-cipher-suites=A",
                "Cipher suite A not supported or doesn't exist",
            ),
            (
                "--tls-curve-preferences=26",
                "curve preference 26 is not supported by the current Go version",
            ),
            (
                "--tls-sni-cert-key=a",
                "expected comma separated certificate and key file paths",
            ),
            ("--tls-sni-cert-key=a,b:", "empty names list is not allowed"),
            ("--vmodule=a", "\"a\" does not have the pattern=N format"),
        ] {
            assert_eq!(error(&[flag]), format!("{flag}: {reason}"));
        }
        let json = ["--logging-format=json", "--vmodule=a=1"];
        assert!(error(&json).contains("Only supported for text log format"));
        assert!(error(&["--secure-port=70000"]).contains("between 0 and 65535"));
        assert!(error(&["--tls-cert-file=a"]).contains("--tls-private-key-file is missing"));
        assert!(error(&["--plugin-config=a=b"]).contains("<controller>.<key>=<value>"));
        assert!(error(&["--logging-format=xml"]).contains("text or json"));
        assert_eq!(
            error(&["--controller-shutdown-timeout=-1s"]),
            "--controller-shutdown-timeout=-1s: `-1s` is negative: it must be zero or more"
        );
        assert!(error(&["--feature-gates=JobManagedBy=false"]).contains("locked to true"));
        assert_eq!(
            error(&["--node-monitor-period=0"]),
            "--node-monitor-period=0: it must be more than zero"
        );
        assert!(read(&["--secure-port=0"]).serving.is_none());
    }

    #[test]
    fn what_the_tls_library_lacks_is_a_warning() {
        let config = read(&[
            "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_RSA_WITH_AES_128_CBC_SHA",
            "--tls-curve-preferences=25,29",
            "--tls-min-version=VersionTLS10",
            "--tls-sni-cert-key=a, b:*.c, d",
        ]);
        let warnings = ["TLS_RSA_WITH_AES_128_CBC_SHA", "CurveP521", "VersionTLS10"];
        assert_eq!(config.warnings.len(), 3, "{:?}", config.warnings);
        for (warning, name) in config.warnings.iter().zip(warnings) {
            assert!(
                warning.ends_with(&format!("serves without: {name}")),
                "{warning}"
            );
        }
        let named = &config.serving.expect("it serves").options.tls.named[0];
        assert_eq!(named.names, ["*.c", "d"]);
    }

    #[test]
    fn flagz_has_the_files_of_the_certificate() {
        let shown = |args: &[&str]| {
            let flagz = read(args).serving.expect("it serves").flagz;
            ["tls-cert-file", "tls-private-key-file"].map(|flag| flagz[flag].clone())
        };
        assert_eq!(shown(&[]), ["", ""]);
        assert_eq!(
            shown(&["--cert-dir=/pki"]),
            [
                "/pki/kube-controller-manager.crt",
                "/pki/kube-controller-manager.key"
            ]
        );
        let files = ["--tls-cert-file=a", "--tls-private-key-file=b"];
        assert_eq!(shown(&files), ["a", "b"]);
    }

    #[test]
    fn gates_follow_the_emulated_version() {
        let config = read(&["--emulated-version=kube=1.34"]);
        assert_eq!(config.versions.emulated.to_string(), "1.34");
        assert_eq!(config.versions.min_compatibility.to_string(), "1.34");
        assert!(!config.feature_gates.is_enabled("HPAConfigurableTolerance"));
        assert_eq!(
            error(&["--emulated-version=1.33"]),
            "--emulated-version=1.33: 1.33 is not between 1.34 and 1.37"
        );
        let args = [
            "--emulated-version=1.35",
            "--feature-gates=WorkloadWithJob=false",
        ];
        assert!(error(&args).contains("does not exist in the emulated version 1.35"));
    }

    #[test]
    fn lists_are_streamed_with_the_feature_gate() {
        let mode = |args: &[&str]| read(args).list_mode();
        assert_eq!(mode(&[]), ListMode::Streamed);
        assert_eq!(
            mode(&["--feature-gates=WatchListClient=false"]),
            ListMode::Paged
        );
        assert_eq!(mode(&["--emulated-version=1.34"]), ListMode::Paged);
    }

    #[test]
    fn leader_migration_needs_leader_election() {
        let of = |args: &[&str]| read(args).leader_election.migration;
        assert_eq!(of(&[]), None);
        let flag = "--enable-leader-migration";
        let default = of(&[flag]).expect("it is enabled");
        assert_eq!(default.lease, "cloud-provider-extraction-migration");
        assert_eq!(of(&[flag, "--leader-elect=false"]), None);
        let missing = "--leader-migration-config=/nowhere";
        assert_eq!(of(&[missing]), None);
        assert!(error(&[flag, missing]).contains("can't read it"));
    }

    #[test]
    fn an_unknown_feature_gate_is_a_warning() {
        let config = read(&["--feature-gates=NoSuchGate=true,kube:AllAlpha=false"]);
        assert!(
            config
                .warnings
                .iter()
                .any(|w| w.ends_with("has no such feature gates: NoSuchGate")),
            "{:?}",
            config.warnings
        );
    }
}
