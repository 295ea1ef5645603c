//! `flyball inspect`: shows a plugin's description, the kinds that it reads and the permissions that it asks for.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use flyball_manager::Inspection;
use flyball_policy::kinds::of_description;
use flyball_types::description::{
    DeltaType, Description, Having, Mapping, Owners, Queue, To, Watch,
};
use flyball_types::{listed, printable};
use serde_json::json;

use super::kinds::{self, KindFlags};
use super::load;
use super::output::{self, Done};
use super::producers::{self, Interface};
use crate::admin::RunningHost;
use crate::output::Format;

/// The name of the export of every guest, up to the version of the world that it was compiled against.
const GUEST: &str = "flyball:controller/guest@";

/// Inspects a file, with the configuration of the policy at `policy`. The output shows mistakes too, and they make the
/// command fail.
pub(super) async fn run(
    file: &Path,
    policy: Option<&Path>,
    format: Format,
    flags: &KindFlags,
    host: &RunningHost,
) -> anyhow::Result<Done> {
    let inspection = load::load(file, &load::policy(policy)?).await?;
    let interface = producers::read(&inspection.wasm);
    let named = of_description(&inspection.description).collect();
    let checked = kinds::check(&named, flags, host).await?;
    let mut mistakes = inspection.mistakes.clone();
    mistakes.extend(checked.mistakes.into_values());
    let out = match format {
        Format::Text => text(file, &inspection, &interface),
        Format::Json => json(file, &inspection, &interface, &mistakes),
    };
    let mut err = String::new();
    for mistake in &mistakes {
        let _ = writeln!(err, "{}: {}", file.display(), printable(mistake));
    }
    for warning in checked.warnings.values() {
        let _ = writeln!(err, "{}: warning: {}", file.display(), printable(warning));
    }
    let code = match mistakes.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    };
    Ok(Done { out, err, code })
}

fn world(interface: &Interface) -> String {
    let version = interface
        .exports
        .iter()
        .find_map(|name| name.strip_prefix(GUEST))
        .unwrap_or("unknown");
    format!("flyball:controller/controller@{version}")
}

fn json(
    file: &Path,
    inspection: &Inspection,
    interface: &Interface,
    mistakes: &[String],
) -> String {
    let document = json!({
        "problems": mistakes,
        "file": file.display().to_string(),
        "digest": format!("sha256:{}", inspection.digest),
        "bytes": inspection.wasm.len(),
        "world": world(interface),
        "producers": interface.producers,
        "imports": interface.imports,
        "settings": inspection.settings,
        "description": *inspection.description,
    });
    output::pretty_json(&document)
}

fn text(file: &Path, inspection: &Inspection, interface: &Interface) -> String {
    let description = &inspection.description;
    let mut page = Page::default();
    page.line("name", &description.name);
    page.line("version", &description.version);
    page.line(
        "file",
        &format!("{}, {} bytes", file.display(), inspection.wasm.len()),
    );
    page.line("digest", &format!("sha256:{}", inspection.digest));
    page.line("world", &world(interface));
    for (field, names) in &interface.producers {
        page.line(
            field,
            &names
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(", "),
        );
    }
    page.line("imports", &short_imports(interface));
    page.line("concurrency", &description.concurrency.max(1).to_string());
    description
        .watches
        .iter()
        .for_each(|watch| page.item("watches", &watch_of(watch)));
    for index in &description.indexes {
        page.item(
            "indexes",
            &format!("{} of {} by {}", index.name, index.kind, index.path),
        );
    }
    description
        .queues
        .iter()
        .for_each(|queue| page.item("queues", &queue_of(queue)));
    for ticker in &description.tickers {
        page.item(
            "tickers",
            &format!(
                "{:?} every {}",
                ticker.key,
                period(ticker.period_ms, &ticker.config)
            ),
        );
    }
    wants(description)
        .iter()
        .for_each(|want| page.item("wants", want));
    if description.malformed_events {
        page.item(
            "emits",
            "an event about each object that does not fit what it reads",
        );
    }
    for (key, value) in &description.config {
        let set = inspection.settings.get(key);
        let shown = match (set, &value.default) {
            (Some(set), Some(default)) => format!(" = {set:?} (default {default:?})"),
            (Some(set), None) => format!(" = {set:?} (no default)"),
            (None, Some(default)) => format!(" = {default:?}"),
            (None, None) => String::new(),
        };
        page.item("config", &format!("{key}{shown}  {}", value.help));
    }
    description
        .metrics
        .iter()
        .for_each(|metric| page.item("metrics", &format!("{}  {}", metric.name, metric.help)));
    page.text
}

/// A table of two columns. Control characters in the plugin's texts are replaced.
#[derive(Default)]
struct Page {
    text: String,
    last: &'static str,
}

impl Page {
    /// Adds a line, unless the value is empty.
    fn line(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            let _ = writeln!(self.text, "{:<13} {}", printable(name), printable(value));
        }
    }

    /// Adds one of several values under one name. Further lines of a value are indented.
    fn item(&mut self, name: &'static str, value: &str) {
        let shown = if self.last == name { "" } else { name };
        self.last = name;
        for (number, line) in value.lines().enumerate() {
            let (name, indent) = if number == 0 {
                (shown, "")
            } else {
                ("", "    ")
            };
            let _ = writeln!(self.text, "{name:<13} {indent}{}", printable(line));
        }
    }
}

/// Returns the interfaces that the component imports, without versions and without the package of the world.
fn short_imports(interface: &Interface) -> String {
    let short = |name: &String| {
        let plain = name.split_once('@').map_or(name.as_str(), |(name, _)| name);
        plain
            .strip_prefix("flyball:controller/")
            .unwrap_or(plain)
            .to_owned()
    };
    interface
        .imports
        .iter()
        .map(short)
        .collect::<Vec<_>>()
        .join(", ")
}

fn watch_of(watch: &Watch) -> String {
    let mut text = match (&watch.kind, &watch.discovered) {
        (Some(kind), _) => kind.to_string(),
        (None, Some(discovered)) => {
            let verbs: Vec<&str> = discovered.verbs.iter().map(String::as_str).collect();
            let can = if verbs.is_empty() {
                String::new()
            } else {
                format!(" that supports {}", verbs.join(" and "))
            };
            format!(
                "every kind{can}, discovered every {}",
                period(discovered.period_ms, &discovered.config)
            )
        }
        (None, None) => String::new(),
    };
    for (what, value) in [
        ("in the namespace", &watch.namespace),
        ("labelled", &watch.label_selector),
        ("with", &watch.field_selector),
    ] {
        if !value.is_empty() {
            let _ = write!(text, ", {what} {value}");
        }
    }
    let fields = match watch.fields.iter().any(|field| field == ".") {
        true => "all fields".to_owned(),
        false => watch.fields.join(", "),
    };
    match (fields.as_str(), watch.metadata_only) {
        ("", _) => {}
        (fields, true) => drop(write!(text, "\nreads {fields} (metadata only)")),
        (fields, false) => drop(write!(text, "\nreads {fields}")),
    }
    for mapping in &watch.map {
        let _ = write!(text, "\nenqueues {}", mapping_of(mapping));
    }
    text
}

fn mapping_of(mapping: &Mapping) -> String {
    let mut text = match &mapping.to {
        To::Itself => "it".to_owned(),
        To::Controller { kind } => format!("the {kind} that controls it"),
        To::Owner { kind } => format!("each {kind} that owns it"),
        To::Named {
            path,
            kind,
            whose,
            missing,
            ..
        } => {
            let kind = kind.as_ref().map_or("object".into(), ToString::to_string);
            let missing = if *missing { ", if it is missing" } else { "" };
            format!("the {kind} that {path} names{}{missing}", whose_of(whose))
        }
        To::Selecting { kind, path, whose } => {
            format!("each {kind} whose {path} selects it{}", whose_of(whose))
        }
        To::InNamespace { kind } => format!("each {kind} in its namespace"),
        To::All { kind } => format!("each {kind}"),
        To::Namespace => "its namespace".into(),
        To::Constant { key } => format!("the key {key:?}"),
        To::Reference => "a reference to it".into(),
        To::Dependents => "the objects that name it as an owner".into(),
        To::OwnerReferences {
            which: Owners::Missing,
        } => "its owners that are missing".into(),
        To::OwnerReferences {
            which: Owners::Deleting,
        } => "its owners that are being deleted".into(),
        To::Route => "the keys that the plugin's `route` returns".into(),
    };
    if mapping.orphans {
        text.push_str(", if it has no controller");
    }
    if mapping.deleting {
        text.push_str(", if it is being deleted");
    }
    if !mapping.on.is_empty() {
        let types = mapping.on.iter().map(|on| match on {
            DeltaType::Added => "added",
            DeltaType::Modified => "modified",
            DeltaType::Deleted => "deleted",
        });
        let _ = write!(text, ", when {}", types.collect::<Vec<_>>().join(" or "));
    }
    for having in &mapping.having {
        let _ = write!(text, ", where {} is {:?}", having.path, having.value);
    }
    if !mapping.while_any.is_empty() {
        let kinds: Vec<String> = mapping.while_any.iter().map(ToString::to_string).collect();
        let _ = write!(text, ", while there is a {}", kinds.join(" or a "));
    }
    if mapping.delay_ms > 0 {
        let _ = write!(text, ", after {}", millis(mapping.delay_ms));
    }
    if !mapping.queue.is_empty() {
        let _ = write!(text, ", in the queue {}", mapping.queue);
    }
    text
}

fn whose_of(whose: &[Having]) -> String {
    let whose = whose
        .iter()
        .map(|whose| format!(" and whose {} is {:?}", whose.path, whose.value));
    whose.collect()
}

fn queue_of(queue: &Queue) -> String {
    let retries = queue
        .max_retries
        .map_or("forever".to_owned(), |retries| format!("{retries} times"));
    let name = &queue.name;
    let (first, last) = (millis(queue.base_delay_ms), millis(queue.max_delay_ms));
    format!("{name}: retries {retries}, after {first}, doubled up to {last}")
}

fn period(ms: u32, config: &str) -> String {
    match config {
        "" => millis(ms),
        key => format!(
            "{}, or the value of the configuration key {key}",
            millis(ms)
        ),
    }
}

fn millis(ms: u32) -> String {
    format!("{:?}", Duration::from_millis(ms.into()))
}

/// Returns the permissions and imports that need a grant.
fn wants(description: &Description) -> Vec<String> {
    let permission = description.permissions.iter().map(|permission| {
        let verbs: Vec<&str> = permission.verbs.iter().map(String::as_str).collect();
        let slash = if permission.subresource.is_empty() {
            ""
        } else {
            "/"
        };
        let place = match permission.namespaces.is_empty() {
            true => String::new(),
            false => format!(" in {}", listed(&permission.namespaces)),
        };
        format!(
            "{} {}{slash}{}{place}",
            verbs.join(", "),
            permission.kind,
            permission.subresource
        )
    });
    permission
        .chain(
            description
                .imports
                .iter()
                .map(|import| format!("the import {import}")),
        )
        .collect()
}
