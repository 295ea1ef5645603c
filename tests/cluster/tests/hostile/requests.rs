//! Attacks by requests over `wasi:http`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use anyhow::{Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use crate::arena::{Arena, Case, Class};

const REQUEST: Case = Case {
    class: Class::Escalation,
    ..Case::NONE
};

/// `SERVER` is an address that redirects to `INTERNAL`, which nobody may reach.
const CASES: &[Case] = &[
    Case {
        name: "request-to-a-redirect",
        policy: "[plugins.faulty]\nhttp-hosts = [\"http://SERVER\"]",
        script: r#"[{"http": "SERVER"}, {"http": "INTERNAL"}]"#,
        expects: &[
            "SERVER responded 307",
            "no response from INTERNAL: ErrorCode::HttpRequestDenied",
        ],
        ..REQUEST
    },
    Case {
        name: "request-to-a-private-address",
        policy: "[plugins.faulty]\nhttp-hosts = [\"http://localhost:INTERNAL-PORT\"]",
        script: r#"[{"http": "localhost:INTERNAL-PORT"}]"#,
        expects: &[
            "the policy does not let this plugin send requests to",
            "an address of http://localhost:INTERNAL-PORT",
            "ErrorCode::DestinationIpProhibited",
        ],
        ..REQUEST
    },
];

pub(crate) async fn all(arena: &mut Arena) -> Result<()> {
    let internal = Server::start("200 OK").await?;
    let redirect = format!(
        "307 Temporary Redirect\r\nlocation: http://{}/",
        internal.address
    );
    let server = Server::start(&redirect).await?;
    let (_, port) = internal.address.split_once(':').unwrap_or_default();
    let names = [
        ("SERVER", server.address.as_str()),
        ("INTERNAL-PORT", port),
        ("INTERNAL", internal.address.as_str()),
    ];
    for case in CASES {
        arena.attack_at(case, &names).await?;
    }
    let (redirected, reached) = (server.requests.load(SeqCst), internal.requests.load(SeqCst));
    ensure!(
        redirected > 0 && reached == 0,
        "{redirected} requests were redirected, and {reached} reached the private address"
    );
    Ok(())
}

/// A server that gives the same answer to each request.
struct Server {
    address: String,
    requests: Arc<AtomicUsize>,
    serving: AbortHandle,
}

impl Server {
    /// `status` may have headers after it.
    async fn start(status: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let requests = Arc::new(AtomicUsize::new(0));
        let (counted, answer) = (
            requests.clone(),
            format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"),
        );
        let serve = async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counted.fetch_add(1, SeqCst);
                let _ = stream.read(&mut [0; 1024]).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        };
        Ok(Self {
            address,
            requests,
            serving: tokio::spawn(serve).abort_handle(),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
