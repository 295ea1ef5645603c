//! The open connections, and bounds on their number. Clients need no credentials to connect, so they must not be able
//! to keep others out: a new connection is always admitted, and one that waits longest is closed in its favour where
//! there are too many.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::{Duration, Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// Maximum number of open connections.
pub(crate) const MAX_CONNECTIONS: usize = 256;
/// Maximum number of open connections of one client.
pub(crate) const MAX_PER_CLIENT: usize = 64;

/// The open connections.
#[derive(Default)]
pub(crate) struct Connections {
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    by_number: BTreeMap<u64, OpenConnection>,
}

struct OpenConnection {
    client: IpAddr,
    /// Requests that are being handled.
    requests: usize,
    /// Time at which it was opened, or its last request began or ended.
    since: Instant,
    evicted: CancellationToken,
}

/// An open connection. It counts until this is dropped.
pub(crate) struct Connection {
    connections: Arc<Connections>,
    number: u64,
    evicted: CancellationToken,
}

/// A request that is being handled, until this is dropped.
pub(crate) struct RequestInProgress {
    connections: Arc<Connections>,
    number: u64,
}

impl Connections {
    /// Adds a connection. If there are too many, evicts one of the same client, or else of a client that has the most:
    /// the one that has waited longest for a handshake or a request, or else the one with the longest running request.
    pub(crate) fn open(self: &Arc<Self>, peer: IpAddr) -> Connection {
        let client = client(peer);
        let mut open = self.open.lock();
        open.make_room_for(client);
        let number = open.next;
        open.next += 1;
        let evicted = CancellationToken::new();
        let entry = OpenConnection {
            client,
            requests: 0,
            since: Instant::now(),
            evicted: evicted.clone(),
        };
        open.by_number.insert(number, entry);
        Connection {
            connections: self.clone(),
            number,
            evicted,
        }
    }

    fn update(&self, number: u64, update: impl FnOnce(&mut OpenConnection)) {
        // None if the connection was evicted or closed.
        if let Some(entry) = self.open.lock().by_number.get_mut(&number) {
            update(entry);
            entry.since = Instant::now();
        }
    }
}

impl Open {
    fn make_room_for(&mut self, client: IpAddr) {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for entry in self.by_number.values() {
            *counts.entry(entry.client).or_default() += 1;
        }
        if counts
            .get(&client)
            .is_some_and(|own| *own >= MAX_PER_CLIENT)
        {
            self.evict(|entry| entry.client == client);
        } else if self.by_number.len() >= MAX_CONNECTIONS {
            let most = counts.values().max().copied();
            self.evict(|entry| counts.get(&entry.client).copied() == most);
        }
    }

    fn evict(&mut self, among: impl Fn(&OpenConnection) -> bool) {
        let candidates = self.by_number.iter().filter(|(_, entry)| among(entry));
        let longest = candidates.min_by_key(|(_, entry)| (entry.requests > 0, entry.since));
        if let Some(number) = longest.map(|(number, _)| *number)
            && let Some(entry) = self.by_number.remove(&number)
        {
            entry.evicted.cancel();
        }
    }
}

/// The address that stands for a client. A client may use all addresses of an IPv6 network with a prefix of 64 bits.
pub(crate) fn client(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() & (u128::MAX << 64);
            Ipv6Addr::from_bits(network).into()
        }
        address => address,
    }
}

impl Connection {
    /// Waits until the connection must be closed in favour of another one.
    pub(crate) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// Counts a request.
    pub(crate) fn request(&self) -> RequestInProgress {
        let (connections, number) = (self.connections.clone(), self.number);
        connections.update(number, |entry| entry.requests += 1);
        RequestInProgress {
            connections,
            number,
        }
    }

    /// Waits until no request has been handled for this long.
    pub(crate) async fn idle(&self, timeout: Duration) {
        loop {
            match self.idle_deadline(timeout) {
                Some(deadline) if deadline <= Instant::now() => return,
                Some(deadline) => sleep_until(deadline).await,
                None => sleep(timeout).await,
            }
        }
    }

    /// `None` while a request is handled.
    fn idle_deadline(&self, timeout: Duration) -> Option<Instant> {
        let open = self.connections.open.lock();
        match open.by_number.get(&self.number) {
            Some(entry) => (entry.requests == 0).then(|| entry.since + timeout),
            None => Some(Instant::now()),
        }
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        let connections = &self.connections;
        connections.update(self.number, |entry| entry.requests -= 1);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        open.by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: usize) -> IpAddr {
        let [.., high, low] = number.to_be_bytes();
        [10, 0, high, low].into()
    }

    fn is_evicted(connection: &Connection) -> bool {
        connection.evicted.is_cancelled()
    }

    /// Opens connections one after another.
    async fn open(
        connections: &Arc<Connections>,
        peers: impl IntoIterator<Item = usize>,
    ) -> Vec<Connection> {
        let mut opened = Vec::new();
        for peer in peers {
            opened.push(connections.open(address(peer)));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        opened
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_opens_too_many_loses_the_one_that_waits_longest() {
        let connections = Arc::new(Connections::default());
        let other = connections.open(address(2));
        let own = open(&connections, vec![1; MAX_PER_CLIENT]).await;
        let request = own[0].request();
        let _new = open(&connections, [1, 1]).await;
        let evicted: Vec<usize> = (0..own.len()).filter(|at| is_evicted(&own[*at])).collect();
        assert_eq!(evicted, [1, 2]);
        assert!(!is_evicted(&other));
        // After its request, it has waited for a shorter time than the others.
        drop(request);
        let _new = open(&connections, [1]).await;
        assert!(is_evicted(&own[3]) && !is_evicted(&own[0]));
    }

    #[tokio::test(start_paused = true)]
    async fn of_busy_connections_the_one_is_closed_whose_request_takes_longest() {
        let connections = Arc::new(Connections::default());
        let own = open(&connections, vec![1; MAX_PER_CLIENT]).await;
        let mut requests = Vec::new();
        for connection in own.iter().rev() {
            requests.push(connection.request());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let _new = open(&connections, [1]).await;
        let evicted: Vec<usize> = (0..own.len()).filter(|at| is_evicted(&own[*at])).collect();
        assert_eq!(evicted, [own.len() - 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn if_all_places_are_taken_a_client_with_the_most_connections_loses_one() {
        let connections = Arc::new(Connections::default());
        let clients = MAX_CONNECTIONS / MAX_PER_CLIENT;
        let probe = connections.open(address(1000));
        let flood = (0..MAX_CONNECTIONS - 1).map(|number| number % clients);
        let flood = open(&connections, flood).await;
        let _new = open(&connections, 2000..2010).await;
        assert!(!is_evicted(&probe));
        assert_eq!(flood.iter().filter(|one| is_evicted(one)).count(), 10);
        assert_eq!(connections.open.lock().by_number.len(), MAX_CONNECTIONS);
    }

    #[tokio::test(start_paused = true)]
    async fn clients_with_one_connection_each_lose_the_one_that_waits_longest() {
        let connections = Arc::new(Connections::default());
        let flood = open(&connections, 0..MAX_CONNECTIONS).await;
        let _new = open(&connections, [1000]).await;
        let evicted: Vec<usize> = (0..flood.len())
            .filter(|at| is_evicted(&flood[*at]))
            .collect();
        assert_eq!(evicted, [0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_connection_counts_no_more() {
        let connections = Arc::new(Connections::default());
        drop(open(&connections, vec![1; MAX_PER_CLIENT]).await);
        let own = open(&connections, vec![1; MAX_PER_CLIENT]).await;
        assert!(!own.iter().any(is_evicted));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_once_no_request_was_handled_for_the_time() {
        let connections = Arc::new(Connections::default());
        let connection = connections.open(address(1));
        let (timeout, begin) = (Duration::from_secs(30), Instant::now());
        let requests = async {
            sleep(Duration::from_secs(20)).await;
            let request = connection.request();
            sleep(Duration::from_secs(50)).await;
            drop(request);
        };
        tokio::join!(requests, connection.idle(timeout));
        assert_eq!(begin.elapsed(), Duration::from_secs(20 + 50 + 30));
    }

    #[test]
    fn the_addresses_of_one_network_are_one_client() {
        let of = |text: &str| client(text.parse().expect("an address"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
