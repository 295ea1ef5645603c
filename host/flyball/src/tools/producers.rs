//! What a component says of who made it: the `producers` sections of the tool conventions, its own and those of the modules
//! within it. Toolchains may leave them out.

use std::collections::{BTreeMap, BTreeSet};

use wasmparser::{KnownCustom, Parser, Payload};

/// Names with their versions, by field: `language`, `processed-by`, `sdk`.
pub(super) type Producers = BTreeMap<String, BTreeSet<String>>;

/// A component's outside, and its makers.
#[derive(Debug, Default)]
pub(super) struct Outside {
    pub(super) imports: Vec<String>,
    pub(super) exports: Vec<String>,
    pub(super) producers: Producers,
}

/// Reads a component that has been checked. What can't be read is left out.
pub(super) fn read(wasm: &[u8]) -> Outside {
    let mut outside = Outside::default();
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(wasm).map_while(Result::ok) {
        match payload {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            Payload::ComponentImportSection(section) if depth == 1 => {
                let names = section
                    .into_iter()
                    .flatten()
                    .map(|import| import.name.name.to_string());
                outside.imports.extend(names);
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                let names = section
                    .into_iter()
                    .flatten()
                    .map(|export| export.name.name.to_string());
                outside.exports.extend(names);
            }
            Payload::CustomSection(section) => {
                let KnownCustom::Producers(fields) = section.as_known() else {
                    continue;
                };
                for field in fields.into_iter().flatten() {
                    let named = outside.producers.entry(field.name.to_owned()).or_default();
                    named.extend(field.values.into_iter().flatten().map(
                        |value| match value.version {
                            "" => value.name.to_owned(),
                            version => format!("{} {version}", value.name),
                        },
                    ));
                }
            }
            _ => {}
        }
    }
    outside
}
