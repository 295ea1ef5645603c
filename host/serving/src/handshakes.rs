//! Spreads TLS handshakes over time. Each costs operations with private keys, and anyone may ask for one without
//! credentials.

use std::collections::BTreeMap;
use std::net::IpAddr;

use parking_lot::Mutex;
use tokio::time::{Duration, Instant, sleep_until};

use crate::connections::{MAX_CONNECTIONS, client};

/// 50 handshakes a second of one client...
const OF_CLIENT: Rate = Rate {
    interval: Duration::from_millis(20),
    burst: 200,
};
/// ...and 250 of all together, which take a tenth of a core.
const OF_ALL: Rate = Rate {
    interval: Duration::from_millis(4),
    burst: 500,
};

/// The recent handshakes.
#[derive(Default)]
pub(crate) struct Handshakes {
    clients: Mutex<BTreeMap<IpAddr, Bucket>>,
    all: Mutex<Bucket>,
}

struct Rate {
    interval: Duration,
    /// The maximum number that may begin at once.
    burst: u32,
}

/// The time at which the rate limit has made up for the handshakes that have begun; none before the first.
#[derive(Clone, Copy, Default)]
struct Bucket(Option<Instant>);

impl Handshakes {
    /// Waits until a handshake with this peer may begin.
    pub(crate) async fn wait(&self, peer: IpAddr) {
        sleep_until(self.of_client(peer)).await;
        // Taken only now, so that a waiting client doesn't delay others.
        let begin = self.all.lock().take(&OF_ALL);
        sleep_until(begin).await;
    }

    fn of_client(&self, peer: IpAddr) -> Instant {
        let mut clients = self.clients.lock();
        if clients.len() >= MAX_CONNECTIONS {
            let now = Instant::now();
            clients.retain(|_, bucket| bucket.0.is_some_and(|paid| paid > now));
        }
        clients.entry(client(peer)).or_default().take(&OF_CLIENT)
    }
}

impl Bucket {
    /// Returns when the next handshake may begin. Connections that end while they wait cost at most as much as all that
    /// may be open.
    fn take(&mut self, rate: &Rate) -> Instant {
        let now = Instant::now();
        let paid = self.0.map_or(now, |paid| paid.max(now));
        let latest = now + rate.interval * (rate.burst + MAX_CONNECTIONS as u32);
        self.0 = Some((paid + rate.interval).min(latest));
        let begin = paid.checked_sub(rate.interval * (rate.burst - 1));
        begin.map_or(now, |begin| begin.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how long this many handshakes of a client take to begin.
    async fn begin(handshakes: &Handshakes, peer: [u8; 4], count: u32) -> Duration {
        let start = Instant::now();
        for _ in 0..count {
            handshakes.wait(peer.into()).await;
        }
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_with_many_handshakes_waits_and_others_do_not() {
        let handshakes = Handshakes::default();
        let (busy, other) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        assert_eq!(
            begin(&handshakes, busy, OF_CLIENT.burst).await,
            Duration::ZERO
        );
        let took = begin(&handshakes, busy, 50).await;
        assert!((990..=1100).contains(&took.as_millis()), "{took:?}");
        assert_eq!(begin(&handshakes, other, 10).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn the_handshakes_of_all_clients_have_a_rate() {
        let (handshakes, start) = (Handshakes::default(), Instant::now());
        for number in 0..OF_ALL.burst + 250 {
            let [_, _, high, low] = number.to_be_bytes();
            handshakes.wait([10, 0, high, low].into()).await;
        }
        let took = start.elapsed().as_millis();
        assert!((990..=1300).contains(&took), "{took} ms");
    }

    #[tokio::test(start_paused = true)]
    async fn connections_that_end_while_they_wait_hold_up_later_ones_for_seconds_only() {
        let handshakes = Handshakes::default();
        let peer: IpAddr = [10, 0, 0, 1].into();
        for _ in 0..100_000 {
            handshakes.of_client(peer);
        }
        let start = Instant::now();
        handshakes.wait(peer).await;
        assert!(
            start.elapsed() < Duration::from_secs(6),
            "{:?}",
            start.elapsed()
        );
    }
}
