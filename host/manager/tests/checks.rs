//! Checks that no import of a guest bypasses the checks of reads and mutations: each import has a check in the table below, and
//! only the modules behind these checks send requests to the API server.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The check that each import passes, and the file that calls it; or why it needs none.
const IMPORTS: [(&str, Check); 26] = [
    ("lister_get", Check::In("access(", "src/reads/cached.rs")),
    ("lister_list", Check::In("access(", "src/reads/cached.rs")),
    ("lister_count", Check::In("access(", "src/reads/cached.rs")),
    (
        "lister_deletion_observed",
        Check::None("it only confirms a UID that the plugin knows and its own watches saw"),
    ),
    ("reader_read", Check::In("access(", "src/reads/live.rs")),
    ("discovery_kinds", Check::In("access(", "src/reads/live.rs")),
    (
        "writer_run",
        Check::In("self.check(write, kind)", "src/writer.rs"),
    ),
    (
        "events_emit",
        Check::In(".check_event(", "src/runtime/guest_call.rs"),
    ),
    (
        "http",
        Check::In(".check_server(", "src/runtime/guest_call.rs"),
    ),
    ("signer_sign_jwt", Check::In(".check_key(", "src/signer.rs")),
    (
        "signer_verify_jwt",
        Check::In(".check_key(", "src/signer.rs"),
    ),
    (
        "queue_add",
        Check::In(".check_key(", "src/runtime/guest_call.rs"),
    ),
    (
        "queue_add_after",
        Check::In(".check_key(", "src/runtime/guest_call.rs"),
    ),
    ("queue_forget", Check::None("its own queue")),
    ("queue_requeues", Check::None("its own queue")),
    ("clock_now", Check::None("no secret")),
    ("random_bytes", Check::None("no secret")),
    (
        "log_write",
        Check::In("log_lines.pass()", "src/runtime/guest_call.rs"),
    ),
    ("log_enabled", Check::None("no secret")),
    (
        "metrics_add",
        Check::None("its own metrics, whose series are bounded"),
    ),
    (
        "metrics_set",
        Check::None("its own metrics, whose series are bounded"),
    ),
    (
        "metrics_observe",
        Check::None("its own metrics, whose series are bounded"),
    ),
    (
        "config_get",
        Check::None("the operator's values for this plugin"),
    ),
    ("memo_get", Check::None("its own memo")),
    ("memo_put", Check::None("its own memo, which is bounded")),
    ("memo_remove", Check::None("its own memo")),
];

enum Check {
    /// This call, in this file.
    In(&'static str, &'static str),
    /// None, for this reason.
    None(&'static str),
}

/// The modules that send requests. Those of `api` send the host's own: events, leases, reviews, accounts.
const SENDERS: [&str; 7] = [
    "src/api/events.rs",
    "src/api/lease.rs",
    "src/api/review.rs",
    "src/api/service_account.rs",
    "src/reads/live.rs",
    "src/writer.rs",
    "src/writer/body.rs",
];

fn manager() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The code of a file without its tests.
fn code(path: &Path) -> String {
    let text = read(path);
    let end = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
    text[..end].to_owned()
}

#[test]
fn each_import_of_the_world_has_a_check() {
    let imports = read(&manager().join("../plugin/src/imports.rs"));
    let body = imports
        .split_once("pub trait Imports")
        .expect("the trait")
        .1;
    let body = body.split_once("\n}\n").expect("its end").0;
    let functions = body
        .lines()
        .filter_map(|line| line.trim().strip_prefix("fn "));
    let functions = functions.map(|line| line.split('(').next().expect("a name").to_owned());
    let mut functions: Vec<String> = functions.collect();
    functions.sort();
    let table: BTreeMap<&str, &Check> =
        IMPORTS.iter().map(|(name, check)| (*name, check)).collect();
    let known: Vec<&str> = table.keys().copied().collect();
    assert_eq!(
        functions, known,
        "each import must pass a check: add it to the table"
    );
    for (name, check) in table {
        match check {
            Check::In(call, file) => {
                let code = code(&manager().join(file));
                assert!(code.contains(call), "{name}: {file} does not call {call}");
            }
            Check::None(reason) => assert!(!reason.is_empty(), "{name}"),
        }
    }
}

#[test]
fn only_the_modules_behind_the_checks_send_requests() {
    let mut senders = Vec::new();
    let mut folders = vec![manager().join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let code = code(&path);
                let sends = code.contains("ApiRequest::") && !path.ends_with("api/client.rs");
                let is_test = path.ends_with("tests.rs") || path.ends_with("api/fake_server.rs");
                if sends && !is_test {
                    let relative = path.strip_prefix(manager()).expect("a path of the crate");
                    senders.push(relative.display().to_string());
                }
            }
        }
    }
    senders.sort();
    assert_eq!(
        senders, SENDERS,
        "a request to the API server must pass a check first"
    );
}
