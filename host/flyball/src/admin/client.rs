//! The operator's end of the admin socket: the commands for a running host.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Subcommand;
use flyball_manager::{PluginDescription, PluginDetails, PluginStatus, RollbackTo, ServedKind};
use flyball_runtime::trend::TrendBrief;
use flyball_types::{printable, printable_json};
use serde::Serialize;

use super::bundle::{Recorded, bundle};
use super::protocol::{Request, Response};
use super::{canary, dashboard, record, shadow, socket, table, top};
use crate::output::Format;

/// Time between two updates of `status --watch`.
const REFRESH_PERIOD: Duration = Duration::from_secs(1);

/// A command for a running host.
#[derive(Debug, Subcommand)]
pub(crate) enum AdminCommand {
    /// Show the plugins of the running host: their state, work and memory
    Status {
        /// Update the output each second, until Ctrl-C
        #[arg(short, long)]
        watch: bool,
        /// Output format
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
        #[command(flatten)]
        host: RunningHost,
    },
    /// Show the plugins of the running host in this terminal, live: what they do, and what they did in the last hour
    Top {
        #[command(flatten)]
        host: RunningHost,
    },
    /// Show the running host in a browser, live
    ///
    /// Prints a link that is valid once, for this user alone, and opens it if there is a browser. The page changes nothing.
    Dashboard {
        /// Port on 127.0.0.1; 0 for a free one
        #[arg(long, default_value_t = 0)]
        port: u16,
        /// Print the link, and open no browser
        #[arg(long)]
        no_open: bool,
        #[command(flatten)]
        host: RunningHost,
    },
    /// Show the last reconciles of an object, and those that it triggered or that wrote it
    Why {
        /// The object: NAME, NAMESPACE/NAME, KIND/NAMESPACE/NAME or KIND/NAME; the kind as in Deployment,
        /// apps/v1/Deployment or deployments.apps
        #[arg(required = true, num_args = 1..)]
        object: Vec<String>,
        /// Output format
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
        #[command(flatten)]
        host: RunningHost,
    },
    /// Show the last lines of the log from or about a plugin
    Logs {
        /// The plugin's name
        plugin: String,
        /// Print new lines as they are logged, until Ctrl-C
        #[arg(short, long)]
        follow: bool,
        #[command(flatten)]
        host: RunningHost,
    },
    /// Grant a plugin what it asks for, by adding it to the policy
    ///
    /// A host without `--policy` keeps what is approved in `~/.local/state/flyball/policy`, also for its next start: delete
    /// the plugin's file there to take the grant back.
    Approve {
        /// The plugin's name
        plugin: String,
        /// Grant it only in this namespace; may be repeated. Cluster-scoped kinds are granted as they are asked for
        #[arg(short, long = "namespace", value_name = "NAME", value_parser = namespace)]
        namespaces: Vec<String>,
        #[command(flatten)]
        host: RunningHost,
    },
    /// Roll a plugin back to the version that ran before its file's, until the file changes
    ///
    /// A repeated rollback changes nothing: it never brings back the version that the first one left.
    Rollback {
        /// The plugin's name
        plugin: String,
        /// Roll back to this version, as in `1.0.0`, or to the one with this digest or beginning of a digest
        #[arg(long, value_name = "VERSION|DIGEST", conflicts_with = "forward")]
        to: Option<String>,
        /// End the rollback: return to the version of the file
        #[arg(long)]
        forward: bool,
        #[command(flatten)]
        host: RunningHost,
    },
    Record(record::Arguments),
    Shadow(shadow::Arguments),
    Canary(canary::Arguments),
    /// Give all keys of a plugin to its canary, or put the candidate in its shadow into the place of its file
    Promote {
        /// The plugin's name
        plugin: String,
        #[command(flatten)]
        host: RunningHost,
    },
    /// Find the cause of a fault of the host
    Debug {
        #[command(subcommand)]
        command: DebugCommand,
    },
    /// Take a plugin out of quarantine
    Resume {
        /// The plugin's name
        plugin: String,
        #[command(flatten)]
        host: RunningHost,
    },
}

/// A command for bug reports.
#[derive(Debug, Subcommand)]
pub(crate) enum DebugCommand {
    /// Write the state of the running host into one file, for a bug report
    ///
    /// It has the status, the last reconciles, the metrics, the descriptions, grants and logs of plugins, and the flags of
    /// the host. It has no configuration values or credentials, and no objects of the cluster, unless recorded calls are
    /// added.
    Bundle {
        /// The file; by default flyball-TIME.tar.gz in the current folder. An existing file is not replaced
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        recorded: Recorded,
        #[command(flatten)]
        host: RunningHost,
    },
}

/// The environment variable with the admin socket of the host that commands connect to.
const SOCKET: &str = "FLYBALL_ADMIN_SOCKET";
/// How long a host may take to say what it runs, for a message.
const PATIENCE: Duration = Duration::from_millis(500);

/// The running host that a command connects to.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct RunningHost {
    /// Admin socket of the running host; by default FLYBALL_ADMIN_SOCKET, or else flyball/admin.sock in $XDG_RUNTIME_DIR
    /// or ~/.local/state
    #[arg(long, value_name = "PATH")]
    admin_socket: Option<PathBuf>,
}

/// Runs a command and prints the response.
pub(crate) fn run(command: AdminCommand) -> anyhow::Result<()> {
    match command {
        AdminCommand::Status {
            watch,
            output,
            host,
        } => status(watch, output, &host),
        AdminCommand::Top { host } => top::run(&host),
        AdminCommand::Dashboard {
            port,
            no_open,
            host,
        } => dashboard::run(host, port, !no_open),
        AdminCommand::Why {
            object,
            output,
            host,
        } => why(&object, output, &host),
        AdminCommand::Logs {
            plugin,
            follow,
            host,
        } => logs(plugin, follow, &host),
        AdminCommand::Approve {
            plugin,
            namespaces,
            host,
        } => {
            let done = host.perform(&Request::Approve {
                plugin: plugin.clone(),
                namespaces: namespaces.into_iter().collect(),
            })?;
            print(&format!(
                "{done}\nTo grant the rights of its service account, run: flyball rbac {plugin} | kubectl apply -f -\n"
            ))
        }
        AdminCommand::Rollback {
            plugin,
            to,
            forward,
            host,
        } => {
            let to = match to {
                Some(version) => RollbackTo::Version(version),
                None if forward => RollbackTo::File,
                None => RollbackTo::Previous,
            };
            print(&(host.perform(&Request::Rollback { plugin, to })? + "\n"))
        }
        AdminCommand::Shadow(arguments) => print(&shadow::run(arguments)?),
        AdminCommand::Canary(arguments) => print(&canary::run(arguments)?),
        AdminCommand::Promote { plugin, host } => {
            print(&(host.perform(&Request::Promote { plugin })? + "\n"))
        }
        AdminCommand::Record(arguments) => print(&record::run(arguments)?),
        AdminCommand::Debug {
            command:
                DebugCommand::Bundle {
                    output,
                    recorded,
                    host,
                },
        } => print(&bundle(output, &recorded, &host)?),
        AdminCommand::Resume { plugin, host } => {
            print(&(host.perform(&Request::Resume { plugin })? + "\n"))
        }
    }
}

/// Parses the name of a namespace. An empty one would stand for all of them.
fn namespace(text: &str) -> Result<String, String> {
    let is_label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    match !text.is_empty() && text.len() <= 63 && text.chars().all(is_label) {
        true => Ok(text.to_owned()),
        false => Err("write the name of a namespace: lower-case letters, digits and dashes".into()),
    }
}

/// Prints the plugins, with `watch` again and again.
fn status(watch: bool, output: Format, host: &RunningHost) -> anyhow::Result<()> {
    // Only a terminal is cleared.
    let clear = match watch && std::io::stdout().is_terminal() {
        true => "\x1b[H\x1b[2J",
        false => "",
    };
    loop {
        let plugins = plugins(host)?;
        let text = match output {
            Format::Json => json(&plugins)?,
            Format::Text => table::status(&plugins),
        };
        print(&format!("{clear}{text}"))?;
        if !watch {
            return Ok(());
        }
        std::thread::sleep(REFRESH_PERIOD);
    }
}

/// Prints the last reconciles of an object, which is given as one or more words.
fn why(object: &[String], output: Format, host: &RunningHost) -> anyhow::Result<()> {
    // Outputs have blanks between kinds and names.
    let object = object.join(" ");
    let request = Request::Why {
        object: object.clone(),
    };
    let Response::Why(reconciles) = host.send(&request)? else {
        return Err(unexpected_response());
    };
    match output {
        Format::Json => print(&json(&reconciles)?),
        Format::Text if reconciles.is_empty() => {
            print(&format!("none of the last reconciles concerned {object}\n"))
        }
        Format::Text => print(&table::why(&reconciles)),
    }
}

/// Prints the last lines of the log about a plugin, with `follow` the further ones, too.
fn logs(plugin: String, follow: bool, host: &RunningHost) -> anyhow::Result<()> {
    for response in host.converse(&Request::Logs { plugin, follow })? {
        let Response::Logs(lines) = response? else {
            return Err(unexpected_response());
        };
        let lines = lines.iter().map(|line| printable(line) + "\n");
        print(&lines.collect::<String>())?;
    }
    Ok(())
}

/// Returns the description of a plugin of the running host, and its policy.
pub(crate) fn describe(host: &RunningHost, plugin: &str) -> anyhow::Result<PluginDescription> {
    match host.send(&Request::Describe {
        plugin: plugin.to_owned(),
    })? {
        Response::Described(described) => Ok(*described),
        _ => Err(unexpected_response()),
    }
}

/// Returns the kinds that the API server of the running host serves.
pub(crate) fn served_kinds(host: &RunningHost) -> anyhow::Result<Vec<ServedKind>> {
    match host.send(&Request::Kinds)? {
        Response::Kinds(kinds) => Ok(kinds),
        _ => Err(unexpected_response()),
    }
}

/// Returns the last hour of each plugin of the running host that runs, in short.
pub(super) fn trends(host: &RunningHost) -> anyhow::Result<BTreeMap<String, TrendBrief>> {
    match host.send(&Request::Trends)? {
        Response::Trends(trends) => Ok(trends),
        _ => Err(unexpected_response()),
    }
}

/// Returns all that can be seen of a plugin of the running host.
pub(super) fn details(host: &RunningHost, plugin: &str) -> anyhow::Result<PluginDetails> {
    let plugin = plugin.to_owned();
    match host.send(&Request::Details { plugin })? {
        Response::Details(details) => Ok(*details),
        _ => Err(unexpected_response()),
    }
}

/// Returns the status of the plugins of the running host.
pub(crate) fn plugins(host: &RunningHost) -> anyhow::Result<Vec<PluginStatus>> {
    match host.send(&Request::Status)? {
        Response::Status(plugins) => Ok(plugins),
        _ => Err(unexpected_response()),
    }
}

impl RunningHost {
    /// The host with this admin socket.
    pub(crate) fn at(admin_socket: PathBuf) -> Self {
        Self {
            admin_socket: Some(admin_socket),
        }
    }

    /// Whether its socket was named.
    pub(crate) fn is_named(&self) -> bool {
        self.named().is_some()
    }

    /// Returns the socket that the flag or the environment names.
    fn named(&self) -> Option<PathBuf> {
        let of_environment = || {
            let path = std::env::var_os(SOCKET).filter(|path| !path.is_empty());
            path.map(PathBuf::from)
        };
        self.admin_socket.clone().or_else(of_environment)
    }

    /// Connects to its socket, or to that of the only running host of this user.
    pub(super) fn connect(&self) -> anyhow::Result<UnixStream> {
        match self.named() {
            Some(path) => connect(&path),
            None => connect_default(&socket::default().context(
                "the admin socket has no default path here: name it with --admin-socket",
            )?),
        }
    }

    pub(super) fn send(&self, request: &Request) -> anyhow::Result<Response> {
        let mut responses = self.converse(request)?;
        responses
            .next()
            .unwrap_or_else(|| Err(anyhow!("the host closed the connection without a response")))
    }

    pub(super) fn perform(&self, request: &Request) -> anyhow::Result<String> {
        match self.send(request)? {
            Response::Done(sentence) => Ok(printable(&sentence)),
            _ => Err(unexpected_response()),
        }
    }

    /// Sends a request and yields the responses as they arrive.
    pub(super) fn converse(
        &self,
        request: &Request,
    ) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Response>> + use<>> {
        let mut stream = self.connect()?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        stream.write_all(&line)?;
        Ok(BufReader::new(stream)
            .lines()
            .map(|line| match serde_json::from_str(&line?)? {
                Response::Error(error) => bail!(error),
                response => Ok(response),
            }))
    }
}

fn connect(path: &Path) -> anyhow::Result<UnixStream> {
    UnixStream::connect(path).with_context(|| {
        format!(
            "can't connect to a running host at {}: start one, or name its socket with --admin-socket",
            path.display()
        )
    })
}

/// Connects to the only running host of this user.
fn connect_default(path: &Path) -> anyhow::Result<UnixStream> {
    let others = socket::beside(path).into_iter();
    let mut served: Vec<(PathBuf, UnixStream)> = [path.to_owned()]
        .into_iter()
        .chain(others)
        .filter_map(|path| UnixStream::connect(&path).ok().map(|stream| (path, stream)))
        .collect();
    match served.len() {
        0 => connect(path),
        1 => Ok(served.remove(0).1),
        _ => {
            let hosts = served.iter().map(|(path, stream)| {
                let runs = of_operator(stream).unwrap_or_default();
                match runs.is_empty() {
                    true => path.display().to_string(),
                    false => format!("{} ({})", path.display(), printable(&runs)),
                }
            });
            let hosts: Vec<String> = hosts.collect();
            bail!(
                "several hosts run: name the socket of one with --admin-socket or in {SOCKET}: {}",
                hosts.join(", ")
            )
        }
    }
}

/// Returns the names of the plugins of a host, without the built-in ones; none if it does not answer in time.
fn of_operator(mut stream: &UnixStream) -> Option<String> {
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut line = serde_json::to_vec(&Request::Status).ok()?;
    line.push(b'\n');
    stream.write_all(&line).ok()?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).ok()?;
    let Response::Status(plugins) = serde_json::from_str(&answer).ok()? else {
        return None;
    };
    let own = plugins.iter().filter(|plugin| plugin.origin != "built-in");
    Some(
        own.map(|plugin| plugin.name.as_str())
            .collect::<Vec<_>>()
            .join(", "),
    )
}

pub(super) fn unexpected_response() -> anyhow::Error {
    anyhow!("the host sent an unexpected response: it may be of another version")
}

pub(super) fn json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(printable_json(&serde_json::to_string_pretty(value)?) + "\n")
}

/// Prints the text. A closed pipe (`| head`) ends the process successfully.
fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout()
        .write_all(text.as_bytes())
        .and_then(|()| std::io::stdout().flush())
    {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        done => Ok(done?),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn the_only_running_host_is_found_and_several_must_be_named() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("admin.sock");
        let refused = |path: &Path| connect_default(path).map(drop).unwrap_err().to_string();
        assert!(refused(&path).contains("start one"));
        let second = home.path().join("admin-2.sock");
        let _second = UnixListener::bind(&second).unwrap();
        assert!(connect_default(&path).is_ok());
        let _first = UnixListener::bind(&path).unwrap();
        let error = refused(&path);
        assert!(error.contains("several hosts run"), "{error}");
        assert!(error.contains(&second.display().to_string()), "{error}");
    }
}
