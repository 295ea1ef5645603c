//! The code of built-in controllers as the host's binary embeds it: compressed with zstd. The controllers share large
//! parts of the SDK and of libraries. Therefore the code of some controllers is compressed first, as a whole, and the
//! code of the others refers to it. A start with a code cache decompresses nothing.

use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use zstd_safe::{CCtx, CParameter, DCtx, compress_bound, get_error_name, get_frame_content_size};

use crate::pages::page_out;

/// A component whose code is embedded in the host's binary.
#[derive(Clone)]
pub struct EmbeddedComponent {
    /// The component's [`digest`](crate::digest).
    pub digest: &'static str,
    /// The size of the component before it was compiled, in bytes.
    pub size: usize,
    pub code: EmbeddedCode,
}

impl std::fmt::Debug for EmbeddedComponent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("EmbeddedComponent")
            .field(&self.digest)
            .finish()
    }
}

/// The code of a component, compressed.
#[derive(Clone)]
pub struct EmbeddedCode {
    pub shared: Arc<SharedCode>,
    pub part: Part,
}

/// The code that the code of others refers to. It is decompressed when it is first needed, and takes memory until the
/// last clone of the [`EmbeddedCode`] with it is dropped.
pub struct SharedCode {
    frame: &'static [u8],
    /// Inner none if the frame is corrupted.
    decompressed: OnceLock<Option<Vec<u8>>>,
}

/// The location of a component's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part<Frame = &'static [u8]> {
    /// This range of the shared code.
    Shared(Range<usize>),
    /// A frame of zstd that refers to the shared code.
    Frame(Frame),
}

/// The result of [`compress`], before it is embedded in a binary.
#[derive(Debug)]
pub struct CompressedCode {
    /// The frame of [`SharedCode`].
    pub shared: Vec<u8>,
    /// In the order of the codes.
    pub parts: Vec<Part<Vec<u8>>>,
}

impl SharedCode {
    /// `frame` is [`CompressedCode::shared`]. It is empty if no code is shared.
    pub fn new(frame: &'static [u8]) -> Arc<Self> {
        Arc::new(Self {
            frame,
            decompressed: OnceLock::new(),
        })
    }

    fn decompressed(&self) -> io::Result<&[u8]> {
        let decompress = || {
            if self.frame.is_empty() {
                return Some(Vec::new());
            }
            let code = decompress_frame(self.frame, &[]).ok();
            page_out(self.frame);
            code
        };
        let decompressed = self.decompressed.get_or_init(decompress);
        decompressed.as_deref().ok_or_else(corrupted)
    }
}

impl EmbeddedCode {
    /// Decompresses the code. The pages of the binary that are read for it are returned to the system.
    pub(crate) fn decompress(&self) -> io::Result<Vec<u8>> {
        let shared = self.shared.decompressed()?;
        match &self.part {
            Part::Shared(range) => {
                let code = shared.get(range.clone()).ok_or_else(corrupted)?;
                Ok(code.to_owned())
            }
            Part::Frame(frame) => {
                let code = decompress_frame(frame, shared);
                page_out(frame);
                code
            }
        }
    }
}

/// Compresses the codes of components at a level of zstd. `shared` of them, the largest, become the shared code. The
/// result depends on nothing but the arguments.
///
/// # Errors
/// zstd refuses the level or lacks memory.
pub fn compress(codes: &[Vec<u8>], shared: usize, level: i32) -> io::Result<CompressedCode> {
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
        Some(range) => Ok(Part::Shared(range)),
        None => compress_frame(code, &prefix, level).map(Part::Frame),
    };
    let parts: io::Result<Vec<Part<Vec<u8>>>> = codes.iter().zip(ranges).map(part).collect();
    Ok(CompressedCode {
        shared: match prefix.as_slice() {
            [] => Vec::new(),
            prefix => compress_frame(prefix, &[], level)?,
        },
        parts: parts?,
    })
}

/// Compresses bytes into a frame that refers to a prefix.
fn compress_frame(bytes: &[u8], prefix: &[u8], level: i32) -> io::Result<Vec<u8>> {
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

/// Decompresses a frame that refers to a prefix. The frame must be trusted, because it gives the size of the memory to
/// allocate.
fn decompress_frame(frame: &[u8], prefix: &[u8]) -> io::Result<Vec<u8>> {
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

    /// Embeds code as a binary does.
    fn embed(code: CompressedCode) -> Vec<EmbeddedCode> {
        let shared = SharedCode::new(code.shared.leak());
        let embed = |part: Part<Vec<u8>>| EmbeddedCode {
            shared: shared.clone(),
            part: match part {
                Part::Shared(range) => Part::Shared(range),
                Part::Frame(frame) => Part::Frame(&*frame.leak()),
            },
        };
        code.parts.into_iter().map(embed).collect()
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
            let embedded = embed(compress(&codes, shared, 3).unwrap());
            let decompressed: Vec<Vec<u8>> =
                embedded.iter().map(|code| code.decompress().unwrap()).collect();
            prop_assert_eq!(decompressed, codes);
        }
    }

    #[test]
    fn code_that_is_in_the_shared_code_takes_no_space() {
        let (sdk, own) = (noise(1, 300_000), noise(2, 10_000));
        let codes = [
            [sdk.clone(), noise(3, 50_000)].concat(),
            [own, sdk].concat(),
        ];
        let code = compress(&codes, 1, 3).unwrap();
        assert_eq!(code.parts[0], Part::Shared(0..350_000));
        let Part::Frame(frame) = &code.parts[1] else {
            panic!("the smaller one is not shared");
        };
        assert!(frame.len() < 11_000, "{} bytes", frame.len());
    }

    #[test]
    fn corrupted_code_is_refused() {
        let codes = [vec![1; 5000], noise(1, 1000)];
        let CompressedCode { shared, parts } = compress(&codes, 1, 3).unwrap();
        let [Part::Shared(range), Part::Frame(frame)] = &parts[..] else {
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
            (whole, Part::Shared(range.start..range.end + 1)),
        ] {
            let shared = SharedCode::new(shared);
            let code = EmbeddedCode { shared, part };
            assert!(code.decompress().is_err(), "{:?}", code.part);
        }
    }
}
