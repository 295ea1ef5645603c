//! Mutates inputs: flips, deletes and inserts bytes, inserts the target's tokens and parts of other
//! inputs, and repeats parts, which produces deep nesting. JSON is also mutated as a tree
//! (`mutate/tree.rs`).

mod tree;

/// The maximum length of an input in bytes.
const MAX_LENGTH: usize = 4096;
/// The maximum length of one input in `LONG_INPUT_INTERVAL`, in bytes.
const MAX_LONG_LENGTH: usize = 1 << 18;
const LONG_INPUT_INTERVAL: usize = 512;
/// Bytes with a meaning in one of the formats, and boundary values.
const EDGES: &[u8] = b"\0\x01\x7f\x80\xff\"'\\/[]{}(),.:=!*#~%\n\r\t -+0195eE";

/// Generates inputs. The same seed generates the same inputs.
#[derive(Clone, Debug)]
pub struct Mutator {
    state: u64,
}

impl Mutator {
    pub fn new(seed: u64) -> Self {
        Self {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        }
    }

    /// A number below `limit`, or 0 if `limit` is 0. (xorshift64*, by G. Marsaglia and S. Vigna.)
    pub fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let number = self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16;
        if limit == 0 {
            0
        } else {
            (number % limit as u64) as usize
        }
    }

    /// A random element; `None` if there are none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    /// A mutation of one of the known inputs, or of an empty input if there are none.
    pub fn input(&mut self, known: &[Vec<u8>], tokens: &[&str]) -> Vec<u8> {
        let mut input = self.pick(known).cloned().unwrap_or_default();
        if self.below(2) == 0
            && let Some(tree) = tree::mutate(self, &input, known, tokens)
        {
            input = tree;
        } else {
            for _ in 0..=self.below(4) {
                self.change(&mut input, known, tokens);
            }
        }
        let limit = if self.below(LONG_INPUT_INTERVAL) == 0 {
            MAX_LONG_LENGTH
        } else {
            MAX_LENGTH
        };
        if limit == MAX_LONG_LENGTH {
            self.repeat(&mut input, MAX_LONG_LENGTH);
        }
        input.truncate(limit);
        input
    }

    /// A random range of at most 64 bytes below `length`.
    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        let most = (length - start).min(1 << self.below(7));
        start..start + self.below(most + 1)
    }

    fn change(&mut self, input: &mut Vec<u8>, known: &[Vec<u8>], tokens: &[&str]) {
        let at = self.below(input.len() + 1);
        match self.below(8) {
            0 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << self.below(8);
                }
            }
            1 => {
                let edge = EDGES[self.below(EDGES.len())];
                match input.get_mut(at) {
                    Some(byte) => *byte = edge,
                    None => input.push(edge),
                }
            }
            2 => drop(input.drain(self.range(input.len()))),
            3 => {
                let edge = EDGES[self.below(EDGES.len())];
                input.insert(at, edge);
            }
            4 => {
                if let Some(token) = self.pick(tokens) {
                    input.splice(at..at, token.bytes());
                }
            }
            5 => {
                let range = self.range(input.len());
                if let Some(token) = self.pick(tokens) {
                    input.splice(range, token.bytes());
                }
            }
            6 => {
                if let Some(other) = self.pick(known) {
                    let part = other[self.range(other.len())].to_vec();
                    input.splice(at..at, part);
                }
            }
            _ => self.repeat(input, 256),
        }
    }

    /// Repeats a part, which adds at most `more` bytes.
    fn repeat(&mut self, input: &mut Vec<u8>, more: usize) {
        let range = self.range(input.len());
        if !range.is_empty() {
            let part = input[range.clone()].repeat(1 + self.below(more) / range.len());
            input.splice(range, part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_determines_the_inputs() {
        let generate = |seed| {
            let mut mutator = Mutator::new(seed);
            (0..200)
                .map(|_| mutator.input(&[b"{\"a\": 1}".to_vec()], &["token"]))
                .collect::<Vec<_>>()
        };
        let inputs = generate(1);
        assert_eq!(inputs, generate(1));
        assert_ne!(inputs, generate(2));
        assert!(
            inputs
                .iter()
                .any(|input| input.windows(5).any(|part| part == b"token"))
        );
        assert!(
            inputs
                .iter()
                .collect::<std::collections::BTreeSet<_>>()
                .len()
                > 100
        );
    }
}
