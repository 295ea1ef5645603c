//! Writes a profile as `go tool pprof` reads it: `profile.proto` of github.com/google/pprof, without compression.

use std::collections::HashMap;
use std::time::UNIX_EPOCH;

use super::sampler::{PERIOD, Samples};
use super::symbols::{self, Mapping, Symbol};
use crate::protobuf::Message;

/// Encodes the samples with the names of functions that are known. Addresses without names belong to mappings, so that
/// `go tool pprof` finds names in a binary with symbols.
pub(super) fn encode(samples: &Samples) -> Vec<u8> {
    let mut profile = Profile::default();
    let types = [("samples", "count"), ("cpu", "nanoseconds")];
    for (kind, unit) in types {
        let value = profile.value_type(kind, unit);
        profile.message.message(1, &value);
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
        profile.message.message(2, &sample);
    }
    symbols::forget();
    profile.write_mappings(&samples.mappings);
    let since = samples.start.duration_since(UNIX_EPOCH).unwrap_or_default();
    profile.message.uint(9, since.as_nanos() as u64);
    profile.message.uint(10, samples.duration.as_nanos() as u64);
    let value = profile.value_type("cpu", "nanoseconds");
    profile.message.message(11, &value);
    profile.message.uint(12, period.unsigned_abs());
    profile.finish()
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
        value.uint(1, kind);
        value.uint(2, unit);
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
        location.uint(1, id);
        location.uint(2, mapping);
        location.uint(3, address as u64);
        let symbols = symbols::resolve(address);
        if !symbols.is_empty() && !self.named.contains(&mapping) {
            self.named.push(mapping);
        }
        for symbol in symbols {
            let mut line = Message::default();
            line.uint(1, self.function(&symbol));
            line.uint(2, symbol.line.into());
            location.message(4, &line);
        }
        self.message.message(4, &location);
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
        function.uint(1, id);
        function.uint(2, name);
        function.uint(3, name);
        function.uint(4, file);
        self.message.message(5, &function);
        id
    }

    fn write_mappings(&mut self, mappings: &[Mapping]) {
        for (id, mapping) in (1_u64..).zip(mappings) {
            let mut message = Message::default();
            message.uint(1, id);
            message.uint(2, mapping.start as u64);
            message.uint(3, mapping.end as u64);
            message.uint(4, mapping.offset);
            message.uint(5, self.text(&mapping.name));
            if self.named.contains(&id) {
                (7..=10).for_each(|field| message.uint(field, 1));
            }
            self.message.message(3, &message);
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.message.bytes(6, b"");
        for text in &self.text_table {
            self.message.bytes(6, text.as_bytes());
        }
        self.message.into_bytes()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::process::Command;

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
