//! Guests of stock toolchains import WASI. They start, and WASI gives them access only through the imports of the call.

mod support;

use flyball_plugin::{Limits, LogLevel, Outcome, Plugin};
use support::{Fake, component, engine, faulty, plain};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// The world of the guest, with the parts of WASI that the tests use.
const WORLD: &str = "
    package test:stock@1.0.0;
    world stock {
        include flyball:controller/controller@0.2.0;
        import wasi:cli/exit@0.2.0;
        import wasi:cli/stderr@0.2.0;
        import wasi:cli/environment@0.2.0;
        import wasi:clocks/wall-clock@0.2.0;
        import wasi:clocks/monotonic-clock@0.2.0;
        import wasi:random/random@0.2.0;
        import wasi:filesystem/preopens@0.2.0;
        import wasi:sockets/instance-network@0.2.0;
        import wasi:sockets/tcp-create-socket@0.2.0;
        import wasi:sockets/ip-name-lookup@0.2.0;
    }
    package wasi:cli@0.2.0 {
        interface exit { exit: func(status: result); }
        interface stderr { use wasi:io/streams@0.2.0.{output-stream}; get-stderr: func() -> output-stream; }
        interface environment { get-environment: func() -> list<tuple<string, string>>; }
    }
    package wasi:io@0.2.0 {
        interface error { resource error; }
        interface streams {
            use error.{error};
            variant stream-error { last-operation-failed(error), closed }
            resource output-stream {
                blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>;
            }
        }
    }
    package wasi:clocks@0.2.0 {
        interface wall-clock { record datetime { seconds: u64, nanoseconds: u32 } now: func() -> datetime; }
        interface monotonic-clock { type instant = u64; now: func() -> instant; }
    }
    package wasi:random@0.2.0 { interface random { get-random-u64: func() -> u64; } }
    package wasi:filesystem@0.2.0 {
        interface types { resource descriptor; }
        interface preopens {
            use types.{descriptor};
            get-directories: func() -> list<tuple<descriptor, string>>;
        }
    }
    package wasi:sockets@0.2.0 {
        interface network {
            resource network;
            enum error-code {
                unknown, access-denied, not-supported, invalid-argument, out-of-memory, timeout, concurrency-conflict,
                not-in-progress, would-block, invalid-state, new-socket-limit, address-not-bindable, address-in-use,
                remote-unreachable, connection-refused, connection-reset, connection-aborted, datagram-too-large,
                name-unresolvable, temporary-resolver-failure, permanent-resolver-failure,
            }
            enum ip-address-family { ipv4, ipv6 }
        }
        interface instance-network { use network.{network}; instance-network: func() -> network; }
        interface tcp { resource tcp-socket; }
        interface tcp-create-socket {
            use network.{error-code, ip-address-family};
            use tcp.{tcp-socket};
            create-tcp-socket: func(family: ip-address-family) -> result<tcp-socket, error-code>;
        }
        interface ip-name-lookup {
            use network.{network, error-code};
            resource resolve-address-stream;
            resolve-addresses: func(network: borrow<network>, name: string) -> result<resolve-address-stream, error-code>;
        }
    }";

/// A guest that does what the first letter of its key names: `c` reads the clocks and randomness, `e` exits, `n` reads
/// the environment and the directories, `p` panics, `s` opens a socket, `l` looks up a name. It returns the results as
/// the delay of a requeue.
const GUEST: &str = r#"(module
    (import "wasi:cli/exit@0.2.0" "exit" (func $exit (param i32)))
    (import "wasi:cli/stderr@0.2.0" "get-stderr" (func $stderr (result i32)))
    (import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush"
        (func $print (param i32 i32 i32 i32)))
    (import "wasi:cli/environment@0.2.0" "get-environment" (func $environment (param i32)))
    (import "wasi:filesystem/preopens@0.2.0" "get-directories" (func $directories (param i32)))
    (import "wasi:sockets/instance-network@0.2.0" "instance-network" (func $network (result i32)))
    (import "wasi:sockets/tcp-create-socket@0.2.0" "create-tcp-socket" (func $socket (param i32 i32)))
    (import "wasi:sockets/ip-name-lookup@0.2.0" "resolve-addresses" (func $resolve (param i32 i32 i32 i32)))
    (import "wasi:clocks/wall-clock@0.2.0" "now" (func $wall (param i32)))
    (import "wasi:clocks/monotonic-clock@0.2.0" "now" (func $monotonic (result i64)))
    (import "wasi:random/random@0.2.0" "get-random-u64" (func $random (result i64)))
    (memory (export "memory") 1)
    (data (i32.const 256) "panicked at 'it is broken'\nnote: run it again\n")
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
    (func (export "flyball:controller/guest@0.2.0#describe") (result i32) (i32.const 0))
    (func (export "flyball:controller/guest@0.2.0#route") (param i32 i32) (result i32) (i32.const 0))
    (func (export "flyball:controller/guest@0.2.0#reconcile") (param i32 i32 i32 i32 i32) (result i32)
        (local $do i32)
        (local.set $do (i32.load8_u (local.get 2)))
        (if (i32.eq (local.get $do) (i32.const 99)) (then
            (call $wall (i32.const 64))
            (call $requeue (i32.add
                (i32.wrap_i64 (i64.load (i32.const 64)))
                (i32.add
                    (i32.wrap_i64 (i64.div_u (call $monotonic) (i64.const 1000000000)))
                    (i32.wrap_i64 (i64.and (call $random) (i64.const 255))))))))
        (if (i32.eq (local.get $do) (i32.const 101)) (then (call $exit (i32.const 1))))
        (if (i32.eq (local.get $do) (i32.const 110)) (then
            (call $environment (i32.const 64))
            (call $directories (i32.const 72))
            (call $requeue (i32.add (i32.load (i32.const 68)) (i32.load (i32.const 76))))))
        (if (i32.eq (local.get $do) (i32.const 115)) (then
            (call $socket (i32.const 0) (i32.const 64))
            (if (i32.load8_u (i32.const 64)) (then (call $requeue (i32.load8_u (i32.const 68)))))))
        (if (i32.eq (local.get $do) (i32.const 108)) (then
            (call $resolve (call $network) (local.get 2) (local.get 3) (i32.const 64))
            (if (i32.load8_u (i32.const 64)) (then (call $requeue (i32.load8_u (i32.const 68)))))))
        (if (i32.eq (local.get $do) (i32.const 112)) (then
            (call $print (call $stderr) (i32.const 256) (i32.const 45) (i32.const 64))
            unreachable))
        (i32.const 0))
    (func $requeue (param $ms i32)
        (i32.store8 (i32.const 0) (i32.const 1))
        (i32.store (i32.const 4) (local.get $ms))))"#;

async fn stock() -> Plugin {
    let engine = engine();
    let component = engine
        .load(component(GUEST, Some(("stock", WORLD))).into())
        .await
        .unwrap();
    Plugin::new(&engine, component, Limits::default()).unwrap()
}

fn requeue(ms: u64) -> Outcome {
    Outcome::RequeueAfter(std::time::Duration::from_millis(ms))
}

#[tokio::test]
async fn clocks_and_randomness_come_from_the_imports() {
    let plugin = stock().await;
    for _ in 0..2 {
        assert_eq!(
            plugin.reconcile(plain(), "q", "clocks", 0).await.unwrap(),
            requeue(1_000_000 + 1_000_000 + 7)
        );
    }
}

#[tokio::test]
async fn there_are_no_environment_variables_and_no_files() {
    assert_eq!(
        stock()
            .await
            .reconcile(plain(), "q", "nothing", 0)
            .await
            .unwrap(),
        requeue(0)
    );
}

#[tokio::test]
async fn sockets_and_name_lookups_are_denied() {
    // WASI's `access-denied` and `permanent-resolver-failure`.
    for (key, code) in [("socket", 1), ("localhost", 20)] {
        assert_eq!(
            stock().await.reconcile(plain(), "q", key, 0).await.unwrap(),
            requeue(code),
            "{key}"
        );
    }
}

/// Serves one request. Returns whether another connection was made within 500 ms.
async fn serve_one(listener: TcpListener) -> bool {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut request = [0; 1024];
    let read = stream.read(&mut request).await.unwrap();
    assert!(
        request[..read].starts_with(b"GET / HTTP/1.1\r\n"),
        "{}",
        String::from_utf8_lossy(&request[..read])
    );
    stream
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")
        .await
        .unwrap();
    tokio::time::timeout(std::time::Duration::from_millis(500), listener.accept())
        .await
        .is_ok()
}

#[tokio::test]
async fn a_guest_can_send_requests_only_to_granted_servers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(serve_one(listener));
    let engine = engine();
    let plugin = Plugin::new(
        &engine,
        engine.load(faulty().into()).await.unwrap(),
        Limits::default(),
    )
    .unwrap();
    let runtime = tokio::runtime::Handle::current();
    let granted = Fake::new(|fake| fake.server = Some((format!("http://{address}"), runtime)));
    let key = format!("http/{address}");
    assert_eq!(
        plugin.reconcile(granted, "q", &key, 0).await.unwrap(),
        Outcome::Failed(format!("{address} responded 200 hello"))
    );
    let denied = plugin.reconcile(plain(), "q", &key, 0).await.unwrap();
    let no_response = format!("no response from {address}: ErrorCode::HttpRequestDenied");
    assert_eq!(denied, Outcome::Failed(no_response));
    assert!(
        !served.await.unwrap(),
        "a denied request reached the server"
    );
}

#[tokio::test]
async fn exit_ends_the_call_and_not_the_host() {
    let plugin = stock().await;
    let error = plugin.reconcile(plain(), "q", "exit", 0).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "reconcile of `exit` (queue `q`) trapped: it called exit(1)"
    );
    assert_eq!(
        plugin.reconcile(plain(), "q", "nothing", 0).await.unwrap(),
        requeue(0)
    );
}

#[tokio::test]
async fn output_is_logged_and_explains_a_panic() {
    let imports = plain();
    let error = stock()
        .await
        .reconcile(imports.clone(), "q", "panic", 0)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error
            .ends_with(r"; the guest's last error: panicked at 'it is broken'\nnote: run it again"),
        "{error}"
    );
    let lines = imports.lines.lock().unwrap();
    assert_eq!(
        lines[0],
        (LogLevel::Debug, "panicked at 'it is broken'".to_string())
    );
    assert_eq!(lines.len(), 2);
}
