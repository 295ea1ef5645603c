//! The macros of Kubernetes' environment: calls that become other expressions before their types are checked.
//!
//! All nodes that a macro adds have the position of the call.
//!
//! In cel-go: parser/macro.go, ext/comprehensions.go, ext/lists.go: sortByMacro, and cel/library.go: optMap,
//! optFlatMap.

use crate::ast::{Comprehension, Entry, Expr, Kind, Literal};
use crate::nodes::Nodes;

/// The accumulator of a comprehension. No expression can name it.
const ACCUMULATOR: &str = "@result";
/// The former name of the accumulator, which variables still must not have.
const OLD_ACCUMULATOR: &str = "__result__";
/// The variable of a comprehension that only binds its accumulator.
const UNUSED: &str = "#unused";
const SORTED: &str = "@__sortBy_input__";

const OVERWRITES: &str = "iteration variable overwrites accumulator variable";
const NOT_A_NAME: &str = "argument must be a simple name";

/// A macro without a target.
type Global = fn(&mut Expansion<'_>, Vec<Expr>) -> Expanded;
/// A macro with a target.
type Member = fn(&mut Expansion<'_>, Expr, Vec<Expr>) -> Expanded;
/// The expression, or an error and its position.
pub(crate) type Expanded = Result<Expr, (usize, String)>;

/// A call that is being expanded.
pub(crate) struct Expansion<'n> {
    pub nodes: &'n mut Nodes,
    /// The position of the call.
    pub position: usize,
}

/// Returns the macro of a call without a target.
pub(crate) fn global(function: &str, arguments: usize) -> Option<Global> {
    ((function, arguments) == ("has", 1)).then_some(has)
}

/// Returns the macro of a call with a target.
pub(crate) fn member(function: &str, arguments: usize) -> Option<Member> {
    Some(match (function, arguments) {
        ("all", 2 | 3) => all,
        ("exists", 2 | 3) => exists,
        ("exists_one", 2 | 3) | ("existsOne", 3) => exists_one,
        ("map", 2 | 3) => map,
        ("filter", 2) => filter,
        ("transformList", 3 | 4) => transform_list,
        ("transformMap", 3 | 4) => transform_map,
        ("transformMapEntry", 3 | 4) => transform_map_entry,
        ("optMap", 2) => opt_map,
        ("optFlatMap", 2) => opt_flat_map,
        ("sortBy", 2) => sort_by,
        _ => return None,
    })
}

/// The variables of a comprehension.
struct Variables {
    first: String,
    second: Option<String>,
}

/// What a comprehension does with each element.
struct Fold {
    initial: Expr,
    condition: Expr,
    step: Expr,
    result: Expr,
}

fn has(of: &mut Expansion<'_>, mut arguments: Vec<Expr>) -> Expanded {
    let argument = arguments.remove(0);
    match argument.kind {
        Kind::Select { operand, field, .. } => Ok(of.node(Kind::Select {
            operand,
            field,
            is_test: true,
        })),
        _ => Err((argument.position, "invalid argument to has() macro".into())),
    }
}

fn all(of: &mut Expansion<'_>, target: Expr, arguments: Vec<Expr>) -> Expanded {
    let (variables, predicate) = quantified(arguments)?;
    let (accumulated, tested) = (of.accumulator(), of.accumulator());
    let fold = Fold {
        initial: of.literal(Literal::Bool),
        condition: of.call("@not_strictly_false", vec![tested]),
        step: of.call("_&&_", vec![accumulated, predicate]),
        result: of.accumulator(),
    };
    Ok(of.comprehension(target, variables, fold))
}

fn exists(of: &mut Expansion<'_>, target: Expr, arguments: Vec<Expr>) -> Expanded {
    let (variables, predicate) = quantified(arguments)?;
    let (accumulated, tested) = (of.accumulator(), of.accumulator());
    let negated = of.call("!_", vec![tested]);
    let fold = Fold {
        initial: of.literal(Literal::Bool),
        condition: of.call("@not_strictly_false", vec![negated]),
        step: of.call("_||_", vec![accumulated, predicate]),
        result: of.accumulator(),
    };
    Ok(of.comprehension(target, variables, fold))
}

fn exists_one(of: &mut Expansion<'_>, target: Expr, arguments: Vec<Expr>) -> Expanded {
    let (variables, predicate) = quantified(arguments)?;
    let (accumulated, one) = (of.accumulator(), of.literal(Literal::Int));
    let counted = of.call("_+_", vec![accumulated, one]);
    let (last, one) = (of.accumulator(), of.literal(Literal::Int));
    let fold = Fold {
        initial: of.literal(Literal::Int),
        condition: of.literal(Literal::Bool),
        step: of.conditional(predicate, counted),
        result: of.call("_==_", vec![last, one]),
    };
    Ok(of.comprehension(target, variables, fold))
}

fn map(of: &mut Expansion<'_>, target: Expr, mut arguments: Vec<Expr>) -> Expanded {
    let variables = only_variable(&arguments[0])?;
    let transform = arguments.pop().expect("two or three arguments");
    let filter = arguments.drain(1..).next();
    Ok(of.collect(target, variables, filter, transform))
}

fn filter(of: &mut Expansion<'_>, target: Expr, mut arguments: Vec<Expr>) -> Expanded {
    let variables = only_variable(&arguments[0])?;
    let filter = arguments.pop();
    Ok(of.collect(target, variables, filter, arguments.remove(0)))
}

fn transform_list(of: &mut Expansion<'_>, target: Expr, arguments: Vec<Expr>) -> Expanded {
    let (variables, filter, transform) = transformed(arguments)?;
    Ok(of.collect(target, variables, filter, transform))
}

fn transform_map(of: &mut Expansion<'_>, target: Expr, arguments: Vec<Expr>) -> Expanded {
    let (variables, filter, transform) = transformed(arguments)?;
    let key = of.nodes.identifier(of.position, &variables.first);
    Ok(of.insert(target, variables, filter, vec![key, transform]))
}

fn transform_map_entry(of: &mut Expansion<'_>, target: Expr, arguments: Vec<Expr>) -> Expanded {
    let (variables, filter, transform) = transformed(arguments)?;
    Ok(of.insert(target, variables, filter, vec![transform]))
}

fn opt_map(of: &mut Expansion<'_>, target: Expr, arguments: Vec<Expr>) -> Expanded {
    of.optional(target, arguments, "optMap", |of, bound| {
        of.call("optional.of", vec![bound])
    })
}

fn opt_flat_map(of: &mut Expansion<'_>, target: Expr, arguments: Vec<Expr>) -> Expanded {
    of.optional(target, arguments, "optFlatMap", |_, bound| bound)
}

fn sort_by(of: &mut Expansion<'_>, target: Expr, arguments: Vec<Expr>) -> Expanded {
    if matches!(
        target.kind,
        Kind::Literal(_) | Kind::Map(_) | Kind::Struct { .. } | Kind::Invalid
    ) {
        let message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
        return Err((target.position, message.into()));
    }
    let [sorted, mapped, last] = [(); 3].map(|()| of.nodes.identifier(of.position, SORTED));
    let keys = map(of, mapped, arguments)?;
    let result = of
        .nodes
        .member_call(of.position, sorted, "@sortByAssociatedKeys", vec![keys]);
    Ok(of.bind(SORTED, target, last, result))
}

/// Returns the variables and the predicate of `all`, `exists` or `exists_one`.
fn quantified(mut arguments: Vec<Expr>) -> Result<(Variables, Expr), (usize, String)> {
    let predicate = arguments.pop().expect("two or three arguments");
    let variables = match arguments.as_slice() {
        [first, second] => two_variables(first, second)?,
        _ => Variables {
            first: variable(&arguments[0], NOT_A_NAME)?,
            second: None,
        },
    };
    Ok((variables, predicate))
}

/// Returns the variables, the filter and the transformation of a macro with two variables.
fn transformed(
    mut arguments: Vec<Expr>,
) -> Result<(Variables, Option<Expr>, Expr), (usize, String)> {
    let variables = two_variables(&arguments[0], &arguments[1])?;
    let transform = arguments.pop().expect("three or four arguments");
    Ok((variables, arguments.drain(2..).next(), transform))
}

fn only_variable(argument: &Expr) -> Result<Variables, (usize, String)> {
    let first = variable(argument, "argument is not an identifier")?;
    Ok(Variables {
        first,
        second: None,
    })
}

fn two_variables(first: &Expr, second: &Expr) -> Result<Variables, (usize, String)> {
    let [one, two] = [name(first, NOT_A_NAME)?, name(second, NOT_A_NAME)?];
    if one == two {
        let message = format!("duplicate variable name: {one}");
        return Err((second.position, message));
    }
    Ok(Variables {
        first: variable(first, NOT_A_NAME)?,
        second: Some(variable(second, NOT_A_NAME)?),
    })
}

/// Returns the name of a variable that is not the accumulator.
fn variable(argument: &Expr, otherwise: &str) -> Result<String, (usize, String)> {
    match name(argument, otherwise)? {
        ACCUMULATOR | OLD_ACCUMULATOR => Err((argument.position, OVERWRITES.into())),
        name => Ok(name.into()),
    }
}

fn name<'e>(argument: &'e Expr, otherwise: &str) -> Result<&'e str, (usize, String)> {
    match &argument.kind {
        Kind::Identifier(name) => Ok(name),
        _ => Err((argument.position, otherwise.into())),
    }
}

impl Expansion<'_> {
    fn node(&mut self, kind: Kind) -> Expr {
        self.nodes.node(self.position, kind)
    }

    fn literal(&mut self, literal: Literal) -> Expr {
        self.nodes.literal(self.position, literal)
    }

    fn accumulator(&mut self) -> Expr {
        self.nodes.identifier(self.position, ACCUMULATOR)
    }

    fn call(&mut self, function: &str, arguments: Vec<Expr>) -> Expr {
        self.nodes.call(self.position, function, arguments)
    }

    /// Does the step if a condition holds.
    fn conditional(&mut self, condition: Expr, step: Expr) -> Expr {
        let unchanged = self.accumulator();
        self.call("_?_:_", vec![condition, step, unchanged])
    }

    fn comprehension(&mut self, range: Expr, variables: Variables, fold: Fold) -> Expr {
        self.node(Kind::Comprehension(Box::new(Comprehension {
            range,
            variable: variables.first,
            second_variable: variables.second,
            accumulator: ACCUMULATOR.into(),
            initial: fold.initial,
            condition: fold.condition,
            step: fold.step,
            result: fold.result,
        })))
    }

    /// A comprehension that visits all elements which a filter selects.
    fn gather(
        &mut self,
        range: Expr,
        variables: Variables,
        initial: Expr,
        step: Expr,
        filter: Option<Expr>,
    ) -> Expr {
        let step = match filter {
            Some(filter) => self.conditional(filter, step),
            None => step,
        };
        let fold = Fold {
            initial,
            condition: self.literal(Literal::Bool),
            step,
            result: self.accumulator(),
        };
        self.comprehension(range, variables, fold)
    }

    /// Gathers values in a list.
    fn collect(
        &mut self,
        range: Expr,
        variables: Variables,
        filter: Option<Expr>,
        value: Expr,
    ) -> Expr {
        let initial = self.nodes.list(self.position, Vec::new());
        let added = self.nodes.list(self.position, vec![value]);
        let accumulated = self.accumulator();
        let step = self.call("_+_", vec![accumulated, added]);
        self.gather(range, variables, initial, step, filter)
    }

    /// Gathers entries in a map: a key and a value, or a map of entries.
    fn insert(
        &mut self,
        range: Expr,
        variables: Variables,
        filter: Option<Expr>,
        mut inserted: Vec<Expr>,
    ) -> Expr {
        let none: Vec<Entry> = Vec::new();
        let initial = self.node(Kind::Map(none));
        inserted.insert(0, self.accumulator());
        let step = self.call("cel.@mapInsert", inserted);
        self.gather(range, variables, initial, step, filter)
    }

    /// Computes something with the value of an optional, if it has one.
    fn optional(
        &mut self,
        target: Expr,
        mut arguments: Vec<Expr>,
        function: &str,
        wrap: fn(&mut Self, Expr) -> Expr,
    ) -> Expanded {
        let mapped = arguments.pop().expect("two arguments");
        let otherwise = format!("{function}() variable name must be a simple identifier");
        let variable = name(&arguments[0], &otherwise)?.to_owned();
        let copy = self.nodes.copy(&target, self.position);
        let value = self.nodes.member_call(self.position, copy, "value", vec![]);
        let step = self.nodes.identifier(self.position, &variable);
        let bound = self.bind(&variable, value, step, mapped);
        let some = wrap(self, bound);
        let has_value = self
            .nodes
            .member_call(self.position, target, "hasValue", vec![]);
        let none = self.call("optional.none", vec![]);
        Ok(self.call("_?_:_", vec![has_value, some, none]))
    }

    /// Binds a variable to a value in `result`: a comprehension without elements, whose accumulator is the variable.
    fn bind(&mut self, variable: &str, value: Expr, step: Expr, result: Expr) -> Expr {
        let range = self.nodes.list(self.position, Vec::new());
        let condition = self.literal(Literal::Bool);
        self.node(Kind::Comprehension(Box::new(Comprehension {
            range,
            variable: UNUSED.into(),
            second_variable: None,
            accumulator: variable.into(),
            initial: value,
            condition,
            step,
            result,
        })))
    }
}
