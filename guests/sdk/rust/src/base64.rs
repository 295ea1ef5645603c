//! Base64, the encoding of a Secret's data and of other bytes in objects.

use ::base64::Engine;
use ::base64::alphabet;
use ::base64::engine::general_purpose::{GeneralPurpose, PAD, URL_SAFE_NO_PAD};

/// Ignores the unused bits of the last letter, as Go does.
const STANDARD: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    PAD.with_decode_allow_trailing_bits(true),
);

/// Encodes bytes with the standard alphabet and padding.
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Encodes bytes with the alphabet for URLs and without padding, as in JSON Web Signatures.
pub fn encode_url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Decodes text with the standard alphabet and padding; `None` if it is malformed. Line breaks are not allowed.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::{decode, encode, encode_url};

    #[test]
    fn encoding_matches_rfc_4648() {
        let vectors = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
        ];
        for (bytes, expected) in vectors
            .into_iter()
            .chain([("fooba", "Zm9vYmE="), ("foobar", "Zm9vYmFy")])
        {
            assert_eq!(encode(bytes.as_bytes()), expected);
        }
        assert_eq!(encode(&[0xfb, 0xff, 0xfe, 0]), "+//+AA==");
    }

    #[test]
    fn the_encoding_for_urls_has_another_alphabet_and_no_padding() {
        assert_eq!(encode_url(&[0xfb, 0xff, 0xfe, 0]), "-__-AA");
        assert_eq!(encode_url(b"foo"), "Zm9v");
    }

    #[test]
    fn decoding_reverses_encoding() {
        let all: Vec<u8> = (0..=255).collect();
        for length in 0..all.len() {
            let bytes = &all[all.len() - length..];
            assert_eq!(decode(&encode(bytes)).as_deref(), Some(bytes));
        }
    }

    #[test]
    fn unused_bits_of_the_last_letter_are_ignored() {
        assert_eq!(decode("Zh==").as_deref(), Some(&b"f"[..]));
    }

    #[test]
    fn malformed_text_is_not_decoded() {
        for text in [
            "Zg", "Zg=", "Z===", "====", "Zg==Zg==", "Zm9v\n", "Zm 9", "Zm9-", "Zé==",
        ] {
            assert_eq!(decode(text), None, "{text:?}");
        }
    }
}
