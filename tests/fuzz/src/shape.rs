//! The shape of an outcome: its text without the parts that come from the input. Outcomes of the
//! same shape most likely took the same path through the code.

/// The length of a shape in bytes. Later text depends on the input more than on the path through
/// the code.
const LENGTH: usize = 64;

/// The beginning of a text, without digits, punctuation and quoted parts.
pub(crate) fn of(sentence: &str) -> String {
    let mut shape = String::new();
    let mut quote = None;
    for c in sentence.chars() {
        if shape.len() >= LENGTH {
            break;
        }
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => {}
            None if matches!(c, '`' | '"') => {
                quote = Some(c);
                shape.push('…');
            }
            None if c.is_ascii_alphabetic() || c == ' ' => shape.push(c),
            None => {}
        }
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_and_numbers_are_not_part_of_the_shape() {
        assert_eq!(
            of("`a` is not a kind at line 12"),
            of("`b c` is not a kind at line 7")
        );
        assert_ne!(of("`a` is not a kind"), of("`a` is not a path"));
    }
}
