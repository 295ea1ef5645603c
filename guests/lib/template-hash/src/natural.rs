//! Natural numbers of any size, in the words in which Go's `math/big` holds and prints them.

use std::cmp::Ordering;

/// A natural number: its words of 64 bits, the least significant first. The last one is not 0; the number 0 has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Natural(Vec<u64>);

impl Natural {
    pub(crate) fn of(number: u64) -> Self {
        let mut natural = Self::default();
        natural.multiply_add(0, number);
        natural
    }

    /// Parses decimal digits, and ignores other characters.
    pub(crate) fn of_digits(digits: &str) -> Self {
        let mut natural = Self::default();
        for digit in digits.bytes().filter(u8::is_ascii_digit) {
            natural.multiply_add(10, u64::from(digit - b'0'));
        }
        natural
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.0
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// Multiplies by a factor and adds a number.
    pub(crate) fn multiply_add(&mut self, factor: u64, number: u64) {
        let mut carry = u128::from(number);
        for word in &mut self.0 {
            carry += u128::from(*word) * u128::from(factor);
            (*word, carry) = (carry as u64, carry >> 64);
        }
        if carry > 0 {
            self.0.push(carry as u64);
        }
    }

    /// Divides by a number, and returns the remainder.
    pub(crate) fn divide(&mut self, divisor: u64) -> u64 {
        let divisor = u128::from(divisor);
        let mut remainder = 0;
        for word in self.0.iter_mut().rev() {
            let dividend = remainder << 64 | u128::from(*word);
            (*word, remainder) = ((dividend / divisor) as u64, dividend % divisor);
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        remainder as u64
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        let words = |natural: &'_ Self| natural.0.iter().rev().copied().collect::<Vec<_>>();
        (self.0.len(), words(self)).cmp(&(other.0.len(), words(other)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_multiplied_divided_and_compared_over_words() {
        let mut natural = Natural::of_digits("18446744073709551616");
        assert_eq!(natural.words(), [0, 1]);
        assert!(natural > Natural::of(u64::MAX));
        natural.multiply_add(10, 5);
        assert_eq!(natural.words(), [5, 10]);
        assert_eq!(natural.divide(10), 5);
        assert_eq!(natural.words(), [0, 1]);
        assert_eq!(natural.divide(u64::MAX), 1);
        assert_eq!(natural, Natural::of(1));
        assert_eq!((natural.divide(2), natural.is_zero()), (1, true));
        assert_eq!(Natural::of_digits("0"), Natural::of(0));
    }
}
