//! Guests that use more memory, CPU time, log lines or handles than they may.

use crate::arena::{Case, Class};

const LIMITS: &str = r#"
[plugins.faulty.limits]
cpu = "200ms"
wall = "5s"
memory = "64Mi"
"#;

const CPU: Case = Case {
    class: Class::Cpu,
    policy: LIMITS,
    ..Case::NONE
};
const MEMORY: Case = Case {
    class: Class::Memory,
    policy: LIMITS,
    ..Case::NONE
};
const LOG: Case = Case {
    class: Class::Log,
    policy: LIMITS,
    ..Case::NONE
};

/// Calls in all instance slots wait for the rate limiter.
pub(crate) const WAITING_CALLS: Case = Case {
    name: "waiting-calls",
    policy: r#"
        [plugins.faulty]
        concurrency = 1000
        [[plugins.faulty.allow]]
        kinds = ["v1/ConfigMap"]
        verbs = ["get"]
        [plugins.faulty.limits]
        instances = 1000
        total-memory = "4Gi"
        # The time in which calls wait for the quota would not count.
        cpu-share = 0
        wall = "5s"
        writes-per-second = 1
        writes-burst = 1
        # No limit, so that none of the many failures is missing in the log.
        log-lines-per-second = 0
    "#,
    script: r#"[{"enqueue": ["faulty", "script", 1000]},
                {"live": {"kind": "v1/ConfigMap", "namespace": "demo", "name": "web", "count": 100}}]"#,
    expects: &["it took longer than its limit"],
    ..CPU
};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "too-much-memory",
        script: r#"[{"memory": 100000000}]"#,
        expects: &["ran out of memory: it requested"],
        ..MEMORY
    },
    Case {
        name: "too-many-cursors",
        policy: "[[plugins.faulty.allow]]\nkinds = [\"v1/ConfigMap\"]\nverbs = [\"watch\"]",
        description: r#""watches": [{"kind": "v1/ConfigMap", "fields": ["."]}]"#,
        script: r#"[{"list": {"kind": "v1/ConfigMap", "limit": 1, "count": 2000,
            "fields": ["metadata.name"]}}]"#,
        expects: &["it holds more than its limit of 1024 cursors and batches"],
        ..MEMORY
    },
    Case {
        name: "large-argument",
        script: r#"[{"log": {"text": {"text": "a", "times": 30000000}}}]"#,
        expects: &["large-argument: logged 1"],
        ..LOG
    },
    Case {
        name: "many-answers",
        policy: r#"
            [[plugins.faulty.allow]]
            kinds = ["v1/ConfigMap"]
            verbs = ["get"]
            [plugins.faulty.limits]
            held = "4Mi"
        "#,
        script: r#"[{"live": {"kind": "v1/ConfigMap", "namespace": "demo", "name": "large", "count": 20}}]"#,
        expects: &["(`held` in the policy)"],
        ..MEMORY
    },
    Case {
        name: "flood-of-lines",
        script: r#"[{"log": {"text": "flood", "count": 100000}}]"#,
        expects: &["dropped log lines beyond the plugin's limit"],
        ..LOG
    },
    Case {
        name: "forged-lines",
        script: r#"[{"log": {"text": "a\n2026-01-01T00:00:00Z ERROR forged\u001b[2J\u202e", "fields": ["x\ny", "controller"]}}]"#,
        expects: &["forged-lines: logged 1"],
        ..LOG
    },
    Case {
        name: "unknown-queues",
        policy: "[[plugins.faulty.allow]]\nkinds = [\"v1/ConfigMap\"]\nverbs = [\"watch\"]",
        description: r#""watches": [{"kind": "v1/ConfigMap", "fields": ["metadata.labels"], "map": [{"to": "route"}]}]"#,
        route: "unknown-queues",
        expects: &["dropped=100000"],
        ..LOG
    },
    Case {
        name: "flood-of-events",
        policy: "[[plugins.faulty.allow]]\nkinds = [\"v1/ConfigMap\"]\nverbs = [\"watch\"]",
        script: r#"[{"event": {"kind": "v1/ConfigMap", "namespace": "demo", "name": "web", "message": "a", "count": 50000}}]"#,
        expects: &["dropped events beyond the plugin's limit"],
        ..LOG
    },
    Case {
        name: "flood-of-denials",
        policy: "",
        script: r#"[{"live": {"kind": "v1/Secret", "namespace": "demo", "name": "token", "count": 1000}}]"#,
        expects: &[
            "the policy does not let this plugin get v1/Secret",
            "dropped log lines beyond the plugin's limit",
        ],
        ..LOG
    },
    Case {
        name: "many-large-instances",
        policy: r#"
            [plugins.faulty]
            concurrency = 20
            [[plugins.faulty.allow]]
            kinds = ["v1/ConfigMap"]
            verbs = ["get"]
            [plugins.faulty.limits]
            wall = "5s"
            writes-per-second = 1
            writes-burst = 1
        "#,
        script: r#"[{"memory": 100000000}, {"enqueue": ["faulty", "script", 20]},
                    {"live": {"kind": "v1/ConfigMap", "namespace": "demo", "name": "web", "count": 100}}]"#,
        expects: &["(`total-memory` in the policy)"],
        ..MEMORY
    },
    Case {
        name: "many-keys",
        policy: "[plugins.faulty.limits]\nqueued-keys = 10000",
        script: r#"[{"enqueue": ["faulty", "nothing", 20000]}]"#,
        expects: &["(`queued-keys` in the policy)"],
        ..MEMORY
    },
    Case {
        name: "failing-route",
        policy: "[[plugins.faulty.allow]]\nkinds = [\"v1/ConfigMap\"]\nverbs = [\"watch\"]",
        description: r#""watches": [{"kind": "v1/ConfigMap", "fields": ["metadata.name"], "map": [{"to": "route"}, {"to": "itself"}]}]"#,
        route: "show",
        expects: &[
            "`route` failed; its deltas are tried again, each alone",
            "failing-route: ",
        ],
        ..CPU
    },
    Case {
        name: "panic",
        script: r#"[{"fail": "a\nb controller=\"deployment-controller\""}]"#,
        expects: &["panic: a", "(tests/guests/faulty"],
        ..LOG
    },
];
