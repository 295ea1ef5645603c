//! Guests that pass a long text to an import, one for each text in `wit/`.
//!
//! A guest's `reconcile` makes one call. Its key is what the text repeats, and `attempt` is the length of the text, so
//! that one component serves all shapes and sizes. All other texts are empty, all numbers 0, and each list around the
//! text has one element.

use std::fmt::{self, Write};

use wit_parser::abi::AbiVariant;
use wit_parser::{Function, Handle, Resolve, SizeAlign, Type, TypeDefKind, TypeId, WorldItem};

use super::{component, wit};

/// The addresses of the guest's arguments and of the text in its memory. Results lie below them.
const ARGUMENTS: usize = 64 << 10;
const TEXT: usize = 128 << 10;

/// A call of an import with one long text.
pub struct TextCall {
    /// The function, as in `flyball:controller/lister@0.2.0#get`.
    pub function: String,
    /// The parameter that is the text or holds it.
    pub argument: String,
    /// Numbers the texts of the argument.
    number: usize,
    pub component: Vec<u8>,
}

impl TextCall {
    /// Whether the text is a name or a namespace of a read of one object, which then is not found.
    pub fn is_name_of_get(&self) -> bool {
        let reads = self.function.contains("lister@") && self.function.ends_with("#get");
        reads && matches!(self.argument.as_str(), "name" | "namespace")
    }
}

impl fmt::Display for TextCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            function,
            argument,
            number,
            ..
        } = self;
        write!(f, "{function}, text {number} of `{argument}`")
    }
}

/// Returns a call for each text of each import of the world.
pub fn text_calls() -> Vec<TextCall> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit()).unwrap();
    let world = resolve
        .select_world(&[package], Some("controller"))
        .unwrap();
    let mut sizes = SizeAlign::default();
    sizes.fill(&resolve);
    let types = Types { resolve, sizes };
    let mut calls = Vec::new();
    for item in types.resolve.worlds[world].imports.values() {
        let WorldItem::Interface { id, .. } = item else {
            continue;
        };
        let module = types.resolve.id_of(*id).unwrap();
        for function in types.resolve.interfaces[*id].functions.values() {
            for (position, parameter) in function.params.iter().enumerate() {
                for number in 0..types.texts(&parameter.ty) {
                    calls.push(TextCall {
                        function: format!("{module}#{}", function.name),
                        argument: parameter.name.clone(),
                        number,
                        component: component(
                            &types.guest(&module, function, (position, number)),
                            None,
                        ),
                    });
                }
            }
        }
    }
    calls
}

struct Types {
    resolve: Resolve,
    sizes: SizeAlign,
}

/// An argument, in which at most one text is the long one.
enum Argument {
    /// The long text.
    Text,
    /// An empty text or list, a number, flags or an enum.
    Zero(Type),
    /// The batch that the function is a method of.
    Batch,
    Record(Vec<(Type, Argument)>),
    /// A list of one element.
    List(Type, Box<Argument>),
    /// A case of a variant of this type.
    Case(Type, usize, Option<(Type, Box<Argument>)>),
}

impl Types {
    fn kind(&self, id: TypeId) -> &TypeDefKind {
        &self.resolve.types[id].kind
    }

    /// The types of the parts of a type: fields, elements, and payloads of cases.
    fn parts(&self, of: &Type) -> Vec<Type> {
        let Type::Id(id) = of else {
            return Vec::new();
        };
        match self.kind(*id) {
            TypeDefKind::Type(ty) | TypeDefKind::List(ty) => vec![*ty],
            TypeDefKind::Record(record) => record.fields.iter().map(|field| field.ty).collect(),
            TypeDefKind::Variant(variant) => {
                variant.cases.iter().filter_map(|case| case.ty).collect()
            }
            TypeDefKind::Handle(_) | TypeDefKind::Flags(_) | TypeDefKind::Enum(_) => Vec::new(),
            other => panic!(
                "arguments of the kind {} are not generated yet",
                other.as_str()
            ),
        }
    }

    /// The number of texts in a value of this type, if each list has one element and each case is counted.
    fn texts(&self, of: &Type) -> usize {
        let in_parts: usize = self.parts(of).iter().map(|part| self.texts(part)).sum();
        in_parts + usize::from(matches!(of, Type::String))
    }

    /// Builds an argument in which the text of this number is the long one.
    fn argument(&self, ty: &Type, mut long: Option<usize>) -> Argument {
        // Splits the number of the text among the parts.
        let mut of_part = |part: &Type| {
            let texts = self.texts(part);
            let own = long.filter(|number| *number < texts);
            long = match (long, own) {
                (Some(number), None) => Some(number - texts),
                _ => None,
            };
            own
        };
        let Type::Id(id) = ty else {
            return match (ty, long) {
                (Type::String, Some(0)) => Argument::Text,
                _ => Argument::Zero(*ty),
            };
        };
        match self.kind(*id) {
            TypeDefKind::Type(ty) => self.argument(ty, long),
            TypeDefKind::Handle(Handle::Borrow(_)) => Argument::Batch,
            TypeDefKind::List(element) => match of_part(element) {
                Some(number) => {
                    Argument::List(*element, Box::new(self.argument(element, Some(number))))
                }
                None => Argument::Zero(*ty),
            },
            TypeDefKind::Record(record) => {
                let fields = record.fields.iter().map(|field| {
                    let own = of_part(&field.ty);
                    (field.ty, self.argument(&field.ty, own))
                });
                Argument::Record(fields.collect())
            }
            TypeDefKind::Variant(variant) => {
                let mut chosen = None;
                for (number, case) in variant.cases.iter().enumerate() {
                    let Some(payload) = &case.ty else { continue };
                    if let Some(own) = of_part(payload) {
                        chosen = Some((number, *payload, own));
                    }
                }
                match (chosen, variant.cases[0].ty) {
                    (Some((number, payload, own)), _) => {
                        let held = Box::new(self.argument(&payload, Some(own)));
                        Argument::Case(*ty, number, Some((payload, held)))
                    }
                    (None, Some(first)) => {
                        let held = Box::new(self.argument(&first, None));
                        Argument::Case(*ty, 0, Some((first, held)))
                    }
                    (None, None) => Argument::Case(*ty, 0, None),
                }
            }
            _ => Argument::Zero(*ty),
        }
    }

    fn size(&self, ty: &Type) -> usize {
        self.sizes.size(ty).size_wasm32()
    }

    /// Writes the instructions that store an argument at this address. `free` is the next address for elements of
    /// lists.
    fn store(
        &self,
        code: &mut String,
        ty: &Type,
        argument: &Argument,
        at: usize,
        free: &mut usize,
    ) {
        let mut word = |at: usize, value: &str| {
            writeln!(code, "(i32.store (i32.const {at}) {value})").unwrap();
        };
        match argument {
            Argument::Text => {
                word(at, &format!("(i32.const {TEXT})"));
                word(at + 4, "(local.get $attempt)");
            }
            // Memory begins with zeros. An empty list at address 0 is well formed.
            Argument::Zero(_) => {}
            Argument::Batch => word(at, "(local.get $batch)"),
            Argument::Record(fields) => {
                let types: Vec<&Type> = fields.iter().map(|(ty, _)| ty).collect();
                let offsets = self.sizes.field_offsets(types);
                for ((offset, ty), (_, field)) in offsets.into_iter().zip(fields) {
                    self.store(code, ty, field, at + offset.size_wasm32(), free);
                }
            }
            Argument::List(element, held) => {
                let elements = free.next_multiple_of(8);
                *free = elements + self.size(element);
                word(at, &format!("(i32.const {elements})"));
                word(at + 4, "(i32.const 1)");
                self.store(code, element, held, elements, free);
            }
            Argument::Case(_, number, payload) => {
                writeln!(code, "(i32.store8 (i32.const {at}) (i32.const {number}))").unwrap();
                if let Some((payload_type, held)) = payload {
                    let offset = self.payload_offset(ty);
                    self.store(code, payload_type, held, at + offset, free);
                }
            }
        }
    }

    fn payload_offset(&self, variant: &Type) -> usize {
        let Type::Id(id) = variant else {
            panic!("a variant has a name");
        };
        match self.kind(*id) {
            TypeDefKind::Type(ty) => self.payload_offset(ty),
            TypeDefKind::Variant(variant) => {
                let cases = variant.cases.iter().map(|case| case.ty.as_ref());
                self.sizes
                    .payload_offset(variant.tag(), cases)
                    .size_wasm32()
            }
            other => panic!("a {} is not a variant", other.as_str()),
        }
    }

    /// Writes an argument as values on the stack, after the instructions that store the data that they point to.
    fn push(
        &self,
        code: &mut String,
        values: &mut Vec<String>,
        argument: &Argument,
        free: &mut usize,
    ) {
        let zero = |core: &wit_parser::abi::WasmType| match core {
            wit_parser::abi::WasmType::F64 => "(f64.const 0)".to_owned(),
            _ => "(i32.const 0)".to_owned(),
        };
        match argument {
            Argument::Text => {
                values.push(format!("(i32.const {TEXT})"));
                values.push("(local.get $attempt)".to_owned());
            }
            Argument::Zero(ty) => values.extend(self.flat(ty).iter().map(zero)),
            Argument::Batch => values.push("(local.get $batch)".to_owned()),
            Argument::Record(fields) => {
                for (_, field) in fields {
                    self.push(code, values, field, free);
                }
            }
            Argument::List(element, held) => {
                let elements = free.next_multiple_of(8);
                *free = elements + self.size(element);
                self.store(code, element, held, elements, free);
                values.push(format!("(i32.const {elements})"));
                values.push("(i32.const 1)".to_owned());
            }
            Argument::Case(variant, number, payload) => {
                let begin = values.len();
                values.push(format!("(i32.const {number})"));
                if let Some((_, held)) = payload {
                    self.push(code, values, held, free);
                }
                // Cases with fewer values are padded.
                let padding = self.flat(variant).into_iter().skip(values.len() - begin);
                values.extend(padding.map(|core| zero(&core)));
            }
        }
    }

    fn flat(&self, ty: &Type) -> Vec<wit_parser::abi::WasmType> {
        let mut storage = [wit_parser::abi::WasmType::I32; 64];
        let mut flat = wit_parser::abi::FlatTypes::new(&mut storage);
        assert!(self.resolve.push_flat(ty, &mut flat));
        flat.to_vec()
    }

    /// Returns the module of a guest that calls a function with the long text at this place: the position of the
    /// parameter, and the number of the text in it.
    fn guest(&self, module: &str, function: &Function, long: (usize, usize)) -> String {
        let signature = self
            .resolve
            .wasm_signature(AbiVariant::GuestImport, function);
        let arguments = function
            .params
            .iter()
            .enumerate()
            .map(|(position, parameter)| {
                let own = (position == long.0).then_some(long.1);
                (parameter.ty, self.argument(&parameter.ty, own))
            });
        let arguments = Argument::Record(arguments.collect());
        let (mut code, mut values) = (String::new(), Vec::new());
        let mut free = ARGUMENTS;
        if signature.indirect_params {
            free += 4096;
            self.store(&mut code, &Type::Bool, &arguments, ARGUMENTS, &mut free);
            values.push(format!("(i32.const {ARGUMENTS})"));
        } else {
            self.push(&mut code, &mut values, &arguments, &mut free);
        }
        assert!(free < TEXT, "{}", function.name);
        if signature.retptr {
            values.push("(i32.const 64)".to_owned());
        }
        assert_eq!(values.len(), signature.params.len(), "{}", function.name);
        let drop = "(drop ".repeat(signature.results.len());
        let end = ")".repeat(signature.results.len());
        let values = values.join(" ");
        let core = |core: &wit_parser::abi::WasmType| match core {
            wit_parser::abi::WasmType::F64 => "f64",
            _ => "i32",
        };
        let list = |word: &str, types: &[wit_parser::abi::WasmType]| -> String {
            types
                .iter()
                .map(|ty| format!("({word} {}) ", core(ty)))
                .collect()
        };
        let (parameters, results) = (
            list("param", &signature.params),
            list("result", &signature.results),
        );
        let resource = function
            .name
            .strip_prefix("[method]")
            .and_then(|name| name.split_once('.'));
        let (imports, create, run) = match resource {
            Some((resource, _)) => (
                format!(
                    r#"(import "{module}" "[constructor]{resource}" (func $new (result i32)))
                    (import "{module}" "[method]{resource}.run" (func $run (param i32 i32)))
                    (import "{module}" "[resource-drop]{resource}" (func $drop (param i32)))"#
                ),
                "(local.set $batch (call $new))",
                "(call $run (local.get $batch) (i32.const 64)) (call $drop (local.get $batch))",
            ),
            None => (String::new(), "", ""),
        };
        let name = &function.name;
        format!(
            r#"(module
            (import "{module}" "{name}" (func $call {parameters} {results}))
            {imports}
            (memory (export "memory") 1100)
            (global $heap (mut i32) (i32.const 70000000))
            (func (export "cabi_realloc") (param i32 i32 i32) (param $size i32) (result i32)
                (global.get $heap)
                (global.set $heap (i32.and (i32.add (i32.add (global.get $heap) (local.get $size)) (i32.const 15)) (i32.const -16))))
            ;; Repeats the key until the text has the length `attempt`.
            (func $fill (param $key i32) (param $key-length i32) (param $length i32)
                (local $done i32)
                (memory.copy (i32.const {TEXT}) (local.get $key) (local.get $key-length))
                (local.set $done (local.get $key-length))
                (loop $again
                    (memory.copy (i32.add (i32.const {TEXT}) (local.get $done)) (i32.const {TEXT}) (local.get $done))
                    (local.set $done (i32.mul (local.get $done) (i32.const 2)))
                    (br_if $again (i32.lt_u (local.get $done) (i32.div_u (local.get $length) (i32.const 2)))))
                (memory.copy (i32.add (i32.const {TEXT}) (local.get $done)) (i32.const {TEXT})
                    (select (i32.sub (local.get $length) (local.get $done)) (i32.const 0)
                        (i32.gt_u (local.get $length) (local.get $done)))))
            (func (export "flyball:controller/guest@0.2.0#describe") (result i32) (i32.const 0))
            (func (export "flyball:controller/guest@0.2.0#route") (param i32 i32) (result i32) (i32.const 0))
            (func (export "flyball:controller/guest@0.2.0#reconcile")
                (param i32 i32) (param $key i32) (param $key-length i32) (param $attempt i32) (result i32)
                (local $batch i32)
                (call $fill (local.get $key) (local.get $key-length) (local.get $attempt))
                (global.set $heap (i32.const 70000000))
                {create}
                {code}
                {drop}(call $call {values}){end}
                {run}
                (i32.const 0)))"#
        )
    }
}
