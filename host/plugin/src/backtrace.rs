//! The names of the functions in which a guest failed. They come from the component, so any text may be in them. They
//! are read after the call has ended, when nothing measures or interrupts the work, so it must be little.

use std::fmt::{self, Write};

use wasmtime::WasmBacktrace;

/// Maximum length of a name, in bytes. Longer names are cut, because a mangled name may stand for gigabytes.
const MAX_NAME: usize = 200;

/// The functions of a backtrace that have names, one per line, the innermost first. None if none has one, as in a
/// component without debug information.
pub(crate) fn function_names(backtrace: &WasmBacktrace) -> Option<String> {
    let named = backtrace.frames().iter().filter_map(|frame| {
        let function = readable(frame.func_name()?);
        Some(match frame.module().name() {
            Some(module) => format!("{}!{function}", cut(module)),
            None => function,
        })
    });
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| named.join("\n"))
}

/// Demangles the name of a Rust function, and cuts any name.
fn readable(name: &str) -> String {
    let mut readable = Cut(String::new());
    match rustc_demangle::try_demangle(name) {
        // An error means that the name is longer than the limit.
        Ok(demangled) => _ = write!(readable, "{demangled}"),
        Err(_) => _ = readable.write_str(name),
    }
    readable.0
}

fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_NAME)]
}

/// A text that ends at [`MAX_NAME`].
struct Cut(String);

impl Write for Cut {
    /// Fails at the limit, which stops the demangler.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fits = text.floor_char_boundary(MAX_NAME - self.0.len());
        self.0.push_str(&text[..fits]);
        if fits < text.len() {
            return Err(fmt::Error);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rust_functions_are_demangled_and_others_are_kept() {
        for (name, expected) in [
            (
                "_ZN4core3fmt5write17h0123456789abcdefE",
                "core::fmt::write::h0123456789abcdef",
            ),
            ("_RNvCs1234_7mycrate3foo", "mycrate[3c1c0]::foo"),
            ("_Z3fooi", "_Z3fooi"),
            ("", ""),
            ("größe", "größe"),
        ] {
            assert_eq!(readable(name), expected);
        }
    }

    #[test]
    fn a_name_that_stands_for_a_long_text_is_cut() {
        // Each template argument of a C++ name repeats the one before.
        let cpp = format!("_Z1f1AI{}E1BI{}E", "i".repeat(30_000), "S0_".repeat(20_000));
        // Each tuple of a Rust name has the one before twice.
        let mut rust = "_RINvC1a1f".to_owned();
        let position = |rust: &str| rust.len() - "_R".len();
        let mut last = position(&rust);
        rust.push_str("ThhE");
        for _ in 0..40 {
            let (before, start) = (format!("B{}", base_62(last)), position(&rust));
            rust += &format!("T{before}{before}E");
            last = start;
        }
        rust.push('E');
        assert!(rustc_demangle::try_demangle(&rust).is_ok(), "{rust}");
        for name in [cpp, rust, "ö".repeat(50_000)] {
            let cut = readable(&name);
            assert!(cut.len() <= MAX_NAME && cut.len() > MAX_NAME - 4, "{cut}");
        }
    }

    /// A number of a mangled name.
    fn base_62(number: usize) -> String {
        const DIGITS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let Some(mut rest) = number.checked_sub(1) else {
            return "_".into();
        };
        let mut digits = vec![DIGITS[rest % 62]];
        while rest >= 62 {
            rest /= 62;
            digits.push(DIGITS[rest % 62]);
        }
        digits.reverse();
        String::from_utf8(digits).unwrap() + "_"
    }
}
