//! The memory that a memo says it takes, compared with the memory that the process gets from the system.

use std::sync::Arc;

use bytes::Bytes;
use flyball_runtime::memo::{Memo, MemoCall};

const CAPACITY: usize = 64 << 20;

/// The resident memory of this process in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: usize = line.unwrap().trim_end_matches("kB").trim().parse().unwrap();
    kib << 10
}

#[tokio::test]
async fn a_full_memo_takes_the_memory_that_is_counted() {
    for (size, is_tagged) in [(0, false), (0, true), (100, false), (1000, true)] {
        let memo = Arc::new(Memo::new(Some(CAPACITY as u64)));
        let before = resident();
        for number in 0.. {
            let call = MemoCall::new(memo.clone());
            let uid = is_tagged.then(|| format!("uid-{number}"));
            let value = Bytes::from(vec![1; size]);
            let key = format!("key-{number}");
            let put = call.put(&key, 0, value, &uid.unwrap_or_default(), 0);
            if put.is_err() {
                break;
            }
            call.commit();
        }
        let (taken, counted) = (resident().saturating_sub(before), memo.bytes());
        assert!(counted > CAPACITY / 4 * 3, "{counted} bytes");
        assert!(
            taken <= counted + counted / 2,
            "values of {size} bytes, tagged: {is_tagged}: {taken} bytes are resident, and {counted} are counted"
        );
    }
}
