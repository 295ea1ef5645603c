//! Hashes, and encodings that are safe in names.
//!
//! Upstream: staging/src/k8s.io/apimachinery/pkg/util/rand/rand.go: SafeEncodeString.

use std::fmt;

/// The characters of generated names in Kubernetes: no vowels and no look-alikes, so that no words
/// are formed.
const SAFE: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A 32-bit FNV-1a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fnv32a(u32);

impl Default for Fnv32a {
    fn default() -> Self {
        Self(0x811c_9dc5)
    }
}

impl Fnv32a {
    /// Adds bytes to the hash.
    pub fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
    }

    /// Returns the hash of all bytes.
    pub fn finish(self) -> u32 {
        self.0
    }
}

/// Hashes text while it is formatted. It never fails.
impl fmt::Write for Fnv32a {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.write(text.as_bytes());
        Ok(())
    }
}

/// Returns the 32-bit FNV-1a hash of these bytes.
pub fn fnv32a(bytes: &[u8]) -> u32 {
    let mut hash = Fnv32a::default();
    hash.write(bytes);
    hash.finish()
}

/// Encodes each byte as a safe character, like apimachinery's `SafeEncodeString`.
fn safe_letters(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|&byte| char::from(SAFE[usize::from(byte) % SAFE.len()]))
        .collect()
}

/// Encodes a hash as a name suffix: its decimal digits as safe characters, as in the name of a
/// Deployment's ReplicaSet.
pub fn safe_suffix(hash: u32) -> String {
    safe_letters(hash.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a() {
        // From the test vectors of draft-eastlake-fnv.
        assert_eq!(
            [fnv32a(b""), fnv32a(b"a"), fnv32a(b"foobar")],
            [0x811c_9dc5, 0xe40c_292c, 0xbf9c_f968]
        );
    }

    #[test]
    fn characters_are_those_of_apimachinery() {
        assert_eq!(safe_letters(b"0123456789"), "456789bcdf");
        assert_eq!(safe_suffix(10), "54");
    }
}
