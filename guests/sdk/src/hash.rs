//! Hashes and letters that are safe in names.

/// The letters that the API server puts into generated names: no vowels and none that look alike,
/// so that no word comes up.
const SAFE: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// FNV-1a of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fnv32a(u32);

impl Default for Fnv32a {
    fn default() -> Self {
        Self(0x811c_9dc5)
    }
}

impl Fnv32a {
    /// Takes in more bytes.
    pub fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
    }

    /// The hash of all that was taken in.
    pub fn finish(self) -> u32 {
        self.0
    }
}

/// The FNV-1a of 32 bits of these bytes.
pub fn fnv32a(bytes: &[u8]) -> u32 {
    let mut hash = Fnv32a::default();
    hash.write(bytes);
    hash.finish()
}

/// A letter for each byte, as the API machinery's `SafeEncodeString` maps them.
pub fn safe_letters(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|&byte| char::from(SAFE[usize::from(byte) % SAFE.len()]))
        .collect()
}

/// A hash as a suffix of names: its decimal digits as safe letters, as in the name of a
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
    fn letters_are_those_of_the_api_machinery() {
        assert_eq!(safe_letters(b"0123456789"), "456789bcdf");
        assert_eq!(safe_suffix(10), "54");
    }
}
