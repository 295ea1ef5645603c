//! Selects the lines that are logged: by the verbosity, which may change while the process runs, and by patterns of
//! files with their own verbosity, like klog's `--v` and `--vmodule`.

use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Id, Level, Metadata, Subscriber, span};
use tracing_subscriber::layer::Context;
use tracing_subscriber::{EnvFilter, Layer};

/// A pattern of files and their verbosity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Module {
    /// A name of files without `.rs`, or a path if it has a `/`; `*` and `?` are wildcards.
    pattern: String,
    verbosity: i64,
}

/// Reads the patterns of `--vmodule`, separated by commas.
///
/// # Errors
/// Fails if a pattern has no verbosity, with Kubernetes' words.
pub(crate) fn modules(text: &str) -> Result<Vec<Module>, String> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let no_format = || format!("{part:?} does not have the pattern=N format");
            let (pattern, verbosity) = part.split_once('=').ok_or_else(no_format)?;
            if pattern.is_empty() || verbosity.is_empty() || verbosity.contains('=') {
                return Err(no_format());
            }
            let number: Option<i32> = verbosity
                .bytes()
                .all(|byte| byte.is_ascii_digit())
                .then(|| verbosity.parse().ok())
                .flatten();
            let number = number.ok_or_else(|| {
                format!("parsing verbosity in {part:?}: strconv.ParseUint: parsing {verbosity:?}: invalid syntax")
            })?;
            Ok(Module {
                pattern: pattern.to_owned(),
                verbosity: number.into(),
            })
        })
        .collect()
}

impl Module {
    fn level(&self) -> Level {
        match self.verbosity {
            ..=3 => Level::INFO,
            4..=5 => Level::DEBUG,
            6.. => Level::TRACE,
        }
    }

    fn matches(&self, file: &str) -> bool {
        let path = file.strip_suffix(".rs").unwrap_or(file);
        let name = match self.pattern.contains('/') {
            true => path,
            false => path.rsplit('/').next().unwrap_or_default(),
        };
        matches(self.pattern.as_bytes(), name.as_bytes())
    }
}

/// Whether a name matches a pattern with `*` and `?`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=name.len()).any(|skipped| matches(rest, &name[skipped..])),
        (Some((b'?', rest)), Some((_, name))) => matches(rest, name),
        (Some((own, rest)), Some((other, name))) => own == other && matches(rest, name),
        _ => false,
    }
}

/// The filter before all outputs of the log.
pub(super) struct Filter {
    pub(super) verbosity: EnvFilter,
    pub(super) modules: Vec<Module>,
}

impl Filter {
    fn is_of_module(&self, metadata: &Metadata<'_>) -> bool {
        metadata.file().is_some_and(|file| {
            self.modules
                .iter()
                .any(|module| *metadata.level() <= module.level() && module.matches(file))
        })
    }
}

impl<S: Subscriber> Layer<S> for Filter
where
    EnvFilter: Layer<S>,
{
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        match self.is_of_module(metadata) {
            true => Interest::always(),
            false => Layer::<S>::register_callsite(&self.verbosity, metadata),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, context: Context<'_, S>) -> bool {
        self.is_of_module(metadata) || Layer::enabled(&self.verbosity, metadata, context)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let own = Layer::<S>::max_level_hint(&self.verbosity)?;
        let modules = self.modules.iter().map(|module| module.level().into());
        Some(modules.fold(own, LevelFilter::max))
    }

    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &Id, context: Context<'_, S>) {
        self.verbosity.on_new_span(attributes, id, context);
    }

    fn on_record(&self, id: &Id, values: &span::Record<'_>, context: Context<'_, S>) {
        Layer::on_record(&self.verbosity, id, values, context);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        Layer::on_enter(&self.verbosity, id, context);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        Layer::on_exit(&self.verbosity, id, context);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        Layer::on_close(&self.verbosity, id, context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_read_as_kubernetes_reads_them() {
        let read = modules("lease=4,,host/cache/*=6,").unwrap();
        let expected = [("lease", 4), ("host/cache/*", 6)].map(|(pattern, verbosity)| Module {
            pattern: pattern.to_owned(),
            verbosity,
        });
        assert_eq!(read, expected);
        for bad in ["lease", "=4", "lease=", "a=1=2"] {
            let error = modules(bad).unwrap_err();
            assert_eq!(error, format!("{bad:?} does not have the pattern=N format"));
        }
        assert_eq!(
            modules("a=x").unwrap_err(),
            "parsing verbosity in \"a=x\": strconv.ParseUint: parsing \"x\": invalid syntax"
        );
    }

    #[test]
    fn a_pattern_matches_the_name_of_a_file_or_its_path() {
        let of = |pattern: &str| modules(&format!("{pattern}=4")).unwrap().remove(0);
        assert!(of("lease").matches("host/api/src/lease.rs"));
        assert!(of("l?a*").matches("host/api/src/lease.rs"));
        assert!(!of("lea").matches("host/api/src/lease.rs"));
        assert!(of("host/*/lease").matches("host/api/src/lease.rs"));
        assert!(!of("src/lease").matches("host/api/src/lease.rs"));
    }
}
