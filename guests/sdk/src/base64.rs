//! Base64, the encoding of a Secret's data and of other bytes in objects.

/// The standard alphabet.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes bytes with the standard alphabet and padding.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at| u32::from(group.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let letter = ALPHABET[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place > group.len() {
                '='
            } else {
                char::from(letter)
            });
        }
    }
    text
}

/// Encodes bytes with the alphabet for URLs and without padding, as in JSON Web Signatures.
pub fn encode_url(bytes: &[u8]) -> String {
    let text = encode(bytes);
    let letters = text.trim_end_matches('=').chars();
    let for_url = |letter| match letter {
        '+' => '-',
        '/' => '_',
        other => other,
    };
    letters.map(for_url).collect()
}

/// Decodes text with the standard alphabet and padding; `None` if it is malformed. Line breaks are not allowed.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let letters = text.trim_end_matches('=').as_bytes();
    let padding = text.len() - letters.len();
    if !text.len().is_multiple_of(4) || padding > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for group in letters.chunks(4) {
        let mut bits = 0;
        for letter in group {
            let value = ALPHABET.iter().position(|own| own == letter)?;
            bits = bits << 6 | value as u32;
        }
        let missing = 4 - group.len();
        bits <<= 6 * missing;
        bytes.extend(&bits.to_be_bytes()[1..4 - missing]);
    }
    Some(bytes)
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
    fn malformed_text_is_not_decoded() {
        for text in [
            "Zg", "Zg=", "Z===", "====", "Zg==Zg==", "Zm9v\n", "Zm 9", "Zm9-", "Zé==",
        ] {
            assert_eq!(decode(text), None, "{text:?}");
        }
    }
}
