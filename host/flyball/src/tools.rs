//! The commands for people who write, publish and install plugins. None of them needs a cluster; each is a module that turns
//! its arguments into a text. Where a plugin may be named instead of a file, a running host is asked.

mod build;
mod completion;
mod grant;
mod inspect;
mod new;
mod package;
mod plural;
mod producers;
mod rbac;
mod trial;
mod validate;
mod yaml;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};

use crate::admin;

/// What can be asked for.
#[derive(Debug, Subcommand)]
pub(crate) enum Tool {
    /// Show what a plugin is, what it reads and what it asks for
    Inspect {
        /// The plugin: a WebAssembly component
        file: PathBuf,
        /// How it is shown
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// Check plugins and policies as the host would when it loads them
    ///
    /// Each plugin is compiled, instantiated and asked to describe itself; each `.toml` file is read as a policy. Ends with 1
    /// if any of them can't be used.
    Validate {
        /// Plugins, and policies (`.toml`)
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// How it is shown
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// Print a policy that grants a plugin just what it asks for, to be trimmed
    Policy {
        /// The plugin: a WebAssembly component, or the name of a plugin of the running host
        plugin: PathBuf,
        #[command(flatten)]
        host: admin::Host,
    },
    /// Print the service account and the RBAC roles that a plugin needs, for `kubectl apply -f -`
    ///
    /// Without a policy, the plugin gets what it asks for. Under one, the part of it that the policy grants.
    Rbac {
        /// The plugin: a WebAssembly component, or the name of a plugin of the running host
        plugin: PathBuf,
        #[command(flatten)]
        host: admin::Host,
        /// What plugins are granted: a file or a folder of files in TOML
        #[arg(long, value_name = "PATH")]
        policy: Option<PathBuf>,
        /// How it is shown
        #[arg(short, long, value_enum, default_value_t)]
        output: Manifests,
    },
    /// Make a new plugin's project: a controller that works, with a test
    New {
        /// The plugin's name: lower-case letters, digits and dashes
        name: String,
        /// The language that it is written in
        #[arg(long, value_enum, default_value_t)]
        lang: Language,
        /// The folder to make; by default one of the plugin's name
        #[arg(long)]
        dir: Option<PathBuf>,
        /// Flyball's SDK: the folder `guests/sdk` of a checkout, or the URL of a git repository; by default, the checkout that
        /// this binary was built from
        #[arg(long, value_name = "PATH|URL")]
        sdk: Option<String>,
    },
    /// Build a plugin's project into a WebAssembly component
    ///
    /// It runs cargo, for a WebAssembly target that is installed, makes a component of the result and tries that out.
    Build {
        /// The project's folder
        #[arg(default_value = ".")]
        dir: PathBuf,
        /// The file to write; by default `NAME.wasm` in the project's folder
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// The toolchain of rustup to build with, if not the one in use
        #[arg(long, value_name = "NAME")]
        toolchain: Option<String>,
    },
    /// Push a plugin to an OCI registry, as a package
    ///
    /// It is checked as by `validate` first. Prints where it is, pinned to its digest.
    Push {
        /// The plugin: a WebAssembly component
        file: PathBuf,
        /// Where to, as in `oci://registry.example.com/team/name:1.0.0`
        package: String,
        /// Speak to the registry without TLS; one on this machine is spoken to without it in any case
        #[arg(long)]
        plain_http: bool,
    },
    /// Pull a plugin's package from an OCI registry
    ///
    /// What comes is held against its digest and, with a key, its signature, before it is written.
    Pull {
        /// Where from, as in `oci://registry.example.com/team/name:1.0.0` or `…/name@sha256:…`
        package: String,
        /// The file to write; by default the last part of the repository's name, with `.wasm`
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// The public key that it must be signed with, as `cosign public-key` prints it
        #[arg(long, value_name = "FILE")]
        signed_by: Option<PathBuf>,
        /// Speak to the registry without TLS; one on this machine is spoken to without it in any case
        #[arg(long)]
        plain_http: bool,
    },
    /// Print a script by which a shell completes flyball's commands and flags
    Completion {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
}

/// How something is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for people
    #[default]
    Text,
    /// JSON, for scripts
    Json,
}

/// How Kubernetes objects are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Manifests {
    /// YAML, with comments
    #[default]
    Yaml,
    /// A list, in JSON
    Json,
}

/// What a new project can be written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    /// Rust
    #[default]
    Rust,
}

/// A shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// What a command printed, and how it ended.
pub(crate) struct Done {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: ExitCode,
}

impl From<String> for Done {
    fn from(out: String) -> Self {
        Self {
            out,
            err: String::new(),
            code: ExitCode::SUCCESS,
        }
    }
}

/// Does what was asked for. `command` is the whole command line, for its completion.
pub(crate) fn run(tool: Tool, command: clap::Command) -> anyhow::Result<Done> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let done = match tool {
        Tool::Inspect { file, output } => runtime
            .block_on(inspect::run(&file, output))
            .map(Done::from),
        Tool::Validate { files, output } => runtime.block_on(validate::run(&files, output)),
        Tool::Policy { plugin, host } => runtime
            .block_on(trial::known(&plugin, &host))
            .map(|known| grant::policy(&known.description).into()),
        Tool::Rbac {
            plugin,
            host,
            policy,
            output,
        } => {
            let known = runtime.block_on(trial::known(&plugin, &host));
            known
                .and_then(|known| rbac::run(known, policy.as_deref(), output))
                .map(Done::from)
        }
        Tool::New {
            name,
            lang: Language::Rust,
            dir,
            sdk,
        } => new::run(&name, dir, sdk.as_deref()).map(Done::from),
        Tool::Build {
            dir,
            output,
            toolchain,
        } => runtime
            .block_on(build::run(&dir, output, toolchain.as_deref()))
            .map(Done::from),
        Tool::Push {
            file,
            package,
            plain_http,
        } => runtime
            .block_on(package::push(&file, &package, plain_http))
            .map(Done::from),
        Tool::Pull {
            package,
            output,
            signed_by,
            plain_http,
        } => runtime
            .block_on(package::pull(
                &package,
                output,
                signed_by.as_deref(),
                plain_http,
            ))
            .map(Done::from),
        Tool::Completion { shell } => Ok(completion::script(shell, command).into()),
    };
    // A guest that is still compiled is not waited for.
    runtime.shutdown_background();
    done
}
