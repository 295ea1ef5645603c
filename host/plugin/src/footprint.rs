//! The memory that the engine keeps of an instance besides its linear memories and the elements of its tables: its
//! globals, and references to its functions. The component determines its size. The engine doesn't report it, so it is
//! computed from the component's sections.

use wasmparser::{ElementItems, Encoding, Instance, Parser, Payload};

/// Bytes of an instance of a module without anything.
const INSTANCE: usize = 2048;
/// Bytes of an import, of a function that is exported or in a table, of a global, and of a table or memory without its
/// content.
const IMPORT: usize = 40;
const FUNCTION: usize = 40;
const GLOBAL: usize = 16;
const TABLE: usize = 64;

/// The counts in a module's sections that determine the size of its instances.
#[derive(Default)]
struct Module {
    imports: usize,
    functions: usize,
    /// Exports, and elements of tables. Each may be a function.
    references: usize,
    globals: usize,
    tables: usize,
}

impl Module {
    fn size(&self) -> usize {
        // Only functions that others can refer to are kept.
        let functions = self.references.min(self.functions + self.imports);
        INSTANCE
            + self.imports * IMPORT
            + functions * FUNCTION
            + self.globals * GLOBAL
            + self.tables * TABLE
    }

    fn add(&mut self, payload: &Payload<'_>) -> wasmparser::Result<()> {
        match payload {
            Payload::ImportSection(section) => self.imports += section.count() as usize,
            Payload::FunctionSection(section) => self.functions += section.count() as usize,
            Payload::GlobalSection(section) => self.globals += section.count() as usize,
            Payload::TableSection(section) => self.tables += section.count() as usize,
            Payload::MemorySection(section) => self.tables += section.count() as usize,
            Payload::ExportSection(section) => self.references += section.count() as usize,
            Payload::ElementSection(section) => {
                for element in section.clone() {
                    self.references += match element?.items {
                        ElementItems::Functions(items) => items.count() as usize,
                        ElementItems::Expressions(_, items) => items.count() as usize,
                    };
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// The bytes that the engine keeps of an instance of a valid component: of its modules, and for those that are
/// instantiated more than once, of the largest one.
pub(crate) fn of(component: &[u8]) -> wasmparser::Result<usize> {
    let (mut sum, mut largest, mut modules, mut instances) = (0_usize, 0, 0_usize, 0_usize);
    let mut module: Option<Module> = None;
    for payload in Parser::new(0).parse_all(component) {
        let payload = payload?;
        match (&payload, &mut module) {
            (Payload::Version { encoding, .. }, None) if *encoding == Encoding::Module => {
                module = Some(Module::default());
            }
            (Payload::End(_), Some(ended)) => {
                let size = ended.size();
                sum += size;
                largest = largest.max(size);
                modules += 1;
                module = None;
            }
            (payload, Some(module)) => module.add(payload)?,
            (Payload::InstanceSection(section), None) => {
                for instance in section.clone() {
                    instances += usize::from(matches!(instance?, Instance::Instantiate { .. }));
                }
            }
            _ => {}
        }
    }
    Ok(sum + instances.saturating_sub(modules) * largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(text: &str) -> usize {
        of(&wat::parse_str(format!("(component {text})")).unwrap()).unwrap()
    }

    #[test]
    fn globals_and_functions_that_can_be_referred_to_count() {
        assert_eq!(size(""), 0);
        let empty = size("(core module)");
        assert_eq!(empty, INSTANCE);
        let globals = "(global i64 (i64.const 1))".repeat(1000);
        assert_eq!(
            size(&format!("(core module {globals})")),
            empty + 1000 * GLOBAL
        );
        let functions = "(func)".repeat(1000);
        assert_eq!(size(&format!("(core module {functions})")), empty);
        let references = "0 ".repeat(600);
        let table = format!("(table 1000 funcref) (elem (i32.const 0) {references})");
        let table = size(&format!("(core module {functions} {table})"));
        assert_eq!(table, empty + TABLE + 600 * FUNCTION);
    }

    #[test]
    fn a_module_that_is_instantiated_often_counts_as_often() {
        let instances = "(core instance (instantiate $m))".repeat(10);
        assert_eq!(
            size(&format!("(core module $m) {instances}")),
            10 * INSTANCE
        );
    }
}
