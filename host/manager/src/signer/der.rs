//! The few shapes of DER that wrap keys: what a library reads in one wrapping, a file may hold in another.

/// A sequence.
pub(super) const SEQUENCE: u8 = 0x30;
/// Bytes.
pub(super) const OCTET_STRING: u8 = 0x04;
/// Bits; their first byte tells how many of the last one are unused.
pub(super) const BIT_STRING: u8 = 0x03;
/// Nothing, whole.
pub(super) const NULL: &[u8] = &[0x05, 0x00];
/// The number 0, whole.
pub(super) const ZERO: &[u8] = &[0x02, 0x01, 0x00];

/// A value of this tag that holds these parts, one after another.
pub(super) fn wrap(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = content.len().to_be_bytes();
    let zeros = length.iter().take_while(|byte| **byte == 0).count();
    let mut out = vec![tag];
    match length[zeros..] {
        [] => out.push(0),
        [short @ ..0x80] => out.push(short),
        ref long => {
            out.push(0x80 | long.len() as u8);
            out.extend(long);
        }
    }
    out.extend(content);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_in_as_few_bytes_as_they_need() {
        let starts = [
            (0, vec![4, 0]),
            (127, vec![4, 127]),
            (128, vec![4, 0x81, 128]),
            (256, vec![4, 0x82, 1, 0]),
        ];
        let starts = starts
            .into_iter()
            .chain([(0x1_0203, vec![4, 0x83, 1, 2, 3])]);
        for (length, start) in starts {
            let wrapped = wrap(OCTET_STRING, &[&vec![7; length]]);
            assert_eq!(wrapped, [start, vec![7; length]].concat());
        }
        assert_eq!(wrap(SEQUENCE, &[ZERO, ZERO]), [0x30, 6, 2, 1, 0, 2, 1, 0]);
    }
}
