//! Writes the wire format of protobuf, for metrics and CPU profiles.

/// The encoded fields of a message.
#[derive(Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    /// A field with an unsigned number.
    pub(crate) fn uint(&mut self, field: u32, value: u64) {
        self.key(field, 0);
        self.varint(value);
    }

    /// A field of type `sint32` or `sint64`.
    pub(crate) fn sint(&mut self, field: u32, value: i64) {
        self.uint(field, (value << 1 ^ value >> 63) as u64);
    }

    pub(crate) fn double(&mut self, field: u32, value: f64) {
        self.key(field, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A field with bytes or a text.
    pub(crate) fn bytes(&mut self, field: u32, value: &[u8]) {
        self.key(field, 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    pub(crate) fn message(&mut self, field: u32, message: &Self) {
        self.bytes(field, &message.0);
    }

    /// A field with several numbers.
    pub(crate) fn packed(&mut self, field: u32, values: &[u64]) {
        let mut packed = Self::default();
        for value in values {
            packed.varint(*value);
        }
        self.message(field, &packed);
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// The message after its length, as an element of a stream.
    pub(crate) fn into_delimited(self) -> Vec<u8> {
        let mut delimited = Self::default();
        delimited.varint(self.0.len() as u64);
        delimited.0.extend(self.0);
        delimited.0
    }

    fn key(&mut self, field: u32, wire_type: u32) {
        self.varint((field << 3 | wire_type).into());
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_encoded_as_in_protobuf() {
        let mut message = Message::default();
        message.uint(1, 300);
        message.sint(2, -2);
        message.bytes(3, b"ab");
        message.packed(4, &[1, 128]);
        message.double(16, 1.0);
        let expected = [
            &[0x08, 0xac, 0x02][..],
            &[0x10, 3],
            &[0x1a, 2, b'a', b'b'],
            &[0x22, 3, 1, 0x80, 0x01],
            &[0x81, 0x01, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f],
        ]
        .concat();
        let mut delimited = vec![24];
        delimited.extend(&expected);
        assert_eq!(message.into_delimited(), delimited);
    }
}
