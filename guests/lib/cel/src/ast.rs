//! The syntax tree of an expression.
//!
//! In cel-go: common/ast/expr.go.

/// A node. Its number is the index of its type in what the checker finds.
#[derive(Debug)]
pub(crate) struct Expr {
    pub number: usize,
    /// The number of nodes on the longest way down from this one.
    pub height: usize,
    /// The position that errors about the node show: for an operator that of the operator, for a call that of its
    /// parenthesis.
    pub position: usize,
    pub kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Literal(Literal),
    Identifier(String),
    /// A field of the operand. With `is_test`, whether the operand has the field.
    Select {
        operand: Box<Expr>,
        field: String,
        is_test: bool,
    },
    Call {
        target: Option<Box<Expr>>,
        function: String,
        arguments: Vec<Expr>,
    },
    List(Vec<Element>),
    Map(Vec<Entry>),
    Struct {
        name: String,
        fields: Vec<Field>,
    },
    Comprehension(Box<Comprehension>),
    /// What stands for a part with an error that has been reported.
    Invalid,
}

/// A literal. The checker needs no values but those of strings, which can name a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Literal {
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String(String),
    Bytes,
}

/// An element of a list. An optional one is left out if it has no value.
#[derive(Debug)]
pub(crate) struct Element {
    pub value: Expr,
    pub is_optional: bool,
}

/// An entry of a map.
#[derive(Debug)]
pub(crate) struct Entry {
    pub key: Expr,
    pub value: Expr,
    pub is_optional: bool,
}

/// A field of a struct that is created.
#[derive(Debug)]
pub(crate) struct Field {
    /// The position of the colon.
    pub position: usize,
    pub name: String,
    pub value: Expr,
    pub is_optional: bool,
}

/// A loop over a list or the entries of a map, which is what most macros become.
#[derive(Debug)]
pub(crate) struct Comprehension {
    pub range: Expr,
    /// The name of the variable for the element, or for the index or key if there is a second variable.
    pub variable: String,
    pub second_variable: Option<String>,
    pub accumulator: String,
    pub initial: Expr,
    pub condition: Expr,
    pub step: Expr,
    pub result: Expr,
}

impl Expr {
    /// Returns the name if the node is an identifier, or selections from one: `a.b.c`.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Identifier(name) => Some(name.clone()),
            Kind::Select {
                operand,
                field,
                is_test: false,
            } => Some(format!("{}.{field}", operand.qualified_name()?)),
            _ => None,
        }
    }

    /// Calls `visit` for this node and for those below it. Those below a node for which it returns false are left out.
    pub(crate) fn each(&self, visit: &mut impl FnMut(&Self) -> bool) {
        if visit(self) {
            let children = self.kind.children();
            children.into_iter().for_each(|child| child.each(visit));
        }
    }
}

impl Kind {
    /// The nodes directly below one of this kind.
    pub(crate) fn children(&self) -> Vec<&Expr> {
        match self {
            Self::Literal(_) | Self::Identifier(_) | Self::Invalid => Vec::new(),
            Self::Select { operand, .. } => vec![operand],
            Self::Call {
                target, arguments, ..
            } => target.as_deref().into_iter().chain(arguments).collect(),
            Self::List(elements) => elements.iter().map(|element| &element.value).collect(),
            Self::Map(entries) => {
                let parts = entries.iter().map(|entry| [&entry.key, &entry.value]);
                parts.flatten().collect()
            }
            Self::Struct { fields, .. } => fields.iter().map(|field| &field.value).collect(),
            Self::Comprehension(of) => {
                vec![&of.range, &of.initial, &of.condition, &of.step, &of.result]
            }
        }
    }
}
