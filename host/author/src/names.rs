//! Reduces the names of functions in a core module. A backtrace of an endless loop or of a stack overflow shows these
//! names. Those of the author's own functions say where it was; those of libraries are a tenth of a component's size.

use anyhow::{Context, Result, ensure};

/// The section of names, and its subsection of the functions' names.
const SECTION: &str = "name";
const CUSTOM: u8 = 0;
const FUNCTIONS: u8 = 1;
/// The bytes before the first section.
const HEADER: usize = 8;

/// Returns the module with the names that `keep` returns for its functions' names. Other names, and those of other
/// things, are removed.
pub(crate) fn reduce(module: &[u8], keep: impl Fn(&str) -> Option<String>) -> Result<Vec<u8>> {
    ensure!(module.len() >= HEADER, "the module has no header");
    let (header, sections) = module.split_at(HEADER);
    let mut reduced = header.to_owned();
    let mut rest = Reader(sections);
    while !rest.0.is_empty() {
        let before = rest.0;
        let id = rest.byte()?;
        let content = rest.block()?;
        let whole = &before[..before.len() - rest.0.len()];
        let mut custom = Reader(content);
        if id == CUSTOM && custom.block()? == SECTION.as_bytes() {
            let kept = functions(custom, &keep)?;
            reduced.push(CUSTOM);
            write_block(&mut reduced, &kept);
        } else {
            reduced.extend(whole);
        }
    }
    Ok(reduced)
}

/// Returns the content of a section with the names of some of the functions in the subsections.
fn functions(
    mut subsections: Reader<'_>,
    keep: impl Fn(&str) -> Option<String>,
) -> Result<Vec<u8>> {
    let (mut count, mut names) = (0, Vec::new());
    while !subsections.0.is_empty() {
        let id = subsections.byte()?;
        let mut content = Reader(subsections.block()?);
        if id != FUNCTIONS {
            continue;
        }
        for _ in 0..content.number()? {
            let index = content.number()?;
            let name = std::str::from_utf8(content.block()?).context("a name is not Unicode")?;
            if let Some(name) = keep(name) {
                count += 1;
                write_number(&mut names, index);
                write_block(&mut names, name.as_bytes());
            }
        }
    }
    let mut map = Vec::new();
    write_number(&mut map, count);
    map.extend(names);
    let mut section = Vec::new();
    write_block(&mut section, SECTION.as_bytes());
    section.push(FUNCTIONS);
    write_block(&mut section, &map);
    Ok(section)
}

/// The rest of a text of the binary format.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Result<u8> {
        let (first, rest) = self.0.split_first().context("the module is cut off")?;
        self.0 = rest;
        Ok(*first)
    }

    /// Reads an unsigned number in LEB128.
    fn number(&mut self) -> Result<u32> {
        let mut number = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(number).context("a number is out of range");
            }
        }
        anyhow::bail!("a number is too long")
    }

    /// Reads a size, and as many bytes.
    fn block(&mut self) -> Result<&'a [u8]> {
        let size = self.number()? as usize;
        ensure!(size <= self.0.len(), "the module is cut off");
        let (block, rest) = self.0.split_at(size);
        self.0 = rest;
        Ok(block)
    }
}

fn write_number(to: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn write_block(to: &mut Vec<u8>, block: &[u8]) {
    write_number(to, u32::try_from(block.len()).expect("a part of a module"));
    to.extend(block);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the functions of a module, by their numbers.
    fn names(module: &[u8]) -> Vec<(u32, String)> {
        let mut found = Vec::new();
        for payload in wasmparser::Parser::new(0).parse_all(module) {
            if let wasmparser::Payload::CustomSection(section) = payload.unwrap()
                && let wasmparser::KnownCustom::Name(subsections) = section.as_known()
            {
                for subsection in subsections {
                    if let wasmparser::Name::Function(map) = subsection.unwrap() {
                        for naming in map {
                            let naming = naming.unwrap();
                            found.push((naming.index, naming.name.to_owned()));
                        }
                    }
                }
            }
        }
        found
    }

    #[test]
    fn only_the_wanted_names_are_kept() {
        let long = "f".repeat(300);
        let text =
            format!("(module (func $runtime.a) (func $main.b (local $x i32)) (func ${long}))");
        let module = wat::parse_str(text).unwrap();
        assert_eq!(names(&module).len(), 3);
        let kept = reduce(&module, |name| {
            (name != "runtime.a").then(|| name.replace("main.", "of/"))
        });
        let kept = kept.unwrap();
        wasmparser::validate(&kept).expect("it is valid");
        assert_eq!(names(&kept), [(1, "of/b".to_owned()), (2, long)]);
    }

    #[test]
    fn a_module_that_is_cut_off_is_an_error() {
        let module = wat::parse_str("(module (func $a))").unwrap();
        for end in [4, 9, module.len() - 1] {
            assert!(reduce(&module[..end], |_| None).is_err(), "{end}");
        }
    }
}
