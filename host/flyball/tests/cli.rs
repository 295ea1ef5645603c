//! Runs the binary and checks its output and exit code.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

fn flyball(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
    command
        .args(args)
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env_remove("RUST_LOG");
    command.output().expect("the binary runs")
}

/// Runs a command that fails. Returns its standard error.
fn refusal(args: &[&str]) -> String {
    let output = flyball(args);
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    String::from_utf8(output.stderr).expect("text")
}

/// A kubeconfig of a cluster that does not exist.
fn kubeconfig() -> tempfile::NamedTempFile {
    let text = "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n\
                users: [{name: a, user: {token: t}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n";
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("it is written");
    file
}

#[test]
fn version_and_help_are_printed_with_success() {
    for args in [
        &["--version"][..],
        &["run", "--version"],
        &["help"],
        &["--help"],
        &["run", "--help"],
        &[],
    ] {
        let output = flyball(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("flyball"),
            "{args:?}"
        );
    }
}

#[test]
fn an_unknown_flag_or_command_exits_with_1_and_suggests_the_nearest() {
    assert!(refusal(&["run", "--kubeconfg=x"]).contains("'--kubeconfig'"));
    assert!(refusal(&["rum"]).contains("'run'"));
}

#[test]
fn an_unknown_controller_exits_with_1_and_suggests_the_nearest() {
    let said = refusal(&["run", "--controllers=*,replicset"]);
    assert!(
        said.contains("--controllers names \"replicset\"")
            && said.contains("did you mean \"replicaset\"?"),
        "{said}"
    );
    let said = refusal(&["run", "--plugin-config=deploymnt.a=b"]);
    assert!(said.contains("did you mean \"deployment\"?"), "{said}");
}

#[test]
fn a_missing_kubeconfig_is_one_sentence() {
    let said = refusal(&[
        "run",
        "--plugin-dir=/tmp",
        "--controllers=",
        "--kubeconfig=/no/such",
    ]);
    assert_eq!(
        said,
        "flyball: the kubeconfig /no/such does not exist: name another one\n"
    );
    let said = refusal(&["run", "--controllers="]);
    assert!(
        said.contains("--kubeconfig is missing, and this process does not run in a pod"),
        "{said}"
    );
}

#[test]
fn a_start_ends_where_that_of_kube_controller_manager_would() {
    let said = refusal(&["run", "--cloud-provider=aws"]);
    assert!(
        said.contains("built-in cloud providers are disabled"),
        "{said}"
    );
    let (file, empty) = (
        kubeconfig(),
        tempfile::NamedTempFile::new().expect("a file"),
    );
    let path = file.path().display().to_string();
    // Without a port, nobody needs the files.
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let port = format!("--secure-port={port}");
    for flag in ["client-ca-file", "requestheader-client-ca-file"] {
        for bundle in ["/no/such", &empty.path().display().to_string()] {
            let flag = format!("--{flag}={bundle}");
            let said = refusal(&[
                "run",
                "--controllers=",
                "--kubeconfig",
                &path,
                "--bind-address=127.0.0.1",
                &port,
                &flag,
            ]);
            assert!(said.contains(&format!("flyball: {flag}: ")), "{said}");
        }
    }
}

#[test]
fn a_port_in_use_is_one_sentence() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = taken.local_addr().expect("an address");
    let (file, port) = (kubeconfig(), format!("--secure-port={}", address.port()));
    let path = file.path().display().to_string();
    let said = refusal(&[
        "run",
        "--plugin-dir=/tmp",
        "--controllers=",
        "--kubeconfig",
        &path,
        "--bind-address=127.0.0.1",
        &port,
    ]);
    assert!(
        said.contains(&format!(
            "the port of {address} is in use by another process"
        )),
        "{said}"
    );
}

/// Starts the binary, waits until it logs that it serves, kills it, and returns the log until then.
fn log_until_serving(args: &[&str]) -> String {
    let (file, plugins) = (kubeconfig(), tempfile::tempdir().expect("a folder"));
    // The port was free a moment ago.
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = format!(
        "--secure-port={}",
        free.local_addr().expect("an address").port()
    );
    drop(free);
    let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
    command
        .args([
            "run",
            "--controllers=",
            "--bind-address=127.0.0.1",
            &port,
            "--kubeconfig",
        ])
        .arg(file.path())
        .arg("--plugin-dir")
        .arg(plugins.path())
        .args(args)
        .env_remove("RUST_LOG")
        .stderr(Stdio::piped());
    let mut child = flyball_controlplane::process::spawn(command).expect("the binary runs");
    let mut stderr = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut log = String::new();
    while !log.contains("serving over HTTPS") {
        assert_ne!(
            stderr.read_line(&mut log).expect("text"),
            0,
            "it ended early: {log}"
        );
    }
    child.kill().expect("it can be ended");
    child.wait().expect("it ends");
    log
}

#[test]
fn one_warning_names_the_flags_without_effect() {
    let log = log_until_serving(&[
        "--leader-elect",
        "--flex-volume-plugin-dir=/plugins",
        "--log-text-split-stream=true",
        "--profiling=false",
    ]);
    assert!(
        log.contains(
            "these flags have no effect yet: --flex-volume-plugin-dir, --log-text-split-stream\"\n"
        ),
        "{log}"
    );
    assert_eq!(log.matches("have no effect yet").count(), 1, "{log}");
}

#[test]
fn logging_format_json_logs_json() {
    for line in log_until_serving(&["--logging-format=json"]).lines() {
        assert!(
            line.starts_with("{\"ts\":") && line.ends_with('}'),
            "{line}"
        );
    }
}
