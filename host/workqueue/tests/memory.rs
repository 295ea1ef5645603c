//! The memory that a queue says it takes, compared with the memory that the process gets from the system.

use std::sync::Arc;

use flyball_fakes::memory::resident;
use flyball_workqueue::{Config, NoMetrics, Priority, WorkQueue};
use tokio::time::Duration;

const KEYS: usize = 300_000;

/// A reason of the usual size.
type Reason = [u64; 4];

#[tokio::test]
async fn the_memory_of_many_keys_is_counted() {
    for is_delayed in [false, true] {
        let queue = WorkQueue::<Arc<str>, Reason>::new(Config {
            key_bytes: |key: &Arc<str>| key.len(),
            metrics: Arc::new(NoMetrics),
            ..Config::default()
        });
        let before = resident();
        for number in 0..KEYS {
            let key: Arc<str> = format!("namespace/a-name-{number}").into();
            if is_delayed {
                let delay = Duration::from_secs(3600);
                queue.add_after(key, delay, Priority::Normal, [0; 4]);
            } else {
                queue.add(key, Priority::Normal, [0; 4]);
            }
        }
        let (held, taken) = (queue.held(), resident().saturating_sub(before));
        assert_eq!(held.keys, KEYS);
        assert!(
            taken <= held.memory + held.memory / 2,
            "delayed: {is_delayed}: {taken} bytes are resident, and {} are counted",
            held.memory
        );
    }
}
