//! Numbers in the assembled WASI adapter that are replaced when a component is built. The build of this crate includes
//! this file.

/// Stands for the address of the buffer.
pub(crate) const BUFFER: u32 = 0x7fff_0001;
/// Stands for the size of the buffer.
pub(crate) const SIZE: u32 = 0x7fff_0002;

/// A number below 2³¹ as a signed LEB128 of five bytes. That is the shortest form of the placeholders, and a valid one
/// of every number.
pub(crate) const fn leb128(number: u32) -> [u8; 5] {
    [
        number as u8 | 0x80,
        (number >> 7) as u8 | 0x80,
        (number >> 14) as u8 | 0x80,
        (number >> 21) as u8 | 0x80,
        (number >> 28) as u8 & 0x07,
    ]
}

/// The offset of the placeholder in a module. `None` unless it occurs exactly once.
pub(crate) fn find(module: &[u8], placeholder: u32) -> Option<usize> {
    let mut found = module
        .windows(5)
        .enumerate()
        .filter(|(_, bytes)| **bytes == leb128(placeholder));
    let (at, _) = found.next()?;
    found.next().is_none().then_some(at)
}
