//! `flyball debug bundle`: what a bug report needs, in one file. It holds no secret, and names of objects. It holds no object
//! of the cluster, unless recorded calls are added.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use flyball_manager::PluginStatus;
use flyball_recording::file::Recording;
use serde::Serialize;
use serde_json::Value;

use super::client::{RunningHost, unexpected_response};
use super::protocol::{Record, Request, Response};
use super::scrub::scrub;

/// Stands for a value that may be a secret.
const REMOVED: &str = "REMOVED";
/// The most bytes of all recorded calls. The host keeps 1 MiB of each plugin, unless the policy says otherwise.
const MAX_RECORDED: usize = 256 << 20;
/// The lines of a recording that are no calls of the plugin's work: the header and the description.
const NO_CALLS: usize = 2;
/// The folder of recordings in a bundle.
const RECORDINGS: &str = "recordings/";
/// What the file's README says.
const README: &str = "\
This is the state of a Flyball host, for a bug report.

about.json       the process, its flags, and its machine
status.json      the plugins, as in `flyball status -o json`
reconciles.json  the last reconciles of each plugin, as in `flyball why -o json`
metrics.txt      the metrics
plugins/         what each plugin describes, and what it is granted
logs/            the last lines of the log about each plugin
recordings/      recorded calls that were added to it

It holds no objects of the cluster, no configuration values and no credentials. What looks like a private key, a token or
a password was removed. It does hold names of objects, namespaces, files and servers, and the errors of plugins: look
through it before you give it to somebody else.

Recordings are the exception: they hold the objects that their calls were given, as they were, but no data of Secrets.
`flyball replay recordings/NAME.fbrec --wasm FILE` repeats the calls of a plugin on any machine, those of a built-in
controller without --wasm.
";

/// A file of the bundle.
struct Entry {
    path: String,
    bytes: Vec<u8>,
}

/// A part of the bundle.
type Part = fn(&RunningHost, &[PluginStatus]) -> anyhow::Result<Vec<Entry>>;

/// The parts by their names in errors. One that fails, as with an older host, does not prevent the others.
const PARTS: [(&str, Part); 5] = [
    ("about", about),
    ("reconciles", reconciles),
    ("metrics", metrics),
    ("plugins", plugins),
    ("logs", logs),
];

/// Recorded calls for a bundle.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Recorded {
    /// Add the calls that the host keeps of each plugin: the last ones that failed, trapped or took long, with the objects
    /// that they were given
    #[arg(long)]
    recordings: bool,
    /// Add a file with recorded calls, which holds the objects that they were given; may be repeated
    #[arg(long = "recording", value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Writes the bundle of a running host. Returns a sentence about it.
///
/// # Errors
/// No host runs, a recording can't be read or has the data of Secrets, or the file can't be created.
pub(super) fn bundle(
    output: Option<PathBuf>,
    recorded: &Recorded,
    host: &RunningHost,
) -> anyhow::Result<String> {
    let status = super::client::plugins(host)?;
    let recordings = recorded.files.iter().map(|path| recording(path));
    let recordings: Vec<Entry> = recordings.collect::<anyhow::Result<_>>()?;
    let mut entries = vec![
        Entry::text("README", README.to_owned()),
        Entry::json("status.json", &status)?,
    ];
    let kept = recorded.recordings.then_some(("recordings", kept as Part));
    for (name, part) in PARTS.into_iter().chain(kept) {
        match part(host, &status) {
            Ok(more) => entries.extend(more),
            Err(error) => {
                let text = format!("this part is missing: {error:#}\n");
                entries.push(Entry::text(format!("{name}.error.txt"), text));
            }
        }
    }
    entries.extend(recordings);
    distinguish(&mut entries);
    let name = format!(
        "flyball-{}",
        jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ")
    );
    let path = output.unwrap_or_else(|| format!("{name}.tar.gz").into());
    write(&path, &name, &entries)
        .with_context(|| format!("can't write the bundle {}", path.display()))?;
    let has_recordings = entries
        .iter()
        .any(|entry| entry.path.starts_with(RECORDINGS));
    let has = match has_recordings {
        true => "objects that plugins were given",
        false => "names of your objects",
    };
    Ok(format!(
        "wrote {} with {} files. It has {has}: look through it before you give it to somebody else\n",
        path.display(),
        entries.len()
    ))
}

fn about(host: &RunningHost, _: &[PluginStatus]) -> anyhow::Result<Vec<Entry>> {
    match host.send(&Request::About)? {
        Response::About(about) => Ok(vec![Entry::json("about.json", &about)?]),
        _ => Err(unexpected_response()),
    }
}

fn reconciles(host: &RunningHost, _: &[PluginStatus]) -> anyhow::Result<Vec<Entry>> {
    match host.send(&Request::Recent)? {
        Response::Why(recent) => Ok(vec![Entry::json("reconciles.json", &recent)?]),
        _ => Err(unexpected_response()),
    }
}

fn metrics(host: &RunningHost, _: &[PluginStatus]) -> anyhow::Result<Vec<Entry>> {
    match host.send(&Request::Metrics)? {
        Response::Metrics(page) => Ok(vec![Entry::text("metrics.txt", page)]),
        _ => Err(unexpected_response()),
    }
}

/// The descriptions and policies. A plugin that could not be loaded has none.
fn plugins(host: &RunningHost, status: &[PluginStatus]) -> anyhow::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for PluginStatus { name, .. } in status {
        if let Ok(described) = super::client::describe(host, name) {
            let mut described = serde_json::to_value(&described)?;
            for values in ["/policy/config", "/policy/credentials"] {
                if let Some(values) = described.pointer_mut(values) {
                    remove_values(values);
                }
            }
            let path = format!("plugins/{}.json", file_name(name));
            entries.push(Entry::json(path, &described)?);
        }
    }
    Ok(entries)
}

fn logs(host: &RunningHost, status: &[PluginStatus]) -> anyhow::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for PluginStatus { name, .. } in status {
        let request = Request::Logs {
            plugin: name.clone(),
            follow: false,
        };
        if let Ok(Response::Logs(lines)) = host.send(&request)
            && !lines.is_empty()
        {
            let path = format!("logs/{}.log", file_name(name));
            entries.push(Entry::text(path, lines.join("\n") + "\n"));
        }
    }
    Ok(entries)
}

/// The calls that the host keeps. A plugin without such calls has no file.
fn kept(host: &RunningHost, status: &[PluginStatus]) -> anyhow::Result<Vec<Entry>> {
    let (mut entries, mut all) = (Vec::new(), 0);
    for PluginStatus { name, .. } in status {
        // A plugin that does not run has no calls.
        let Ok(bytes) = kept_of(host, name) else {
            continue;
        };
        if bytes.iter().filter(|byte| **byte == b'\n').count() <= NO_CALLS {
            continue;
        }
        all += bytes.len();
        if all > MAX_RECORDED {
            let text = format!(
                "the calls of {name} and of further plugins are left out, because all take more than {MAX_RECORDED} bytes: \
                 add those that matter with `flyball record` and --recording\n"
            );
            entries.push(Entry::text("recordings.error.txt", text));
            break;
        }
        let path = format!("{RECORDINGS}{}.fbrec", file_name(name));
        entries.push(Entry { path, bytes });
    }
    Ok(entries)
}

/// The recording of the calls that the host keeps of a plugin, without the data of Secrets.
fn kept_of(host: &RunningHost, plugin: &str) -> anyhow::Result<Vec<u8>> {
    let request = Request::Record(Record {
        plugin: plugin.to_owned(),
        key: None,
        all: false,
        new: false,
        with_secrets: false,
        for_ms: None,
    });
    let mut bytes = Vec::new();
    for response in host.converse(&request)? {
        match response? {
            Response::Recorded(line) => {
                bytes.extend_from_slice(line.get().as_bytes());
                bytes.push(b'\n');
            }
            Response::Done(_) => {}
            _ => return Err(unexpected_response()),
        }
    }
    Ok(bytes)
}

/// A file of recorded calls. It must not have the data of Secrets, which it says itself.
fn recording(path: &Path) -> anyhow::Result<Entry> {
    let cant = || format!("can't add {}", path.display());
    let bytes = flyball_files::read(path, MAX_RECORDED).with_context(cant)?;
    let recording = Recording::open(&bytes[..]).with_context(cant)?;
    if recording.header().with_secrets {
        bail!(
            "{}: it has the data of Secrets, tokens and credentials: record the calls again, without --with-secrets",
            cant()
        );
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let path = format!("{RECORDINGS}{}", file_name(&name));
    Ok(Entry { path, bytes })
}

/// Gives files of the same path different ones: a number before the name.
fn distinguish(entries: &mut [Entry]) {
    let mut taken = BTreeSet::new();
    for Entry { path, .. } in entries {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let numbered = |number: u32| format!("{folder}/{number}-{name}");
        let further = (2..).map(numbered);
        let mut paths = std::iter::once(path.clone()).chain(further);
        if let Some(free) = paths.find(|path| !taken.contains(path)) {
            taken.insert(free.clone());
            *path = free;
        }
    }
}

/// Removes the texts in a value, and keeps its keys.
fn remove_values(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(remove_values),
        Value::Array(items) => items.iter_mut().for_each(remove_values),
        Value::String(text) => *text = REMOVED.to_owned(),
        _ => {}
    }
}

/// A name of a plugin, as a name of a file. A plugin that could not be loaded has the path of its file.
fn file_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let plain = name.chars().map(|c| if is_plain(c) { c } else { '_' });
    plain.collect::<String>().trim_start_matches('.').to_owned()
}

impl Entry {
    fn text(path: impl Into<String>, text: String) -> Self {
        Self {
            path: path.into(),
            bytes: scrub(&text).into_bytes(),
        }
    }

    fn json(path: impl Into<String>, value: &impl Serialize) -> anyhow::Result<Self> {
        let text = serde_json::to_string_pretty(value)?;
        Ok(Self::text(path, text + "\n"))
    }
}

/// Writes a compressed archive with one folder. Only this user may read it. An existing file is not replaced.
fn write(path: &Path, folder: &str, entries: &[Entry]) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let mut archive = tar::Builder::new(GzEncoder::new(file, Compression::default()));
    for Entry { path, bytes } in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        header.set_cksum();
        archive.append_data(&mut header, format!("{folder}/{path}"), &bytes[..])?;
    }
    archive.into_inner()?.finish()?.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::fs::MetadataExt;

    use serde_json::json;

    use super::*;

    #[test]
    fn the_archive_has_the_files_without_secrets_for_this_user_alone() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("bundle.tar.gz");
        let entries = [
            Entry::text("logs/a.log", "Bearer abc\n".to_owned()),
            Entry::json("status.json", &json!([1])).expect("it is JSON"),
        ];
        write(&path, "flyball-1", &entries).expect("it is written");
        let mode = path.metadata().expect("it exists").mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = write(&path, "flyball-1", &entries).expect_err("it exists");
        assert!(again.to_string().contains("exists"), "{again}");
        let file = File::open(&path).expect("it exists");
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
        let files = archive.entries().expect("an archive").map(|entry| {
            let mut entry = entry.expect("a file");
            let mut text = String::new();
            entry.read_to_string(&mut text).expect("a text");
            (entry.path().expect("a path").display().to_string(), text)
        });
        let files: Vec<_> = files.collect();
        let expected = [
            ("flyball-1/logs/a.log", "Bearer REMOVED\n"),
            ("flyball-1/status.json", "[\n  1\n]\n"),
        ];
        assert_eq!(
            files,
            expected.map(|(path, text)| (path.into(), text.into()))
        );
    }

    #[test]
    fn configuration_keeps_its_keys_and_loses_its_values() {
        let mut policy =
            json!({"region": "eu", "list": ["a", 1], "nested": {"on": true, "key": "b"}});
        remove_values(&mut policy);
        let kept = json!({"region": REMOVED, "list": [REMOVED, 1], "nested": {"on": true, "key": REMOVED}});
        assert_eq!(policy, kept);
    }

    /// A file with the header of a recording.
    fn recorded(with_secrets: bool) -> tempfile::NamedTempFile {
        let header = flyball_recording::Header {
            flyball_recording: flyball_recording::FORMAT,
            with_secrets,
            ..flyball_recording::Header::default()
        };
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        let line = flyball_recording::file::header_line(&header);
        file.write_all(&line).expect("it is written");
        file
    }

    #[test]
    fn only_a_recording_without_the_data_of_secrets_is_added() {
        let added = recording(recorded(false).path()).expect("it is added");
        assert!(added.path.starts_with(RECORDINGS) && added.bytes.ends_with(b"\n"));
        let refused = |path: &Path| {
            let error = recording(path)
                .map(|entry| entry.path)
                .expect_err("it is refused");
            format!("{error:#}")
        };
        let error = refused(recorded(true).path());
        assert!(error.contains("without --with-secrets"), "{error}");
        let mut other = tempfile::NamedTempFile::new().expect("a temporary file");
        other.write_all(b"token: abc\n").expect("it is written");
        let error = refused(other.path());
        assert!(error.contains("not a recording"), "{error}");
        let error = refused(Path::new("/no/such.fbrec"));
        assert!(error.contains("can't add /no/such.fbrec"), "{error}");
    }

    #[test]
    fn recordings_of_one_name_have_different_files() {
        let paths = ["recordings/a", "recordings/a", "about.json", "recordings/a"];
        let mut entries = paths.map(|path| Entry::text(path, String::new()));
        distinguish(&mut entries);
        let paths = entries.map(|entry| entry.path);
        let expected = [
            "recordings/a",
            "recordings/2-a",
            "about.json",
            "recordings/3-a",
        ];
        assert_eq!(paths, expected);
    }

    #[test]
    fn a_name_leads_to_no_other_folder() {
        assert_eq!(file_name("../../etc/passwd"), "_.._etc_passwd");
        assert_eq!(file_name("hello-1.0"), "hello-1.0");
    }
}
