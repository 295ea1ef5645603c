//! JSON that a controller passes on unchanged, such as a pod template.

use std::fmt;

use serde::de::{Deserialize, DeserializeOwned, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::error::Error;

/// JSON as unparsed text. The default is `null`.
#[derive(Clone)]
pub struct Raw(Box<RawValue>);

impl Raw {
    /// Serializes a value.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        Self(serde_json::value::to_raw_value(value).expect("a map with string keys is valid JSON"))
    }

    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Whether the value is `null` or was absent.
    pub fn is_null(&self) -> bool {
        self.text() == "null"
    }

    /// Parses the text as a `T`; `None` if it is null.
    ///
    /// # Errors
    /// The JSON is not a valid `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        serde_json::from_str(self.text())
            .map_err(|error| Error::malformed(std::any::type_name::<T>(), error))
    }

    /// Parses the text as a JSON value.
    pub fn value(&self) -> serde_json::Value {
        serde_json::from_str(self.text()).expect("a raw value is valid JSON")
    }
}

impl Default for Raw {
    fn default() -> Self {
        Self(RawValue::NULL.to_owned())
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Compares the texts.
impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl From<serde_json::Value> for Raw {
    fn from(value: serde_json::Value) -> Self {
        Self::of(&value)
    }
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self)
    }
}
