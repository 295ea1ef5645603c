//! Descriptions that ask for more than any plugin needs, or that don't mean what they say.

use crate::arena::{Case, Class};

const MEMORY: Case = Case {
    class: Class::Memory,
    ..Case::NONE
};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "many-workers",
        description: r#""concurrency": 100000000"#,
        expects: &["concurrency=100 "],
        ..MEMORY
    },
    Case {
        name: "many-mappings",
        class: Class::Cpu,
        policy: "[[plugins.faulty.allow]]\nkinds = [\"v1/Pod\"]\nverbs = [\"watch\"]",
        description: r#""watches": [{"kind": "v1/Pod", "map": [{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},
            {"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},
            {"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},
            {"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},
            {"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},
            {"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},
            {"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},
            {"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},
            {"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},
            {"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"},{"to": "itself"}]}]"#,
        expects: &["it has 65 mappings of a watch, more than 64"],
        ..MEMORY
    },
    Case {
        name: "doubling-watch",
        class: Class::Cpu,
        policy: "[[plugins.faulty.allow]]\nkinds = [\"v1/Pod\"]\nverbs = [\"watch\"]",
        description: r#""watches": [{"kind": "v1/Pod", "fields": ["a0.z", "[*].a1.z", "[*][*].a2.z", "[*][*][*].a3.z",
            "[*][*][*][*].a4.z", "[*][*][*][*][*].a5.z", "[*][*][*][*][*][*].a6.z", "[*][*][*][*][*][*][*].a7.z",
            "[*][*][*][*][*][*][*][*].a8.z", "[*][*][*][*][*][*][*][*][*].a9.z", "[*][*][*][*][*][*][*][*][*][*].b.z",
            "[*][*][*][*][*][*][*][*][*][*][*].c.z", "[*][*][*][*][*][*][*][*][*][*][*][*].d.z",
            "[*][*][*][*][*][*][*][*][*][*][*][*][*].e.z", "[*][*][*][*][*][*][*][*][*][*][*][*][*][*].f.z",
            "[*][*][*][*][*][*][*][*][*][*][*][*][*][*][*].g.z"]}]"#,
        expects: &["the field paths are too complex"],
        ..MEMORY
    },
    Case {
        name: "many-buckets",
        description: r#""metrics": [{"name": "m", "help": "h", "type": {"histogram": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,
            22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,
            63,64,65]}}]"#,
        expects: &["it has 65 buckets of a metric, more than 64"],
        ..MEMORY
    },
    Case {
        name: "quick-ticker",
        class: Class::Cpu,
        period: 1,
        policy: r#"
            [[plugins.faulty.allow]]
            kinds = ["v1/ConfigMap"]
            verbs = ["watch"]
        "#,
        description: r#""watches": [{"kind": "v1/ConfigMap", "fields": ["."]}]"#,
        script: r#"[{"list": {"kind": "v1/ConfigMap", "namespace": "demo"}}]"#,
        expects: &["quick-ticker: 9"],
        ..MEMORY
    },
    Case {
        name: "lookalike-of-metadata",
        class: Class::Escalation,
        description: r#""watches": [{"discovered": {"periodMs": 1000}, "fields": ["metadataX.labels"]}]"#,
        expects: &["only the metadata of discovered kinds is cached"],
        ..MEMORY
    },
    Case {
        name: "newline-in-a-verb",
        class: Class::Escalation,
        description: r#""permissions": [{"kind": "v1/Pod", "verbs": ["get\n---\nkind: ClusterRoleBinding"]}]"#,
        expects: &["is unknown: use get, list"],
        ..MEMORY
    },
    Case {
        name: "forged-subresource",
        class: Class::Escalation,
        description: r#""permissions": [{"kind": "v1/Pod", "subresource": "a\nb", "verbs": ["get"]}]"#,
        expects: &["is not a name"],
        ..MEMORY
    },
    Case {
        name: "forged-namespace",
        class: Class::Name,
        description: r#""watches": [{"kind": "v1/Pod", "namespace": "demo/../other"}]"#,
        expects: &["is not the name of a namespace"],
        ..MEMORY
    },
    Case {
        name: "misspelt-field",
        class: Class::Name,
        description: r#""concurency": 1"#,
        expects: &["did you mean `concurrency`?"],
        ..MEMORY
    },
    Case {
        name: "many-watches-of-a-kind",
        description: r#""watches": [{"kind": "v1/Pod"}, {"kind": "v1/Pod", "labelSelector": "a"},
            {"kind": "v1/Pod", "labelSelector": "b"}, {"kind": "v1/Pod", "labelSelector": "c"},
            {"kind": "v1/Pod", "labelSelector": "d"}]"#,
        expects: &["v1/Pod: it has 5 watches, more than 4"],
        ..MEMORY
    },
    Case {
        name: "many-indexes-of-a-kind",
        description: r#""watches": [{"kind": "v1/Pod", "fields": ["."]}], "indexes": [
            {"name": "a", "kind": "v1/Pod", "path": "a"}, {"name": "b", "kind": "v1/Pod", "path": "b"},
            {"name": "c", "kind": "v1/Pod", "path": "c"}, {"name": "d", "kind": "v1/Pod", "path": "d"},
            {"name": "e", "kind": "v1/Pod", "path": "e"}, {"name": "f", "kind": "v1/Pod", "path": "f"},
            {"name": "g", "kind": "v1/Pod", "path": "g"}, {"name": "h", "kind": "v1/Pod", "path": "h"},
            {"name": "i", "kind": "v1/Pod", "path": "i"}]"#,
        expects: &["v1/Pod: it has 9 indexed paths, more than 8"],
        ..MEMORY
    },
    Case {
        name: "broad-mappings",
        class: Class::Cpu,
        description: r#""watches": [{"kind": "v1/Pod", "map": [{"to": "all", "kind": "v1/Pod"}, {"to": "all", "kind": "v1/Pod"},
            {"to": "all", "kind": "v1/Pod"}, {"to": "all", "kind": "v1/Pod"}, {"to": "all", "kind": "v1/Pod"}]}]"#,
        expects: &["5 mappings of a watch to all objects, more than 4"],
        ..MEMORY
    },
];
