//! Parses an expression.
//!
//! The errors are those of ANTLR, which recovers from an error by leaving out or adding one token. After an error that it
//! can't recover from in this way, it goes on and may find more errors; this parser then stops.
//!
//! In cel-go: parser/gen/CEL.g4 and parser/parser.go.

mod cursor;

use crate::ast::{Element, Entry, Expr, Field, Kind, Literal};
use crate::lexer::{self, Lexeme};
use crate::literal;
use crate::macros::{self, Expanded, Expansion};
use crate::nodes::Nodes;
use crate::source::{Issue, Source};
use crate::token::{FIRST, RESERVED, Token};

/// The longest expression, in characters.
const MAX_LENGTH: usize = 100_000;

/// The levels of [`Parser::binary`].
const RELATION: usize = 1;
const SUM: usize = 2;
const PRODUCT: usize = 3;

/// Why there is no syntax tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// There are errors, which have been reported.
    Errors,
    /// The expression is nested too deep for a guest's stack.
    TooDeep,
}

/// The greatest height of a syntax tree: each level takes up to half a kilobyte of the stack when types are checked.
const MAX_HEIGHT: usize = 160;
/// How deep brackets can be nested, in units of [`BRACKET`]: each takes a kilobyte of the stack.
const MAX_NESTED: usize = 64 * BRACKET;
/// The weight of a bracket. That of a conditional in the last part of another one is 1.
const BRACKET: usize = 4;

/// A syntax tree.
pub(crate) struct Tree {
    pub root: Expr,
    /// The number of nodes.
    pub nodes: usize,
}

/// Parses an expression.
///
/// # Errors
/// There are issues, or the expression is too deep.
pub(crate) fn parse(source: &Source, issues: &mut Vec<Issue>) -> Result<Tree, Stop> {
    let length = source.characters().len();
    if length > MAX_LENGTH {
        let message =
            format!("expression code point size exceeds limit: size: {length}, limit {MAX_LENGTH}");
        issues.push(Issue {
            position: None,
            message,
        });
        return Err(Stop::Errors);
    }
    let mut parser = Parser {
        source,
        lexemes: lexer::lexemes(source, issues),
        at: 0,
        nodes: Nodes::default(),
        issues,
        follow: vec![vec![Token::End]],
        depth: Depth::default(),
        nested: 0,
    };
    let root = parser.whole()?;
    let nodes = parser.nodes.count();
    match issues.is_empty() {
        true if root.height > MAX_HEIGHT => Err(Stop::TooDeep),
        true => Ok(Tree { root, nodes }),
        false => Err(Stop::Errors),
    }
}

/// How deep the rules of the grammar are nested that can be nested in themselves.
#[derive(Clone, Copy, Default)]
struct Depth {
    relation: usize,
    calculation: usize,
    member: usize,
}

struct Parser<'s> {
    source: &'s Source,
    lexemes: Vec<Lexeme>,
    /// The index of the next token.
    at: usize,
    nodes: Nodes,
    issues: &'s mut Vec<Issue>,
    /// What can follow the expressions around the current one, the innermost last.
    follow: Vec<Vec<Token>>,
    depth: Depth,
    /// The weight of the brackets and conditionals around the current expression.
    nested: usize,
}

impl Parser<'_> {
    fn whole(&mut self) -> Result<Expr, Stop> {
        let root = self.expression()?;
        self.expect(Token::End, &[])?;
        Ok(root)
    }

    fn expression(&mut self) -> Result<Expr, Stop> {
        self.conditional(BRACKET)
    }

    fn conditional(&mut self, weight: usize) -> Result<Expr, Stop> {
        self.nested += weight;
        if self.nested > MAX_NESTED {
            return Err(Stop::TooDeep);
        }
        let expression = self.chosen();
        self.nested -= weight;
        expression
    }

    fn chosen(&mut self) -> Result<Expr, Stop> {
        let condition = self.chain(Token::Or)?;
        if self.token() != Token::Question {
            return Ok(condition);
        }
        let position = self.take().start;
        let then = self.within(&[Token::Colon], |parser| parser.chain(Token::Or))?;
        self.expect(Token::Colon, &FIRST)?;
        let otherwise = self.conditional(1)?;
        Ok(self
            .nodes
            .call(position, "_?_:_", vec![condition, then, otherwise]))
    }

    /// Terms between `||`, whose terms are between `&&`.
    fn chain(&mut self, operator: Token) -> Result<Expr, Stop> {
        let term = |parser: &mut Self| match operator {
            Token::Or => parser.chain(Token::And),
            _ => parser.binary(RELATION),
        };
        let function = match operator {
            Token::Or => "_||_",
            _ => "_&&_",
        };
        let mut terms = vec![term(self)?];
        let mut positions = Vec::new();
        while self.token() == operator {
            positions.push(self.take().start);
            terms.push(term(self)?);
        }
        let terms = &mut terms.into_iter();
        Ok(self.nodes.balanced(function, &positions, terms))
    }

    /// Relations, sums or products, of this level and those above it.
    fn binary(&mut self, level: usize) -> Result<Expr, Stop> {
        let before = self.depth;
        self.depth.relation += usize::from(level <= SUM);
        self.depth.calculation += 1;
        let operands = self.depth;
        let mut left = self.unary()?;
        while let Some((found, function)) = self.binary_operator()
            && found >= level
        {
            if found == RELATION {
                self.depth.relation += 1;
                self.depth.calculation = operands.calculation;
            } else {
                self.depth.calculation += 1;
            }
            self.check_depth()?;
            let position = self.take().start;
            let right = self.binary(found + 1)?;
            left = self.nodes.call(position, function, vec![left, right]);
        }
        self.depth = before;
        Ok(left)
    }

    fn binary_operator(&self) -> Option<(usize, &'static str)> {
        Some(match self.token() {
            Token::Less => (RELATION, "_<_"),
            Token::LessEquals => (RELATION, "_<=_"),
            Token::GreaterEquals => (RELATION, "_>=_"),
            Token::Greater => (RELATION, "_>_"),
            Token::Equals => (RELATION, "_==_"),
            Token::NotEquals => (RELATION, "_!=_"),
            Token::In => (RELATION, "@in"),
            Token::Plus => (SUM, "_+_"),
            Token::Minus => (SUM, "_-_"),
            Token::Star => (PRODUCT, "_*_"),
            Token::Slash => (PRODUCT, "_/_"),
            Token::Percent => (PRODUCT, "_%_"),
            _ => return None,
        })
    }

    fn unary(&mut self) -> Result<Expr, Stop> {
        self.synchronise(&FIRST)?;
        let function = match self.token() {
            Token::Not => "!_",
            Token::Minus if !self.is_negative_number() => "-_",
            _ => return self.member(),
        };
        let (operator, position) = (self.token(), self.lexeme().start);
        let mut count = 0;
        while self.token() == operator {
            self.take();
            count += 1;
        }
        if !self.begins_member() {
            return self.without_operand(operator);
        }
        let operand = self.member()?;
        // Two of them cancel each other.
        Ok(match count % 2 {
            0 => operand,
            _ => self.nodes.call(position, function, vec![operand]),
        })
    }

    /// Whether a minus belongs to the number behind it.
    fn is_negative_number(&self) -> bool {
        matches!(self.peek(1).token, Token::Int | Token::Float)
    }

    fn begins_member(&self) -> bool {
        match self.token() {
            Token::Minus => self.is_negative_number(),
            token => token != Token::Not && FIRST.contains(&token),
        }
    }

    fn without_operand(&mut self, operator: Token) -> Result<Expr, Stop> {
        match (operator, self.token()) {
            (Token::Not, Token::Minus) => {
                let minus = self.take();
                self.no_alternative(minus.start)
            }
            (Token::Not, _) => self.fail("extraneous input", &FIRST),
            _ => self.no_alternative(self.lexemes[self.at - 1].start),
        }
    }

    /// An operand with its fields, methods and indexes.
    fn member(&mut self) -> Result<Expr, Stop> {
        let before = self.depth.member;
        self.depth.member += 1;
        self.check_depth()?;
        let mut operand = self.primary()?;
        loop {
            operand = match self.token() {
                Token::Dot => self.selected(operand)?,
                Token::LeftBracket => self.indexed(operand)?,
                _ => break,
            };
            self.depth.member += 1;
            self.check_depth()?;
        }
        self.depth.member = before;
        Ok(operand)
    }

    fn selected(&mut self, operand: Expr) -> Result<Expr, Stop> {
        let dot = self.take();
        let is_optional = self.skip(Token::Question);
        let names = [Token::Identifier, Token::EscapedIdentifier];
        if is_optional {
            self.synchronise(&names)?;
        } else if !names.contains(&self.token()) {
            return self.no_alternative(dot.start);
        }
        let name = self.lexeme();
        let field = self.field_name();
        if is_optional {
            let field = self.nodes.literal(name.start, Literal::String(field));
            return Ok(self.nodes.call(dot.start, "_?._", vec![operand, field]));
        }
        if name.token == Token::Identifier && self.token() == Token::LeftParenthesis {
            return self.method(operand, &field);
        }
        let kind = Kind::Select {
            operand: Box::new(operand),
            field,
            is_test: false,
        };
        Ok(self.nodes.node(dot.start, kind))
    }

    /// Takes an identifier that names a field. It may be in backquotes.
    fn field_name(&mut self) -> String {
        let name = self.take();
        match name.token {
            Token::EscapedIdentifier => self.source.text(name.start + 1, name.end - 1),
            _ => self.source.text(name.start, name.end),
        }
    }

    fn method(&mut self, target: Expr, function: &str) -> Result<Expr, Stop> {
        let position = self.lexeme().start;
        let arguments = self.arguments()?;
        let nodes = &mut self.nodes;
        match macros::member(function, arguments.len()) {
            None => Ok(nodes.member_call(position, target, function, arguments)),
            Some(expand) => {
                let expanded = expand(&mut Expansion { nodes, position }, target, arguments);
                Ok(self.expanded(expanded))
            }
        }
    }

    fn indexed(&mut self, operand: Expr) -> Result<Expr, Stop> {
        let position = self.take().start;
        if self.token() != Token::Question {
            self.synchronise(&[&FIRST[..], &[Token::Question]].concat())?;
        }
        let function = match self.skip(Token::Question) {
            true => "_[?_]",
            false => "_[_]",
        };
        let index = self.within(&[Token::RightBracket], Self::expression)?;
        self.close(Token::RightBracket)?;
        Ok(self.nodes.call(position, function, vec![operand, index]))
    }

    fn primary(&mut self) -> Result<Expr, Stop> {
        match self.token() {
            Token::LeftParenthesis => {
                self.take();
                let nested = self.within(&[Token::RightParenthesis], Self::expression)?;
                self.close(Token::RightParenthesis)?;
                Ok(nested)
            }
            Token::LeftBracket => self.list(),
            Token::LeftBrace => self.map(),
            Token::Dot | Token::Identifier => self.named(),
            _ => self.literal(),
        }
    }

    /// An identifier, a call, or a struct that is created.
    fn named(&mut self) -> Result<Expr, Stop> {
        let start = self.lexeme().start;
        let dot = if self.skip(Token::Dot) { "." } else { "" };
        if self.token() != Token::Identifier {
            return self.no_alternative(start);
        }
        if let Some(names) = self.struct_names() {
            return self.structure(dot, names);
        }
        let name = self.take();
        let text = self.source.text(name.start, name.end);
        let is_reserved = RESERVED.contains(&&*text);
        let text = format!("{dot}{text}");
        if is_reserved {
            let bare = text.trim_start_matches('.');
            self.report_at(start, format!("reserved identifier: {bare}"));
        }
        if self.token() == Token::LeftParenthesis {
            return self.function(&text);
        }
        Ok(self.nodes.identifier(name.start, &text))
    }

    fn function(&mut self, function: &str) -> Result<Expr, Stop> {
        let position = self.lexeme().start;
        let arguments = self.arguments()?;
        let nodes = &mut self.nodes;
        match macros::global(function, arguments.len()) {
            None => Ok(nodes.call(position, function, arguments)),
            Some(expand) => {
                let expanded = expand(&mut Expansion { nodes, position }, arguments);
                Ok(self.expanded(expanded))
            }
        }
    }

    /// Reports the error of a macro.
    fn expanded(&mut self, expanded: Expanded) -> Expr {
        expanded.unwrap_or_else(|(at, message)| {
            self.report_at(at, message);
            self.nodes.node(at, Kind::Invalid)
        })
    }

    /// The number of tokens of a qualified name that a brace follows.
    fn struct_names(&self) -> Option<usize> {
        let mut count = 1;
        while self.peek(count).token == Token::Dot
            && self.peek(count + 1).token == Token::Identifier
        {
            count += 2;
        }
        (self.peek(count).token == Token::LeftBrace).then_some(count)
    }

    fn structure(&mut self, dot: &str, names: usize) -> Result<Expr, Stop> {
        let mut name = dot.to_owned();
        for _ in 0..names {
            let part = self.take();
            name.push_str(&self.source.text(part.start, part.end));
        }
        let position = self.take().start;
        let first = [Token::Question, Token::Identifier, Token::EscapedIdentifier];
        let fields = self.items(&first, Token::RightBrace, |parser| {
            let is_optional = parser.skip(Token::Question);
            let names = [Token::Identifier, Token::EscapedIdentifier];
            parser.synchronise(&names)?;
            let name = parser.field_name();
            let position = parser.lexeme().start;
            parser.expect(Token::Colon, &FIRST)?;
            let value = parser.expression()?;
            Ok(Field {
                position,
                name,
                value,
                is_optional,
            })
        })?;
        Ok(self.nodes.node(position, Kind::Struct { name, fields }))
    }

    fn list(&mut self) -> Result<Expr, Stop> {
        let position = self.take().start;
        let first = [&FIRST[..], &[Token::Question]].concat();
        let elements = self.items(&first, Token::RightBracket, |parser| {
            let is_optional = parser.skip(Token::Question);
            let value = parser.expression()?;
            Ok(Element { value, is_optional })
        })?;
        Ok(self.nodes.node(position, Kind::List(elements)))
    }

    fn map(&mut self) -> Result<Expr, Stop> {
        let position = self.take().start;
        let first = [&FIRST[..], &[Token::Question]].concat();
        let entries = self.items(&first, Token::RightBrace, |parser| {
            let is_optional = parser.skip(Token::Question);
            let key = parser.within(&[Token::Colon], Self::expression)?;
            parser.expect(Token::Colon, &FIRST)?;
            let value = parser.expression()?;
            Ok(Entry {
                key,
                value,
                is_optional,
            })
        })?;
        Ok(self.nodes.node(position, Kind::Map(entries)))
    }

    /// Items between commas, which may have one more comma behind them, and the closing token.
    fn items<T>(
        &mut self,
        first: &[Token],
        close: Token,
        item: impl Fn(&mut Self) -> Result<T, Stop>,
    ) -> Result<Vec<T>, Stop> {
        let mut items = Vec::new();
        self.synchronise(&[first, &[close, Token::Comma]].concat())?;
        if first.contains(&self.token()) {
            items.push(self.within(&[close, Token::Comma], &item)?);
            self.synchronise(&[close, Token::Comma])?;
            while self.token() == Token::Comma && first.contains(&self.peek(1).token) {
                self.take();
                items.push(self.within(&[close, Token::Comma], &item)?);
                self.synchronise(&[close, Token::Comma])?;
            }
        }
        self.skip(Token::Comma);
        self.close(close)?;
        Ok(items)
    }

    /// The arguments of a call, with their parentheses.
    fn arguments(&mut self) -> Result<Vec<Expr>, Stop> {
        self.take();
        let mut arguments = Vec::new();
        self.synchronise(&[&FIRST[..], &[Token::RightParenthesis]].concat())?;
        if self.token() != Token::RightParenthesis {
            let follow = [Token::RightParenthesis, Token::Comma];
            arguments.push(self.within(&follow, Self::expression)?);
            while self.skip(Token::Comma) {
                arguments.push(self.within(&follow, Self::expression)?);
            }
        }
        self.close(Token::RightParenthesis)?;
        Ok(arguments)
    }

    fn literal(&mut self) -> Result<Expr, Stop> {
        let start = self.lexeme().start;
        let sign = if self.skip(Token::Minus) { "-" } else { "" };
        let found = self.take();
        let text = self.source.text(found.start, found.end);
        let value = match found.token {
            Token::Int => literal::int(sign, &text),
            Token::Uint => literal::uint(&text),
            Token::Float => literal::double(&text),
            Token::String => literal::string(&text),
            Token::Bytes => literal::bytes(&text),
            Token::Null => Ok(Literal::Null),
            _ => Ok(Literal::Bool),
        };
        match value {
            Ok(value) => Ok(self.nodes.literal(start, value)),
            Err(message) => {
                self.report_at(start, message.into());
                Ok(self.nodes.node(start, Kind::Invalid))
            }
        }
    }
}
