//! Writes, events and signatures beyond the plugin's grants, and writes that would cost too much.

use anyhow::Result;
use sha2::{Digest, Sha256};

use crate::arena::{Arena, Case, Class};

/// Grants writes of ConfigMaps in one namespace.
const MAPS: &str = r#"
[[plugins.faulty.allow]]
kinds = ["v1/ConfigMap"]
verbs = ["create", "update", "patch", "delete"]
namespaces = ["demo"]
"#;

/// Grants all writes of Secrets, and their labels.
const SECRETS: &str = r#"
[[plugins.faulty.allow]]
kinds = ["v1/Secret"]
verbs = ["watch", "get"]
fields = ["metadata.labels"]
[[plugins.faulty.allow]]
kinds = ["v1/Secret"]
verbs = ["create", "update", "patch", "delete"]
"#;

const WRITE: Case = Case {
    class: Class::Write,
    policy: MAPS,
    ..Case::NONE
};
const ESCALATION: Case = Case {
    class: Class::Escalation,
    ..Case::NONE
};

/// Grants certificates of a signer to the attacker's file, but none of the groups that Kubernetes reserves.
const CERTIFICATES: Case = Case {
    policy: "[plugins.faulty]\ndigest = \"sha256:DIGEST\"\nimports = [\"signer\"]\n\
             certificates = [{ signers = [\"kubernetes.io/legacy-unknown\"] }]",
    description: r#""imports": ["signer"]"#,
    expects: &["Denied: the policy does not let this plugin sign certificates of `system:masters`"],
    ..ESCALATION
};

/// Certificates that would make their holder an administrator of the cluster.
const OF_ADMINISTRATORS: [Case; 4] = [
    Case {
        name: "certificate-of-a-reserved-group",
        script: r#"[{"certificate": {"signer": "kubernetes.io/legacy-unknown", "user": "a", "groups": ["system:masters"]}}]"#,
        ..CERTIFICATES
    },
    Case {
        name: "certificate-of-a-group-spelt-differently",
        script: r#"[{"certificate": {"signer": "kubernetes.io/legacy-unknown", "user": "a", "groups": ["system:masters"],
            "attribute": "2.5.4.010"}}]"#,
        ..CERTIFICATES
    },
    // The API server takes the user's UID from this attribute.
    Case {
        name: "certificate-with-a-uid",
        script: r#"[{"certificate": {"signer": "kubernetes.io/legacy-unknown", "user": "a", "groups": ["somebody"],
            "attribute": "1.3.6.1.4.1.57683.2"}}]"#,
        expects: &["Denied: the policy does not let this plugin sign certificates of `somebody`"],
        ..CERTIFICATES
    },
    Case {
        name: "certificate-for-another-name",
        script: r#"[{"certificate": {"signer": "kubernetes.io/legacy-unknown", "user": "a", "groups": [],
            "names": ["kubernetes.default.svc"]}}]"#,
        expects: &[
            "Denied: the policy does not let this plugin sign certificates for `kubernetes.default.svc`",
        ],
        ..CERTIFICATES
    },
];

/// The cases about certificates, which only a file of a known digest may get.
pub(crate) async fn certificates(arena: &mut Arena) -> Result<()> {
    let file = std::fs::read(arena.plugins.join("faulty.wasm"))?;
    let digest = Sha256::digest(file);
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    for case in &OF_ADMINISTRATORS {
        arena.attack_at(case, &[("DIGEST", &digest)]).await?;
    }
    Ok(())
}

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "answer-of-a-patch",
        policy: SECRETS,
        script: r#"[{"write": {"verb": "patch", "type": "merge", "kind": "v1/Secret", "namespace": "demo", "name": "token",
            "body": "{}", "returns": ["data"]}}]"#,
        expects: &["Denied: the policy does not let this plugin see data of v1/Secret"],
        ..ESCALATION
    },
    Case {
        name: "answer-of-a-dry-run",
        policy: SECRETS,
        script: r#"[{"write": {"verb": "delete", "kind": "v1/Secret", "namespace": "demo", "name": "token",
            "options": "{\"dryRun\": [\"All\"]}", "returns": ["."]}}]"#,
        expects: &["a dry run tells whether a hidden field"],
        ..ESCALATION
    },
    Case {
        name: "oracle-by-dry-run",
        policy: SECRETS,
        script: r#"[{"write": {"verb": "patch", "type": "merge", "kind": "v1/Secret", "namespace": "demo", "name": "token",
            "body": "{\"type\": \"Opaque\"}", "options": "{\"dryRun\": [\"All\"]}"}}]"#,
        expects: &["a dry run tells whether a hidden field"],
        ..ESCALATION
    },
    Case {
        name: "answer-without-reads",
        policy: "[[plugins.faulty.allow]]\nkinds = [\"v1/Secret\"]\nverbs = [\"patch\"]",
        script: r#"[{"write": {"verb": "patch", "type": "merge", "kind": "v1/Secret", "namespace": "demo", "name": "token",
            "body": "{}", "returns": ["data.password"]}}]"#,
        expects: &["Denied: the policy does not let this plugin see data.password"],
        ..ESCALATION
    },
    Case {
        name: "copy-by-json-patch",
        policy: SECRETS,
        script: r#"[{"write": {"verb": "patch", "type": "json", "kind": "v1/Secret", "namespace": "demo", "name": "token",
            "body": "[{\"op\": \"copy\", \"from\": \"/data/password\", \"path\": \"/metadata/labels/a\"}]",
            "returns": ["metadata.labels"]}}]"#,
        expects: &["the operation `copy` of a JSON patch reads others"],
        ..ESCALATION
    },
    Case {
        name: "test-by-json-patch",
        policy: SECRETS,
        script: r#"[{"write": {"verb": "patch", "type": "json", "kind": "v1/Secret", "namespace": "demo", "name": "token",
            "body": "[{\"op\": \"test\", \"path\": \"/data/password\", \"value\": \"a\"}]"}}]"#,
        expects: &["the operation `test` of a JSON patch reads others"],
        ..ESCALATION
    },
    Case {
        name: "write-elsewhere",
        policy: MAPS,
        script: r#"[{"write": {"verb": "create", "kind": "v1/ConfigMap", "namespace": "other", "body": "{\"metadata\": {\"name\": \"a\"}}"}},
                    {"write": {"verb": "delete", "kind": "v1/Secret", "namespace": "demo", "name": "token"}}]"#,
        expects: &[
            "Denied: the policy does not let this plugin create v1/ConfigMap in the namespace other",
            "Denied: the policy does not let this plugin delete v1/Secret in the namespace demo",
        ],
        ..ESCALATION
    },
    Case {
        name: "other-subresource",
        policy: "[[plugins.faulty.allow]]\nkinds = [\"v1/ServiceAccount\"]\nverbs = [\"create\"]",
        script: r#"[{"write": {"verb": "create", "kind": "v1/ServiceAccount", "namespace": "kube-system", "name": "default",
            "subresource": "token", "body": "{}", "returns": ["."]}}]"#,
        expects: &["Denied: the policy does not let this plugin create v1/ServiceAccount/token"],
        ..ESCALATION
    },
    Case {
        name: "event-through-a-path",
        policy: MAPS,
        script: r#"[{"event": {"kind": "v1/ConfigMap", "namespace": "demo/pods/p/proxy/x?y=", "name": "a", "message": "a"}}]"#,
        expects: &["the policy does not let this plugin record events about v1/ConfigMap"],
        ..ESCALATION
    },
    Case {
        name: "event-elsewhere",
        policy: MAPS,
        script: r#"[{"event": {"kind": "v1/Node", "name": "a", "message": "a"}}]"#,
        expects: &["the policy does not let this plugin record events about v1/Node"],
        ..ESCALATION
    },
    Case {
        name: "signature-without-a-key",
        policy: "[plugins.faulty]\nimports = [\"signer\"]",
        description: r#""imports": ["signer"]"#,
        script: r#"[{"sign": "service-account"}]"#,
        expects: &["Denied: the policy does not let this plugin use the key `service-account`"],
        ..ESCALATION
    },
    Case {
        name: "key-for-any-file",
        policy: "[plugins.faulty]\nimports = [\"signer\"]\nsigner-keys = [\"service-account\"]",
        description: r#""imports": ["signer"]"#,
        expects: &["must say which file gets them"],
        ..ESCALATION
    },
    Case {
        name: "certificate-without-a-signer",
        policy: "[plugins.faulty]\nimports = [\"signer\"]",
        description: r#""imports": ["signer"]"#,
        script: r#"[{"certificate": {"signer": "kubernetes.io/legacy-unknown", "user": "a", "groups": ["system:masters"]}}]"#,
        expects: &[
            "Denied: the policy does not let this plugin use the signer `kubernetes.io/legacy-unknown`",
        ],
        ..ESCALATION
    },
    Case {
        name: "signer-for-any-file",
        policy: "[plugins.faulty]\nimports = [\"signer\"]\ncertificates = [{ signers = [\"kubernetes.io/legacy-unknown\"] }]",
        description: r#""imports": ["signer"]"#,
        expects: &["must say which file gets them"],
        ..ESCALATION
    },
    Case {
        name: "file-instead-of-a-package",
        policy: "[plugins.faulty]\nsource = \"oci://127.0.0.1:1/faulty@sha256:0000000000000000000000000000000000000000000000000000000000000000\"",
        expects: &["applies only to the package oci://127.0.0.1:1/faulty"],
        ..ESCALATION
    },
    Case {
        name: "other-file",
        policy: "[plugins.faulty]\ndigest = \"sha256:0000000000000000000000000000000000000000000000000000000000000000\"",
        expects: &["applies only to the file sha256:0000"],
        ..ESCALATION
    },
    Case {
        name: "large-body",
        class: Class::Memory,
        script: r#"[{"write": {"verb": "update", "kind": "v1/ConfigMap", "namespace": "demo", "name": "web", "version": "1",
            "body": {"begin": "{\"a\":[", "text": "1,", "times": 5000000, "end": "1]}"}}}]"#,
        expects: &["Full: the body of a write has"],
        ..WRITE
    },
    Case {
        name: "many-writes",
        class: Class::Memory,
        script: r#"[{"write": {"verb": "create", "kind": "v1/ConfigMap", "namespace": "demo", "count": 10001,
            "body": "{\"metadata\": {\"name\": \"many-%N\"}}"}}]"#,
        expects: &["0 of 10001 written, the last: Full: a batch has at most 1000 writes"],
        ..WRITE
    },
    Case {
        name: "large-options",
        script: r#"[{"write": {"verb": "delete", "kind": "v1/ConfigMap", "namespace": "demo", "name": "a",
            "options": {"begin": "{\"a\": \"", "text": "a", "times": 1000000, "end": "\"}"}}}]"#,
        expects: &["Full: the options of a write has"],
        ..WRITE
    },
    Case {
        name: "unknown-options",
        script: r#"[{"write": {"verb": "create", "kind": "v1/ConfigMap", "namespace": "demo", "body": "{}",
            "options": "{\"watch\": \"1\"}"}}]"#,
        expects: &["Invalid: a write has no option `watch`"],
        ..WRITE
    },
    Case {
        name: "forged-targets",
        class: Class::Name,
        script: r#"[{"write": {"verb": "delete", "kind": "v1/ConfigMap", "namespace": "demo", "name": "../secrets/token"}},
                    {"write": {"verb": "patch", "type": "merge", "kind": "v1/ConfigMap", "namespace": "demo", "name": "web",
                        "subresource": "../../secrets/token", "body": "{}"}}]"#,
        expects: &["is not a valid name"],
        ..WRITE
    },
    Case {
        name: "status-by-update",
        script: r#"[{"write": {"verb": "update", "kind": "v1/ConfigMap", "namespace": "demo", "name": "web", "version": "1",
            "subresource": "status", "body": "{}"}}]"#,
        expects: &["`update` does not write the subresource `status`"],
        ..WRITE
    },
    Case {
        name: "unknown-patch",
        script: r#"[{"write": {"verb": "patch", "type": "../x", "kind": "v1/ConfigMap", "namespace": "demo", "name": "web", "body": "{}"}}]"#,
        expects: &["is not a type of patch"],
        ..WRITE
    },
    Case {
        name: "nameless-subresource",
        policy: MAPS,
        script: r#"[{"write": {"verb": "create", "kind": "v1/ConfigMap", "namespace": "demo", "subresource": "status",
            "body": "{\"metadata\": {\"name\": \"a\"}}"}}]"#,
        expects: &["the subresource `status` belongs to an object: name it"],
        ..ESCALATION
    },
    Case {
        name: "guess-by-apply",
        policy: SECRETS,
        script: r#"[{"write": {"verb": "patch", "type": "apply", "kind": "v1/Secret", "namespace": "demo", "name": "token",
            "body": "{\"apiVersion\": \"v1\", \"kind\": \"Secret\", \"data\": {\"password\": \"YQ==\"}}"}}]"#,
        expects: &[
            "Denied: the policy limits the fields that this plugin may read of v1/Secret, and a conflict of `apply`",
        ],
        ..ESCALATION
    },
    Case {
        name: "create-by-apply",
        policy: "[[plugins.faulty.allow]]\nkinds = [\"v1/ConfigMap\"]\nverbs = [\"patch\"]",
        script: r#"[{"write": {"verb": "patch", "type": "apply", "kind": "v1/ConfigMap", "namespace": "demo", "name": "new",
            "body": "{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\"}", "options": "{\"force\": true}"}}]"#,
        expects: &["`apply` creates an object that does not exist"],
        ..ESCALATION
    },
    Case {
        name: "guess-by-a-refusal",
        policy: SECRETS,
        script: r#"[{"write": {"verb": "patch", "type": "merge", "kind": "v1/Secret", "namespace": "demo", "name": "token",
            "body": "{\"type\": \"guess\", \"immutable\": 7}"}}]"#,
        expects: &["the API server's message is hidden, because the policy limits the fields"],
        ..ESCALATION
    },
    Case {
        name: "half-a-dry-run",
        policy: MAPS,
        script: r#"[{"write": {"verb": "create", "kind": "v1/ConfigMap", "namespace": "demo",
            "body": "{\"metadata\": {\"name\": \"dry\"}}", "options": "{\"dryRun\": [[\"All\"]]}"}}]"#,
        expects: &["Invalid: the option `dryRun` of a write must be"],
        ..WRITE
    },
];
