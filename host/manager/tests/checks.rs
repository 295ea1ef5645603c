//! Checks that no import of a guest bypasses the checks of reads and mutations: the function behind each import calls the check in
//! the table below. Requests for guests and deltas for `route` need no test: they can't be built without the decision of a check,
//! `Access` or `MayWrite` in `src/policy/access.rs`. Neither do pages of a cached query: only `Readable` makes one, which only
//! `Listers::readable` makes. Objects of the cache become bytes in the files below alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The check that each import passes, and the file that calls it; or why it needs none.
const IMPORTS: [(&str, Check); 28] = [
    (
        "lister_get",
        Check::In("self.listers.readable(", "src/reads/cached.rs", "get"),
    ),
    (
        "lister_list",
        Check::In("self.list_query(", "src/reads/cached.rs", "list"),
    ),
    (
        "lister_count",
        Check::In("self.list_query(", "src/reads/cached.rs", "count"),
    ),
    (
        "lister_deletion_observed",
        Check::None("it only confirms a UID that the plugin knows and its own watches saw"),
    ),
    (
        "reader_read",
        Check::In(".prepare(", "src/runtime/guest_call.rs", "reader_read"),
    ),
    (
        "discovery_kinds",
        Check::In(
            ".may_discover(",
            "src/runtime/guest_call.rs",
            "discovery_kinds",
        ),
    ),
    (
        "writer_run",
        Check::In("self.check(write, kind)", "src/writer.rs", "checked"),
    ),
    (
        "events_emit",
        Check::In(".may_record(", "src/runtime/guest_call.rs", "events_emit"),
    ),
    (
        "http",
        Check::In(".check_server(", "src/runtime/guest_call.rs", "http"),
    ),
    (
        "signer_sign_jwt",
        Check::In(
            ".may_use_key(",
            "src/runtime/guest_call.rs",
            "signer_sign_jwt",
        ),
    ),
    (
        "signer_verify_jwt",
        Check::In(
            ".may_use_key(",
            "src/runtime/guest_call.rs",
            "signer_verify_jwt",
        ),
    ),
    (
        "signer_certificate_authority",
        Check::In(
            ".may_use_signer(",
            "src/runtime/guest_call.rs",
            "signer_certificate_authority",
        ),
    ),
    (
        "signer_sign_certificate",
        Check::In(
            ".may_use_signer(",
            "src/runtime/guest_call.rs",
            "signer_sign_certificate",
        ),
    ),
    (
        "queue_add",
        Check::In(
            "self.queue_add_after(",
            "src/runtime/guest_call.rs",
            "queue_add",
        ),
    ),
    (
        "queue_add_after",
        Check::In(
            ".check_key(",
            "src/runtime/guest_call.rs",
            "queue_add_after",
        ),
    ),
    ("queue_forget", Check::None("its own queue")),
    ("queue_requeues", Check::None("its own queue")),
    ("clock_now", Check::None("no secret")),
    ("random_bytes", Check::None("no secret")),
    (
        "log_write",
        Check::In(".log_lines", "src/runtime/guest_call.rs", "log_write"),
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

/// The functions of checked parts that imports may call, in `src/runtime/guest_call.rs`. Each is the way to a check of the table
/// above, or shows no object.
const WAYS: [(&str, &[&str]); 6] = [
    (".reads", &[]),
    (".reads.live", &["fetch", "kinds", "prepare"]),
    (".recorder", &["emit", "options"]),
    (
        ".reads.cached",
        &["count", "get", "informers", "is_deletion_observed", "list"],
    ),
    (".writer", &["prepare", "run"]),
    (".signing_keys", &["turn"]),
];
/// The call by which an import reaches its check, if it does not call it itself.
const REACHED: [(&str, &str); 8] = [
    ("lister_get", ".reads.cached.get("),
    ("lister_list", ".reads.cached.list("),
    ("lister_count", ".reads.cached.count("),
    ("writer_run", ".writer.prepare("),
    ("signer_sign_jwt", "keys.sign_jwt("),
    ("signer_verify_jwt", "keys.verify_jwt("),
    (
        "signer_certificate_authority",
        "keys.certificate_authority(",
    ),
    ("signer_sign_certificate", "keys.sign_certificate("),
];

/// Calls that no type ties to their check: each is in this import alone.
const ONLY_IN: [(&str, &str); 4] = [
    // It only waits until they have caught up.
    (".cached.informers(", "wait_for_writes"),
    (".recorder.emit(", "events_emit"),
    (".live.kinds(", "discovery_kinds"),
    ("HttpGrant{", "http"),
];

/// Where objects of the cache are turned into bytes, which is by these calls, and what decides on it there.
const REDUCING: [&str; 3] = [".project(", ".projection(", ".rows("];
const REDUCERS: [(&str, &str); 4] = [
    ("src/reads/cached.rs", "for a `Readable`"),
    ("src/reads/cached/listers.rs", "for a `Readable`"),
    ("src/runtime/guest_route.rs", "by the `Access` of the watch"),
    ("src/fuzzing/plugin_view.rs", "for the fuzzers"),
];

enum Check {
    /// This call, in this file, in this function.
    In(&'static str, &'static str, &'static str),
    /// None, for this reason.
    None(&'static str),
}

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

/// The text of a method, which ends with the brace that closes it.
fn method<'a>(code: &'a str, function: &str) -> &'a str {
    let heads = [format!("fn {function}("), format!("fn {function}<")];
    let start = heads.iter().find_map(|head| code.find(head));
    let rest = &code[start.unwrap_or_else(|| panic!("there is no function `{function}`"))..];
    &rest[..rest.find("\n    }\n").unwrap_or(rest.len())]
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
            Check::In(call, file, function) => {
                let code = code(&manager().join(file));
                let body = method(&code, function);
                assert!(
                    body.contains(call),
                    "{name}: `{function}` in {file} does not call {call}"
                );
            }
            Check::None(reason) => assert!(!reason.is_empty(), "{name}"),
        }
    }
}

/// A check helps only if the import calls the function that it is in, and no other that reads or writes.
#[test]
fn imports_reach_the_checks_and_nothing_else() {
    let guest_call = code(&manager().join("src/runtime/guest_call.rs"));
    let in_one_line = |code: &str| code.split_whitespace().collect::<String>();
    for (import, call) in REACHED {
        let body = in_one_line(method(&guest_call, import));
        assert!(body.contains(call), "{import} does not call {call}");
    }
    let guest_call = in_one_line(&guest_call);
    for (part, known) in WAYS {
        for (at, _) in guest_call.match_indices(part) {
            let rest = &guest_call[at + part.len()..];
            let called = rest.strip_prefix('.').and_then(|rest| rest.split_once('('));
            let is_whole = rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
            // These have rows of their own.
            let is_part = part == ".reads"
                && [".cached", ".live"]
                    .iter()
                    .any(|part| rest.starts_with(part));
            let is_known = called.is_some_and(|(called, _)| known.contains(&called));
            // The keys are passed to the work that the table names.
            let is_passed = part == ".signing_keys" && rest.starts_with("))");
            assert!(
                is_whole || is_known || is_passed || is_part,
                "an import uses `{part}{}`: it may bypass the check",
                &rest[..rest.len().min(40)]
            );
        }
    }
    let text = code(&manager().join("src/runtime/guest_call.rs"));
    for (call, import) in ONLY_IN {
        let in_import = in_one_line(method(&text, import)).matches(call).count();
        let in_all = guest_call.matches(call).count();
        assert_eq!((in_import, in_all), (1, 1), "{call} outside of {import}");
    }
    let writer = code(&manager().join("src/writer.rs"));
    assert!(method(&writer, "prepare").contains("self.checked("));
}

/// The files of source code below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of the source code");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let files = paths.flat_map(|path| match path.is_dir() {
        true => sources(&path),
        false => vec![path],
    });
    files
        .filter(|path| !path.ends_with("tests.rs") && path.extension() == Some("rs".as_ref()))
        .collect()
}

#[test]
fn objects_of_the_cache_become_bytes_only_where_a_check_has_decided() {
    let mut reducers = Vec::new();
    for path in sources(&manager().join("src")) {
        let code = code(&path);
        if REDUCING.iter().any(|call| code.contains(call)) {
            let path = path.strip_prefix(manager()).expect("it is below");
            reducers.push(path.display().to_string());
        }
    }
    reducers.sort();
    let mut known: Vec<&str> = REDUCERS.iter().map(|(file, _)| *file).collect();
    known.sort_unstable();
    assert_eq!(reducers, known);
}

#[test]
fn only_the_check_makes_readable_listers() {
    let listers = code(&manager().join("src/reads/cached/listers.rs"));
    let made = listers.matches("Readable(").count();
    let checked = method(&listers, "readable").matches("Readable(").count();
    assert_eq!((made, checked), (2, 2));
    let snapshots = listers.matches("Snapshot::new(").count();
    assert_eq!(snapshots, 1);
    assert!(method(&listers, "readable").contains("access(&self.policy"));
    assert!(method(&listers, "snapshot").contains("Snapshot::new("));
}

/// A subscriber that is slow keeps old versions of objects in memory, and a plugin chooses how slow its routing is.
#[test]
fn what_waits_for_the_routing_of_a_plugin_is_bounded() {
    let routing = "src/runtime/route.rs";
    for path in sources(&manager().join("src")) {
        let code = code(&path);
        let subscriptions = code.matches(".subscribe_to(").count();
        let is_routing = path.ends_with(routing);
        assert_eq!(subscriptions, usize::from(is_routing), "{path:?}");
        if is_routing {
            let subscribe = method(&code, "subscribe");
            assert!(subscribe.contains(".subscribe_to(") && subscribe.contains(".keep_at_most("));
        }
    }
}
