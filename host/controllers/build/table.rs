//! The table as Rust code.

use std::fmt::Write;

use crate::manifest::{Described, Flag, Kind, Scenarios, Sets};

/// Returns the definition of `CONTROLLERS`.
pub(crate) fn code(controllers: &[Described]) -> String {
    let mut code = String::from(
        "/// All controllers of Kubernetes, sorted by name.\npub static CONTROLLERS: &[Controller] = &[\n",
    );
    for one in controllers {
        let manifest = &one.manifest;
        let needs: Vec<String> = manifest
            .needs
            .iter()
            .map(|need| format!("Need::{need:?}"))
            .collect();
        let flags: Vec<String> = sorted(&manifest.flags).map(flag).collect();
        writeln!(
            code,
            "    Controller {{ name: {:?}, aliases: &{:?}, start: Start::{:?}, gates: &{:?}, enabled_by: {:?}, since: {:?}, flags: &[{}], \
             needs: &[{}], resyncs: {}, native_histograms: {}, guest: {} }},",
            one.name,
            manifest.aliases,
            manifest.start,
            manifest.gates,
            manifest.enabled_by,
            manifest.since,
            flags.join(", "),
            needs.join(", "),
            manifest.resyncs,
            manifest.native_histograms,
            guest(one),
        )
        .expect("a string can be written to");
    }
    code.push_str("];\n");
    code
}

fn sorted(flags: &[Flag]) -> impl Iterator<Item = &Flag> {
    let mut flags: Vec<&Flag> = flags.iter().collect();
    flags.sort_by(|a, b| a.name.cmp(&b.name));
    flags.into_iter()
}

fn flag(flag: &Flag) -> String {
    let effect = match (&flag.help, flag.already.as_slice()) {
        (Some(help), _) => format!("Yes({help:?})"),
        (None, []) => "NotYet".to_owned(),
        (None, values) => format!("Already(&{values:?})"),
    };
    let sets = match &flag.sets {
        Sets::Config(key) => format!("Config({key:?})"),
        Sets::File(key) => format!("File({key:?})"),
        other => format!("{other:?}"),
    };
    let least = match (flag.kind, &flag.sets) {
        (Kind::Int32, Sets::Concurrency) => 1,
        _ => i64::from(i32::MIN),
    };
    format!(
        "ControllerFlag {{ flag: Flag {{ name: {:?}, kind: flag::Kind::{:?}, default: {:?}, effect: flag::Effect::{effect} }}, \
         sets: Sets::{sets}, range: ({}, {}), is_positive: {} }}",
        flag.name,
        flag.kind,
        flag.default,
        flag.min.unwrap_or(least),
        flag.max.unwrap_or(i64::from(i32::MAX)),
        flag.positive,
    )
}

fn guest(one: &Described) -> String {
    let folder = &one.folder;
    let scenarios = one.manifest.scenarios.as_ref();
    let scenarios = scenarios.expect("the manifest was checked");
    let Scenarios {
        plane,
        killed,
        killed_at_every_write,
    } = scenarios;
    let policy = folder.join("policy.toml");
    format!(
        "Guest {{ folder: {:?}, about: {:?}, state: {:?}, policy: include_str!({policy:?}), scenarios: Scenarios {{ \
         plane: {plane:?}, killed: &{killed:?}, killed_at_every_write: &{killed_at_every_write:?} }} }}",
        folder.file_name().unwrap_or_default().to_string_lossy(),
        one.manifest.about,
        one.manifest.state,
    )
}
