//! What an answer looks like, without what it quotes: answers of one shape came by the same way.

/// Letters of a sentence that count. What follows tells of the input more than of the way to the
/// answer.
const LETTERS: usize = 64;

/// The first words of a sentence, without numbers and without what stands in quotes.
pub(crate) fn of(sentence: &str) -> String {
    let mut shape = String::new();
    let mut quote = None;
    for c in sentence.chars() {
        if shape.len() >= LETTERS {
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
    fn what_is_quoted_or_counted_does_not_matter() {
        assert_eq!(
            of("`a` is no kind at line 12"),
            of("`b c` is no kind at line 7")
        );
        assert_ne!(of("`a` is no kind"), of("`a` is no path"));
    }
}
