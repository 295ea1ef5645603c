//! What others than the page of the user who opened the link get from a dashboard on loopback: nothing.

mod support;

use anyhow::{Context, bail};
use flyball_dashboard::Warning;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::Served;

/// A response: its status, its head and the first part of its body.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

/// Sends a request with these headers, and reads until the body has begun. `Host` is right unless it is given.
async fn ask(
    served: &Served,
    line: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> anyhow::Result<Answer> {
    let authority = served.authority();
    let mut stream = TcpStream::connect(&authority).await?;
    let mut request = format!("{line} HTTP/1.1\r\nContent-Length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| *name == "Host") {
        request.push_str(&format!("Host: {authority}\r\n"));
    }
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    stream
        .write_all(format!("{request}\r\n{body}").as_bytes())
        .await?;
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && (!body.is_empty() || head.starts_with("HTTP/1.1 204"))
        {
            let status = head.split(' ').nth(1).context("a status")?.parse()?;
            let (head, body) = (head.to_owned(), body.to_owned());
            return Ok(Answer { status, head, body });
        }
        if stream.read_buf(&mut read).await? == 0 {
            bail!("the connection ended after {text:?}");
        }
    }
}

const STREAM: &str = "GET /dashboard/api/stream?view=plugins";
/// Events about an object that nothing happens to.
const IDLE: &str = "GET /dashboard/api/stream?object=other";
const OPEN: &str = "POST /dashboard/api/session";

/// Opens a link, and returns the cookie and the key of its session.
async fn open(served: &Served, link: &str) -> anyhow::Result<(String, String)> {
    let answer = ask(served, OPEN, &[], &token_in(link)?).await?;
    if answer.status != 201 {
        bail!("{}", answer.body);
    }
    let cookie = answer
        .head
        .split("set-cookie: ")
        .nth(1)
        .context("a cookie")?;
    let cookie = cookie.split(';').next().context("a pair")?;
    let start = answer.body.find('{').context("a document")?;
    let document: Value = serde_json::from_str(answer.body[start..].trim())?;
    let key = document["key"].as_str().context("a key")?;
    Ok((cookie.to_owned(), key.to_owned()))
}

fn token_in(link: &str) -> anyhow::Result<String> {
    let token = link.split("#token=").nth(1).context("a token")?;
    Ok(format!("{{\"token\":\"{token}\"}}"))
}

#[tokio::test]
async fn without_a_link_there_is_the_page_and_no_data() -> anyhow::Result<()> {
    let served = Served::start().await?;
    let page = ask(&served, "GET /dashboard/", &[], "").await?;
    assert_eq!(page.status, 200);
    for header in [
        "content-security-policy: default-src 'none';",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cross-origin-resource-policy: same-origin",
        "cache-control: no-store",
    ] {
        assert!(page.head.contains(header), "{header}: {}", page.head);
    }
    assert!(!page.body.contains("tenant-"));
    for path in [
        "stream?view=plugins",
        "stream?plugin=deployment-controller",
        "stream?object=web",
        "session",
        "other",
        "../api/stream?view=plugins",
    ] {
        for method in ["GET", "POST", "DELETE", "PUT", "OPTIONS"] {
            let line = format!("{method} /dashboard/api/{path}");
            let answer = ask(&served, &line, &[], "{}").await?;
            assert_eq!(answer.status, 401, "{line}");
            assert!(!answer.body.contains("tenant-"), "{line}");
        }
    }
    for token in ["", "guessed", "null"] {
        let answer = ask(&served, OPEN, &[], &format!("{{\"token\":\"{token}\"}}")).await?;
        assert_eq!(answer.status, 401, "{token}");
    }
    for body in ["", "null", "[]", "{\"token\":1}", "{", &"x".repeat(5_000)] {
        let answer = ask(&served, OPEN, &[], body).await?;
        assert_eq!(answer.status, 401, "{} bytes", body.len());
    }
    served.stop().await
}

#[tokio::test]
async fn a_link_opens_one_session_and_its_second_use_is_noticed() -> anyhow::Result<()> {
    let served = Served::start().await?;
    let link = served.server.link();
    let (cookie, key) = open(&served, &link).await?;
    let own = [("Cookie", &*cookie), ("X-Flyball-Key", &*key)];
    let seen = ask(&served, STREAM, &own, "").await?;
    assert_eq!(seen.status, 200);
    assert!(seen.head.contains("content-type: text/event-stream"));
    assert_eq!(*served.warnings.lock(), []);

    let refused = ask(&served, OPEN, &[], &token_in(&link)?).await?;
    assert_eq!(refused.status, 401);
    assert!(refused.body.contains("opened before"), "{}", refused.body);
    assert!(!refused.head.contains("set-cookie"));
    assert_eq!(*served.warnings.lock(), [Warning::UsedAgain]);

    // A server on another port of the address is sent the cookie, and has no key.
    for alone in [own[0], own[1]] {
        assert_eq!(ask(&served, STREAM, &[alone], "").await?.status, 401);
    }
    let (_, other) = open(&served, &served.server.link()).await?;
    let mixed = [("Cookie", &*cookie), ("X-Flyball-Key", &*other)];
    assert_eq!(ask(&served, STREAM, &mixed, "").await?.status, 401);

    let ended = ask(&served, "DELETE /dashboard/api/session", &own, "").await?;
    assert_eq!(ended.status, 204);
    assert_eq!(ask(&served, STREAM, &own, "").await?.status, 401);
    served.stop().await
}

#[tokio::test]
async fn another_origin_or_another_name_gets_nothing_even_with_the_session() -> anyhow::Result<()> {
    let served = Served::start().await?;
    let (cookie, key) = open(&served, &served.server.link()).await?;
    let own = [("Cookie", &*cookie), ("X-Flyball-Key", &*key)];
    let authority = served.authority();
    let port = authority.rsplit(':').next().context("a port")?;
    // A name that the attacker lets resolve to 127.0.0.1 later on.
    for host in [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("localhost:{port}"),
        "127.0.0.1".to_owned(),
    ] {
        let headers = [own[0], own[1], ("Host", &*host)];
        for line in [STREAM, "GET /dashboard/"] {
            let answer = ask(&served, line, &headers, "").await?;
            assert_eq!(answer.status, 421, "{host}");
            assert!(!answer.body.contains("tenant-"), "{host}");
        }
    }
    for foreign in [
        ("Origin", "https://evil.example"),
        ("Origin", "null"),
        ("Origin", "http://127.0.0.1:1"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
    ] {
        let answer = ask(&served, STREAM, &[own[0], own[1], foreign], "").await?;
        assert_eq!(answer.status, 403, "{foreign:?}");
        // It can't use a link up either.
        let link = served.server.link();
        let answer = ask(&served, OPEN, &[foreign], &token_in(&link)?).await?;
        assert_eq!(answer.status, 403, "{foreign:?}");
        open(&served, &link).await?;
    }
    let origin = format!("http://{authority}");
    let right = [
        own[0],
        own[1],
        ("Origin", &*origin),
        ("Sec-Fetch-Site", "same-origin"),
    ];
    assert_eq!(ask(&served, STREAM, &right, "").await?.status, 200);
    served.stop().await
}

/// A process of another user connects, with a link that it has seen somewhere.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn another_user_of_the_machine_is_not_even_heard() -> anyhow::Result<()> {
    use std::os::unix::process::CommandExt;

    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        return flyball_controlplane::skip(
            "another_user_of_the_machine_is_not_even_heard",
            "only root can start a process of another user",
        );
    }
    let served = Served::start().await?;
    let (authority, body) = (served.authority(), token_in(&served.server.link())?);
    let (host, port) = authority.split_once(':').context("a port")?;
    let length = body.len();
    let request = format!(
        "POST /dashboard/api/session HTTP/1.1\r\nHost: {authority}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let run = |user: u32| {
        let mut shell = std::process::Command::new("bash");
        shell.args([
            "-c",
            "exec 3<>/dev/tcp/$0/$1; printf %s \"$2\" >&3; head -c 12 <&3",
        ]);
        shell.args([host, port, &request]);
        if user != 0 {
            shell.uid(user);
        }
        tokio::task::spawn_blocking(move || shell.output())
    };
    let other = run(NOBODY).await??;
    assert_eq!(
        String::from_utf8_lossy(&other.stdout),
        "",
        "it got an answer"
    );
    assert_eq!(*served.warnings.lock(), [Warning::OtherUser]);
    let own = run(0).await??;
    let answer = String::from_utf8_lossy(&own.stdout).into_owned();
    assert_eq!(answer, "HTTP/1.1 201", "the link was not used up");
    served.stop().await
}

#[tokio::test]
async fn streams_and_connections_are_bounded_and_end_with_the_server() -> anyhow::Result<()> {
    let served = Served::start().await?;
    let (cookie, key) = open(&served, &served.server.link()).await?;
    let authority = served.authority();
    let request = format!(
        "{IDLE} HTTP/1.1\r\nHost: {authority}\r\nCookie: {cookie}\r\nX-Flyball-Key: {key}\r\n\r\n"
    );
    let mut streams = Vec::new();
    loop {
        let mut stream = TcpStream::connect(&authority).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut head = [0; 12];
        stream.read_exact(&mut head).await?;
        if head == *b"HTTP/1.1 503" {
            break;
        }
        assert_eq!(head, *b"HTTP/1.1 200");
        streams.push(stream);
        assert!(streams.len() <= 1000, "there is no bound");
    }
    // Those that leave make room.
    streams.truncate(1);
    let own = [("Cookie", &*cookie), ("X-Flyball-Key", &*key)];
    while ask(&served, IDLE, &own, "").await?.status != 200 {}
    served.stop().await
}
