//! Mistakes of an operator. The host either reports the mistake in one sentence and exits with code
//! 1, or runs without the faulty plugin.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, finish, greeted, guest, host, log_of};

/// The error of a host that can't start. Fails unless the host prints exactly one.
fn refusal(args: &[&str]) -> Result<String> {
    let mut command = Command::new(host()?);
    command
        .arg("run")
        .args(args)
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env_remove("RUST_LOG");
    let output = command.output().context("can't run the host")?;
    let said = String::from_utf8(output.stderr).context("the output is not UTF-8")?;
    ensure!(
        output.status.code() == Some(1),
        "{args:?} ended with {}: {said}",
        output.status
    );
    ensure!(
        !said.contains("panicked") && !said.contains("RUST_BACKTRACE"),
        "{args:?}: {said}"
    );
    let sentences: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("flyball: ") || line.starts_with("error: "))
        .collect();
    ensure!(
        sentences.len() == 1,
        "for {args:?} the host prints {} errors: {said}",
        sentences.len()
    );
    Ok(sentences[0].to_owned())
}

/// A kubeconfig of a cluster that doesn't exist.
fn kubeconfig(name: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let text = "apiVersion: v1\nkind: Config\ncurrent-context: there\n\
                clusters: [{name: there, cluster: {server: 'https://127.0.0.1:1'}}]\n\
                users: [{name: me, user: {token: t}}]\ncontexts: [{name: there, context: {cluster: there, user: me}}]\n";
    std::fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
    Ok(format!("--kubeconfig={}", path.display()))
}

#[test]
fn a_missing_kubeconfig_is_named() -> Result<()> {
    let said = refusal(&["--kubeconfig=/no/such"])?;
    ensure!(
        said == "flyball: the kubeconfig /no/such does not exist: name another one",
        "{said}"
    );
    Ok(())
}

#[test]
fn an_invalid_kubeconfig_is_named() -> Result<()> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-kubeconfig");
    std::fs::write(&path, "clusters: 7\n")?;
    let said = refusal(&[&format!("--kubeconfig={}", path.display())])?;
    ensure!(said.contains(&path.display().to_string()), "{said}");
    Ok(())
}

#[test]
fn the_error_for_an_unknown_context_lists_the_contexts() -> Result<()> {
    let said = refusal(&[&kubeconfig("context")?, "--context=their"])?;
    ensure!(
        said.contains("has no context \"their\": its contexts are there"),
        "{said}"
    );
    Ok(())
}

#[test]
fn an_unknown_flag_is_named() -> Result<()> {
    let said = refusal(&["--kubeconfg=x"])?;
    ensure!(said.contains("unexpected argument '--kubeconfg'"), "{said}");
    Ok(())
}

#[test]
fn an_invalid_value_is_named_with_its_flag() -> Result<()> {
    let said = refusal(&["--secure-port=many"])?;
    ensure!(
        said.contains("'many'") && said.contains("--secure-port"),
        "{said}"
    );
    Ok(())
}

#[test]
fn the_error_for_an_unknown_controller_suggests_the_nearest_name() -> Result<()> {
    let said = refusal(&[
        &kubeconfig("controller")?,
        "--controllers=deploymnt-controller",
    ])?;
    ensure!(
        said.contains("\"deploymnt-controller\"")
            && said.ends_with("did you mean \"deployment-controller\"?"),
        "{said}"
    );
    Ok(())
}

#[test]
fn a_port_in_use_is_named() -> Result<()> {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    let address = taken.local_addr()?;
    let port = format!("--secure-port={}", address.port());
    let said = refusal(&[&kubeconfig("port")?, "--bind-address=127.0.0.1", &port])?;
    ensure!(
        said.contains(&format!(
            "the port of {address} is in use by another process"
        )),
        "{said}"
    );
    Ok(())
}

#[test]
fn an_invalid_policy_is_named() -> Result<()> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-policy.toml");
    std::fs::write(&path, "[plugins.greeter]\nservice-acount = \"a/b\"\n")?;
    let said = refusal(&[
        &kubeconfig("policy")?,
        &format!("--policy={}", path.display()),
        "--secure-port=0",
    ])?;
    ensure!(
        said.contains(&path.display().to_string()) && said.contains("service-acount"),
        "{said}"
    );
    Ok(())
}

#[tokio::test]
async fn files_that_are_not_plugins_are_reported_and_the_others_run() -> Result<()> {
    let cluster = Cluster::for_plugins().await?;
    let plugins = cluster.folder_with("plugins", &[guest("greeter")?])?;
    let bad: [(&str, &[u8], &str); 3] = [
        (
            "text.wasm",
            b"not wasm\n",
            "the file is not WebAssembly in its binary format",
        ),
        (
            "core.wasm",
            b"\0asm\x01\0\0\0",
            "the file is a core WebAssembly module, not a component",
        ),
        (
            "empty.wasm",
            b"\0asm\x0d\0\x01\0",
            "so it is not a Flyball controller",
        ),
    ];
    for (name, bytes, _) in bad {
        std::fs::write(plugins.join(name), bytes)?;
    }
    let args = [
        "--controllers=".into(),
        "--trust-plugins".into(),
        format!("--plugin-dir={}", plugins.display()),
    ];
    let host = cluster.spawn_host("host", cluster.plane.kubeconfig_path(), &args)?;
    let greets = async || {
        greeted(&cluster.client, "beside-bad-ones").await?;
        let log = log_of(&host)?;
        for (name, _, why) in bad {
            let lines: Vec<&str> = log.lines().filter(|line| line.contains(name)).collect();
            ensure!(
                lines.len() == 1 && lines[0].contains(why),
                "the host logs about {name}: {lines:?}"
            );
        }
        Ok(())
    };
    let result = greets().await;
    finish(cluster, [host], result).await
}
