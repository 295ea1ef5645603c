//! The wire format of protobuf: numbered fields, each a varint or length-delimited. The API uses no other types.

/// Bytes that are not protobuf, or have a wire type that the API does not use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("can't decode a field")]
pub(crate) struct WireError;

/// Iterates over the fields of a message, in their order in the bytes.
pub(super) struct Fields<'a>(&'a [u8]);

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Fields<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let key = self.number()?;
        let value = match key & 7 {
            0 => Value::Number(self.number()?),
            2 => {
                let length = usize::try_from(self.number()?).ok()?;
                let (bytes, rest) = self.0.split_at_checked(length)?;
                self.0 = rest;
                Value::Bytes(bytes)
            }
            _ => return None,
        };
        Some((u32::try_from(key >> 3).ok()?, value))
    }

    /// A varint: seven bits a byte, the lowest first. All bytes but the last have the eighth bit set.
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for (at, byte) in self.0.iter().enumerate().take(10) {
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Some(number);
            }
        }
        None
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or(WireError))
    }
}

impl<'a> Value<'a> {
    pub(super) fn bytes(self) -> Result<&'a [u8], WireError> {
        if let Self::Bytes(bytes) = self {
            Ok(bytes)
        } else {
            Err(WireError)
        }
    }

    pub(super) fn text(self) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| WireError)
    }

    pub(super) fn number(self) -> Result<u64, WireError> {
        if let Self::Number(number) = self {
            Ok(number)
        } else {
            Err(WireError)
        }
    }

    /// A signed number.
    pub(super) fn signed(self) -> Result<i64, WireError> {
        self.number().map(u64::cast_signed)
    }
}

/// The first field of a message that wraps one value; empty if it is missing.
pub(super) fn unwrap_message(message: &[u8]) -> Result<&[u8], WireError> {
    let mut found = &[][..];
    for field in Fields::new(message) {
        if let (1, value) = field? {
            found = value.bytes()?;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_varints_or_length_delimited() {
        let message = [
            0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 1,
        ];
        let fields: Vec<_> = Fields::new(&message).collect::<Result<_, _>>().unwrap();
        assert_eq!(
            fields,
            [
                (1, Value::Number(150)),
                (2, Value::Bytes(b"hi")),
                (3, Value::Number(u64::MAX))
            ]
        );
        assert_eq!(
            (fields[2].1.signed(), fields[1].1.text(), fields[0].1.text()),
            (Ok(-1), Ok("hi"), Err(WireError))
        );
        assert_eq!(
            (unwrap_message(&[0x0a, 1, b'x']), unwrap_message(&[])),
            (Ok(&b"x"[..]), Ok(&[][..]))
        );
    }

    #[test]
    fn an_incomplete_field_or_another_wire_type_is_refused() {
        for message in [
            &[0x08][..],
            &[0x12, 3, b'h'],
            &[0x80; 11],
            &[0x0d, 0, 0, 0, 0],
            &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ] {
            assert_eq!(
                Fields::new(message).last(),
                Some(Err(WireError)),
                "{message:?}"
            );
        }
    }
}
