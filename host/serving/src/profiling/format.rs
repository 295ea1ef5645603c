//! Writes a profile as `go tool pprof` reads it: `profile.proto` of github.com/google/pprof, without compression.

use std::collections::HashMap;
use std::time::UNIX_EPOCH;

use super::sampler::{PERIOD, Samples};
use super::symbols::{self, Mapping, Symbol};

/// Encodes the samples with the names of functions that are known. Addresses without names belong to mappings, so that
/// `go tool pprof` finds names in a binary with symbols.
pub(super) fn encode(samples: &Samples) -> Vec<u8> {
    let mut profile = Profile::default();
    let types = [("samples", "count"), ("cpu", "nanoseconds")];
    for (kind, unit) in types {
        let value = profile.value_type(kind, unit);
        profile.message.bytes(1, &value.0);
    }
    let period = i64::try_from(PERIOD.as_nanos()).unwrap_or(i64::MAX);
    for (stack, count) in &samples.stacks {
        let locations = stack.iter().enumerate().map(|(at, address)| {
            // All but the innermost address are return addresses, which follow the call.
            let address = if at == 0 {
                *address
            } else {
                address.saturating_sub(1)
            };
            profile.location(address, &samples.mappings)
        });
        let locations: Vec<u64> = locations.collect();
        let mut sample = Message::default();
        sample.packed(1, &locations);
        sample.packed(2, &[*count, count.saturating_mul(period.unsigned_abs())]);
        profile.message.bytes(2, &sample.0);
    }
    symbols::forget();
    profile.write_mappings(&samples.mappings);
    let since = samples.start.duration_since(UNIX_EPOCH).unwrap_or_default();
    profile.message.number(9, since.as_nanos() as u64);
    profile
        .message
        .number(10, samples.duration.as_nanos() as u64);
    let value = profile.value_type("cpu", "nanoseconds");
    profile.message.bytes(11, &value.0);
    profile.message.number(12, period.unsigned_abs());
    profile.finish()
}

/// A message in the encoding of protobuf.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A field with a number; zero is left out.
    fn number(&mut self, field: u64, value: u64) {
        if value != 0 {
            self.varint(field << 3);
            self.varint(value);
        }
    }

    /// A field with bytes, a text or a message.
    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    /// A field with several numbers.
    fn packed(&mut self, field: u64, values: &[u64]) {
        let mut packed = Self::default();
        for value in values {
            packed.varint(*value);
        }
        self.bytes(field, &packed.0);
    }
}

/// A profile that is being written. Identifiers begin with 1.
#[derive(Default)]
struct Profile {
    message: Message,
    locations: HashMap<usize, u64>,
    functions: HashMap<(String, String), u64>,
    texts: HashMap<String, u64>,
    /// In the order of their numbers, which begin with 1: number 0 is the empty text.
    text_table: Vec<String>,
    /// The mappings that have at least one known name.
    named: Vec<u64>,
}

impl Profile {
    fn text(&mut self, text: &str) -> u64 {
        if text.is_empty() {
            return 0;
        }
        if let Some(number) = self.texts.get(text) {
            return *number;
        }
        self.text_table.push(text.to_owned());
        let number = self.text_table.len() as u64;
        self.texts.insert(text.to_owned(), number);
        number
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> Message {
        let mut value = Message::default();
        let (kind, unit) = (self.text(kind), self.text(unit));
        value.number(1, kind);
        value.number(2, unit);
        value
    }

    fn location(&mut self, address: usize, mappings: &[Mapping]) -> u64 {
        if let Some(location) = self.locations.get(&address) {
            return *location;
        }
        let id = self.locations.len() as u64 + 1;
        self.locations.insert(address, id);
        let mapping = mappings
            .iter()
            .position(|mapping| (mapping.start..mapping.end).contains(&address));
        let mapping = mapping.map_or(0, |at| at as u64 + 1);
        let mut location = Message::default();
        location.number(1, id);
        location.number(2, mapping);
        location.number(3, address as u64);
        let symbols = symbols::resolve(address);
        if !symbols.is_empty() && !self.named.contains(&mapping) {
            self.named.push(mapping);
        }
        for symbol in symbols {
            let mut line = Message::default();
            line.number(1, self.function(&symbol));
            line.number(2, symbol.line.into());
            location.bytes(4, &line.0);
        }
        self.message.bytes(4, &location.0);
        id
    }

    fn function(&mut self, symbol: &Symbol) -> u64 {
        let key = (symbol.name.clone(), symbol.file.clone());
        if let Some(function) = self.functions.get(&key) {
            return *function;
        }
        let id = self.functions.len() as u64 + 1;
        self.functions.insert(key, id);
        let (name, file) = (self.text(&symbol.name), self.text(&symbol.file));
        let mut function = Message::default();
        function.number(1, id);
        function.number(2, name);
        function.number(3, name);
        function.number(4, file);
        self.message.bytes(5, &function.0);
        id
    }

    fn write_mappings(&mut self, mappings: &[Mapping]) {
        for (id, mapping) in (1_u64..).zip(mappings) {
            let mut message = Message::default();
            message.number(1, id);
            message.number(2, mapping.start as u64);
            message.number(3, mapping.end as u64);
            message.number(4, mapping.offset);
            message.number(5, self.text(&mapping.name));
            if self.named.contains(&id) {
                (7..=10).for_each(|field| message.number(field, 1));
            }
            self.message.bytes(3, &message.0);
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.message.bytes(6, b"");
        for text in &self.text_table {
            self.message.bytes(6, text.as_bytes());
        }
        self.message.0
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn numbers_and_texts_are_encoded_as_in_protobuf() {
        let mut message = Message::default();
        message.number(1, 300);
        message.number(2, 0);
        message.bytes(3, b"ab");
        message.packed(4, &[1, 128]);
        assert_eq!(
            message.0,
            [
                0x08, 0xac, 0x02, 0x1a, 2, b'a', b'b', 0x22, 3, 1, 0x80, 0x01
            ]
        );
    }

    /// Fails unless `go tool pprof` shows the function in the profile of a kind. Returns what it shows.
    pub(crate) fn go_reads(profile: &[u8], kind: &str, function: &str) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), profile).unwrap();
        let ran = Command::new("go")
            .args(["tool", "pprof", "-top", "-symbolize=none"])
            .arg(file.path())
            .output()
            .expect("the tests need Go, as the control plane does");
        let (out, err) = (
            String::from_utf8_lossy(&ran.stdout),
            String::from_utf8_lossy(&ran.stderr),
        );
        assert!(ran.status.success(), "{err}");
        assert!(out.contains(&format!("Type: {kind}")), "{out}");
        assert!(out.contains(function), "{out}");
        out.into_owned()
    }
}
