//! A plugin reads its own last writes, however late its reflector's events arrive.

use std::time::Duration;

use flyball_cache::{Interest, Scope};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::fake::{Server, interest, started};
use crate::{Plugin, pod, status};

#[derive(Clone, Debug)]
enum Step {
    Put(u8, bool),
    Delete(u8),
    Release(usize),
    Cut,
    Compact,
    Sleep(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6u8, any::<bool>()).prop_map(|(name, web)| Step::Put(name, web)),
        4 => (0..6u8).prop_map(Step::Delete),
        6 => (1..4usize).prop_map(Step::Release),
        1 => Just(Step::Cut),
        1 => Just(Step::Compact),
        3 => (0..3000u64).prop_map(Step::Sleep),
    ]
}

/// The plugin is the only writer, so it must read the server's current objects, however late the events are.
async fn read_your_writes(steps: Vec<Step>, scoped: bool) {
    let server = Server::new();
    let labels = if scoped { "app=web" } else { "" };
    let scope = Scope {
        labels: labels.parse().unwrap(),
        ..Scope::default()
    };
    let (_factory, informer) = started(
        &server,
        Interest {
            scope: scope.clone(),
            ..interest(&["spec"])
        },
    )
    .await;
    informer.synced().await;
    let plugin = Plugin::new(&informer);
    server.inner().holding = true;
    for step in steps {
        match step {
            Step::Put(name, web) => {
                let labels = json!({"app": if web { "web" } else { "db" }});
                plugin.wrote(&server.put("a", &format!("p{name}"), pod(labels)));
            }
            Step::Delete(name) => {
                let name = format!("p{name}");
                if let Some(uid) = server.delete("a", &name) {
                    plugin.deleted(&name, &status(&uid));
                }
            }
            Step::Release(count) => server.release(count),
            Step::Cut => server.cut(),
            Step::Compact => server.compact(),
            Step::Sleep(milliseconds) => sleep(Duration::from_millis(milliseconds)).await,
        }
        for _ in 0..2 {
            let expected: Vec<String> = {
                let inner = server.inner();
                let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
                let shown = inner.objects.iter().filter(|(_, object)| {
                    !scoped || text(&object["metadata"]["labels"]["app"]) == "web"
                });
                shown
                    .map(|(key, object)| {
                        format!("{key}={}", text(&object["metadata"]["resourceVersion"]))
                    })
                    .collect()
            };
            assert_eq!(plugin.contents(), expected);
            sleep(Duration::from_millis(1)).await;
        }
    }
    server.release(usize::MAX);
    informer.wait_until(server.version()).await;
    assert_eq!(plugin.writer.tidy(), 0, "the overlay is empty");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_plugin_reads_its_own_writes(steps in prop::collection::vec(step(), 0..50), scoped in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(read_your_writes(steps, scoped));
    }
}
