//! The message of a failure without what differs between two builds of the same code: where in the code it happened, the
//! frames of a traceback, and how line breaks are written.

/// Whether two messages differ at most in that.
pub(crate) fn is_like(one: &str, other: &str) -> bool {
    one == other || essence(one) == essence(other)
}

/// The words of a message.
fn essence(message: &str) -> String {
    // A sandbox logs a panic's line breaks as `\n`.
    let unescaped = message.replace("\\n", "\n").replace("\\t", "\t");
    let lines = unescaped.lines().filter(|line| !is_frame(line));
    let words = lines.map(without_places).collect::<Vec<_>>().join(" ");
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a line is a frame of a traceback: `    at reconcile (src/controller.ts:12:3)`, `  File "controller.py", line 7`.
fn is_frame(line: &str) -> bool {
    let is_indented = line.starts_with(char::is_whitespace);
    let line = line.trim_start();
    is_indented && (line.starts_with("at ") || line.starts_with("File \""))
}

/// The line without parentheses that name a place: `(controller.py:57 in Pages.reconcile)`.
fn without_places(line: &str) -> String {
    let mut kept = String::new();
    let mut rest = line;
    while let Some(open) = rest.find('(') {
        let Some(length) = rest[open..].find(')') else {
            break;
        };
        let inside = &rest[open + 1..open + length];
        kept.push_str(&rest[..open]);
        if !names_place(inside) {
            kept.push_str(&rest[open..=open + length]);
        }
        rest = &rest[open + length + 1..];
    }
    kept + rest
}

/// Whether a text has a file and a line in it, as `a.go:134` is.
fn names_place(text: &str) -> bool {
    let mut words = text.split_whitespace();
    words.any(|word| {
        let mut parts = word.split(':');
        let is_file = parts.next().is_some_and(|file| file.contains('.'));
        is_file && parts.next().is_some_and(|line| line.parse::<u32>().is_ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_compared_without_places() {
        let go = "panic: nil pointer\n    at a.Reconcile (example.com/leaf/controller.go:134)";
        let recorded = "panic: nil pointer\\n    at a.Reconcile (controller.go:99)";
        assert!(is_like(go, recorded));
        let python = |place: &str| format!("KeyError: 'spec' ({place}:57 in Pages.reconcile)");
        assert!(is_like(
            &python("controller.py"),
            &python("/src/page/controller.py")
        ));
        let rust = |place: &str| format!("panic: no title\\n  left: 1 (src/{place})");
        assert!(is_like(&rust("lib.rs:7"), &rust("controller.rs:9")));
        let typescript = "TypeError: no (src/controller.ts:7 in reconcile)";
        assert!(is_like(
            typescript,
            "TypeError: no (/a/src/controller.ts:9 in Object.f)"
        ));
        for (one, other) in [
            ("KeyError: 'spec' (a.py:1)", "KeyError: 'status' (a.py:1)"),
            ("can't write (409 Conflict)", "can't write (404 NotFound)"),
            ("no port (10:20)", "no port (10:21)"),
            ("no line (", "no line"),
        ] {
            assert!(!is_like(one, other), "{one} {other}");
        }
    }
}
