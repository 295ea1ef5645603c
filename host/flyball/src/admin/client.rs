//! The operator's end of the admin socket: the commands that ask a running host.

use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Subcommand;
use flyball_manager::PluginDescription;

use super::{Answer, Request, default_socket, table};
use crate::tools::Format;

/// How often a table that is watched is drawn anew.
const REDRAW: Duration = Duration::from_secs(1);

/// What can be asked of a running host.
#[derive(Debug, Subcommand)]
pub(crate) enum Ask {
    /// Show the plugins of the running host: their state, work and use of resources
    Status {
        /// Draw it anew each second, until Ctrl-C
        #[arg(short, long)]
        watch: bool,
        /// How it is shown
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
        #[command(flatten)]
        host: Host,
    },
    /// Show the last reconciles that were of an object, triggered by it, or touched it
    Why {
        /// The object: its name, NAMESPACE/NAME, or KIND/NAMESPACE/NAME
        object: String,
        /// How it is shown
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
        #[command(flatten)]
        host: Host,
    },
    /// Show the last lines that a plugin, or the host about it, wrote to the log
    Logs {
        /// The plugin's name
        plugin: String,
        /// Go on with each line that comes, until Ctrl-C
        #[arg(short, long)]
        follow: bool,
        #[command(flatten)]
        host: Host,
    },
    /// Grant a plugin what it asks for, by writing it into the policy
    Approve {
        /// The plugin's name
        plugin: String,
        #[command(flatten)]
        host: Host,
    },
    /// Go back to the version of a plugin that ran before, until its file changes; and back again
    Rollback {
        /// The plugin's name
        plugin: String,
        #[command(flatten)]
        host: Host,
    },
    /// Let a plugin that is in quarantine go on
    Resume {
        /// The plugin's name
        plugin: String,
        #[command(flatten)]
        host: Host,
    },
}

/// Which host is asked.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Host {
    /// The running host's socket, if not its usual one
    #[arg(long, value_name = "PATH")]
    admin_socket: Option<PathBuf>,
}

/// Asks, and prints what is answered.
pub(crate) fn run(ask: Ask) -> anyhow::Result<()> {
    match ask {
        Ask::Status {
            watch,
            output,
            host,
        } => loop {
            let Answer::Status(plugins) = host.ask(&Request::Status)? else {
                return Err(strange());
            };
            let text = match output {
                Format::Json => serde_json::to_string_pretty(&plugins)? + "\n",
                Format::Text => table::status(&plugins),
            };
            if !watch {
                return print(&text);
            }
            // The screen is cleared only where there is one.
            let clear = if std::io::stdout().is_terminal() {
                "\x1b[H\x1b[2J"
            } else {
                ""
            };
            print(&format!("{clear}{text}"))?;
            std::thread::sleep(REDRAW);
        },
        Ask::Why {
            object,
            output,
            host,
        } => {
            let Answer::Why(reconciles) = host.ask(&Request::Why {
                object: object.clone(),
            })?
            else {
                return Err(strange());
            };
            match output {
                Format::Json => print(&(serde_json::to_string_pretty(&reconciles)? + "\n")),
                Format::Text if reconciles.is_empty() => print(&format!(
                    "none of the last reconciles of any plugin was about {object}\n"
                )),
                Format::Text => print(&table::why(&reconciles)),
            }
        }
        Ask::Logs {
            plugin,
            follow,
            host,
        } => {
            for answer in host.converse(&Request::Logs { plugin, follow })? {
                let Answer::Logs(lines) = answer? else {
                    return Err(strange());
                };
                print(
                    &lines
                        .iter()
                        .map(|line| format!("{line}\n"))
                        .collect::<String>(),
                )?;
            }
            Ok(())
        }
        Ask::Approve { plugin, host } => {
            let done = host.done(&Request::Approve {
                plugin: plugin.clone(),
            })?;
            print(&format!(
                "{done}\nIts account needs rights in the cluster too: flyball rbac {plugin} | kubectl apply -f -\n"
            ))
        }
        Ask::Rollback { plugin, host } => {
            print(&(host.done(&Request::Rollback { plugin })? + "\n"))
        }
        Ask::Resume { plugin, host } => print(&(host.done(&Request::Resume { plugin })? + "\n")),
    }
}

/// What a running host knows of a plugin.
pub(crate) fn describe(host: &Host, plugin: &str) -> anyhow::Result<PluginDescription> {
    match host.ask(&Request::Describe {
        plugin: plugin.to_owned(),
    })? {
        Answer::Described(described) => Ok(*described),
        _ => Err(strange()),
    }
}

impl Host {
    fn ask(&self, request: &Request) -> anyhow::Result<Answer> {
        let mut answers = self.converse(request)?;
        answers
            .next()
            .unwrap_or_else(|| Err(anyhow!("the host ended before it answered")))
    }

    fn done(&self, request: &Request) -> anyhow::Result<String> {
        match self.ask(request)? {
            Answer::Done(sentence) => Ok(sentence),
            _ => Err(strange()),
        }
    }

    /// Sends a request; yields the answers as they come. The first that is an error ends the conversation.
    fn converse(
        &self,
        request: &Request,
    ) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Answer>> + use<>> {
        let path = match &self.admin_socket {
            Some(path) => path.clone(),
            None => default_socket().context(
                "there is no usual place for the admin socket: name it with --admin-socket",
            )?,
        };
        let mut stream = connect(&path)?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        stream.write_all(&line)?;
        Ok(BufReader::new(stream)
            .lines()
            .map(|line| match serde_json::from_str(&line?)? {
                Answer::Error(error) => bail!(error),
                answer => Ok(answer),
            }))
    }
}

fn connect(path: &Path) -> anyhow::Result<UnixStream> {
    UnixStream::connect(path).with_context(|| {
        format!(
            "can't reach a running host at {}: start one, or name its socket with --admin-socket",
            path.display()
        )
    })
}

fn strange() -> anyhow::Error {
    anyhow!("the host's answer is to another question: it may be of another version")
}

/// A reader that has gone (`| head`) is no error.
fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout()
        .write_all(text.as_bytes())
        .and_then(|()| std::io::stdout().flush())
    {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        done => Ok(done?),
    }
}
