//! Checks the types of expressions in the Common Expression Language, with the texts of cel-go v0.29.2.
//!
//! ```
//! use flyball_cel::{Environment, Fields, Type};
//!
//! let mut environment = Environment::default();
//! environment.object("Pod", Fields::from([("name".into(), Type::String)]));
//! environment.variable("object", Type::object("Pod"));
//! assert_eq!(environment.check("object.name.startsWith('a')"), Ok(Type::Bool));
//! let errors = environment.check("object.nam == 'a'").unwrap_err();
//! assert_eq!(
//!     errors.to_string(),
//!     "ERROR: <input>:1:7: undefined field 'nam'\n | object.nam == 'a'\n | ......^"
//! );
//! ```
//!
//! An expression goes through the lexer, the parser, which also expands macros, and the checker. Nothing is
//! evaluated.

mod ast;
mod checker;
mod environment;
mod format;
mod functions;
mod homogeneous;
mod lexer;
mod literal;
mod macros;
mod messages;
mod nodes;
mod parser;
mod source;
mod token;
mod types;
mod unify;

pub use environment::{Environment, Fields};
pub use source::Errors;
pub use token::RESERVED;
pub use types::Type;
