//! The commands for authors and installers of plugins. Only `flyball dev` needs a cluster, and `flyball plan` may read one. Each
//! other one is a module that turns its arguments into a text. Commands that take the name of a
//! plugin instead of a file read it from a running host. `dev`, `test` and `plan` run a host as a child process
//! (`children`) and read its log (`host_log`).

mod build;
mod children;
mod completion;
mod crd;
mod dev;
mod grant;
mod host_log;
mod import;
mod inspect;
mod kinds;
mod load;
mod manifests;
mod observed;
mod output;
mod package;
mod plan;
mod plural;
mod producers;
mod rbac;
mod replay;
mod served;
mod settings;
mod test;
mod test_server;
mod validate;

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Subcommand;
use flyball_author::{Language, New};

use self::completion::Shell;
use self::kinds::KindFlags;
pub(crate) use self::output::Done;
use self::output::Manifests;
pub(crate) use self::plan::NOT_COMPLETE;
use self::plural::PluralFlags;
use crate::admin;
use crate::output::Format;

/// A command for authors and installers.
#[derive(Debug, Subcommand)]
pub(crate) enum Tool {
    /// Show a plugin's description: what it reads and what it asks for
    ///
    /// Exits with 1 if it names a kind that does not exist.
    Inspect {
        /// The plugin: a WebAssembly component
        file: PathBuf,
        /// Policy whose configuration the plugin describes itself with: a TOML file or a folder of
        /// them
        #[arg(long, value_name = "PATH")]
        policy: Option<PathBuf>,
        #[command(flatten)]
        kinds: KindFlags,
        #[command(flatten)]
        host: admin::RunningHost,
        /// Output format
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// Check plugins and policies as the host would when it loads them
    ///
    /// Plugins are compiled, instantiated and described; `.toml` files are parsed as policies. The
    /// kinds that they name are checked, too: Kubernetes' own against a list, others against the
    /// files of --crd and the cluster. Exits with 1 if any file is invalid.
    Validate {
        /// Plugins, and policies (`.toml`)
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Policy whose configuration the plugins describe themselves with: a TOML file or a folder
        /// of them
        #[arg(long, value_name = "PATH")]
        policy: Option<PathBuf>,
        #[command(flatten)]
        kinds: KindFlags,
        #[command(flatten)]
        host: admin::RunningHost,
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
    /// of it. With --host, they are those of the host itself. The plurals of kinds that are not
    /// built in are those of --plural, --crd, the running host or the cluster, or else of crd.yaml or
    /// config/crd/bases beside the plugin or in the current folder; a guess is a warning.
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
        #[command(flatten)]
        plurals: PluralFlags,
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
        /// Kind of the project's custom resource, as in Website; by default Greeting
        #[arg(long)]
        kind: Option<String>,
        /// API group of the custom resource, as in web.example.com; by default NAME.example.com
        #[arg(long)]
        group: Option<String>,
        /// Plural of the kind, as in leaves; by default the usual one
        #[arg(long, requires = "kind")]
        plural: Option<String>,
        /// Flyball's SDK for the language: a folder of a checkout or, for Rust, the URL of a git
        /// repository; by default a copy in the project
        #[arg(long, value_name = "PATH|URL")]
        sdk: Option<String>,
    },
    Import(import::Arguments),
    Build(build::Arguments),
    Crd(crd::Arguments),
    Dev(dev::Arguments),
    Test(test::Arguments),
    Replay(replay::Arguments),
    Plan(plan::Arguments),
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
            kinds,
            host,
            output,
        } => runtime.block_on(inspect::run(
            &file,
            policy.as_deref(),
            output,
            &kinds,
            &host,
        )),
        Tool::Validate {
            files,
            policy,
            kinds,
            host,
            output,
        } => {
            let policy = policy.as_deref();
            runtime.block_on(validate::run(&files, policy, output, &kinds, &host))
        }
        Tool::Policy { plugin, host } => runtime
            .block_on(load::describe(&plugin, &host))
            .map(|described| grant::policy(&described.description).into()),
        Tool::Rbac {
            plugin,
            host,
            policy,
            plurals,
            output,
            ..
        } => runtime.block_on(async {
            let policy = policy.as_deref();
            let plurals = plurals.beside(plugin.as_deref().or(policy));
            let printed = match plugin {
                Some(plugin) => {
                    let described = load::describe(&plugin, &host).await?;
                    rbac::run(described, policy, &plurals, &host).await?
                }
                None => rbac::of_host(policy, &plurals, &host).await?,
            };
            printed.in_format(output, std::io::stdout().is_terminal())
        }),
        Tool::New {
            name,
            lang,
            cloud,
            dir,
            kind,
            group,
            plural,
            sdk,
        } => New {
            name,
            language: lang,
            cloud,
            dir,
            kind,
            group,
            plural,
            sdk,
        }
        .create()
        .map(Done::from),
        Tool::Import(arguments) => runtime.block_on(import::run(arguments)),
        Tool::Build(arguments) => runtime.block_on(build::run(arguments)).map(Done::from),
        Tool::Crd(arguments) => crd::run(&arguments).map(Done::from),
        Tool::Dev(arguments) => runtime
            .block_on(dev::run(arguments))
            .map(|()| String::new().into()),
        Tool::Test(arguments) => runtime.block_on(test::run(arguments)),
        Tool::Replay(arguments) => runtime.block_on(replay::run(arguments)),
        Tool::Plan(arguments) => runtime.block_on(plan::run(arguments)),
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
