//! The compiled code of built-in controllers as the host's binary embeds it: compressed with zstd. The controllers
//! share large parts of the SDK and of libraries. Therefore the code of some controllers is compressed first, as a
//! whole, and the code of the others refers to it. A start with a cache of compiled code unpacks nothing.

use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use zstd_safe::{CCtx, CParameter, DCtx, compress_bound, get_error_name, get_frame_content_size};

use crate::pages::page_out;

/// The code that the code of others refers to. It is unpacked when it is first needed, and takes memory until the last
/// clone of the [`Packed`] code with it is dropped.
pub struct SharedCode {
    frame: &'static [u8],
    /// Inner none if the frame is corrupted.
    unpacked: OnceLock<Option<Vec<u8>>>,
}

impl SharedCode {
    /// `frame` is [`Pack::shared`]. It is empty if no code is shared.
    pub fn new(frame: &'static [u8]) -> Arc<Self> {
        Arc::new(Self {
            frame,
            unpacked: OnceLock::new(),
        })
    }

    fn unpacked(&self) -> io::Result<&[u8]> {
        let unpack = || {
            if self.frame.is_empty() {
                return Some(Vec::new());
            }
            let code = decompress(self.frame, &[]).ok();
            page_out(self.frame);
            code
        };
        let unpacked = self.unpacked.get_or_init(unpack);
        unpacked.as_deref().ok_or_else(corrupted)
    }
}

/// The location of a component's code in the host's binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Bytes of the shared code, which start and end here.
    Shared(usize, usize),
    /// A frame that refers to the shared code.
    Frame(&'static [u8]),
}

/// The compiled code of a component, compressed.
#[derive(Clone)]
pub struct Packed {
    pub shared: Arc<SharedCode>,
    pub part: Part,
}

impl Packed {
    /// Unpacks the code. The pages of the binary that are read for it are returned to the system.
    pub(crate) fn unpack(&self) -> io::Result<Vec<u8>> {
        let shared = self.shared.unpacked()?;
        match self.part {
            Part::Shared(start, end) => {
                let code = shared.get(start..end).ok_or_else(corrupted)?;
                Ok(code.to_owned())
            }
            Part::Frame(frame) => {
                let code = decompress(frame, shared);
                page_out(frame);
                code
            }
        }
    }
}

/// The result of [`pack`].
#[derive(Debug)]
pub struct Pack {
    /// The frame of [`SharedCode`].
    pub shared: Vec<u8>,
    /// In the order of the codes.
    pub parts: Vec<PackPart>,
}

/// A [`Part`] before it is embedded in a binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PackPart {
    Shared(Range<usize>),
    Frame(Vec<u8>),
}

/// Compresses the codes of components at a level of zstd. `shared` of them, the largest, become the shared code. The
/// result depends on nothing but the arguments.
///
/// # Errors
/// zstd refuses the level or lacks memory.
pub fn pack(codes: &[Vec<u8>], shared: usize, level: i32) -> io::Result<Pack> {
    let mut order: Vec<usize> = (0..codes.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(codes[index].len()));
    order.truncate(shared);
    let mut prefix = Vec::new();
    let mut ranges = vec![None; codes.len()];
    for index in order {
        let start = prefix.len();
        prefix.extend_from_slice(&codes[index]);
        ranges[index] = Some(start..prefix.len());
    }
    let part = |(code, range): (&Vec<u8>, Option<Range<usize>>)| match range {
        Some(range) => Ok(PackPart::Shared(range)),
        None => compress(code, &prefix, level).map(PackPart::Frame),
    };
    let parts: io::Result<Vec<PackPart>> = codes.iter().zip(ranges).map(part).collect();
    Ok(Pack {
        shared: match prefix.as_slice() {
            [] => Vec::new(),
            prefix => compress(prefix, &[], level)?,
        },
        parts: parts?,
    })
}

/// Compresses bytes into a frame that refers to a prefix.
fn compress(bytes: &[u8], prefix: &[u8], level: i32) -> io::Result<Vec<u8>> {
    let mut context = CCtx::create();
    // The whole prefix must be within reach of the last byte.
    let window = usize::BITS - (prefix.len() + bytes.len()).leading_zeros();
    for parameter in [
        CParameter::CompressionLevel(level),
        CParameter::WindowLog(window.clamp(10, 27)),
        CParameter::EnableLongDistanceMatching(true),
        CParameter::ChecksumFlag(true),
    ] {
        context.set_parameter(parameter).map_err(refused)?;
    }
    context.ref_prefix(prefix).map_err(refused)?;
    let mut frame = Vec::with_capacity(compress_bound(bytes.len()));
    context.compress2(&mut frame, bytes).map_err(refused)?;
    frame.shrink_to_fit();
    Ok(frame)
}

/// Unpacks a frame that refers to a prefix. The frame must be trusted, because it gives the size of the memory to
/// allocate.
fn decompress(frame: &[u8], prefix: &[u8]) -> io::Result<Vec<u8>> {
    let size = get_frame_content_size(frame).ok().flatten();
    let size = size.and_then(|size| usize::try_from(size).ok());
    let mut bytes = Vec::with_capacity(size.ok_or_else(corrupted)?);
    let mut context = DCtx::create();
    context.ref_prefix(prefix).map_err(refused)?;
    context.decompress(&mut bytes, frame).map_err(refused)?;
    Ok(bytes)
}

fn refused(code: zstd_safe::ErrorCode) -> io::Error {
    io::Error::other(get_error_name(code))
}

fn corrupted() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is corrupted")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Embeds a pack as a binary does.
    fn embed(pack: Pack) -> Vec<Packed> {
        let shared = SharedCode::new(pack.shared.leak());
        let embed = |part| Packed {
            shared: shared.clone(),
            part: match part {
                PackPart::Shared(range) => Part::Shared(range.start, range.end),
                PackPart::Frame(frame) => Part::Frame(frame.leak()),
            },
        };
        pack.parts.into_iter().map(embed).collect()
    }

    /// Bytes that can't be compressed.
    fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut state = seed;
        let next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        };
        std::iter::repeat_with(next).take(length).collect()
    }

    proptest! {
        #[test]
        fn all_codes_come_back_whatever_is_shared(
            codes in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..2000), 0..6),
            shared in 0_usize..8,
        ) {
            let packed = embed(pack(&codes, shared, 3).unwrap());
            let unpacked: Vec<Vec<u8>> = packed.iter().map(|code| code.unpack().unwrap()).collect();
            prop_assert_eq!(unpacked, codes);
        }
    }

    #[test]
    fn code_that_is_in_the_shared_code_takes_no_space() {
        let (sdk, own) = (noise(1, 300_000), noise(2, 10_000));
        let codes = [
            [sdk.clone(), noise(3, 50_000)].concat(),
            [own, sdk].concat(),
        ];
        let pack = pack(&codes, 1, 3).unwrap();
        assert_eq!(pack.parts[0], PackPart::Shared(0..350_000));
        let PackPart::Frame(frame) = &pack.parts[1] else {
            panic!("the smaller one is not shared");
        };
        assert!(frame.len() < 11_000, "{} bytes", frame.len());
    }

    #[test]
    fn corrupted_code_is_refused() {
        let codes = [vec![1; 5000], noise(1, 1000)];
        let Pack { shared, parts } = pack(&codes, 1, 3).unwrap();
        let [PackPart::Shared(range), PackPart::Frame(frame)] = &parts[..] else {
            panic!("{parts:?}");
        };
        let changed = |bytes: &[u8]| {
            let mut bytes = bytes.to_owned();
            *bytes.last_mut().unwrap() ^= 1;
            &*bytes.leak()
        };
        let whole: &'static [u8] = shared.clone().leak();
        for (shared, part) in [
            (whole, Part::Frame(changed(frame))),
            (changed(&shared), Part::Frame(frame.clone().leak())),
            (whole, Part::Frame(&[])),
            (whole, Part::Shared(range.start, range.end + 1)),
        ] {
            let shared = SharedCode::new(shared);
            assert!(Packed { shared, part }.unpack().is_err(), "{part:?}");
        }
    }
}
