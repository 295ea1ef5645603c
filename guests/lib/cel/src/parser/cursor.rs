//! How the parser moves along the tokens, recovers from errors and reports them.
//!
//! In ANTLR: error_strategy.go: Sync, RecoverInline, SingleTokenDeletion, SingleTokenInsertion.

use super::{Depth, Parser, Stop};
use crate::lexer::Lexeme;
use crate::source::Issue;
use crate::token::{Token, set};

/// How deep a rule of the grammar can be nested.
const MAX_DEPTH: usize = 250;

/// What can follow an operand.
const OPERATORS: [Token; 17] = [
    Token::Equals,
    Token::NotEquals,
    Token::In,
    Token::Less,
    Token::LessEquals,
    Token::GreaterEquals,
    Token::Greater,
    Token::And,
    Token::Or,
    Token::LeftBracket,
    Token::Dot,
    Token::Minus,
    Token::Question,
    Token::Plus,
    Token::Star,
    Token::Slash,
    Token::Percent,
];

impl Parser<'_> {
    pub(super) fn lexeme(&self) -> Lexeme {
        self.peek(0)
    }

    pub(super) fn token(&self) -> Token {
        self.lexeme().token
    }

    pub(super) fn peek(&self, ahead: usize) -> Lexeme {
        let last = self.lexemes.len() - 1;
        self.lexemes[(self.at + ahead).min(last)]
    }

    pub(super) fn take(&mut self) -> Lexeme {
        let taken = self.lexeme();
        self.at += 1;
        taken
    }

    /// Takes the next token if it is this one.
    pub(super) fn skip(&mut self, token: Token) -> bool {
        let is_next = self.token() == token;
        self.at += usize::from(is_next);
        is_next
    }

    /// Parses something that these tokens can follow.
    pub(super) fn within<T>(
        &mut self,
        follow: &[Token],
        parse: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        self.follow.push(follow.to_vec());
        let parsed = parse(self);
        self.follow.pop();
        parsed
    }

    /// Takes a token that ends an operand.
    pub(super) fn close(&mut self, token: Token) -> Result<(), Stop> {
        let outer = self.follow.last().map_or(&[][..], Vec::as_slice);
        let follow = [&OPERATORS[..], outer].concat();
        self.expect(token, &follow)
    }

    /// Takes a token. If another one is there, it is left out if the token comes next, and the token is taken for
    /// missing if the other one can follow it.
    pub(super) fn expect(&mut self, token: Token, follow: &[Token]) -> Result<(), Stop> {
        if self.token() != token {
            if self.peek(1).token == token && self.token() != Token::End {
                self.unexpected("extraneous input", &[token]);
                self.take();
            } else if follow.contains(&self.token()) {
                let text = self.shown();
                self.report(format!("missing {token} at '{text}'"));
                return Ok(());
            } else {
                return self.fail("mismatched input", &[token]);
            }
        }
        self.take();
        Ok(())
    }

    /// Checks that one of these tokens comes next, or leaves out the token before it.
    pub(super) fn synchronise(&mut self, expected: &[Token]) -> Result<(), Stop> {
        if expected.contains(&self.token()) {
            return Ok(());
        }
        if !expected.contains(&self.peek(1).token) {
            return self.fail("mismatched input", expected);
        }
        self.unexpected("extraneous input", expected);
        self.take();
        Ok(())
    }

    pub(super) fn fail<T>(&mut self, what: &str, expected: &[Token]) -> Result<T, Stop> {
        self.unexpected(what, expected);
        Err(Stop::Errors)
    }

    /// Reports that nothing begins with the tokens from this position up to the next token.
    pub(super) fn no_alternative<T>(&mut self, start: usize) -> Result<T, Stop> {
        let text = self.source.text(start, self.lexeme().end);
        self.report(format!("no viable alternative at input '{text}'"));
        Err(Stop::Errors)
    }

    fn unexpected(&mut self, what: &str, expected: &[Token]) {
        let (text, expected) = (self.shown(), set(expected.to_vec()));
        self.report(format!("{what} '{text}' expecting {expected}"));
    }

    /// The next token as errors show it.
    fn shown(&self) -> String {
        let Lexeme { token, start, end } = self.lexeme();
        match token {
            Token::End => token.to_string(),
            _ => self.source.text(start, end),
        }
    }

    /// Reports a syntax error at the next token.
    fn report(&mut self, problem: String) {
        self.report_at(self.lexeme().start, format!("Syntax error: {problem}"));
    }

    pub(super) fn report_at(&mut self, position: usize, message: String) {
        self.issues.push(Issue {
            position: Some(position),
            message,
        });
    }

    pub(super) fn check_depth(&mut self) -> Result<(), Stop> {
        let Depth {
            relation,
            calculation,
            member,
        } = self.depth;
        if relation.max(calculation).max(member) <= MAX_DEPTH {
            return Ok(());
        }
        self.issues.push(Issue {
            position: None,
            message: format!("expression recursion limit exceeded: {MAX_DEPTH}"),
        });
        Err(Stop::Errors)
    }
}
