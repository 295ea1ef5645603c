//! The memory that the host says a plugin takes, compared with the memory that the process gets from the system: for each
//! kind of memory, guests that take as much of it as they may.

mod support;

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use flyball_fakes::memory::resident;
use flyball_plugin::{CallFailure, Limits, Plugin, Stats};
use support::{Fake, component, engine_with};

const INSTANCES: usize = 20;
/// Only a fault takes this long.
const DEADLINE: Duration = Duration::from_secs(600);
/// The memory in bytes that the process may take for other reasons during a measurement.
const NOISE: usize = 12 << 20;

/// A kind of memory, and how a guest takes much of it.
struct Shape {
    name: &'static str,
    /// Returns the guest, given the one in `guest.wat`.
    guest: fn(&str) -> String,
    key: &'static str,
    /// The minimum number of bytes that an instance takes.
    at_least: usize,
}

const SHAPES: [Shape; 5] = [
    Shape {
        name: "globals",
        guest: |guest| with(guest, &"(global (mut i64) (i64.const 1))".repeat(200_000)),
        key: "raw",
        at_least: 200_000 * 16,
    },
    Shape {
        name: "tables",
        guest: |guest| {
            let fill = |table| {
                format!("(table.fill {table} (i32.const 0) (ref.func $touch) (i32.const 32768))")
            };
            let fill: String = (1..8).map(fill).collect();
            let tables = "(table 32768 funcref)".repeat(7);
            // After the guest's own table, which is the first.
            let guest = guest.replacen(
                "(table $table 1 funcref)",
                &format!("(table $table 1 funcref) {tables}"),
                1,
            );
            with(
                &guest,
                &format!("(elem declare func $touch) (func $touch {fill}) (start $touch)"),
            )
        },
        key: "raw",
        at_least: 7 * 32_768 * 8,
    },
    Shape {
        name: "linear memory",
        guest: |guest| {
            let guest = guest.replacen(r#"(export "memory") 2)"#, r#"(export "memory") 64)"#, 1);
            let fill = "(memory.fill (i32.const 131072) (i32.const 1) (i32.const 4063232))";
            with(&guest, &format!("(func $touch {fill}) (start $touch)"))
        },
        key: "raw",
        at_least: 64 << 16,
    },
    // The pages of a stack stay with the instance after the recursion.
    Shape {
        name: "stack",
        guest: |guest| {
            let parameters = "i64 ".repeat(10);
            let arguments: String = (1..=10)
                .map(|number| format!("(i64.add (local.get {number}) (i64.const {number}))"))
                .collect();
            let sum: String = (1..=10)
                .map(|number| format!("(local.get {number}) i64.add "))
                .collect();
            let zeroes = "(i64.const 0)".repeat(10);
            with(
                guest,
                &format!(
                    "(func $deep (param i32) (param {parameters}) (result i64)
                        (if (i32.eqz (local.get 0)) (then (return (i64.const 0))))
                        (call $deep (i32.sub (local.get 0) (i32.const 1)) {arguments})
                        {sum})
                     (func $touch (drop (call $deep (i32.const 4500) {zeroes})))
                     (start $touch)"
                ),
            )
        },
        key: "raw",
        at_least: 1 << 20,
    },
    // Many small writes, whose texts take more in the allocator than their bytes.
    Shape {
        name: "writes",
        guest: |guest| {
            guest.replacen(
                "(call $write (i32.const 3) (i32.const 7))",
                "(call $write (i32.const 20000) (i32.const 7))",
                1,
            )
        },
        key: "write",
        at_least: 20_000 * 200,
    },
];

/// A guest with further definitions.
fn with(guest: &str, more: &str) -> String {
    guest.replacen("(global $heap", &format!("{more} (global $heap"), 1)
}

/// The bytes that the host says it keeps for the plugin.
fn counted(stats: Stats) -> usize {
    stats.memory + stats.held
}

#[tokio::test]
async fn the_memory_that_is_counted_is_the_memory_that_is_taken() {
    for shape in &SHAPES {
        measure(shape).await;
    }
}

/// Fills the memory of instances in this way, and compares the counted bytes with the resident ones.
async fn measure(shape: &Shape) {
    let name = shape.name;
    let guest = (shape.guest)(include_str!("support/guest.wat"));
    let engine = engine_with(|options| options.max_instances = 128);
    let component = engine.load(component(&guest, None).into()).await.unwrap();
    let limits = |total| Limits {
        max_instances: INSTANCES,
        total_memory: Some(total),
        cpu_per_call: DEADLINE,
        ..Limits::default()
    };
    let plugin = Plugin::new(&engine, component.clone(), limits(1 << 30)).unwrap();
    let hanging = Fake::new(|fake| {
        fake.hangs = true;
        fake.delay = DEADLINE;
    });
    let before = resident();
    let calls = (0..INSTANCES).map(|_| plugin.reconcile(hanging.clone(), "q", shape.key, 0));
    let calls = tokio::time::timeout(DEADLINE, futures::future::try_join_all(calls));
    let all_wait = async {
        let waiting = || hanging.raws.load(SeqCst) + hanging.running.load(SeqCst);
        while waiting() < INSTANCES {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        (counted(plugin.stats()), resident().saturating_sub(before))
    };
    let (counted, taken) = tokio::select! {
        measured = all_wait => measured,
        ended = calls => panic!("{name}: the calls wait for the host: {ended:?}"),
    };
    let least = INSTANCES * shape.at_least;
    assert!(
        counted >= least,
        "{name}: {counted} bytes are counted, of {least}"
    );
    assert!(
        taken <= counted + counted / 2 + NOISE,
        "{name}: {taken} bytes are resident, and {counted} are counted"
    );
    // The calls end on the guests' threads.
    while plugin.stats().live > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    if name == "stack" {
        let left = resident().saturating_sub(before);
        assert!(left < NOISE, "{left} bytes of stacks are left");
    }

    let limited = Plugin::new(&engine, component, limits(1 << 20)).unwrap();
    let error = limited.describe(Fake::new(|_| ())).await.unwrap_err();
    assert!(
        matches!(error.failure, CallFailure::MemoryLimit { .. }),
        "{name}: {error:?}"
    );
}
