//! The commands for authors and installers of plugins. Only `flyball dev` needs a cluster. Each
//! other one is a module that turns its arguments into a text. Commands that take the name of a
//! plugin instead of a file read it from a running host. `dev` and `test` run a host as a child process
//! (`children`) and read its log (`host_log`).

mod build;
mod children;
mod completion;
mod crd;
mod dev;
mod grant;
mod host_log;
mod inspect;
mod load;
mod manifests;
mod output;
mod package;
mod plural;
mod producers;
mod rbac;
mod test;
mod test_server;
mod validate;

use std::path::PathBuf;

use clap::Subcommand;
use flyball_author::{Language, New};

use self::completion::Shell;
pub(crate) use self::output::Done;
use self::output::Manifests;
use crate::admin;
use crate::output::Format;

/// A command for authors and installers.
#[derive(Debug, Subcommand)]
pub(crate) enum Tool {
    /// Show a plugin's description: what it reads and what it asks for
    Inspect {
        /// The plugin: a WebAssembly component
        file: PathBuf,
        /// Policy whose configuration the plugin describes itself with: a TOML file or a folder of
        /// them
        #[arg(long, value_name = "PATH")]
        policy: Option<PathBuf>,
        /// Output format
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// Check plugins and policies as the host would when it loads them
    ///
    /// Plugins are compiled, instantiated and described; `.toml` files are parsed as policies.
    /// Exits with 1 if any file is invalid.
    Validate {
        /// Plugins, and policies (`.toml`)
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Policy whose configuration the plugins describe themselves with: a TOML file or a folder
        /// of them
        #[arg(long, value_name = "PATH")]
        policy: Option<PathBuf>,
        /// Output format
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// Print a policy that grants a plugin exactly what it asks for
    Policy {
        /// The plugin: a WebAssembly component, or the name of a plugin of the running host
        plugin: PathBuf,
        #[command(flatten)]
        host: admin::RunningHost,
    },
    /// Print the service account and the RBAC roles of a plugin, for `kubectl apply -f -`
    ///
    /// Without a policy, the roles cover all that the plugin asks for; with one, the granted part
    /// of it. With --host, they are those of the host itself.
    Rbac {
        /// The plugin: a WebAssembly component, or the name of a plugin of the running host
        #[arg(required_unless_present = "of_host", conflicts_with = "of_host")]
        plugin: Option<PathBuf>,
        /// Print the roles that the host itself needs to run the plugins of the policy
        #[arg(long = "host")]
        of_host: bool,
        #[command(flatten)]
        host: admin::RunningHost,
        /// Policy: a TOML file or a folder of them
        #[arg(long, value_name = "PATH")]
        policy: Option<PathBuf>,
        /// Output format
        #[arg(short, long, value_enum, default_value_t)]
        output: Manifests,
    },
    /// Create the project of a new plugin, with a working controller and a test
    New {
        /// The plugin's name: lower-case letters, digits and dashes
        name: String,
        /// Programming language of the project
        #[arg(long, value_enum, default_value_t)]
        lang: Language,
        /// Create a cloud, which the cloud controllers call
        #[arg(long)]
        cloud: bool,
        /// Folder to create; by default the plugin's name
        #[arg(long)]
        dir: Option<PathBuf>,
        /// Flyball's SDK for the language: a folder of a checkout or, for Rust, the URL of a git
        /// repository; by default a copy in the project
        #[arg(long, value_name = "PATH|URL")]
        sdk: Option<String>,
    },
    /// Build a plugin's project into a WebAssembly component
    ///
    /// Runs the ordinary tools of the project's language, turns the result into a component and
    /// validates it. Names the missing tools with how to get them.
    Build {
        /// The project's folder
        #[arg(default_value = ".")]
        dir: PathBuf,
        /// Output file; by default `NAME.wasm` in the project's folder
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// The rustup toolchain to build a project in Rust with; by default `FLYBALL_RUST_TOOLCHAIN` or else the active one
        #[arg(long, value_name = "NAME")]
        toolchain: Option<String>,
    },
    /// Print the CustomResourceDefinitions that a project's types describe, for `kubectl apply -f -`
    ///
    /// For projects in Rust: runs the project's `examples/crd.rs`.
    Crd {
        /// The project's folder
        #[arg(default_value = ".")]
        dir: PathBuf,
        /// Output format
        #[arg(short, long, value_enum, default_value_t)]
        output: Manifests,
    },
    Dev(dev::Arguments),
    Test(test::Arguments),
    /// Serve a cluster in memory to the tests of a plugin, over standard input and output
    ///
    /// The SDKs for Go, TypeScript, JavaScript, Python and C start it when tests need it.
    TestServer,
    /// Push a plugin to an OCI registry, as a package
    ///
    /// Validates the plugin first. Prints the package's reference, pinned to its digest.
    Push {
        /// The plugin: a WebAssembly component
        file: PathBuf,
        /// Target, such as `oci://registry.example.com/team/name:1.0.0`
        package: String,
        /// Use HTTP without TLS; always used for a registry on this machine
        #[arg(long)]
        plain_http: bool,
    },
    /// Pull a plugin's package from an OCI registry
    ///
    /// Verifies the digest and, with a key, the signature before it writes the file.
    Pull {
        /// Source, such as `oci://registry.example.com/team/name:1.0.0` or `…/name@sha256:…`
        package: String,
        /// Output file; by default the last part of the repository's name, with `.wasm`
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Public key that must have signed the package, as `cosign public-key` prints it
        #[arg(long, value_name = "FILE")]
        signed_by: Option<PathBuf>,
        /// Use HTTP without TLS; always used for a registry on this machine
        #[arg(long)]
        plain_http: bool,
    },
    /// Print a shell's completion script for flyball
    Completion {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
}

/// Runs a command. `command` is the whole command line, for its completion script.
pub(crate) fn run(tool: Tool, command: clap::Command) -> anyhow::Result<Done> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let done = match tool {
        Tool::Inspect {
            file,
            policy,
            output,
        } => runtime
            .block_on(inspect::run(&file, policy.as_deref(), output))
            .map(Done::from),
        Tool::Validate {
            files,
            policy,
            output,
        } => runtime.block_on(validate::run(&files, policy.as_deref(), output)),
        Tool::Policy { plugin, host } => runtime
            .block_on(load::describe(&plugin, &host))
            .map(|described| grant::policy(&described.description).into()),
        Tool::Rbac {
            plugin: Some(plugin),
            host,
            policy,
            output,
            ..
        } => {
            let described = runtime.block_on(load::describe(&plugin, &host));
            described
                .and_then(|described| rbac::run(described, policy.as_deref(), output))
                .map(Done::from)
        }
        Tool::Rbac {
            plugin: None,
            policy,
            output,
            ..
        } => rbac::of_host(policy.as_deref(), output).map(Done::from),
        Tool::New {
            name,
            lang,
            cloud,
            dir,
            sdk,
        } => New {
            name,
            language: lang,
            cloud,
            dir,
            sdk,
        }
        .create()
        .map(Done::from),
        Tool::Build {
            dir,
            output,
            toolchain,
        } => runtime
            .block_on(build::run(&dir, output, toolchain))
            .map(Done::from),
        Tool::Crd { dir, output } => crd::run(&dir, output).map(Done::from),
        Tool::Dev(arguments) => runtime
            .block_on(dev::run(arguments))
            .map(|()| String::new().into()),
        Tool::Test(arguments) => runtime.block_on(test::run(arguments)),
        Tool::TestServer => test_server::run().map(|()| String::new().into()),
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
    // A compilation that still runs is abandoned.
    runtime.shutdown_background();
    done
}
