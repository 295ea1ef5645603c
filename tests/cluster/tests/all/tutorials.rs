//! The tutorials, word for word: from an empty folder to a running plugin, with all files that their pages show and all
//! commands of the pages.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use flyball_cluster_tests::{
    Book, Cluster, Step, finish, guest, host, is_shown, target_of_projects,
};
use flyball_controlplane::{Process, kubectl, skip};

/// The pages, each with the greeter in its language.
const TUTORIALS: [(&str, &str); 6] = [
    ("tutorial/rust.md", "greeter-rust"),
    ("tutorial/go.md", "greeter-go"),
    ("tutorial/typescript.md", "greeter-typescript"),
    ("tutorial/javascript.md", "greeter-javascript"),
    ("tutorial/python.md", "greeter-python"),
    ("tutorial/c.md", "greeter-c"),
];

/// How long the commands of a block may take, in seconds. A page may wait in them for what never comes.
const LONGEST: &str = "1800";

#[tokio::test]
async fn each_tutorial_leads_from_an_empty_folder_to_a_running_plugin() -> Result<()> {
    let kubectl = kubectl().await?;
    let cluster = Cluster::for_plugins().await?;
    let result = follow_all(&cluster, &kubectl).await;
    finish(cluster, [], result).await
}

async fn follow_all(cluster: &Cluster, kubectl: &Path) -> Result<()> {
    let programs = cluster.plane.dir().join("programs");
    fs::create_dir(&programs)?;
    symlink(kubectl, programs.join("kubectl"))?;
    symlink(host()?.canonicalize()?, programs.join("flyball"))?;
    for (page, greeter) in TUTORIALS {
        if guest(greeter).is_err() {
            skip(
                &format!("each_tutorial_leads_from_an_empty_folder_to_a_running_plugin ({page})"),
                "a tool that builds its greeter is missing",
            )?;
            continue;
        }
        let folder = tempfile::tempdir()?;
        let mut reader = Reader::new(cluster, &programs, folder.path(), greeter)?;
        let result = reader.follow(&Book::of_checkout().steps(page)?).await;
        result.with_context(|| format!("docs/{page} can't be followed"))?;
    }
    Ok(())
}

/// Follows the steps of a page.
pub(crate) struct Reader {
    /// The current folder.
    folder: PathBuf,
    environment: Vec<(&'static str, PathBuf)>,
    /// The log of the second terminal.
    log: PathBuf,
    /// The process in the second terminal.
    beside: Option<Process>,
    /// The output of the last commands.
    printed: String,
}

impl Reader {
    /// A reader in this folder, who finds these programs first. `name` is that of the log of the second terminal.
    pub(crate) fn new(
        cluster: &Cluster,
        programs: &Path,
        folder: &Path,
        name: &str,
    ) -> Result<Self> {
        let others = std::env::var_os("PATH").unwrap_or_default();
        let folders = [programs.to_owned()].into_iter();
        let path = std::env::join_paths(folders.chain(std::env::split_paths(&others)))?;
        Ok(Self {
            folder: folder.to_owned(),
            environment: vec![
                ("PATH", path.into()),
                ("KUBECONFIG", cluster.plane.kubeconfig_path().to_owned()),
                ("KUBECACHEDIR", cluster.plane.dir().join("kubectl")),
                // The folders of the host's admin socket and of its state.
                ("XDG_RUNTIME_DIR", cluster.plane.dir().to_owned()),
                ("XDG_STATE_HOME", cluster.plane.dir().to_owned()),
                ("CARGO_TARGET_DIR", target_of_projects()),
            ],
            log: cluster.plane.dir().join(format!("{name}.log")),
            beside: None,
            printed: String::new(),
        })
    }

    pub(crate) async fn follow(&mut self, steps: &[Step]) -> Result<()> {
        let commands = steps.iter().filter(|step| matches!(step, Step::Run(_)));
        ensure!(commands.count() > 5, "the page has no commands: {steps:?}");
        for step in steps {
            self.carry_out(step)
                .with_context(|| format!("{step:?} fails in {}", self.folder.display()))?;
        }
        self.stop_beside().await
    }

    /// Stops what the reader has started in the second terminal.
    pub(crate) async fn stop_beside(&mut self) -> Result<()> {
        let mut host = self.beside.take().context("the page starts no host")?;
        host.stop().await?;
        Ok(())
    }

    /// From now on, the reader is where neither a cluster nor a running host is found. The folder is empty.
    pub(crate) fn move_away(&mut self, empty: &Path) {
        self.log = empty.join("log");
        for (name, value) in &mut self.environment {
            if matches!(*name, "KUBECONFIG" | "XDG_RUNTIME_DIR" | "XDG_STATE_HOME") {
                empty.clone_into(value);
            }
        }
    }

    pub(crate) fn carry_out(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Save { path, text } => {
                let path = self.folder.join(path);
                fs::create_dir_all(path.parent().context("a file has a folder")?)?;
                fs::write(path, text)?;
            }
            Step::Append { path, text } => {
                let path = self.folder.join(path);
                let before = fs::read_to_string(&path)?;
                fs::write(path, format!("{before}\n{text}"))?;
            }
            Step::Run(commands) => {
                // The shell reports the folder in which it ends.
                let script = format!("set -euo pipefail\n{commands}\npwd >&3");
                let place = self.log.with_extension("place");
                let script = format!("exec 3>'{}'\n{script}", place.display());
                let output = self
                    .shell(&["timeout", LONGEST, "bash"], &script)
                    .output()?;
                self.printed = String::from_utf8_lossy(&output.stdout).into_owned();
                if !output.status.success() {
                    let beside = fs::read_to_string(&self.log).unwrap_or_default();
                    bail!(
                        "{}{}\nThe second terminal shows:\n{beside}",
                        self.printed,
                        String::from_utf8_lossy(&output.stderr)
                    );
                }
                self.folder = fs::read_to_string(place)?.trim_end().into();
            }
            Step::RunBeside(command) => {
                let shell = self.shell(&["bash"], &format!("exec {command}"));
                self.beside = Some(Process::spawn("the second terminal", shell, &self.log)?);
            }
            Step::Expect(text) => ensure!(
                self.printed.trim_end().ends_with(text.trim_end()) || is_shown(text, &self.printed),
                "the commands print {:?}",
                self.printed
            ),
        }
        Ok(())
    }

    fn shell(&self, program: &[&str], script: &str) -> Command {
        let mut shell = Command::new(program[0]);
        shell
            .args(&program[1..])
            .args(["-c", script])
            .current_dir(&self.folder)
            .env_remove("VIRTUAL_ENV")
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        shell
    }
}
