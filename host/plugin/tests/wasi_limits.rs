//! The memory that a guest can make the host hold through WASI is bounded, without any grant.

mod support;

use flyball_plugin::{CallError, Limits, Outcome, Plugin};
use support::{component, engine, plain};

const WORLD: &str = "
    package test:holder@1.0.0;
    world holder {
        include flyball:controller/controller@0.2.0;
        import wasi:cli/stderr@0.2.0;
        import wasi:clocks/monotonic-clock@0.2.0;
        import wasi:http/types@0.2.0;
        import wasi:io/poll@0.2.0;
    }
    package wasi:cli@0.2.0 {
        interface stderr { use wasi:io/streams@0.2.0.{output-stream}; get-stderr: func() -> output-stream; }
    }
    package wasi:io@0.2.0 {
        interface error { resource error; }
        interface poll { resource pollable; poll: func(in: list<borrow<pollable>>) -> list<u32>; }
        interface streams {
            use error.{error};
            variant stream-error { last-operation-failed(error), closed }
            resource output-stream { write: func(contents: list<u8>) -> result<_, stream-error>; }
        }
    }
    package wasi:clocks@0.2.0 {
        interface monotonic-clock {
            use wasi:io/poll@0.2.0.{pollable};
            subscribe-duration: func(when: u64) -> pollable;
        }
    }
    package wasi:http@0.2.0 {
        interface types {
            variant method { get, head, post, put, delete, connect, options, trace, patch, other(string) }
            variant header-error { invalid-syntax, forbidden, immutable }
            resource fields {
                constructor();
                from-list: static func(entries: list<tuple<string, list<u8>>>) -> result<fields, header-error>;
                clone: func() -> fields;
            }
            resource outgoing-request {
                constructor(headers: fields);
                set-method: func(method: method) -> result;
                set-path-with-query: func(path-with-query: option<string>) -> result;
                set-authority: func(authority: option<string>) -> result;
            }
        }
    }";

/// A guest whose action depends on the first letter of its key, with `attempt` as the number of times or of bytes: `f`
/// creates fields, `l` creates them from a list, `c` clones fields, `m`, `p` and `a` set the method, the path and the
/// authority of a request, `w` waits for a pollable that is named several times, `s` writes to stderr. It drops no
/// handle, and requeues after 1 ms if it got an error.
const GUEST: &str = r#"(module
    (import "wasi:cli/stderr@0.2.0" "get-stderr" (func $stderr (result i32)))
    (import "wasi:io/streams@0.2.0" "[method]output-stream.write" (func $write (param i32 i32 i32 i32)))
    (import "wasi:io/poll@0.2.0" "poll" (func $poll (param i32 i32 i32)))
    (import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration" (func $after (param i64) (result i32)))
    (import "wasi:http/types@0.2.0" "[constructor]fields" (func $fields (result i32)))
    (import "wasi:http/types@0.2.0" "[static]fields.from-list" (func $from-list (param i32 i32 i32)))
    (import "wasi:http/types@0.2.0" "[method]fields.clone" (func $clone (param i32) (result i32)))
    (import "wasi:http/types@0.2.0" "[constructor]outgoing-request" (func $request (param i32) (result i32)))
    (import "wasi:http/types@0.2.0" "[method]outgoing-request.set-method"
        (func $method (param i32 i32 i32 i32) (result i32)))
    (import "wasi:http/types@0.2.0" "[method]outgoing-request.set-path-with-query"
        (func $path (param i32 i32 i32 i32) (result i32)))
    (import "wasi:http/types@0.2.0" "[method]outgoing-request.set-authority"
        (func $authority (param i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 8)
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
    (func (export "flyball:controller/guest@0.2.0#describe") (result i32) (i32.const 0))
    (func (export "flyball:controller/guest@0.2.0#route") (param i32 i32) (result i32) (i32.const 0))
    (func (export "flyball:controller/guest@0.2.0#reconcile") (param i32 i32 i32 i32 i32) (result i32)
        (local $do i32) (local $count i32) (local $at i32) (local $it i32) (local $error i32)
        (local.set $do (i32.load8_u (local.get 2)))
        (local.set $count (local.get 4))
        (memory.fill (i32.const 65536) (i32.const 97) (local.get $count))
        (if (i32.eq (local.get $do) (i32.const 97)) (then
            (local.set $error (call $authority
                (call $request (call $fields)) (i32.const 1) (i32.const 65536) (local.get $count)))))
        (if (i32.eq (local.get $do) (i32.const 109)) (then
            (local.set $error (call $method
                (call $request (call $fields)) (i32.const 9) (i32.const 65536) (local.get $count)))))
        (if (i32.eq (local.get $do) (i32.const 112)) (then
            (i32.store8 (i32.const 65536) (i32.const 47))
            (local.set $error (call $path
                (call $request (call $fields)) (i32.const 1) (i32.const 65536) (local.get $count)))))
        (if (i32.eq (local.get $do) (i32.const 115)) (then
            (call $write (call $stderr) (i32.const 65536) (local.get $count) (i32.const 64))
            (local.set $error (i32.load8_u (i32.const 64)))))
        (if (i32.eq (local.get $do) (i32.const 99)) (then (local.set $it (call $fields))))
        (if (i32.eq (local.get $do) (i32.const 119)) (then (local.set $it (call $after (i64.const 0)))))
        (block $end
            (loop $again
                (br_if $end (i32.eq (local.get $at) (local.get $count)))
                (if (i32.eq (local.get $do) (i32.const 102)) (then (drop (call $fields))))
                (if (i32.eq (local.get $do) (i32.const 108)) (then
                    (call $from-list (i32.const 0) (i32.const 0) (i32.const 64))
                    (local.set $error (i32.load8_u (i32.const 64)))))
                (if (i32.eq (local.get $do) (i32.const 99)) (then (drop (call $clone (local.get $it)))))
                (if (i32.eq (local.get $do) (i32.const 119)) (then
                    (i32.store (i32.add (i32.const 65536) (i32.mul (local.get $at) (i32.const 4))) (local.get $it))))
                (local.set $at (i32.add (local.get $at) (i32.const 1)))
                (br $again)))
        (if (i32.eq (local.get $do) (i32.const 119)) (then
            (call $poll (i32.const 65536) (local.get $count) (i32.const 64))
            (local.set $error (i32.ne (i32.load (i32.const 68)) (local.get $count)))))
        (i32.store8 (i32.const 0) (local.get $error))
        (i32.store (i32.const 4) (i32.const 1))
        (i32.const 0)))"#;

async fn holder(change: impl FnOnce(&mut Limits)) -> Plugin {
    let engine = engine();
    let wasm = component(GUEST, Some(("holder", WORLD)));
    let component = engine.load(wasm.into()).await.unwrap();
    let mut limits = Limits::default();
    change(&mut limits);
    Plugin::new(&engine, component, limits).unwrap()
}

async fn reconcile(plugin: &Plugin, key: &str, count: u32) -> Result<Outcome, CallError> {
    plugin.reconcile(plain(), "q", key, count).await
}

#[tokio::test]
async fn the_texts_of_a_request_are_short() {
    let plugin = holder(|_| ()).await;
    let refused = Outcome::RequeueAfter(std::time::Duration::from_millis(1));
    for key in ["authority", "method", "path"] {
        let set = async |bytes| reconcile(&plugin, key, bytes).await.unwrap();
        assert_eq!(set(8 * 1024).await, Outcome::Done, "{key}");
        assert_eq!(set(8 * 1024 + 1).await, refused, "{key}");
    }
}

#[tokio::test]
async fn a_guest_waits_for_few_pollables_and_prints_little_at_once() {
    let plugin = holder(|_| ()).await;
    for (key, most) in [("wait", 128), ("stderr", 65_536)] {
        assert_eq!(
            reconcile(&plugin, key, most).await.unwrap(),
            Outcome::Done,
            "{key}"
        );
        let error = reconcile(&plugin, key, most + 1)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&format!("more than the limit of {most}")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn handles_of_http_count_as_held_until_their_instance_is_gone() {
    const EACH: usize = 72 * 1024;
    for key in ["fields", "list"] {
        let plugin = holder(|limits| limits.held_bytes = 15 * EACH).await;
        assert_eq!(reconcile(&plugin, key, 10).await.unwrap(), Outcome::Done);
        // The handles of the first call are still there.
        assert_eq!(plugin.stats().held, 10 * EACH, "{key}");
        let error = reconcile(&plugin, key, 10).await.unwrap_err().to_string();
        assert!(error.contains("exceed its limit of 1105920"), "{error}");
        assert_eq!(plugin.stats().held, 0, "{key}");
        assert_eq!(plugin.stats().hits.of(flyball_plugin::Limit::Held), 1);
    }
    let plugin = holder(|limits| limits.held_bytes = 15 * EACH).await;
    let error = reconcile(&plugin, "clone", 15)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("exceed its limit of 1105920"), "{error}");
}

#[tokio::test]
async fn an_instance_that_leaks_handles_of_wasi_is_dropped() {
    let plugin = holder(|_| ()).await;
    assert_eq!(
        reconcile(&plugin, "fields", 64).await.unwrap(),
        Outcome::Done
    );
    assert_eq!(plugin.stats().live, 1);
    assert_eq!(
        reconcile(&plugin, "fields", 1).await.unwrap(),
        Outcome::Done
    );
    assert_eq!((plugin.stats().live, plugin.stats().held), (0, 0));
    let error = reconcile(&plugin, "fields", 129).await.unwrap_err();
    assert!(error.is_of_guest(), "{error}");
}
