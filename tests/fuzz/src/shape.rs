//! The shape of an outcome: its text without the parts that come from the input. Outcomes of the
//! same shape most likely took the same path through the code.

/// The length of a shape in bytes. Later text depends on the input more than on the path through
/// the code.
const LENGTH: usize = 96;

/// A count in words, which are part of a shape. All counts above three have the same word, so that
/// longer inputs of the same form are not kept.
pub(crate) fn counted(count: usize) -> &'static str {
    match count {
        0 => "no",
        1 => "one",
        2 => "two",
        3 => "three",
        _ => "many",
    }
}

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

    #[test]
    fn counts_are_part_of_the_shape_up_to_a_few() {
        let shape = |count: usize| of(&format!("a policy of {} rules", counted(count)));
        let shapes: std::collections::BTreeSet<String> = (0..10).map(shape).collect();
        assert_eq!(shapes.len(), 5, "{shapes:?}");
    }
}
