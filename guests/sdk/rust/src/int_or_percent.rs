//! A number, or a percentage of another number, such as `maxSurge`.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::error::Error;

/// A number or a string such as `25%`: the API's IntOrString.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntOrPercent {
    Int(i32),
    /// The percentage's text.
    Percent(String),
}

impl IntOrPercent {
    /// Returns the number, or the percentage of `total`, rounded up or down.
    ///
    /// # Errors
    /// The text is not a percentage. The error is terminal.
    pub fn of(&self, total: i32, round_up: bool) -> Result<i32, Error> {
        let percent = match self {
            Self::Int(number) => return Ok(*number),
            Self::Percent(text) => text
                .strip_suffix('%')
                .and_then(|digits| digits.parse::<i32>().ok()),
        };
        let percent = percent.ok_or_else(|| {
            Error::terminal(format!("`{self}` is neither a number nor a percentage"))
        })?;
        let hundredths = i64::from(percent) * i64::from(total);
        let number =
            hundredths.div_euclid(100) + i64::from(round_up && hundredths.rem_euclid(100) != 0);
        Ok(number.clamp(i32::MIN.into(), i32::MAX.into()) as i32)
    }
}

impl Default for IntOrPercent {
    fn default() -> Self {
        Self::Int(0)
    }
}

impl From<i32> for IntOrPercent {
    fn from(number: i32) -> Self {
        Self::Int(number)
    }
}

impl fmt::Display for IntOrPercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => write!(f, "{number}"),
            Self::Percent(text) => f.write_str(text),
        }
    }
}

impl Serialize for IntOrPercent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Int(number) => serializer.serialize_i32(*number),
            Self::Percent(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for IntOrPercent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = IntOrPercent;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a percentage")
            }

            fn visit_str<E>(self, text: &str) -> Result<IntOrPercent, E> {
                Ok(IntOrPercent::Percent(text.into()))
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<IntOrPercent, E> {
                i32::try_from(number)
                    .map(IntOrPercent::Int)
                    .map_err(E::custom)
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<IntOrPercent, E> {
                i32::try_from(number)
                    .map(IntOrPercent::Int)
                    .map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, total: i32, round_up: bool) -> Option<i32> {
        let value: IntOrPercent = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), text);
        value.of(total, round_up).ok()
    }

    #[test]
    fn a_number_is_returned_unchanged() {
        assert_eq!(of("3", 10, true), Some(3));
    }

    #[test]
    fn a_percentage_is_rounded_as_asked() {
        assert_eq!(
            (of(r#""25%""#, 10, true), of(r#""25%""#, 10, false)),
            (Some(3), Some(2))
        );
        assert_eq!(
            (of(r#""50%""#, 10, true), of(r#""0%""#, 10, true)),
            (Some(5), Some(0))
        );
        assert_eq!(of(r#""200%""#, i32::MAX, true), Some(i32::MAX));
    }

    #[test]
    fn any_other_text_is_a_terminal_error() {
        assert_eq!(of(r#""some""#, 10, true), None);
        assert!(
            IntOrPercent::Percent("3".into())
                .of(10, true)
                .unwrap_err()
                .is_terminal()
        );
    }
}
