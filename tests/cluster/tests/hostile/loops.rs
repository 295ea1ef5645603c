//! Guests that repeat the most expensive calls that they may make, without a pause. The calls reach no limit each, but
//! the plugin's CPU quota slows them down. Nobody else waits for the host's work for them: neither the victim, nor a
//! probe of the host's health, whose times are compared with those after the attack.

use anyhow::{Result, bail};

use crate::arena::{Arena, Case, Class};

/// How often the victim and a probe are observed during an attack, and after it.
const OBSERVED: usize = 16;
/// The largest allowed ratio of the victim's and of a probe's median time during an attack to that after it.
const SLOWER: f64 = 2.0;
/// How often an attack is measured until its ratios are allowed. Other work on the machine may spoil a measurement.
const MEASURED: usize = 3;

/// Four workers run the script under eight keys, which each run enqueues again.
const LOOP: Case = Case {
    class: Class::Cpu,
    policy: r#"
        [[plugins.faulty.allow]]
        kinds = ["v1/ConfigMap"]
        verbs = ["watch", "get", "list", "update", "patch"]
        [plugins.faulty]
        concurrency = 4
        imports = ["discovery", "raw"]
        [plugins.faulty.limits]
        writes-per-second = 1000
        writes-burst = 1000
        events-per-second = 1000
    "#,
    description: r#""watches": [{"kind": "v1/ConfigMap", "fields": ["."]}], "imports": ["discovery", "raw"],
        "metrics": [{"name": "loops_total", "help": "Loops.", "type": "counter", "labels": ["label"]}]"#,
    period: 100,
    ..Case::NONE
};

/// A script of these calls, which enqueues all keys at its end.
macro_rules! again {
    ($calls:literal) => {
        concat!("[", $calls, r#", {"enqueue": ["faulty", "script", 8]}]"#)
    };
}

const CASES: &[Case] = &[
    Case {
        name: "loop-of-live-lists",
        script: again!(
            r#"{"live": {"kind": "v1/ConfigMap", "namespace": "demo", "count": 4, "fields": ["metadata.name"]}},
               {"live": {"kind": "v1/ConfigMap", "namespace": "demo", "count": 4}}"#
        ),
        expects: &["loop-of-live-lists: "],
        ..LOOP
    },
    Case {
        name: "loop-of-live-gets",
        script: again!(
            r#"{"live": {"kind": "v1/ConfigMap", "namespace": "demo", "name": "large", "count": 10, "fields": ["data"]}}"#
        ),
        expects: &["loop-of-live-gets: "],
        ..LOOP
    },
    Case {
        name: "loop-of-raw-reads",
        script: again!(
            r#"{"live": {"raw": "/api/v1/namespaces/demo/configmaps", "count": 4}}, {"live": {"raw": "/openapi/v2"}}"#
        ),
        expects: &["loop-of-raw-reads: "],
        ..LOOP
    },
    Case {
        name: "loop-of-cached-lists",
        script: again!(
            r#"{"list": {"kind": "v1/ConfigMap", "namespace": "demo", "count": 10}},
               {"list": {"kind": "v1/ConfigMap", "columns": {"text": "data.a", "times": 16}}}"#
        ),
        expects: &["loop-of-cached-lists: "],
        ..LOOP
    },
    Case {
        name: "loop-of-counts",
        script: again!(
            r#"{"count": {"kind": "v1/ConfigMap", "conditions": [["labels",
                    {"begin": "a notin (", "text": "a,", "times": 900, "end": "a)"}]]}},
               {"count": {"kind": "v1/ConfigMap", "conditions": [["labels", {"text": "!b,", "times": 900, "end": "!b"}]]}}"#
        ),
        expects: &["loop-of-counts: "],
        ..LOOP
    },
    Case {
        name: "loop-of-merges",
        script: again!(
            r#"{"write": {"verb": "update", "kind": "v1/ConfigMap", "namespace": "demo", "name": "large", "version": "1",
                "count": 10, "body": {"begin": "{\"data\": {\"b\": \"", "text": "b", "times": 900000, "end": "\"}}"}}}"#
        ),
        expects: &["loop-of-merges: 0 of 10 written"],
        ..LOOP
    },
    Case {
        name: "loop-of-patches",
        script: again!(
            r#"{"write": {"verb": "patch", "type": "merge", "kind": "v1/ConfigMap", "namespace": "demo", "name": "large",
                "count": 10, "body": "{}", "returns": ["."]}}"#
        ),
        expects: &["loop-of-patches: 10 of 10 written"],
        ..LOOP
    },
    Case {
        name: "loop-of-discoveries",
        script: again!(r#"{"kinds": 0}, {"kinds": 0}, {"kinds": 0}, {"kinds": 0}"#),
        expects: &["loop-of-discoveries: "],
        ..LOOP
    },
    Case {
        name: "loop-of-events",
        script: again!(
            r#"{"event": {"kind": "v1/ConfigMap", "namespace": "demo", "name": "web",
                "message": {"text": "e", "times": 60000}, "count": 100}}"#
        ),
        expects: &["loop-of-events: emitted 100"],
        ..LOOP
    },
    Case {
        name: "loop-of-memos-and-metrics",
        script: again!(
            r#"{"memo-put": ["key", 0, {"text": "m", "times": 1000000}]}, {"memo-get": "key"}, {"memo-remove": "key"},
               {"metric": ["loops_total", [{"text": "l", "times": 1000}]]}"#
        ),
        expects: &["loop-of-memos-and-metrics: "],
        ..LOOP
    },
    Case {
        name: "loop-of-long-lines",
        class: Class::Log,
        script: again!(r#"{"log": {"text": {"text": "\u001b", "times": 60000}, "count": 1000}}"#),
        expects: &["dropped log lines beyond the plugin's limit"],
        ..LOOP
    },
];

/// Runs all loops, and compares the times of the victim and of probes during each with those after it.
pub(crate) async fn all(arena: &mut Arena) -> Result<()> {
    for case in CASES {
        arena.attack(case).await?;
        delays_nobody(arena, case).await?;
    }
    Ok(())
}

/// Runs one loop.
pub(crate) async fn some(arena: &mut Arena) -> Result<()> {
    arena.attack(&CASES[0]).await
}

async fn delays_nobody(arena: &mut Arena, case: &Case) -> Result<()> {
    let mut measured = Vec::new();
    for round in 0..MEASURED {
        if round > 0 {
            arena.repeat(case).await?;
        }
        let attacked = arena.observe(OBSERVED).await?;
        arena.rest(case.name).await?;
        let calm = arena.observe(OBSERVED).await?;
        let ratios = attacked.slower_than(&calm);
        measured.push(ratios);
        if ratios.iter().all(|ratio| *ratio <= SLOWER) {
            eprintln!(
                "{}: a greeting and a probe took {ratios:.2?} times as long",
                case.name
            );
            return Ok(());
        }
    }
    bail!(
        "{}: a greeting and a probe took {measured:.2?} times as long during the attack: more than {SLOWER}",
        case.name
    )
}
