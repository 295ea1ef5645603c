//! The tokens of the language.
//!
//! In cel-go: parser/gen/CEL.g4.

use std::fmt;

/// The kind of a token, in the order in which ANTLR lists expected ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Token {
    End,
    Equals,
    NotEquals,
    In,
    Less,
    LessEquals,
    GreaterEquals,
    Greater,
    And,
    Or,
    LeftBracket,
    RightBracket,
    LeftBrace,
    RightBrace,
    LeftParenthesis,
    RightParenthesis,
    Dot,
    Comma,
    Minus,
    Not,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Float,
    Int,
    Uint,
    String,
    Bytes,
    Identifier,
    EscapedIdentifier,
}

/// The tokens that always have the same text, the longest first.
pub(crate) const FIXED: [(&str, Token); 24] = [
    ("==", Token::Equals),
    ("!=", Token::NotEquals),
    ("<=", Token::LessEquals),
    (">=", Token::GreaterEquals),
    ("&&", Token::And),
    ("||", Token::Or),
    ("<", Token::Less),
    (">", Token::Greater),
    ("[", Token::LeftBracket),
    ("]", Token::RightBracket),
    ("{", Token::LeftBrace),
    ("}", Token::RightBrace),
    ("(", Token::LeftParenthesis),
    (")", Token::RightParenthesis),
    (".", Token::Dot),
    (",", Token::Comma),
    ("-", Token::Minus),
    ("!", Token::Not),
    ("?", Token::Question),
    (":", Token::Colon),
    ("+", Token::Plus),
    ("*", Token::Star),
    ("/", Token::Slash),
    ("%", Token::Percent),
];

/// The words that are tokens of their own.
pub(crate) const WORDS: [(&str, Token); 4] = [
    ("in", Token::In),
    ("true", Token::True),
    ("false", Token::False),
    ("null", Token::Null),
];

/// Words of the language, which variables can't have as names.
pub const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The tokens that an expression can begin with.
pub(crate) const FIRST: [Token; 15] = [
    Token::LeftBracket,
    Token::LeftBrace,
    Token::LeftParenthesis,
    Token::Dot,
    Token::Minus,
    Token::Not,
    Token::True,
    Token::False,
    Token::Null,
    Token::Float,
    Token::Int,
    Token::Uint,
    Token::String,
    Token::Bytes,
    Token::Identifier,
];

/// Writes the kind as ANTLR names it in errors.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fixed = FIXED.iter().chain(&WORDS);
        if let Some((text, _)) = fixed.into_iter().find(|(_, token)| token == self) {
            return write!(f, "'{text}'");
        }
        f.write_str(match self {
            Self::End => "<EOF>",
            Self::Float => "NUM_FLOAT",
            Self::Int => "NUM_INT",
            Self::Uint => "NUM_UINT",
            Self::String => "STRING",
            Self::Bytes => "BYTES",
            Self::EscapedIdentifier => "ESC_IDENTIFIER",
            _ => "IDENTIFIER",
        })
    }
}

/// Returns a set of tokens as ANTLR writes it.
pub(crate) fn set(mut tokens: Vec<Token>) -> String {
    tokens.sort();
    tokens.dedup();
    match tokens.as_slice() {
        [token] => token.to_string(),
        tokens => {
            let names: Vec<_> = tokens.iter().map(Token::to_string).collect();
            format!("{{{}}}", names.join(", "))
        }
    }
}
