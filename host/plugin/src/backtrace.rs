//! The names of the functions in which a guest failed. They come from the component, so any text may be in them. They
//! are read after the call has ended, when nothing measures or interrupts the work, so it must be little.

use std::fmt::{self, Write};

use flyball_types::printable;
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

/// Crates and packages that are not the author's, in Rust and in Go.
const LIBRARIES: [&str; 58] = [
    "alloc",
    "bufio",
    "bytes",
    "cmp",
    "compiler_builtins",
    "container",
    "context",
    "core",
    "crypto",
    "dlmalloc",
    "embed",
    "encoding",
    "errors",
    "flyball.dev/sdk",
    "flyball_sdk",
    "flyball_types",
    "fmt",
    "go",
    "hash",
    "hashbrown",
    "html",
    "internal",
    "io",
    "iter",
    "itoa",
    "k8s_openapi",
    "log",
    "maps",
    "math",
    "memchr",
    "mime",
    "net",
    "os",
    "path",
    "reflect",
    "regexp",
    "runtime",
    "ryu",
    "schemars",
    "serde",
    "serde_core",
    "serde_json",
    "slices",
    "sort",
    "std",
    "strconv",
    "strings",
    "sync",
    "syscall",
    "text",
    "time",
    "unicode",
    "unique",
    "unsafe",
    "vendor",
    "wasip2",
    "wit_bindgen",
    "zmij",
];
/// Beginnings of the names of functions for C that are not the author's: of the SDK, of libraries and of bindings.
const PREFIXES: [&str; 8] = [
    "__", "cJSON_", "cabi_", "dl", "exports_", "fb_", "flyball", "wasm_",
];
/// Functions of the C library that loops are often stopped in.
const C_LIBRARY: [&str; 18] = [
    "calloc",
    "free",
    "malloc",
    "memchr",
    "memcmp",
    "memcpy",
    "memmove",
    "memset",
    "printf_core",
    "qsort",
    "realloc",
    "snprintf",
    "strchr",
    "strcmp",
    "strlen",
    "strncmp",
    "strstr",
    "vsnprintf",
];
/// Functions of interpreters, whose names say nothing about the author's code.
const INTERPRETERS: [&str; 4] = ["JS_", "js_", "_Py", "Py"];
/// The number of calls of one function in a backtrace that shows that it recurses.
const RECURSION: usize = 8;

/// Returns where in the author's code a guest was, as half a sentence: the innermost of these functions that belongs to
/// no known library. None if there is no such function, as in languages that are interpreted.
pub(crate) fn place(function_names: &str) -> Option<String> {
    let functions = || {
        let lines = function_names.lines().map(|line| line.split_once('!'));
        let lines = lines.zip(function_names.lines());
        // Adapters that the build adds are modules of their own.
        let lines = lines.filter(|(parts, _)| {
            parts.is_none_or(|(module, _)| !module.starts_with("wit-component:"))
        });
        lines.map(|(parts, line)| parts.map_or(line, |(_, function)| function))
    };
    let is_of_interpreter = |name: &str| INTERPRETERS.iter().any(|start| name.starts_with(start));
    if functions().any(is_of_interpreter) {
        return None;
    }
    let own = functions().find(|function| !is_of_library(function));
    // The author's function may be part of a generic one of a library.
    let own = own.or_else(|| functions().find(|function| names_own_type(function)))?;
    let calls = functions().filter(|function| *function == own).count();
    let shown = printable(own);
    Some(match calls >= RECURSION {
        true => format!("`{shown}` calls itself, deeper and deeper"),
        false => format!("it was in `{shown}`"),
    })
}

fn is_of_library(function: &str) -> bool {
    let path = function.trim_start_matches(['<', '&', '*', '(']);
    let path = path.strip_prefix("mut ").unwrap_or(path);
    let is_within = |library: &&str| {
        let rest = path.strip_prefix(*library);
        // `core::fmt`, `core[1234]::fmt`, `runtime.mallocgc` and `encoding/json.Marshal`.
        rest.is_some_and(|rest| rest.starts_with(['[', '.', '/']) || rest.starts_with("::"))
    };
    let is_plain = !path.contains("::") && !path.contains('.');
    LIBRARIES.iter().any(is_within)
        || (is_plain && PREFIXES.iter().any(|start| path.starts_with(start)))
        || C_LIBRARY.contains(&path)
}

/// Whether the name of a Rust function has a type of the author.
fn names_own_type(function: &str) -> bool {
    let paths = function.split(['<', '>', ',', '&', '(', ')', ' ']);
    let mut paths = paths.filter(|path| path.contains("::") && !path.starts_with("::"));
    paths.any(|path| !is_of_library(path))
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
    fn the_place_is_the_innermost_function_of_the_author() {
        for (names, expected) in [
            (
                "a.wasm!core::fmt::write\na.wasm!<greeter[1a2b]::Greeter as flyball_sdk[3c]::Controller>::reconcile\n\
                 a.wasm!flyball_sdk::wasm::reconcile",
                Some(
                    "it was in `<greeter[1a2b]::Greeter as flyball_sdk[3c]::Controller>::reconcile`",
                ),
            ),
            (
                "runtime.mallocgc\nencoding/json.Marshal\ngreeter-go/controller.(*Controller).loop\nmain.main",
                Some("it was in `greeter-go/controller.(*Controller).loop`"),
            ),
            (
                "memcpy\nfb_text\nreconcile\nexports_flyball_controller_guest_reconcile",
                Some("it was in `reconcile`"),
            ),
            (
                "wit-component:adapter:wasi!fd_write\nlooped",
                Some("it was in `looped`"),
            ),
            ("JS_CallInternal\nlooped", None),
            ("_PyEval_EvalFrameDefault", None),
            ("core::panicking::panic", None),
            (
                "core::fmt::write\nflyball_sdk[1]::wasm::reconcile::<mine[2]::Greeter>",
                Some("it was in `flyball_sdk[1]::wasm::reconcile::<mine[2]::Greeter>`"),
            ),
            ("", None),
        ] {
            assert_eq!(place(names).as_deref(), expected, "{names}");
        }
        let deep = "core::fmt::write\n".to_owned() + &"mine::nest\n".repeat(19);
        let expected = "`mine::nest` calls itself, deeper and deeper";
        assert_eq!(place(&deep).as_deref(), Some(expected));
        assert_eq!(
            place("a\u{1b}[2J").as_deref(),
            Some("it was in `a\\u001b[2J`")
        );
    }

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
