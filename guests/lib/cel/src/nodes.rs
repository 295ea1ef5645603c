//! Makes the nodes of the syntax tree.
//!
//! In cel-go: parser/helper.go: exprHelper, logicManager.

use crate::ast::{Comprehension, Element, Entry, Expr, Field, Kind, Literal};

/// Numbers the nodes of a tree.
#[derive(Default)]
pub(crate) struct Nodes {
    count: usize,
}

impl Nodes {
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn node(&mut self, position: usize, kind: Kind) -> Expr {
        let number = self.count;
        self.count += 1;
        let heights = kind.children().into_iter().map(|child| child.height);
        let height = heights.max().map_or(0, |height| height + 1);
        Expr {
            number,
            height,
            position,
            kind,
        }
    }

    pub(crate) fn literal(&mut self, position: usize, literal: Literal) -> Expr {
        self.node(position, Kind::Literal(literal))
    }

    pub(crate) fn identifier(&mut self, position: usize, name: &str) -> Expr {
        self.node(position, Kind::Identifier(name.into()))
    }

    pub(crate) fn call(&mut self, position: usize, function: &str, arguments: Vec<Expr>) -> Expr {
        let kind = Kind::Call {
            target: None,
            function: function.into(),
            arguments,
        };
        self.node(position, kind)
    }

    pub(crate) fn member_call(
        &mut self,
        position: usize,
        target: Expr,
        function: &str,
        arguments: Vec<Expr>,
    ) -> Expr {
        let kind = Kind::Call {
            target: Some(Box::new(target)),
            function: function.into(),
            arguments,
        };
        self.node(position, kind)
    }

    /// A list whose elements are not optional.
    pub(crate) fn list(&mut self, position: usize, values: Vec<Expr>) -> Expr {
        let element = |value| Element {
            value,
            is_optional: false,
        };
        let elements = values.into_iter().map(element).collect();
        self.node(position, Kind::List(elements))
    }

    /// A chain of `&&` or `||` as a balanced tree. `operators` are the positions of the operators between the terms.
    pub(crate) fn balanced(
        &mut self,
        function: &str,
        operators: &[usize],
        terms: &mut impl Iterator<Item = Expr>,
    ) -> Expr {
        if operators.is_empty() {
            return terms.next().expect("one term more than operators");
        }
        let middle = operators.len() / 2;
        let left = self.balanced(function, &operators[..middle], terms);
        let right = self.balanced(function, &operators[middle + 1..], terms);
        self.call(operators[middle], function, vec![left, right])
    }

    /// A copy with new numbers. The fields of structs get the position of the macro that copies them.
    pub(crate) fn copy(&mut self, of: &Expr, position: usize) -> Expr {
        let kind = match &of.kind {
            Kind::Literal(literal) => Kind::Literal(literal.clone()),
            Kind::Identifier(name) => Kind::Identifier(name.clone()),
            Kind::Select {
                operand,
                field,
                is_test,
            } => Kind::Select {
                operand: self.boxed(operand, position),
                field: field.clone(),
                is_test: *is_test,
            },
            Kind::Call {
                target,
                function,
                arguments,
            } => Kind::Call {
                target: target.as_deref().map(|target| self.boxed(target, position)),
                function: function.clone(),
                arguments: arguments
                    .iter()
                    .map(|one| self.copy(one, position))
                    .collect(),
            },
            Kind::List(elements) => Kind::List(self.elements(elements, position)),
            Kind::Map(entries) => Kind::Map(self.entries(entries, position)),
            Kind::Struct { name, fields } => Kind::Struct {
                name: name.clone(),
                fields: self.fields(fields, position),
            },
            Kind::Comprehension(of) => {
                Kind::Comprehension(Box::new(self.comprehension(of, position)))
            }
            Kind::Invalid => Kind::Invalid,
        };
        self.node(of.position, kind)
    }

    fn boxed(&mut self, of: &Expr, position: usize) -> Box<Expr> {
        Box::new(self.copy(of, position))
    }

    fn elements(&mut self, of: &[Element], position: usize) -> Vec<Element> {
        let copy = |element: &Element| Element {
            value: self.copy(&element.value, position),
            is_optional: element.is_optional,
        };
        of.iter().map(copy).collect()
    }

    fn entries(&mut self, of: &[Entry], position: usize) -> Vec<Entry> {
        let copy = |entry: &Entry| Entry {
            key: self.copy(&entry.key, position),
            value: self.copy(&entry.value, position),
            is_optional: entry.is_optional,
        };
        of.iter().map(copy).collect()
    }

    fn fields(&mut self, of: &[Field], position: usize) -> Vec<Field> {
        let copy = |field: &Field| Field {
            position,
            name: field.name.clone(),
            value: self.copy(&field.value, position),
            is_optional: field.is_optional,
        };
        of.iter().map(copy).collect()
    }

    fn comprehension(&mut self, of: &Comprehension, position: usize) -> Comprehension {
        Comprehension {
            range: self.copy(&of.range, position),
            variable: of.variable.clone(),
            second_variable: of.second_variable.clone(),
            accumulator: of.accumulator.clone(),
            initial: self.copy(&of.initial, position),
            condition: self.copy(&of.condition, position),
            step: self.copy(&of.step, position),
            result: self.copy(&of.result, position),
        }
    }
}
