//! The dashboard of a running host: over a link of `flyball dashboard`, and on the host's own port under the cluster's
//! rights.

use anyhow::{Context, Result, bail, ensure};
use flyball_cluster_tests::{Cluster, finish, greeted, guest, host, host_output, until};
use flyball_controlplane::Process;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The ClusterRole that the docs show, and two accounts, of which one has it.
const ACCOUNTS: &str = include_str!("dashboard/accounts.json");

#[tokio::test]
async fn a_link_shows_the_plugins_and_why_they_reconciled() -> Result<()> {
    let cluster = Cluster::for_plugins().await?;
    let args = greeter_alone(&cluster).await?;
    let process = cluster.spawn_host("host", cluster.plane.kubeconfig_path(), &args)?;
    let result = seen_by_link(&cluster).await;
    finish(cluster, [process], result).await
}

/// Grants the greeter what it asks for, and returns the flags of a host that runs it alone.
async fn greeter_alone(cluster: &Cluster) -> Result<Vec<String>> {
    let greeter = guest("greeter")?;
    let plugins = cluster.folder_with("plugins", std::slice::from_ref(&greeter))?;
    let policy = cluster.plane.dir().join("policy.toml");
    std::fs::write(
        &policy,
        host_output(&["policy", &greeter.display().to_string()])?,
    )?;
    cluster.apply_roles(&policy, &greeter).await?;
    Ok(Cluster::plugins_alone(&plugins, &policy).to_vec())
}

async fn seen_by_link(cluster: &Cluster) -> Result<()> {
    greeted(&cluster.client, "greeted").await?;
    let (_command, link) = dashboard(cluster).await?;
    let (authority, token) = link
        .strip_prefix("http://")
        .and_then(|rest| rest.split_once("/dashboard/#token="))
        .with_context(|| format!("{link:?} is no link"))?;
    let session = json!({"token": token}).to_string();
    let opened = first_part(authority, "POST /dashboard/api/session", "", &session).await?;
    let cookie = between(&opened, "set-cookie: ", ";").context("no cookie")?;
    let key = between(&opened, "\"key\":\"", "\"").context("no key")?;
    let session = format!("Cookie: {cookie}\r\nX-Flyball-Key: {key}\r\n");

    let plugins = first_part(
        authority,
        "GET /dashboard/api/stream?view=plugins",
        &session,
        "",
    )
    .await?;
    ensure!(
        plugins.contains("event: plugins") && plugins.contains("\"name\":\"greeter\""),
        "{plugins}"
    );
    let greeter = first_part(
        authority,
        "GET /dashboard/api/stream?plugin=greeter",
        &session,
        "",
    )
    .await?;
    ensure!(
        greeter.contains("event: plugin") && greeter.contains("\"asks\""),
        "{greeter}"
    );

    // The chain of the namespace: the greeter reconciled it because it was added, and wrote a ConfigMap.
    let line = "GET /dashboard/api/stream?object=Namespace/greeted";
    until("the causes are shown", async || {
        let events = first_part(authority, line, &session, "").await?;
        let data = between(&events, "data: ", "\n\n").unwrap_or_default();
        let chain: Value = serde_json::from_str(&data).unwrap_or_default();
        let steps = chain["steps"].as_array().cloned().unwrap_or_default();
        let is_creation = |step: &Value| {
            step["plugin"] == "greeter"
                && step["cause"] == "Namespace/greeted"
                && step["objects"][0]["kind"] == "ConfigMap"
        };
        Ok(match steps.iter().any(is_creation) {
            true => Ok(()),
            false => Err(events),
        })
    })
    .await?;
    let refused = first_part(authority, "GET /dashboard/api/stream?view=plugins", "", "").await?;
    ensure!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    Ok(())
}

/// Starts `flyball dashboard`, and returns it with the link that it prints.
async fn dashboard(cluster: &Cluster) -> Result<(Process, String)> {
    let mut command = std::process::Command::new(host()?);
    command
        .args(["dashboard", "--no-open", "--admin-socket"])
        .arg(cluster.admin_socket("host"));
    let printed = cluster.plane.dir().join("dashboard.log");
    let process = Process::spawn("dashboard", command, &printed)?;
    let link = until("the link is printed", async || {
        let text = std::fs::read_to_string(&printed)?;
        let mut words = text.split_whitespace();
        let link = words.find(|word| word.contains("#token="));
        Ok(link.map(str::to_owned).ok_or(text))
    })
    .await?;
    Ok((process, link))
}

/// Sends a request over its own connection, and returns the response up to the end of its first part or event.
async fn first_part(authority: &str, line: &str, headers: &str, body: &str) -> Result<String> {
    let mut stream = TcpStream::connect(authority).await?;
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nHost: {authority}\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        let body = text.split_once("\r\n\r\n").map(|(_, body)| body);
        if body.is_some_and(|body| body.contains("\n\n") || body.ends_with('}')) {
            return Ok(text);
        }
        if stream.read_buf(&mut read).await? == 0 {
            bail!("the connection ended after {text:?}");
        }
    }
}

fn between(text: &str, before: &str, after: &str) -> Option<String> {
    let rest = text.split_once(before)?.1;
    Some(rest.split_once(after)?.0.to_owned())
}

#[tokio::test]
async fn the_hosts_port_shows_it_to_those_who_may_get_its_path() -> Result<()> {
    let cluster = Cluster::for_plugins().await?;
    let mut args = greeter_alone(&cluster).await?;
    let (port, serving) = cluster.serving();
    args.extend(serving);
    args.push("--dashboard".into());
    let process = cluster.spawn_host("host", cluster.plane.kubeconfig_path(), &args)?;
    let result = seen_on_port(&cluster, port).await;
    finish(cluster, [process], result).await
}

async fn seen_on_port(cluster: &Cluster, port: u16) -> Result<()> {
    greeted(&cluster.client, "greeted").await?;
    cluster.apply(ACCOUNTS).await?;
    let page = cluster.https(port, "/dashboard/").await?;
    ensure!(page.contains("content=\"token\""), "{page}");
    for (account, expected) in [("onlooker", 200), ("stranger", 403)] {
        let client = cluster.client_as("default", account, port).await?;
        until("the account's access is as its roles say", async || {
            let path = "/dashboard/api/stream?view=plugins";
            let request = hyper::Request::get(path).body(kube::client::Body::empty())?;
            let response = client.send(request).await?;
            let status = response.status().as_u16();
            let part = response.into_body().frame().await.transpose()?;
            let part = part
                .and_then(|frame| frame.into_data().ok())
                .unwrap_or_default();
            let part = String::from_utf8_lossy(&part).into_owned();
            let is_shown = part.contains("\"name\":\"greeter\"");
            // Roles take effect with a delay, and a refusal is cached for ten seconds.
            Ok(match status == expected && is_shown == (expected == 200) {
                true => Ok(()),
                false => Err(format!("{account}: {status} {part}")),
            })
        })
        .await?;
    }
    Ok(())
}
