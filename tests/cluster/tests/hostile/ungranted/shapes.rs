//! The shapes of generated files, and the reasons that the host may give for each.

use std::fmt;

use flyball_fakes::guest::{self, FOR_AN_HOUR, SLEEP};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// A file, and the texts of which the status must have one.
pub(super) struct File {
    shape: String,
    pub(super) bytes: Vec<u8>,
    pub(super) reasons: Vec<&'static str>,
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} bytes", self.shape, self.bytes.len())
    }
}

const MALFORMED: &str = "not a valid component";
const NO_GUEST: &str = "does not export";
const TOO_MANY: &str = "more than 1000 imports and exports";
/// Of two files that claim a name.
const BOTH: &str = "hold a plugin with the name `twin`";

/// A part of a component in the text format.
struct Part {
    name: &'static str,
    /// The greatest number of them that is generated.
    most: usize,
    text: fn(usize) -> String,
    /// The number beyond which the host refuses them, and its reason; none if it accepts any number.
    limit: Option<(usize, &'static str)>,
}

/// Parts of a component that is no controller.
const PARTS: [Part; 5] = [
    Part {
        name: "imports",
        most: 4000,
        text: |number| format!("(import \"i{number}\" (instance))"),
        limit: Some((1000, TOO_MANY)),
    },
    Part {
        name: "exports",
        most: 4000,
        text: |number| {
            format!("(instance $e{number}) (export \"e{number}\" (instance $e{number}))")
        },
        limit: Some((1000, TOO_MANY)),
    },
    Part {
        name: "modules",
        most: 20_000,
        text: |_| "(core module)".to_owned(),
        limit: None,
    },
    Part {
        name: "types",
        most: 20_000,
        text: |_| "(type (func))".to_owned(),
        limit: None,
    },
    Part {
        name: "components",
        most: 20_000,
        text: |_| "(component)".to_owned(),
        limit: None,
    },
];

/// Parts of the module of a guest.
const DEFINITIONS: [Part; 4] = [
    Part {
        name: "globals",
        most: 100_000,
        text: |_| "(global (mut i64) (i64.const 1))".to_owned(),
        limit: None,
    },
    Part {
        name: "functions",
        most: 2000,
        text: |_| "(func)".to_owned(),
        limit: None,
    },
    Part {
        name: "tables",
        most: 90,
        text: |_| "(table 1 funcref)".to_owned(),
        limit: Some((16, "table")),
    },
    Part {
        name: "data",
        most: 300,
        text: |number| format!("(data (i32.const 4096) \"{}{number}\")", "d".repeat(10_000)),
        limit: None,
    },
];

/// What the `describe` of a guest does, as instructions that leave the address of its result, and the reason.
const DESCRIPTIONS: [(&str, &str, &str); 9] = [
    (
        "empty",
        "(call $returns (i32.const 2048) (i32.const 0))",
        "valid description",
    ),
    // The name of another file's plugin may be the same.
    (
        "twin",
        "(call $returns (i32.const 2048) (i32.const TWIN))",
        "no policy grants it anything",
    ),
    (
        "zeros",
        "(call $returns (i32.const 4096) (i32.const 60000))",
        "valid description",
    ),
    (
        "long",
        "(drop (memory.grow (i32.const 64))) (call $returns (i32.const 4096) (i32.const 2000000))",
        "more than 1048576",
    ),
    (
        "huge",
        "(drop (memory.grow (i32.const 2000))) (call $returns (i32.const 4096) (i32.const 100000000))",
        "limit of 67108864 bytes",
    ),
    ("trap", "unreachable", "unreachable"),
    (
        "allocate",
        "(loop $again (br_if $again (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable",
        "memory",
    ),
    // They are stopped after 10 s of CPU time, and after 30 s. Meanwhile, the status says what they do.
    (
        "loop",
        "(loop $again (br $again)) (i32.const 0)",
        "describe",
    ),
    ("sleep", "FOR_AN_HOUR (i32.const 0)", "describe"),
];

/// A valid description, whose name other files have, too.
const TWIN: &str =
    r#"{\22format\22: 1, \22name\22: \22twin\22, \22queues\22: [{\22name\22: \22twin\22}]}"#;

/// Generates a file.
pub(super) fn file(random: &mut StdRng) -> File {
    match random.random_range(0..8) {
        0..3 => component(random),
        3..6 => guest(random),
        6 => nested(random),
        _ => damaged(random),
    }
}

/// Up to three kinds of parts, each in a number of any magnitude. Returns their text with their shape, and the reasons of
/// limits that they exceed.
fn parts(random: &mut StdRng, of: &[Part]) -> (String, String, Vec<&'static str>) {
    let (mut text, mut shape, mut reasons) = (String::new(), String::new(), Vec::new());
    let count = random.random_range(1..4);
    let chosen: Vec<&Part> = of.sample(random, count).collect();
    for part in chosen {
        let magnitude = (part.most as f64).powf(random.random_range(0.0..1.0));
        let count = magnitude as usize;
        text.extend((0..count).map(part.text));
        shape += &format!("{count} {}, ", part.name);
        let exceeded = part.limit.filter(|(limit, _)| count > *limit);
        reasons.extend(exceeded.map(|(_, reason)| reason));
    }
    (text, shape, reasons)
}

/// A component that is no controller, because it lacks the export.
fn component(random: &mut StdRng) -> File {
    let (text, shape, mut reasons) = parts(random, &PARTS);
    if reasons.is_empty() {
        // Imports and exports together may exceed their limit.
        reasons = vec![NO_GUEST, TOO_MANY];
    }
    let bytes = wat::parse_str(format!("(component {text})")).expect("the text is valid");
    let shape = format!("component of {shape}");
    File {
        shape,
        bytes,
        reasons,
    }
}

/// A guest with further definitions.
fn guest(random: &mut StdRng) -> File {
    let (text, shape, mut reasons) = parts(random, &DEFINITIONS);
    let (name, describe, reason) = DESCRIPTIONS.choose(random).expect("there are some");
    if reasons.is_empty() {
        reasons.extend([*reason, BOTH]);
    }
    let describe = describe.replace("TWIN", &wat_length(TWIN).to_string());
    let describe = describe.replace("FOR_AN_HOUR", FOR_AN_HOUR);
    let module = format!(
        r#"(module
        {SLEEP}
        (memory (export "memory") 1)
        (data (i32.const 2048) "{TWIN}")
        {text}
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
        (func $returns (param $at i32) (param $length i32) (result i32)
            (i32.store (i32.const 0) (local.get $at))
            (i32.store (i32.const 4) (local.get $length))
            (i32.const 0))
        (func (export "flyball:controller/guest@0.2.0#describe") (result i32) {describe})
        (func (export "flyball:controller/guest@0.2.0#reconcile") (param i32 i32 i32 i32 i32) (result i32) (i32.const 0))
        (func (export "flyball:controller/guest@0.2.0#route") (param i32 i32) (result i32) (i32.const 0)))"#
    );
    File {
        shape: format!("guest with {shape}that describes itself by `{name}`"),
        bytes: guest::component(&module),
        reasons,
    }
}

/// The length of a text of the text format, in which `\22` is a quote.
fn wat_length(text: &str) -> usize {
    text.replace("\\22", "\"").len()
}

/// Components, each inside of the one before.
fn nested(random: &mut StdRng) -> File {
    let levels = random.random_range(1..400);
    let header = b"\0asm\x0d\0\x01\0";
    let bytes = (0..levels).fold(header.to_vec(), |inner, _| {
        // A section of a component.
        [header.as_slice(), &section(4, &inner)].concat()
    });
    let reason = if levels >= 100 {
        "nests more than 100 components"
    } else {
        NO_GUEST
    };
    File {
        shape: format!("{levels} levels"),
        bytes,
        reasons: vec![reason],
    }
}

/// A section with its identifier and its size in LEB128.
fn section(id: u8, content: &[u8]) -> Vec<u8> {
    let (mut section, mut size) = (vec![id], content.len());
    while size >= 0x80 {
        section.push((size & 0x7f) as u8 | 0x80);
        size >>= 7;
    }
    section.push(size as u8);
    section.extend(content);
    section
}

/// A guest that ends early, or a large file whose first section claims four billion items.
fn damaged(random: &mut StdRng) -> File {
    if random.random() {
        let mut file = guest(random);
        let end = random.random_range(8..file.bytes.len());
        file.bytes.truncate(end);
        file.shape += ", cut off";
        file.reasons = vec![MALFORMED, NO_GUEST];
        return file;
    }
    let megabytes = random.random_range(1..60);
    let mut content = vec![0xff, 0xff, 0xff, 0xff, 0x0f];
    content.resize(megabytes << 20, 0);
    let header = b"\0asm\x0d\0\x01\0";
    File {
        shape: format!("{megabytes} MiB of imports"),
        bytes: [header.as_slice(), &section(10, &content)].concat(),
        reasons: vec![MALFORMED, TOO_MANY],
    }
}
