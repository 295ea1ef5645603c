//! Attempts to read what the policy hides, and reads that would cost too much. The policy mostly shows the labels of
//! Secrets alone, or nothing.

use crate::arena::{Case, Class};

/// Grants the labels of Secrets.
const LABELS: &str = r#"
[[plugins.faulty.allow]]
kinds = ["v1/Secret"]
verbs = ["watch", "get", "list"]
fields = ["metadata.labels"]
"#;

/// Grants ConfigMaps.
const MAPS: &str = r#"
[[plugins.faulty.allow]]
kinds = ["v1/ConfigMap"]
verbs = ["watch", "get", "list"]
"#;

const WATCHES_MAPS: &str = r#""watches": [{"kind": "v1/ConfigMap", "fields": ["."]}]"#;

const READ: Case = Case {
    class: Class::Read,
    ..Case::NONE
};
const ESCALATION: Case = Case {
    class: Class::Escalation,
    policy: LABELS,
    ..Case::NONE
};

/// The host refuses to run the plugin, because of a field that it would see.
const HIDDEN: &[&str] = &["watch v1/Secret"];

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "hidden-field",
        description: r#""watches": [{"kind": "v1/Secret", "fields": ["data.password"]}]"#,
        expects: HIDDEN,
        ..ESCALATION
    },
    Case {
        name: "hidden-mapping-path",
        description: r#""watches": [{"kind": "v1/Secret", "map": [{"to": "named", "path": "data.password", "namespaced": false}]}]"#,
        expects: HIDDEN,
        ..ESCALATION
    },
    Case {
        name: "hidden-having",
        description: r#""watches": [{"kind": "v1/Secret", "map": [{"to": "itself", "having": {"path": "data.password", "value": "a"}}]}]"#,
        expects: HIDDEN,
        ..ESCALATION
    },
    Case {
        name: "hidden-unless",
        description: r#""watches": [{"kind": "v1/Secret", "map": [{"to": "itself", "unless": [{"path": "data.password", "value": "a"}]}]}]"#,
        expects: HIDDEN,
        ..ESCALATION
    },
    Case {
        name: "hidden-predicate",
        description: r#""watches": [{"kind": "v1/Secret", "changes": [{"path": "data.password"}], "map": [{"to": "itself"}]}]"#,
        expects: HIDDEN,
        ..ESCALATION
    },
    Case {
        name: "hidden-index",
        description: r#""watches": [{"kind": "v1/Secret"}], "indexes": [{"name": "i", "kind": "v1/Secret", "path": "data.password"}]"#,
        expects: HIDDEN,
        ..ESCALATION
    },
    Case {
        name: "hidden-selector-path",
        description: r#""watches": [{"kind": "v1/Secret", "map": [{"to": "selecting", "kind": "v1/Secret", "path": "data.password"}]}]"#,
        expects: HIDDEN,
        ..ESCALATION
    },
    Case {
        name: "hidden-whose",
        description: r#""watches": [{"kind": "v1/Secret", "map": [{"to": "selecting", "kind": "v1/Secret", "path": "metadata.labels",
            "whose": {"path": "data.password", "value": "a"}}]}]"#,
        expects: HIDDEN,
        ..ESCALATION
    },
    Case {
        name: "hidden-field-selector",
        description: r#""watches": [{"kind": "v1/Secret", "fieldSelector": "type=Opaque"}]"#,
        expects: HIDDEN,
        ..ESCALATION
    },
    Case {
        name: "hidden-owner-mapping",
        description: r#""watches": [{"kind": "v1/Secret", "map": [{"to": "owner", "kind": "v1/Pod"}]}]"#,
        expects: HIDDEN,
        ..ESCALATION
    },
    Case {
        name: "hidden-by-get",
        description: r#""watches": [{"kind": "v1/Secret", "fields": ["metadata.labels"]}]"#,
        script: r#"[{"get": ["v1/Secret", "demo", "token", ["data"]]}]"#,
        expects: &["Denied: can't read the fields data"],
        ..ESCALATION
    },
    Case {
        name: "hidden-by-columns",
        description: r#""watches": [{"kind": "v1/Secret", "fields": ["metadata.labels"]}]"#,
        script: r#"[{"list": {"kind": "v1/Secret", "columns": ["data.password"]}}]"#,
        expects: &["Denied: can't read the fields data.password"],
        ..ESCALATION
    },
    Case {
        name: "hidden-by-owner",
        description: r#""watches": [{"kind": "v1/Secret", "fields": ["metadata.labels"]}]"#,
        script: r#"[{"list": {"kind": "v1/Secret", "conditions": [["owner", "u"]]}}]"#,
        expects: &["Denied: the policy does not let this plugin see metadata.ownerReferences"],
        ..ESCALATION
    },
    Case {
        name: "hidden-by-live-get",
        script: r#"[{"live": {"kind": "v1/Secret", "namespace": "demo", "name": "token"}}]"#,
        expects: &[r#"\"labels\":{\"app\":\"web\"}}}"#],
        ..ESCALATION
    },
    Case {
        name: "hidden-by-live-list",
        script: r#"[{"live": {"kind": "v1/Secret", "fields": ["data", "metadata.name"]}}]"#,
        expects: &[r#"\"metadata\":{\"name\":\"token\""#],
        ..ESCALATION
    },
    Case {
        name: "hidden-by-live-selector",
        script: r#"[{"live": {"kind": "v1/Secret", "parameters": [["fieldSelector", "type=Opaque"]]}}]"#,
        expects: &["Denied: the policy does not let this plugin see type"],
        ..ESCALATION
    },
    Case {
        name: "hidden-by-raw",
        policy: r#"
            [[plugins.faulty.allow]]
            kinds = ["v1/Secret"]
            verbs = ["get", "list"]
            fields = ["metadata.labels"]
            [plugins.faulty]
            imports = ["raw"]
        "#,
        description: r#""imports": ["raw"]"#,
        script: r#"[{"live": {"raw": "/api/v1/namespaces/demo/secrets/token"}}]"#,
        expects: &[r#"\"labels\":{\"app\":\"web\"}}}"#],
        ..ESCALATION
    },
    Case {
        name: "other-kind-by-raw",
        policy: "[plugins.faulty]\nimports = [\"raw\"]",
        description: r#""imports": ["raw"]"#,
        script: r#"[{"live": {"raw": "/api/v1/secrets"}}, {"live": {"raw": "/api/v1/namespaces/demo/secrets/token"}},
                    {"live": {"raw": "/apis/apps/v1/deployments"}}, {"live": {"raw": "/api/v1/%73ecrets"}}]"#,
        expects: &["Denied: the policy does not let this plugin list v1/Secret"],
        ..ESCALATION
    },
    Case {
        name: "forged-raw-path",
        policy: "[plugins.faulty]\nimports = [\"raw\"]",
        description: r#""imports": ["raw"]"#,
        script: r#"[{"live": {"raw": "/version/..%2fapi/v1/secrets"}}, {"live": {"raw": "/version/../api/v1/secrets"}},
                    {"live": {"raw": "//api/v1/secrets"}}, {"live": {"raw": "/api/v1/namespaces/demo/pods/a/proxy/b"}}]"#,
        expects: &["is not a path of the API server that a plugin may read"],
        ..ESCALATION
    },
    Case {
        name: "route-of-shared-cache",
        description: r#""watches": [{"kind": "v1/Secret", "fields": ["metadata.labels"], "map": [{"to": "route"}]}]"#,
        route: "show",
        expects: &["route saw"],
        ..ESCALATION
    },
    Case {
        name: "other-namespace-by-cache",
        policy: r#"
            [[plugins.faulty.allow]]
            kinds = ["v1/Secret"]
            verbs = ["watch"]
            namespaces = ["default"]
        "#,
        description: r#""watches": [{"kind": "v1/Secret", "fields": ["."]}]"#,
        script: r#"[{"list": {"kind": "v1/Secret"}}, {"get": ["v1/Secret", "demo", "token", []]}]"#,
        expects: &["2 bytes ok: []"],
        ..ESCALATION
    },
    Case {
        name: "union-of-namespaces",
        policy: r#"
            [[plugins.faulty.allow]]
            kinds = ["v1/Secret"]
            verbs = ["watch", "list"]
            namespaces = ["demo"]
            fields = ["metadata.labels"]
            [[plugins.faulty.allow]]
            kinds = ["v1/Secret"]
            verbs = ["watch", "list"]
            namespaces = ["default"]
        "#,
        description: r#""watches": [{"kind": "v1/Secret", "fields": ["data.password"]}]"#,
        expects: HIDDEN,
        ..ESCALATION
    },
    Case {
        name: "list-of-all-namespaces",
        policy: r#"
            [[plugins.faulty.allow]]
            kinds = ["v1/Secret"]
            verbs = ["list"]
            namespaces = ["demo"]
        "#,
        script: r#"[{"live": {"kind": "v1/Secret"}}]"#,
        expects: &["Denied: the policy does not let this plugin list v1/Secret"],
        ..ESCALATION
    },
    Case {
        name: "ungranted-kind",
        policy: "",
        description: r#""watches": [{"kind": "v1/Secret", "fields": ["."]}]"#,
        expects: HIDDEN,
        ..ESCALATION
    },
    Case {
        name: "watch-by-list",
        policy: MAPS,
        script: r#"[{"live": {"kind": "v1/ConfigMap", "parameters": [["watch", "1"]]}},
                    {"live": {"kind": "v1/ConfigMap", "parameters": [["limit=1&watch", "1"]]}},
                    {"live": {"kind": "v1/ConfigMap", "parameters": [["limit", "1&watch=1"]]}}]"#,
        expects: &[
            "Invalid: a read has no parameter `watch`",
            "Invalid: a read has no parameter `limit=1&watch`",
        ],
        ..READ
    },
    Case {
        name: "watch-by-raw",
        policy: "[plugins.faulty]\nimports = [\"raw\"]",
        description: r#""imports": ["raw"]"#,
        script: r#"[{"live": {"raw": "/api/v1/configmaps?watch=1"}}, {"live": {"raw": "/api/v1/watch/configmaps"}}]"#,
        expects: &[
            "Invalid: a read has no parameter `watch`",
            "it opens a watch or a proxy",
        ],
        ..READ
    },
    Case {
        name: "many-columns",
        class: Class::Memory,
        policy: MAPS,
        description: WATCHES_MAPS,
        script: r#"[{"list": {"kind": "v1/ConfigMap", "columns": {"text": ".", "times": 20000}}}]"#,
        expects: &["Full: the paths of fields: 20000 paths, and the limit is 512"],
        ..READ
    },
    Case {
        name: "large-columns",
        class: Class::Memory,
        policy: MAPS,
        description: WATCHES_MAPS,
        script: r#"[{"list": {"kind": "v1/ConfigMap", "namespace": "demo", "columns": {"text": ".", "times": 256}}}]"#,
        expects: &["Full: an object is larger than the"],
        ..READ
    },
    Case {
        name: "doubling-paths",
        class: Class::Cpu,
        policy: MAPS,
        description: WATCHES_MAPS,
        script: r#"[{"list": {"kind": "v1/ConfigMap", "fields": ["a0.z", "[*].a1.z", "[*][*].a2.z", "[*][*][*].a3.z",
            "[*][*][*][*].a4.z", "[*][*][*][*][*].a5.z", "[*][*][*][*][*][*].a6.z", "[*][*][*][*][*][*][*].a7.z",
            "[*][*][*][*][*][*][*][*].a8.z", "[*][*][*][*][*][*][*][*][*].a9.z", "[*][*][*][*][*][*][*][*][*][*].b.z",
            "[*][*][*][*][*][*][*][*][*][*][*].c.z", "[*][*][*][*][*][*][*][*][*][*][*][*].d.z",
            "[*][*][*][*][*][*][*][*][*][*][*][*][*].e.z", "[*][*][*][*][*][*][*][*][*][*][*][*][*][*].f.z",
            "[*][*][*][*][*][*][*][*][*][*][*][*][*][*][*].g.z"]}}]"#,
        expects: &["Invalid: the field paths are too complex"],
        ..READ
    },
    Case {
        name: "long-path",
        policy: MAPS,
        description: WATCHES_MAPS,
        script: r#"[{"get": ["v1/ConfigMap", "demo", "web", [{"text": "a", "times": 10000}]]}]"#,
        expects: &["it has more than 4096 bytes"],
        ..READ
    },
    Case {
        name: "deep-path",
        policy: MAPS,
        description: WATCHES_MAPS,
        script: r#"[{"get": ["v1/ConfigMap", "demo", "web", [{"text": "a.", "times": 1000, "end": "a"}]]}]"#,
        expects: &["Invalid: `a.a.a"],
        ..READ
    },
    Case {
        name: "long-selector",
        class: Class::Cpu,
        policy: MAPS,
        description: WATCHES_MAPS,
        script: r#"[{"list": {"kind": "v1/ConfigMap", "conditions": [["labels", {"text": "a=b,", "times": 1000000, "end": "a"}]]}}]"#,
        expects: &["Full: the conditions of a query: 4000007 bytes"],
        ..READ
    },
    Case {
        name: "many-requirements",
        class: Class::Cpu,
        policy: MAPS,
        description: WATCHES_MAPS,
        script: r#"[{"list": {"kind": "v1/ConfigMap", "conditions": [["labels", {"text": "a,", "times": 50000, "end": "a"}]]}}]"#,
        expects: &["more than 1000 requirements"],
        ..READ
    },
    Case {
        name: "forged-names",
        class: Class::Name,
        policy: MAPS,
        description: WATCHES_MAPS,
        script: r#"[{"live": {"kind": "v1/ConfigMap", "namespace": "demo", "name": "../secrets/token"}},
                    {"live": {"kind": "v1/ConfigMap", "namespace": "demo/../other", "name": "a"}},
                    {"live": {"kind": "v1/ConfigMap", "namespace": "demo", "name": "web?watch=1"}}]"#,
        expects: &["is not a valid name", "is not a valid namespace"],
        ..READ
    },
    Case {
        name: "many-values",
        class: Class::Cpu,
        policy: MAPS,
        description: WATCHES_MAPS,
        script: r#"[{"list": {"kind": "v1/ConfigMap", "conditions": [["labels",
            {"begin": "a in (", "text": "a,", "times": 2000, "end": "a)"}]]}}]"#,
        expects: &["more than 1000 values"],
        ..READ
    },
    Case {
        name: "many-reads",
        class: Class::Memory,
        policy: MAPS,
        script: r#"[{"live": {"kind": "v1/ConfigMap", "namespace": "demo", "name": "web", "count": 1001}}]"#,
        expects: &["a batch of it has more than 1000 reads"],
        ..READ
    },
];
