//! Resource quantities: `100m`, `1.5Gi`, `2e3`. They are exact to 10^-9, like the API's, and use no
//! floats.

use std::cmp::Ordering;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Sub};
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

/// A resource quantity. Equality compares values, not notations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// The suffixes that a quantity is written with. A sum has the format of its first operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Powers of 1000: `m`, none, `k`, `M`, ….
    #[default]
    Decimal,
    /// Powers of 1024: `Ki`, `Mi`, ….
    Binary,
    /// `e3`, `e6`, ….
    Exponent,
}

/// The text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuantityError(pub String);

const NANOS: i128 = 1_000_000_000;
/// The API caps binary quantities at `i64::MAX` units.
const MAX: i128 = (i64::MAX as i128) * NANOS;
/// Decimal suffixes, starting at 10^-9.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// Binary suffixes.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Quantity {
    /// A quantity of whole units.
    pub fn of_units(units: i64) -> Self {
        Self {
            nanos: i128::from(units) * NANOS,
            format: Format::Decimal,
        }
    }

    /// A quantity of thousandths.
    pub fn of_millis(millis: i64) -> Self {
        Self {
            nanos: i128::from(millis) * 1_000_000,
            format: Format::Decimal,
        }
    }

    /// The same quantity in this format.
    #[must_use]
    pub fn in_format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    /// The quantity as a float, computed like the API's `AsApproximateFloat64`: the digits of the canonical decimal
    /// form times a power of ten.
    pub fn as_f64(self) -> f64 {
        let (mut value, mut exponent) = (self.nanos, -9);
        while exponent < 0 && value % 1000 == 0 {
            value /= 1000;
            exponent += 3;
        }
        let power = match exponent {
            0 => 1.0,
            -3 => 1e-3,
            -6 => 1e-6,
            _ => 1e-9,
        };
        value as f64 * power
    }

    /// Whole units, rounded up.
    pub fn units(self) -> i64 {
        clamp(ceil(self.nanos, NANOS))
    }

    /// Thousandths, rounded up.
    pub fn millis(self) -> i64 {
        clamp(ceil(self.nanos, 1_000_000))
    }

    /// Billionths. Equal quantities have the same number, whatever their notation.
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// The quantity with a fraction of a unit rounded away from zero, in the same format.
    #[must_use]
    pub fn whole(self) -> Self {
        let fraction = self.nanos % NANOS;
        let whole = self.nanos - fraction;
        Self {
            nanos: whole.saturating_add(fraction.signum() * NANOS),
            format: self.format,
        }
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        parse(text).ok_or_else(|| QuantityError(text.into()))
    }
}

/// `sign? digits [. digits] suffix`
fn parse(text: &str) -> Option<Quantity> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let (factor, power, format) = scale(suffix)?;
    let digits = format!("{whole}{fraction}");
    let exponent = power
        .checked_add(9)?
        .checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let mut nanos = scaled(digits.trim_start_matches('0'), factor, exponent);
    let mut format = format;
    if format == Format::Binary {
        nanos = nanos.min(MAX);
        // No binary suffix fits a fraction.
        if 0 < nanos && nanos < NANOS {
            format = Format::Decimal;
        }
    }
    Some(Quantity {
        nanos: if negative { -nanos } else { nanos },
        format,
    })
}

/// Returns `digits · factor · 10^exponent`, rounded up and saturated. Only the digits that fit in
/// 128 bits with the factor are used: 20 with a binary factor, otherwise 36. The others only affect
/// rounding.
fn scaled(digits: &str, factor: i128, exponent: i32) -> i128 {
    if digits.is_empty() {
        return 0;
    }
    let (counted, rest) = digits.split_at(digits.len().min(if factor == 1 { 36 } else { 20 }));
    let exponent = exponent.saturating_add(i32::try_from(rest.len()).unwrap_or(i32::MAX));
    let more = rest.bytes().any(|digit| digit != b'0');
    let value = counted
        .bytes()
        .fold(0i128, |value, digit| value * 10 + i128::from(digit - b'0'))
        * factor;
    let power = 10i128.checked_pow(exponent.unsigned_abs());
    match (exponent >= 0, power) {
        (true, power) => power.map_or(i128::MAX, |power| value.saturating_mul(power)),
        (false, None) => 1,
        (false, Some(power)) => value / power + i128::from(value % power != 0 || more),
    }
}

/// Returns a suffix's factor, power of ten and format.
fn scale(suffix: &str) -> Option<(i128, i32, Format)> {
    if let Some(at) = BINARY
        .iter()
        .position(|known| *known == suffix)
        .filter(|at| *at > 0)
    {
        return Some((1i128 << (10 * at), 0, Format::Binary));
    }
    if let Some(at) = DECIMAL.iter().position(|known| *known == suffix) {
        return Some((1, at as i32 * 3 - 9, Format::Decimal));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| Some((1, exponent.parse().ok()?, Format::Exponent)))?
}

/// The canonical form: no fraction, and the greatest suffix that avoids one. A binary quantity
/// below 1024, or with a fraction, is written with decimal suffixes.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_binary = self.format == Format::Binary
            && self.nanos.abs() >= 1024 * NANOS
            && self.nanos % NANOS == 0;
        let (mut value, step) = if is_binary {
            (self.nanos / NANOS, 1024)
        } else {
            (self.nanos, 1000)
        };
        if value == 0 {
            return f.write_str("0");
        }
        let suffixes: &[&str] = if is_binary { &BINARY } else { &DECIMAL };
        let mut at = 0;
        // The exponent format has no greatest suffix.
        while value % step == 0 && (at + 1 < suffixes.len() || self.format == Format::Exponent) {
            value /= step;
            at += 1;
        }
        match (self.format, at as i32 * 3 - 9) {
            (Format::Exponent, exponent) if exponent != 0 => write!(f, "{value}e{exponent}"),
            _ => write!(f, "{value}{}", suffixes[at]),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_add(other.nanos),
            format: self.sum_format(other),
        }
    }
}

impl Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_sub(other.nanos),
            format: self.sum_format(other),
        }
    }
}

impl Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(quantities: I) -> Self {
        quantities.fold(Self::default(), Add::add)
    }
}

impl Quantity {
    /// The format of the first operand, or of the second if the first is zero.
    fn sum_format(self, other: Self) -> Format {
        if self.is_zero() {
            other.format
        } else {
            self.format
        }
    }
}

fn ceil(value: i128, by: i128) -> i128 {
    value.div_euclid(by) + i128::from(value.rem_euclid(by) != 0)
}

fn clamp(value: i128) -> i64 {
    value.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a quantity: write it as `100m`, `2` or `1.5Gi`",
            self.0
        )
    }
}

impl std::error::Error for QuantityError {}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    /// Accepts a string or a whole number.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_i64<E>(self, units: i64) -> Result<Quantity, E> {
                Ok(Quantity::of_units(units))
            }

            fn visit_u64<E>(self, units: u64) -> Result<Quantity, E> {
                Ok(Quantity::of_units(i64::try_from(units).unwrap_or(i64::MAX)))
            }
        }

        deserializer.deserialize_any(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousandths_are_written_in_the_format_that_was_asked_for() {
        let text = |millis, format| Quantity::of_millis(millis).in_format(format).to_string();
        assert_eq!(text(1500, Format::Decimal), "1500m");
        assert_eq!(text(3000, Format::Decimal), "3");
        assert_eq!(text(2 * 1024 * 1024 * 1000, Format::Binary), "2Mi");
        assert_eq!(text(1024 * 1000 + 1, Format::Binary), "1024001m");
        assert_eq!(text(0, Format::Binary), "0");
    }

    #[test]
    fn a_quantity_is_the_nearest_float() {
        for (text, float) in [
            ("50m", 0.05),
            ("0.1", 0.1),
            ("2", 2.0),
            ("1500u", 0.0015),
            ("0", 0.0),
        ] {
            assert_eq!(text.parse::<Quantity>().unwrap().as_f64(), float, "{text}");
        }
    }

    fn quantity(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    #[test]
    fn quantities_are_equal_by_value() {
        for (one, other) in [
            ("1", "1000m"),
            ("0.1", "100m"),
            ("1.5Gi", "1536Mi"),
            ("1k", "1e3"),
            ("2E", "2e18"),
            ("1E3", "1000"),
            ("0", "-0"),
            (".5", "500m"),
            ("5.", "5"),
            ("+1", "1"),
            ("1u", "1000n"),
            ("0.1n", "1n"),
            ("00001", "1"),
            ("1Ei", "1024Pi"),
        ] {
            assert_eq!(quantity(one), quantity(other), "{one} {other}");
        }
        assert!(quantity("1Ki") > quantity("1k") && quantity("-1") < quantity("0"));
    }

    #[test]
    fn the_canonical_form_has_no_fraction_and_the_greatest_suffix() {
        for (text, canonical) in [
            ("0.1", "100m"),
            ("1000", "1k"),
            ("1024", "1024"),
            ("1024Ki", "1Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("0.5Mi", "512Ki"),
            ("1000e3", "1e6"),
            ("100e0", "100"),
            ("-1500m", "-1500m"),
            ("0Gi", "0"),
            ("0.0001Ki", "102400u"),
            ("12345678901234.123456789", "12345678901234123456789n"),
        ] {
            assert_eq!(quantity(text).to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn large_binary_values_are_capped_and_small_ones_rounded_up() {
        assert_eq!(quantity("100Ei"), quantity("9223372036854775807"));
        assert_eq!(quantity("10E").to_string(), "10E");
        assert_eq!(quantity("1e21").to_string(), "1e21");
        assert_eq!(quantity("1e99").units(), i64::MAX);
        assert!(quantity("1e99") + quantity("1e99") >= quantity("1e99"));
        assert_eq!(quantity("100Ei").units(), i64::MAX);
        assert_eq!(quantity("1e-99"), quantity("1n"));
        assert_eq!(quantity(&format!("1{}", "0".repeat(60))).units(), i64::MAX);
        assert_eq!(quantity(&format!("0.{}1", "0".repeat(60))), quantity("1n"));
    }

    #[test]
    fn sums_keep_the_format_of_the_first_operand() {
        assert_eq!((quantity("1Gi") + quantity("1024Mi")).to_string(), "2Gi");
        assert_eq!((quantity("0") + quantity("2Ki")).to_string(), "2Ki");
        assert_eq!((quantity("1") - quantity("1500m")).to_string(), "-500m");
    }

    #[test]
    fn a_fraction_is_rounded_away_from_zero_in_the_same_format() {
        for (text, whole) in [
            ("1500m", "2"),
            ("-1500m", "-2"),
            ("3", "3"),
            ("1024.5Ki", "1049088"),
            ("1025.0001Ki", "1049601"),
            ("0", "0"),
        ] {
            assert_eq!(quantity(text).whole().to_string(), whole, "{text}");
        }
        assert_eq!(
            (quantity("2047.9999Ki").whole() + quantity("1Ki")).to_string(),
            "2049Ki"
        );
    }

    #[test]
    fn whole_units_round_up() {
        assert_eq!(
            (
                quantity("1500m").units(),
                quantity("-1500m").units(),
                quantity("1u").millis()
            ),
            (2, -1, 1)
        );
    }

    #[test]
    fn malformed_quantities_are_rejected() {
        for text in [
            "", "-", ".", "1.2.3", "1 Gi", "Gi", "1gi", "1e", "1e+", "1e1.5", "1K", "--1", "1Gi2",
            "é",
        ] {
            assert_eq!(text.parse::<Quantity>(), Err(QuantityError(text.into())));
        }
    }
}
