//! A proxy in front of the API server whose connections can be cut.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Forwards connections. While it is cut, connections stay open but forward nothing, as if the
/// network dropped all packets.
pub struct Proxy {
    url: String,
    is_cut: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port, and forwards to a URL of the form `https://127.0.0.1:PORT`.
    pub async fn start(to: &str) -> Result<Self> {
        let address = to
            .strip_prefix("https://")
            .with_context(|| format!("{to} is not an https URL"))?;
        let to: SocketAddr = address
            .parse()
            .with_context(|| format!("{to} has no IP address and port"))?;
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("can't listen on 127.0.0.1")?;
        let url = format!("https://{}", listener.local_addr()?);
        let is_cut = watch::Sender::new(false);
        let seen = is_cut.subscribe();
        let task = tokio::spawn(async move {
            while let Ok((from, _)) = listener.accept().await {
                tokio::spawn(forward(from, to, seen.clone()));
            }
        });
        Ok(Self { url, is_cut, task })
    }

    /// The URL of the proxy.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Stops forwarding.
    pub fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    /// Closes the connections that were cut, and forwards new ones.
    pub fn mend(&self) {
        self.is_cut.send_replace(false);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(mut from: TcpStream, to: SocketAddr, mut is_cut: watch::Receiver<bool>) {
    let forwarded = async {
        let mut to = TcpStream::connect(to).await?;
        tokio::io::copy_bidirectional(&mut from, &mut to).await
    };
    let mut seen = is_cut.clone();
    let was_cut = tokio::select! {
        // One side closed the connection. Returning closes the other.
        _ = forwarded => false,
        seen = seen.wait_for(|is_cut| *is_cut) => seen.is_ok(),
    };
    if was_cut {
        // An error means that the proxy was dropped.
        let _ = is_cut.wait_for(|is_cut| !*is_cut).await;
    }
}
