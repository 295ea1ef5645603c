//! `flyball debug bundle`: what a bug report needs, in one file. It holds no object of the cluster and no secret, but names
//! of objects.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use flyball_manager::PluginStatus;
use serde::Serialize;
use serde_json::Value;

use super::client::{RunningHost, unexpected_response};
use super::protocol::{Request, Response};
use super::scrub::scrub;

/// Stands for a value that may be a secret.
const REMOVED: &str = "REMOVED";
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
through it before you give it to somebody else. A recording holds what its calls were given.
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

/// Writes the bundle of a running host, with these recordings. Returns a sentence about it.
///
/// # Errors
/// No host runs, a recording can't be read, or the file can't be created.
pub(super) fn bundle(
    output: Option<PathBuf>,
    recordings: &[PathBuf],
    host: &RunningHost,
) -> anyhow::Result<String> {
    let status = super::client::plugins(host)?;
    let recordings = recordings.iter().map(|path| recording(path));
    let recordings: Vec<Entry> = recordings.collect::<anyhow::Result<_>>()?;
    let mut entries = vec![
        Entry::text("README", README.to_owned()),
        Entry::json("status.json", &status)?,
    ];
    for (name, part) in PARTS {
        match part(host, &status) {
            Ok(more) => entries.extend(more),
            Err(error) => {
                let text = format!("this part is missing: {error:#}\n");
                entries.push(Entry::text(format!("{name}.error.txt"), text));
            }
        }
    }
    entries.extend(recordings);
    let name = format!(
        "flyball-{}",
        jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ")
    );
    let path = output.unwrap_or_else(|| format!("{name}.tar.gz").into());
    write(&path, &name, &entries)
        .with_context(|| format!("can't write the bundle {}", path.display()))?;
    Ok(format!(
        "wrote {} with {} files. It has names of your objects: look through it before you give it to somebody else\n",
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

/// A file of recorded calls.
fn recording(path: &Path) -> anyhow::Result<Entry> {
    let Some(name) = path.file_name() else {
        bail!("{} is not a file with a recording", path.display());
    };
    let bytes = std::fs::read(path);
    let bytes = bytes.with_context(|| format!("can't read the recording {}", path.display()))?;
    Ok(Entry {
        path: format!("recordings/{}", file_name(&name.to_string_lossy())),
        bytes,
    })
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

    #[test]
    fn a_name_leads_to_no_other_folder() {
        assert_eq!(file_name("../../etc/passwd"), "_.._etc_passwd");
        assert_eq!(file_name("hello-1.0"), "hello-1.0");
    }
}
