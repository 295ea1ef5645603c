//! The flags of kube-controller-manager, each with its type, its default and its effect in Flyball. Flags that concern
//! only one controller are in the controller's manifest.
//!
//! `testdata/kcm-1.37-flags.txt` is generated from kube-controller-manager's own code.

use std::sync::LazyLock;

use flyball_controllers::CONTROLLERS;

use flyball_controllers::flag::Effect::{self, Already, Yes};
use flyball_controllers::flag::Kind::*;
use flyball_controllers::flag::{Flag, flag};

/// The effect of the flags of in-tree cloud providers. kube-controller-manager still accepts them, without effect.
const OF_CLOUDS: Effect = Yes("Accepted; it has no effect in kube-controller-manager 1.37 either");

/// Returns all flags, sorted by name.
pub(crate) fn all() -> impl Iterator<Item = &'static Flag> {
    static SORTED: LazyLock<Vec<&Flag>> = LazyLock::new(|| {
        let of_controllers = CONTROLLERS.iter().flat_map(|controller| controller.flags);
        let mut all: Vec<&Flag> = FLAGS
            .iter()
            .chain(of_controllers.map(|flag| &flag.flag))
            .collect();
        all.sort_by_key(|flag| flag.name);
        all
    });
    SORTED.iter().copied()
}

/// The flags that concern the process or several controllers, sorted by name.
const FLAGS: &[Flag] = &[
    flag(
        "allow-metric-labels",
        Pairs,
        "[]",
        Yes(
            "Allowed values of labels, as metric,label=value,value; others are shown as `unexpected`",
        ),
    ),
    flag(
        "allow-metric-labels-manifest",
        Text,
        "",
        Yes("File with what --allow-metric-labels says, in YAML"),
    ),
    flag(
        "allow-untagged-cloud",
        Bool,
        "false",
        Yes("Call a cloud whose resources carry no ID of the cluster"),
    ),
    flag(
        "authentication-kubeconfig",
        Text,
        "",
        Yes("Kubeconfig used for TokenReview and for reading extension-apiserver-authentication"),
    ),
    flag(
        "authentication-skip-lookup",
        Bool,
        "false",
        Yes("Don't read extension-apiserver-authentication from the cluster"),
    ),
    flag(
        "authentication-token-webhook-cache-ttl",
        Duration,
        "10s",
        Yes("How long the result of a TokenReview is cached"),
    ),
    flag(
        "authentication-tolerate-lookup-failure",
        Bool,
        "false",
        Yes(
            "Go on if the API server refuses the lookup of the authentication configuration at the start",
        ),
    ),
    flag(
        "authorization-always-allow-paths",
        Texts,
        "[/healthz,/readyz,/livez]",
        Yes("Paths that need no authorization"),
    ),
    flag(
        "authorization-kubeconfig",
        Text,
        "",
        Yes("Kubeconfig used for SubjectAccessReview"),
    ),
    flag(
        "authorization-webhook-cache-authorized-ttl",
        Duration,
        "10s",
        Yes("How long an allowed SubjectAccessReview is cached"),
    ),
    flag(
        "authorization-webhook-cache-unauthorized-ttl",
        Duration,
        "10s",
        Yes("How long a denied SubjectAccessReview is cached"),
    ),
    flag(
        "bind-address",
        Ip,
        "0.0.0.0",
        Yes("Address to serve HTTPS on"),
    ),
    flag(
        "cert-dir",
        Text,
        "",
        Yes(
            "Folder of the serving certificate, generated there if missing; ignored with --tls-cert-file",
        ),
    ),
    flag(
        "client-ca-file",
        Text,
        "",
        Yes("CA bundle for client certificates"),
    ),
    flag(
        "cloud-config",
        Text,
        "",
        Yes("File that the provider of --cloud-provider gets as its configuration"),
    ),
    flag(
        "cloud-provider",
        Text,
        "",
        Yes(
            "Plugin that is the cloud: the cloud controllers run, too, and call it; by default, or with `external`, they don't run",
        ),
    ),
    flag(
        "cluster-name",
        Text,
        "kubernetes",
        Yes("Name of the cluster, for the cloud"),
    ),
    flag(
        "configure-cloud-routes",
        Bool,
        "true",
        Yes("Run the node-route-controller, with the other cloud controllers"),
    ),
    flag("contention-profiling", Bool, "false", Already(&["false"])),
    flag(
        "controller-shutdown-timeout",
        Duration,
        "10s",
        Yes("How long to wait for the controllers to stop; 0 for no limit"),
    ),
    flag(
        "controller-start-interval",
        Duration,
        "0s",
        Yes("Pause before each controller begins"),
    ),
    flag(
        "controllers",
        Texts,
        "[*]",
        Yes(
            "Controllers to run: '*' enables all that are on by default, 'foo' enables foo, '-foo' disables foo; the first match applies",
        ),
    ),
    flag(
        "disable-http2-serving",
        Bool,
        "false",
        Yes("Serve HTTP/1.1 only"),
    ),
    flag(
        "disabled-metrics",
        Texts,
        "[]",
        Yes("Names of metrics that are not shown"),
    ),
    flag(
        "emulated-version",
        Texts,
        "[]",
        Yes(
            "Version of Kubernetes to behave as, with its feature gates, from 1.34 to 1.37, as 1.36 or kube=1.36",
        ),
    ),
    flag(
        "enable-leader-migration",
        Bool,
        "false",
        Yes("Run the controllers that --leader-migration-config names under a second lease"),
    ),
    flag("external-cloud-volume-plugin", Text, "", OF_CLOUDS),
    flag(
        "feature-gates",
        Gates,
        "",
        Yes("Feature gates of Kubernetes that the built-in controllers read"),
    ),
    flag("help", Bool, "false", Yes("Print help")),
    flag(
        "http2-max-streams-per-connection",
        Int,
        "0",
        Yes("Maximum number of concurrent streams on an HTTP/2 connection; 0 for the default"),
    ),
    flag(
        "kube-api-burst",
        Int32,
        "30",
        Yes("Burst of requests to the API server, per controller"),
    ),
    flag(
        "kube-api-content-type",
        Text,
        "application/vnd.kubernetes.protobuf",
        Already(&["application/vnd.kubernetes.protobuf"]),
    ),
    flag(
        "kube-api-qps",
        Float,
        "20",
        Yes("Requests to the API server per second, per controller"),
    ),
    flag(
        "kubeconfig",
        Text,
        "",
        Yes("Kubeconfig of the cluster; without it, the service account of the pod"),
    ),
    flag(
        "leader-elect",
        Bool,
        "true",
        Yes("Elect one of several processes to run the controllers"),
    ),
    flag(
        "leader-elect-lease-duration",
        Duration,
        "15s",
        Yes(
            "How long a standby waits after the last observed renewal before it acquires the lease",
        ),
    ),
    flag(
        "leader-elect-renew-deadline",
        Duration,
        "10s",
        Yes("How long the leader retries a renewal before it exits"),
    ),
    flag(
        "leader-elect-resource-lock",
        Text,
        "leases",
        Yes("Kind of the lock object; only leases is supported"),
    ),
    flag(
        "leader-elect-resource-name",
        Text,
        "kube-controller-manager",
        Yes("Name of the Lease; by default `flyball` if no built-in controller runs"),
    ),
    flag(
        "leader-elect-resource-namespace",
        Text,
        "kube-system",
        Yes("Namespace of the Lease"),
    ),
    flag(
        "leader-elect-retry-period",
        Duration,
        "2s",
        Yes("Time between two attempts to acquire or renew the lease"),
    ),
    flag(
        "leader-migration-config",
        Text,
        "",
        Yes(
            "File with a LeaderMigrationConfiguration; by default one that names only controllers of cloud providers",
        ),
    ),
    flag(
        "log-flush-frequency",
        Duration,
        "5s",
        Yes("Accepted; each line is written at once"),
    ),
    flag("log-json-info-buffer-size", Quantity, "0", Already(&["0"])),
    flag("log-json-split-stream", Bool, "false", Already(&["false"])),
    flag("log-text-info-buffer-size", Quantity, "0", Already(&["0"])),
    flag("log-text-split-stream", Bool, "false", Already(&["false"])),
    flag("logging-format", Text, "text", Yes("text or json")),
    flag(
        "master",
        Text,
        "",
        Yes("URL of the API server; overrides the kubeconfig"),
    ),
    flag(
        "min-compatibility-version",
        Texts,
        "[]",
        Yes(
            "Oldest version of the other parts of the control plane, from 1.34 to the emulated one; by default the one before that",
        ),
    ),
    flag(
        "min-resync-period",
        Duration,
        "12h0m0s",
        Yes("How often each controller reconciles all of its objects; 0 for never"),
    ),
    flag("node-sync-period", Duration, "0s", OF_CLOUDS),
    flag("permit-address-sharing", Bool, "false", Already(&["false"])),
    flag("permit-port-sharing", Bool, "false", Already(&["false"])),
    flag(
        "profiling",
        Bool,
        "true",
        Yes("Serve CPU profiles under /debug/pprof/, and the log's verbosity under /debug/flags/v"),
    ),
    flag(
        "requestheader-allowed-names",
        Texts,
        "[]",
        Yes("Common names of the client certificates of authenticating proxies; empty for all"),
    ),
    flag(
        "requestheader-client-ca-file",
        Text,
        "",
        Yes("CA bundle for the client certificates of authenticating proxies"),
    ),
    flag(
        "requestheader-extra-headers-prefix",
        Texts,
        "[x-remote-extra-]",
        Yes("Prefixes of headers with extra attributes of a user"),
    ),
    flag(
        "requestheader-group-headers",
        Texts,
        "[x-remote-group]",
        Yes("Headers with the groups of a user"),
    ),
    flag(
        "requestheader-uid-headers",
        Texts,
        "[]",
        Yes("Headers with the UID of a user"),
    ),
    flag(
        "requestheader-username-headers",
        Texts,
        "[x-remote-user]",
        Yes("Headers with the name of a user"),
    ),
    flag(
        "root-ca-file",
        Text,
        "",
        Yes(
            "CA bundle that is published to each namespace; by default the one that this process uses for the API server",
        ),
    ),
    flag(
        "route-reconciliation-period",
        Duration,
        "10s",
        Yes("How often the routes of nodes are compared with those of the cloud"),
    ),
    flag(
        "secure-port",
        Int,
        "10257",
        Yes("Port to serve HTTPS on; 0 for none"),
    ),
    flag(
        "show-hidden-metrics-for-version",
        Text,
        "",
        Yes("Accepts the previous minor version; no metric is hidden"),
    ),
    flag(
        "tls-cert-file",
        Text,
        "",
        Yes("Serving certificate; self-signed by default"),
    ),
    flag(
        "tls-cipher-suites",
        Texts,
        "[]",
        Yes("Cipher suites of TLS 1.2, by Go's names; those of TLS 1.3 are always on"),
    ),
    flag(
        "tls-curve-preferences",
        Ints,
        "[]",
        Yes("Key exchanges, by Go's numbers"),
    ),
    flag(
        "tls-min-version",
        Text,
        "",
        Yes("Minimum TLS version: VersionTLS12 or VersionTLS13"),
    ),
    flag(
        "tls-private-key-file",
        Text,
        "",
        Yes("Private key of the serving certificate"),
    ),
    flag(
        "tls-sni-cert-key",
        KeyPairs,
        "[]",
        Yes(
            "Certificate and key for some names: cert,key or cert,key:name,*.name; may be repeated",
        ),
    ),
    flag(
        "use-service-account-credentials",
        Bool,
        "false",
        Yes("Give each built-in controller a service account of its own"),
    ),
    flag(
        "v",
        Level,
        "0",
        Yes("Log verbosity: 4 for debugging, 6 for tracing"),
    ),
    flag("version", Version, "false", Yes("Print the version")),
    flag(
        "vmodule",
        Modules,
        "",
        Yes("Verbosity of single source files, as file=N,path/*=N; for the text format"),
    ),
];

#[cfg(test)]
mod tests;
