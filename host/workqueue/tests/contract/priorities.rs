//! The two lanes.

use flyball_workqueue::{Config, Priority, WorkQueue};
use tokio::time::{Instant, advance};

use crate::{ms, queue, serve};

#[tokio::test(start_paused = true)]
async fn a_normal_add_promotes_a_low_key_and_a_low_add_demotes_none() {
    let queue = queue();
    queue.add("x", Priority::Low, 0);
    queue.add("y", Priority::Low, 0);
    queue.add("n", Priority::Normal, 0);
    queue.add("n", Priority::Low, 0);
    queue.add("y", Priority::Normal, 0);
    let depths = queue.snapshot();
    assert_eq!((depths.normal, depths.low, queue.len()), (2, 1, 3));
    assert_eq!(serve(&queue), ["n", "y", "x"]);
}

#[tokio::test(start_paused = true)]
async fn a_dirty_key_takes_the_higher_priority() {
    let queue = queue();
    queue.add("a", Priority::Normal, 0);
    let item = queue.get().await.unwrap();
    queue.add("a", Priority::Low, 0);
    queue.add("a", Priority::Normal, 0);
    queue.add("low", Priority::Low, 0);
    drop(item);
    assert_eq!(serve(&queue), ["a", "low"]);
}

#[tokio::test(start_paused = true)]
async fn a_low_key_is_served_after_the_ageing_limit_under_endless_normal_load() {
    let queue: WorkQueue<u32, u32> = WorkQueue::new(Config {
        ageing: ms(1000),
        ..Config::default()
    });
    let start = Instant::now();
    queue.add(u32::MAX, Priority::Low, 0);
    queue.add(0, Priority::Normal, 0);
    for key in 1.. {
        queue.add(key, Priority::Normal, 0);
        let item = queue.get().await.unwrap();
        if *item.key() == u32::MAX {
            break;
        }
        advance(ms(1)).await;
    }
    assert_eq!(start.elapsed(), ms(1000));
}
