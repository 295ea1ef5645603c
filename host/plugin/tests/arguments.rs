//! Each text that a guest can pass to an import, in each size and shape. The calls are generated from `wit/`, so that a
//! new import is tested without another line here: its texts may have the length of a name, unless [`longest`] says
//! otherwise.

mod support;

use std::process;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use flyball_fakes::memory::peak;
use flyball_plugin::{Engine, Limit, Limits, Outcome, Plugin};
use support::text_call::{TextCall, text_calls};
use support::{Fake, engine, plain, plugin_of};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
/// Beyond these, the engine refuses the arguments of a call.
const SIZES: [usize; 4] = [KIB, 64 * KIB, MIB, 60 * MIB];
/// The repeated parts of the texts: plain, escaped in URLs and in metrics, and split into many parts.
const SHAPES: [&str; 4] = ["a", "\"", "a/", "a,b=c;%"];

/// The longest text in bytes that the host may receive as this argument, or as a part of it.
fn longest(call: &TextCall) -> usize {
    match call.argument.as_str() {
        "path" | "label-selector" | "field-selector" | "parameters" => 8 * KIB,
        // Texts of log lines are cut off.
        "fields" if call.function.ends_with("write") => 8 * KIB,
        // Subject alternative names.
        "template" => 8 * KIB,
        "query" => 256 * KIB,
        "projection" | "fields" | "returns" | "token" | "message" => 64 * KIB,
        _ => KIB,
    }
}

/// Loads the guest that makes this call.
async fn guest(engine: &Engine, call: &TextCall) -> Plugin {
    let component = engine.load(call.component.clone().into()).await;
    let component = component.unwrap_or_else(|error| panic!("{call}: {error}"));
    let limits = Limits {
        cpu_per_call: Duration::from_secs(60),
        memory: 256 * MIB,
        ..Limits::default()
    };
    Plugin::new(engine, component, limits).unwrap_or_else(|error| panic!("{call}: {error}"))
}

#[tokio::test]
async fn no_text_reaches_the_host_that_is_longer_than_its_limit() {
    let calls = text_calls();
    assert!(calls.len() > 60, "{} calls", calls.len());
    let engine = engine();
    let other = plugin_of(&engine, |_| ()).await;
    for call in &calls {
        let guest = guest(&engine, call).await;
        for (size, shape) in SIZES
            .into_iter()
            .flat_map(|size| SHAPES.map(|shape| (size, shape)))
        {
            let imports = plain();
            let size_of_call = u32::try_from(size).unwrap();
            let hostile = guest.reconcile(imports.clone(), "q", shape, size_of_call);
            let (ended, beside) = futures::join!(hostile, other.reconcile(plain(), "q", "done", 0));
            assert_eq!(beside.unwrap(), Outcome::Done);
            let ended =
                ended.unwrap_or_else(|error| panic!("{call}, {size} of `{shape}`: {error}"));
            assert_eq!(ended, Outcome::Done, "{call}");
            let (seen, limit) = (imports.longest_text.load(SeqCst), longest(call));
            assert!(
                seen <= limit,
                "{call}, {size} of `{shape}`: the host received {seen} bytes, and the limit is {limit}"
            );
        }
        let is_cut_off = call.function.ends_with("write") || call.argument == "message";
        let is_counted = guest.stats().hits.of(Limit::Argument) > 0;
        assert!(is_counted || is_cut_off || call.is_name_of_get(), "{call}");
    }
    let peak = peak(process::id()).expect("this process runs");
    assert!(peak < 1024 * MIB, "{} MiB", peak / MIB);
}

/// A name of the usual length passes in each argument, so that the calls above fail because of their lengths.
#[tokio::test]
async fn a_text_of_the_usual_length_reaches_the_host() {
    let engine = engine();
    for call in &text_calls() {
        let guest = guest(&engine, call).await;
        let imports = Fake::new(|fake| fake.object = b"[]".to_vec());
        let ended = guest.reconcile(imports, "q", "a", 63).await;
        assert_eq!(ended.unwrap(), Outcome::Done, "{call}");
        assert_eq!(guest.stats().hits.of(Limit::Argument), 0, "{call}");
    }
}
