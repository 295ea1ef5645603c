//! Quantities as `resource.Quantity` holds them after parsing: in 64 bits where that is possible, else as a decimal of any
//! size. The text is kept only where the parser can tell that it is canonical. (The SDK's `Quantity` is for calculating.)
//!
//! Upstream: staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go: parseQuantityString, ParseQuantity.
//! Upstream: staging/src/k8s.io/apimachinery/pkg/api/resource/suffix.go: interpret.

use std::fmt;

use crate::natural::Natural;

/// The number of decimal digits that 64 bits hold in any case.
const MAX_DIGITS: i32 = 18;
/// The scale of billionths, the smallest fraction of a quantity.
const NANO: i32 = -9;
/// The largest power of ten by which a decimal is scaled here. A quantity from the API server needs much less.
const MAX_SHIFT: i32 = 10_000;

/// The suffixes for powers of 1000, from billionths on.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// The suffixes for powers of 1024.
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// A quantity. It is displayed as the dump shows it, without its type.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quantity {
    /// The number is `value` times ten to the power of `scale`, unless it is a decimal.
    value: i64,
    scale: i32,
    decimal: Option<Decimal>,
    text: String,
    format: Option<Format>,
}

/// The number `unscaled` times ten to the power of `-scale`.
#[derive(Clone, Debug)]
struct Decimal {
    is_negative: bool,
    unscaled: Natural,
    scale: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Binary,
    Decimal,
    Exponent,
}

/// The parts of a quantity's text.
struct Parts<'a> {
    is_negative: bool,
    /// The digits before the point, without leading zeros, but at least one.
    whole: &'a str,
    fraction: &'a str,
    /// All before the suffix.
    number: &'a str,
    suffix: &'a str,
}

/// The meaning of a suffix: a power of two or ten.
struct Unit {
    format: Format,
    exponent: i32,
}

impl Quantity {
    /// Parses a quantity; `None` if the text is not one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text == "0" {
            return Some(Self {
                text: text.into(),
                format: Some(Format::Decimal),
                ..Self::default()
            });
        }
        let parts = Parts::of(text)?;
        let unit = Unit::of(parts.suffix)?;
        match Self::fast(text, &parts, &unit) {
            Some(quantity) => Some(quantity),
            None => Self::slow(&parts, unit),
        }
    }

    /// Returns the quantity in 64 bits; `None` if it may not fit.
    fn fast(text: &str, parts: &Parts<'_>, unit: &Unit) -> Option<Self> {
        let digits = i32::try_from(parts.whole.len() + parts.fraction.len()).ok()?;
        let (scale, mantissa, precision) = match unit.format {
            // A power of two has three digits for ten bits.
            Format::Binary if parts.fraction.is_empty() => (
                0,
                1 << unit.exponent,
                15 - digits - unit.exponent * 3 / 10 - 1,
            ),
            Format::Binary => return None,
            Format::Decimal | Format::Exponent => (unit.exponent, 1, MAX_DIGITS - digits),
        };
        let scale = scale.wrapping_sub(parts.fraction.len() as i32);
        if precision < 0 || scale < NANO {
            return None;
        }
        let shifted = parts.whole.to_owned() + parts.fraction;
        let value: i64 = shifted.parse().ok()?;
        let product = value.checked_mul(mantissa)?;
        let is_canonical = match unit.format {
            Format::Binary => value & 7 != 0,
            _ => scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0'),
        };
        Some(Self {
            value: if parts.is_negative { -product } else { product },
            scale,
            decimal: None,
            text: if is_canonical {
                text.into()
            } else {
                String::new()
            },
            format: Some(unit.format),
        })
    }

    /// Returns the quantity as a decimal.
    fn slow(parts: &Parts<'_>, unit: Unit) -> Option<Self> {
        if !parts
            .number
            .contains(|character: char| character.is_ascii_digit())
        {
            return None;
        }
        let mut decimal = Decimal {
            is_negative: parts.is_negative,
            unscaled: Natural::of_digits(parts.number),
            scale: i32::try_from(parts.fraction.len()).ok()?,
        };
        let mut format = unit.format;
        match format {
            Format::Binary => decimal.unscaled.multiply_add(1 << unit.exponent, 0),
            Format::Decimal | Format::Exponent => {
                decimal.scale = decimal.scale.wrapping_sub(unit.exponent);
            }
        }
        if decimal.unscaled.is_zero() {
            decimal.is_negative = false;
        } else {
            decimal.round_to_nanos()?;
            let one = Natural::of(1_000_000_000);
            if format == Format::Binary && decimal.unscaled < one {
                format = Format::Decimal;
            }
            decimal.cap(format);
        }
        Some(Self {
            decimal: Some(decimal),
            format: Some(format),
            ..Self::default()
        })
    }
}

impl Decimal {
    /// Changes the scale to billionths, and rounds fractions away from zero. Returns `None` if the number is too large or too
    /// small for that.
    fn round_to_nanos(&mut self) -> Option<()> {
        let shift = (-NANO).checked_sub(self.scale)?;
        if shift.abs() > MAX_SHIFT {
            return None;
        }
        let mut has_remainder = false;
        for _ in 0..shift.abs() {
            if shift > 0 {
                self.unscaled.multiply_add(10, 0);
            } else {
                has_remainder |= self.unscaled.divide(10) > 0;
            }
        }
        if has_remainder {
            self.unscaled.multiply_add(1, 1);
        }
        self.scale = -NANO;
        Some(())
    }

    /// Caps a number with a power of two at the largest one of 64 bits. `self` has the scale of billionths.
    fn cap(&mut self, format: Format) {
        let most = Natural::of(i64::MAX.unsigned_abs());
        let mut most_nanos = most.clone();
        most_nanos.multiply_add(1_000_000_000, 0);
        if format == Format::Binary && self.unscaled > most_nanos {
            (self.unscaled, self.scale) = (most, 0);
        }
    }
}

impl<'a> Parts<'a> {
    /// Splits a text; `None` if it is not a number with a suffix.
    fn of(text: &'a str) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let is_negative = text.starts_with('-');
        let significant = unsigned.trim_start_matches('0');
        if significant.is_empty() {
            return Some(Self {
                is_negative,
                whole: "0",
                fraction: "",
                number: "0",
                suffix: "",
            });
        }
        let (whole, rest) = split_digits(significant);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        is_suffix(suffix).then(|| Self {
            is_negative,
            whole: if whole.is_empty() { "0" } else { whole },
            fraction,
            number: &text[..text.len() - suffix.len()],
            suffix,
        })
    }
}

/// Splits a text after its leading digits.
fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(end)
}

/// Whether a text has the form of a suffix: letters, and maybe a sign and digits.
fn is_suffix(text: &str) -> bool {
    let rest =
        text.trim_start_matches(['e', 'E', 'i', 'n', 'u', 'm', 'k', 'K', 'M', 'G', 'T', 'P']);
    let digits = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    digits.bytes().all(|byte| byte.is_ascii_digit())
}

impl Unit {
    /// Returns the meaning of a suffix; `None` if it has none.
    fn of(suffix: &str) -> Option<Self> {
        let power = |suffixes: &[&str]| suffixes.iter().position(|one| *one == suffix);
        let (format, exponent) = if let Some(power) = power(&DECIMAL) {
            (Format::Decimal, NANO + 3 * power as i32)
        } else if let Some(power) = power(&BINARY) {
            (Format::Binary, 10 + 10 * power as i32)
        } else {
            let exponent = suffix.strip_prefix(['e', 'E'])?.parse::<i64>().ok()?;
            // As upstream, an exponent beyond 32 bits loses its high bits.
            (Format::Exponent, exponent as i32)
        };
        Some(Self { format, exponent })
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            value, scale, text, ..
        } = self;
        write!(
            f,
            "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} \
             d:(resource.infDecAmount){{Dec:(*inf.Dec)"
        )?;
        match &self.decimal {
            Some(decimal) => write!(f, "{decimal}")?,
            None => write!(f, "<nil>")?,
        }
        write!(f, "}} s:(string){text} Format:(resource.Format)")?;
        match self.format {
            Some(Format::Binary) => write!(f, "BinarySI")?,
            Some(Format::Decimal) => write!(f, "DecimalSI")?,
            Some(Format::Exponent) => write!(f, "DecimalExponent")?,
            None => {}
        }
        write!(f, "}}")
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            is_negative, scale, ..
        } = self;
        write!(
            f,
            "{{unscaled:(big.Int){{neg:(bool){is_negative} abs:(big.nat)"
        )?;
        match self.unscaled.words() {
            [] => write!(f, "<nil>")?,
            [first, others @ ..] => {
                write!(f, "[{first}")?;
                others.iter().try_for_each(|word| write!(f, " {word}"))?;
                write!(f, "]")?;
            }
        }
        write!(f, "}} scale:(inf.Scale){scale}}}")
    }
}
