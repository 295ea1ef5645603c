//! The user at the other end of a loopback connection, from Linux's table of TCP sockets. Other systems have no such
//! table; there, the sessions alone keep other users out.

use std::net::{SocketAddr, SocketAddrV4};

const TABLE: &str = "/proc/net/tcp";

/// Returns the user ID of the process that connected from `peer` to `local`; none if the system doesn't tell.
pub(super) fn user(peer: SocketAddr, local: SocketAddr) -> Option<u32> {
    let (SocketAddr::V4(peer), SocketAddr::V4(local)) = (peer, local) else {
        return None;
    };
    find(&std::fs::read_to_string(TABLE).ok()?, peer, local)
}

/// Finds the socket whose own address is `peer` and whose other end is `local`.
fn find(table: &str, peer: SocketAddrV4, local: SocketAddrV4) -> Option<u32> {
    let (own, other) = (spelled(peer), spelled(local));
    table.lines().find_map(|line| {
        let mut columns = line.split_ascii_whitespace().skip(1);
        let is_found = columns.next() == Some(&own) && columns.next() == Some(&other);
        // Skips the state, the queues, the timer and the retransmits.
        is_found.then(|| columns.nth(4)?.parse().ok()).flatten()
    })
}

/// An address as the table has it: the bytes of the address as a number of this machine's byte order, and the port.
fn spelled(address: SocketAddrV4) -> String {
    let number = u32::from_ne_bytes(address.ip().octets());
    format!("{number:08X}:{:04X}", address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_user_of_an_own_connection_is_this_one() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let _connecting = tokio::net::TcpStream::connect(address).await.unwrap();
        let (accepted, peer) = listener.accept().await.unwrap();
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(user(peer, accepted.local_addr().unwrap()), Some(own));
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn the_user_of_a_connection_is_that_of_its_other_end() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
             0: 0100007F:0FA0 0100007F:C000 01 00000000:00000000 00:00000000 00000000  1000        0 1 1 0\n   \
             1: 0100007F:C000 0100007F:0FA0 01 00000000:00000000 00:00000000 00000000  1001        0 2 1 0\n";
        let at = |text: &str| text.parse().unwrap();
        let (peer, local) = (at("127.0.0.1:49152"), at("127.0.0.1:4000"));
        assert_eq!(find(table, peer, local), Some(1001));
        assert_eq!(find(table, at("127.0.0.1:49153"), local), None);
    }
}
