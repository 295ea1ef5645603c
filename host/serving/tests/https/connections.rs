//! Many connections of clients without credentials.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Context;
use http::{HeaderMap, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use crate::server::{Server, headers};

/// Shorter than all timeouts of the server, so that no place becomes free by itself.
const DEADLINE: Duration = Duration::from_secs(8);
/// More connections than the server has places for.
const CLIENTS: u8 = 5;
const CONNECTIONS_PER_CLIENT: u8 = 70;

/// A connection on which the client is silent.
enum Silent {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Connects from an address of the loopback network.
async fn connect(server: &Server, client: u8) -> anyhow::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::new(127, 0, 0, client), 0).into())?;
    Ok(socket.connect(server.address).await?)
}

/// Begins a handshake or a request, and says no more.
async fn fall_silent(server: &Server, client: u8, kind: u8) -> anyhow::Result<Silent> {
    let mut stream = connect(server, client).await?;
    Ok(match kind % 5 {
        0 => Silent::Tcp(stream),
        1 => {
            // The start of a record of the handshake.
            stream.write_all(&[22, 3, 1]).await?;
            Silent::Tcp(stream)
        }
        kind => {
            let protocol: &[u8] = if kind == 2 { b"h2" } else { b"http/1.1" };
            let mut stream = server.handshake(stream, protocol, None).await?;
            if kind == 3 {
                let start = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
                stream.write_all(start).await?;
            }
            Silent::Tls(Box::new(stream))
        }
    })
}

#[tokio::test]
async fn a_probe_is_answered_while_silent_connections_take_all_places() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let mut silent = Vec::new();
    let open = async {
        for kind in 0..CONNECTIONS_PER_CLIENT {
            for client in 1..=CLIENTS {
                silent.push(fall_silent(&server, client, kind).await?);
            }
        }
        anyhow::Ok(())
    };
    timeout(DEADLINE, open)
        .await
        .context("all are accepted")??;
    for path in ["/livez", "/healthz", "/readyz"] {
        let probe = server.get(path, HeaderMap::new(), None);
        let answer = timeout(DEADLINE, probe).await;
        let answer = answer.with_context(|| format!("{path} is not answered"))??;
        assert_eq!(answer, (StatusCode::OK, "ok".to_owned()));
    }
    drop(silent);
    server.stop().await
}

#[tokio::test]
async fn the_connection_that_was_silent_longest_is_closed_for_a_new_one() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let mut silent = Vec::new();
    for kind in 0..CONNECTIONS_PER_CLIENT {
        silent.push(fall_silent(&server, 1, kind).await?);
    }
    let read = async |silent: &mut Silent| match silent {
        Silent::Tcp(stream) => stream.read(&mut [0; 64]).await,
        Silent::Tls(stream) => stream.read(&mut [0; 64]).await,
    };
    let closed = timeout(DEADLINE, read(&mut silent[0])).await;
    // It may be reset.
    let closed = closed.context("the first connection stays open")?;
    assert_eq!(closed.unwrap_or(0), 0);
    let last = silent.last_mut().context("there are some")?;
    let last = timeout(Duration::from_millis(10), read(last)).await;
    assert!(last.is_err(), "the last connection was closed: {last:?}");
    drop(silent);
    server.stop().await
}

#[tokio::test]
async fn a_request_with_too_long_headers_is_refused() -> anyhow::Result<()> {
    let server = Server::start().await?;
    for (bytes, is_answered) in [(8 * 1024, true), (64 * 1024, false)] {
        let stream = connect(&server, 1).await?;
        let mut stream = server.handshake(stream, b"http/1.1", None).await?;
        let value = "a".repeat(bytes);
        let request = format!(
            "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Long: {value}\r\nConnection: close\r\n\r\n"
        );
        // The server may close the connection before it has read everything.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = timeout(DEADLINE, stream.read_to_end(&mut answer)).await?;
        assert_eq!(answer.starts_with(b"HTTP/1.1 200 "), is_answered);
    }
    server.stop().await
}

#[tokio::test]
async fn a_connection_has_few_requests_reviewed_at_once() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let slow = headers(&[("authorization", "Bearer slow")]);
    let mut requests = vec![("/metrics", slow); 50];
    requests.push(("/livez", HeaderMap::new()));
    let statuses = server.get_at_once(&requests).await?;
    let count = |status| statuses.iter().filter(|found| **found == status).count();
    assert_eq!(count(StatusCode::FORBIDDEN), 16);
    assert_eq!(count(StatusCode::TOO_MANY_REQUESTS), 34);
    assert_eq!(statuses.last(), Some(&StatusCode::OK));
    // The places are free again.
    let (status, _) = server.get_with_token("/metrics", "scraper").await?;
    assert_eq!(status, StatusCode::OK);
    server.stop().await
}
