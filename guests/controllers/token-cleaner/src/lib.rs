//! token-cleaner-controller: deletes expired bootstrap tokens.
//!
//! The key of a token that has not expired waits in the queue until the token expires.
//!
//! Upstream: pkg/controller/bootstrap/tokencleaner.go: NewTokenCleaner, evalSecret.

use flyball_bootstrap_tokens::{Expiry, NAMESPACE, SELECTOR, expiry};
use flyball_sdk::prelude::*;

/// The Secret of a token.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Secret")]
struct Token {
    #[view(path = "metadata", fields("deletionTimestamp"))]
    meta: Meta,
    #[view(path = "data.expiration")]
    expiration: String,
}

/// The controller. Keys name Secrets.
pub struct TokenCleaner;

export!(TokenCleaner);

impl Controller for TokenCleaner {
    fn describe() -> Description {
        let tokens = watch::<Token>()
            .namespace(NAMESPACE)
            .field_selector(SELECTOR)
            .when_at(&["data.expiration"])
            .enqueue(Mapping::itself().on([DeltaType::Added, DeltaType::Modified]));
        describe("token-cleaner-controller", env!("CARGO_PKG_VERSION"))
            .watch(tokens)
            .queue("token_cleaner")
            .permission(Token::KIND, ["delete"])
            .concurrency(1)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let token = host.get_by_key::<Token>(&request.key)?;
        let Some(token) = token.filter(|token| !token.meta.is_deleting()) else {
            return Ok(Outcome::Done);
        };
        match expiry(&token.expiration, host.now()) {
            Expiry::Never => Ok(Outcome::Done),
            Expiry::In(rest) => Ok(Outcome::RequeueAfter(rest)),
            Expiry::Over => match host.delete(Token::KIND, &token.meta) {
                // Another token has the name now. It has been enqueued itself.
                Err(error) if error.is_conflict() => Ok(Outcome::Done),
                deleted => {
                    deleted.found()?;
                    Ok(Outcome::Done)
                }
            },
        }
    }
}
