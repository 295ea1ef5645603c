//! Reads the imports and exports of a component, and the `producers` sections (see WebAssembly's tool conventions) of
//! the component and of the modules in it. Toolchains may omit these sections.

use std::collections::{BTreeMap, BTreeSet};

use wasmparser::{KnownCustom, Parser, Payload};

/// Names of tools with their versions, by field: `language`, `processed-by`, `sdk`.
pub(super) type Producers = BTreeMap<String, BTreeSet<String>>;

/// The imports, exports and producers of a component.
#[derive(Debug, Default)]
pub(super) struct Interface {
    pub(super) imports: Vec<String>,
    pub(super) exports: Vec<String>,
    pub(super) producers: Producers,
}

/// Reads a valid component. Sections that can't be read are left out.
pub(super) fn read(wasm: &[u8]) -> Interface {
    let mut interface = Interface::default();
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
                interface.imports.extend(names);
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                let names = section
                    .into_iter()
                    .flatten()
                    .map(|export| export.name.name.to_string());
                interface.exports.extend(names);
            }
            Payload::CustomSection(section) => {
                let KnownCustom::Producers(fields) = section.as_known() else {
                    continue;
                };
                for field in fields.into_iter().flatten() {
                    let named = interface
                        .producers
                        .entry(field.name.to_owned())
                        .or_default();
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
    interface
}
