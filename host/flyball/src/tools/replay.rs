//! `flyball replay`: repeats recorded calls against a file or a built-in controller, with no cluster.

mod report;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bytes::Bytes;
use flyball_plugin::{Component, Engine, Plugin};
use flyball_recording::file::{ReadError, Recording};
use flyball_recording::{Call, Ended, Header, Input};
use flyball_rehearse::{Verdict, limits, replay};
use flyball_types::description::Description;
use flyball_types::printable;

use self::report::Report;
use super::load;
use super::output::Done;
use crate::builtins::{BUILTINS, embedded};
use crate::output::Format;

/// The files of `--check`.
const EXTENSION: &str = "fbrec";
/// The most recordings of a folder, and the deepest of its folders.
const MAX_FILES: usize = 10_000;
const MAX_DEPTH: usize = 16;

/// Repeat recorded calls, with no cluster
///
/// The plugin gets the recorded arguments and answers. It ends as it ended then, or the first point is shown at which it
/// parts from the recording: what it asked and wrote before, and now. Exits with 1 if a call parts.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The recording, as `flyball record` writes it
    #[arg(required_unless_present = "check", conflicts_with = "check")]
    file: Option<PathBuf>,
    /// The plugin to call: a WebAssembly component, of the recorded version or of another one; by default the built-in
    /// controller of this program
    #[arg(long, value_name = "FILE")]
    wasm: Option<PathBuf>,
    /// Repeat all recordings of a folder, `*.fbrec`, with one line for each that is repeated
    #[arg(long, value_name = "DIR")]
    check: Option<PathBuf>,
    /// Calls that failed when they were recorded must no longer fail: a regression test of a fixed bug
    ///
    /// Such a call must end well, or ask all that the failed call asked and then more, to which the recording has no answer.
    #[arg(long)]
    fixed: bool,
    /// Only reconciles of this key
    #[arg(long)]
    key: Option<String>,
    /// Print what the plugin logs
    #[arg(long)]
    logs: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(super) async fn run(arguments: Arguments) -> anyhow::Result<Done> {
    let Arguments {
        file,
        wasm,
        check,
        fixed,
        key,
        logs,
        output,
    } = arguments;
    let mut candidates = Candidates::new(wasm.as_deref())?;
    let mut report = Report::new(check.is_some(), logs, fixed);
    let files = match (file, &check) {
        (Some(file), _) => vec![file],
        (None, Some(folder)) => recordings(folder)?,
        (None, None) => Vec::new(),
    };
    for file in files {
        let repeated = repeat(&file, key.as_deref(), &mut candidates, &mut report).await;
        match repeated {
            // A folder of recordings is checked to its end.
            Err(error) if check.is_some() => report.failed(&file, &error),
            repeated => repeated?,
        }
    }
    Ok(report.done(output))
}

/// Returns the recordings of a folder and of those in it, in the order of their names.
fn recordings(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![(folder.to_owned(), 0)]);
    while let Some((folder, depth)) = folders.pop() {
        let read = std::fs::read_dir(&folder);
        let entries =
            read.with_context(|| format!("can't read the folder {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            // Links are not followed into folders.
            let is_folder =
                std::fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir());
            if is_folder && depth < MAX_DEPTH {
                folders.push((path, depth + 1));
            } else if path
                .extension()
                .is_some_and(|extension| extension == EXTENSION)
            {
                found.push(path);
            }
        }
        if found.len() > MAX_FILES {
            bail!("{} has more than {MAX_FILES} recordings", folder.display());
        }
    }
    if found.is_empty() {
        bail!(
            "{} has no recordings: their names end with .{EXTENSION}",
            folder.display()
        );
    }
    found.sort();
    Ok(found)
}

/// Repeats the calls of a recording.
async fn repeat(
    path: &Path,
    key: Option<&str>,
    candidates: &mut Candidates,
    report: &mut Report,
) -> anyhow::Result<()> {
    let place = || format!("can't repeat {}", path.display());
    let file = File::open(path).with_context(place)?;
    let mut recording = Recording::open(BufReader::new(file)).with_context(place)?;
    let header = recording.header().clone();
    let component = candidates.of(&header).await.with_context(place)?;
    report.begin(path, &header, component.digest());
    let mut config = BTreeMap::new();
    while let Some(call) = recording.next() {
        let call = match call {
            // The calls before it count.
            Err(ReadError::CutOff { line }) => {
                report.cut_off(line);
                break;
            }
            call => call.with_context(place)?,
        };
        let line = recording.line();
        let is_asked = key.is_none_or(|key| call.call.key() == Some(key));
        if let Input::Describe { config: own } = &call.call {
            config = own.clone();
        } else if !is_asked {
            continue;
        }
        let verdict = one(&candidates.engine, &component, &header, &call, &config).await;
        let verdict = verdict.with_context(|| format!("{}, line {line}", place()))?;
        add_defaults(&mut config, &verdict);
        if is_asked {
            report.add(line, &call, &verdict);
        }
    }
    report.end();
    Ok(())
}

/// Repeats one call, in an instance of its own.
async fn one(
    engine: &Engine,
    component: &Component,
    header: &Header,
    call: &Call,
    config: &BTreeMap<String, String>,
) -> anyhow::Result<Verdict> {
    let plugin = Plugin::new(engine, component.clone(), limits(header, call))?;
    Ok(replay(&plugin, header, call, config).await?)
}

/// Adds the defaults that the repeated version declares for its configuration.
fn add_defaults(config: &mut BTreeMap<String, String>, verdict: &Verdict) {
    let Some(Ended::Described { description }) = &verdict.ended else {
        return;
    };
    let Ok(description) = serde_json::from_slice::<Description>(&description.0) else {
        return;
    };
    for (key, declared) in description.config {
        if let Some(default) = declared.default {
            config.entry(key).or_insert(default);
        }
    }
}

/// The components that calls are repeated with.
struct Candidates {
    engine: Engine,
    /// The file of `--wasm`.
    file: Option<(PathBuf, Option<Component>)>,
    /// By their names.
    builtins: BTreeMap<String, Component>,
}

impl Candidates {
    fn new(wasm: Option<&Path>) -> anyhow::Result<Self> {
        Ok(Self {
            engine: load::engine()?,
            file: wasm.map(|path| (path.to_owned(), None)),
            builtins: BTreeMap::new(),
        })
    }

    /// The component to repeat a recording with.
    async fn of(&mut self, header: &Header) -> anyhow::Result<Component> {
        match &mut self.file {
            Some((_, Some(component))) => Ok(component.clone()),
            Some((path, loaded)) => {
                let component = read(&self.engine, path).await?;
                Ok(loaded.insert(component).clone())
            }
            None => self.builtin(header).await,
        }
    }

    async fn builtin(&mut self, header: &Header) -> anyhow::Result<Component> {
        let name = header.plugin.as_str();
        if let Some(component) = self.builtins.get(name) {
            return Ok(component.clone());
        }
        let builtin = BUILTINS
            .iter()
            .find(|builtin| builtin.name == name && header.built_in);
        let Some(builtin) = builtin else {
            let (name, digest) = (printable(name), printable(&header.digest));
            bail!("it is of the plugin {name} (sha256:{digest}): name its file with --wasm");
        };
        let code = embedded(&[builtin])
            .pop()
            .context("the binary lacks its code")?;
        let component = self.engine.load_embedded(code.component).await?;
        self.builtins.insert(name.to_owned(), component.clone());
        Ok(component)
    }
}

async fn read(engine: &Engine, path: &Path) -> anyhow::Result<Component> {
    let limit = engine.max_component_bytes();
    let file = path.to_owned();
    let read = tokio::task::spawn_blocking(move || flyball_files::read(file, limit)).await?;
    let wasm = read.with_context(|| format!("can't read the plugin {}", path.display()))?;
    let loaded = engine.load(Bytes::from(wasm)).await;
    loaded.with_context(|| format!("can't load the plugin {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recordings_of_a_folder_are_found_in_order_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert!(
            recordings(path)
                .unwrap_err()
                .to_string()
                .contains("no recordings")
        );
        std::fs::create_dir(path.join("b")).unwrap();
        for name in ["c.fbrec", "b/a.fbrec", "a.fbrec", "a.txt"] {
            std::fs::write(path.join(name), "").unwrap();
        }
        std::os::unix::fs::symlink(path, path.join("b/again")).unwrap();
        let found = recordings(path).unwrap();
        let expected = ["a.fbrec", "b/a.fbrec", "c.fbrec"].map(|name| path.join(name));
        assert_eq!(found, expected);
    }
}
