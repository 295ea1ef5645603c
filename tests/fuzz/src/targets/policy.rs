//! The operator's policy.

use std::path::Path;

use flyball_policy::Policy;
use flyball_types::{Kind, duration};

use super::{Target, Verdict};

pub(super) const POLICY: Target = Target {
    name: "policy",
    tokens: || {
        vec![
            "[plugins.a]",
            "[[plugins.a.allow]]",
            "kinds = [\"*\"]",
            "verbs = [\"*\"]",
            "limits = { cpu = \"1ns\" }",
            "99999999999h",
            "memory = \"18446744073709551615Ki\"",
            "signer-keys = [\"a\"]",
            "imports = [\"signer\"]",
            "[[plugins.a.certificates]]",
            "signers = [\"a/b\"]",
            "organizations = [\"*\"]",
            "inf",
            "nan",
            "{ times = -1 }",
            "service-account = \"a/b\"",
            "1979-05-27T07:32:00Z",
            "'''",
            "\"\"\"",
            "[",
            "{ a = ",
        ]
    },
    feed: policy,
};

fn policy(input: &[u8]) -> Verdict {
    let Ok(text) = str::from_utf8(input) else {
        return Ok("not text".into());
    };
    if let Ok(duration) = duration::parse(text) {
        // The printed seconds have the precision of an `f64`.
        let again = duration::parse(&format!("{}s", duration.as_secs_f64()));
        let again =
            again.map_err(|error| format!("a printed duration can't be parsed: {error}"))?;
        let difference = again.abs_diff(duration).as_secs_f64();
        if difference > duration.as_secs_f64() * 1e-9 + 1e-9 {
            return Err(format!(
                "the printed duration {duration:?} is parsed as {again:?}"
            ));
        }
    }
    let policy = match Policy::parse(Path::new("policy.toml"), text) {
        Ok(policy) => policy,
        Err(error) => return Ok(error.to_string()),
    };
    let kind = Kind::new("fuzz.example.com", "v1", "Unknown");
    for (name, rules) in &policy.plugins {
        let has_wildcard = rules
            .allow
            .iter()
            .any(|rule| rule.kinds.iter().any(|kind| kind == "*"));
        let names_kind = rules
            .allow
            .iter()
            .any(|rule| rule.kinds.contains(&kind.to_string()));
        if rules.check("watch", &kind, "", "").is_ok() && !has_wildcard && !names_kind {
            return Err(format!(
                "the plugin {name} may watch a kind that no rule names"
            ));
        }
        if rules.check_import("discovery").is_ok() != rules.imports.contains("discovery") {
            return Err(format!(
                "the plugin {name} may use an import that is not granted"
            ));
        }
        if rules.may_use_key("a").is_ok()
            && !(rules.signer_keys.contains("a") && rules.imports.contains("signer"))
        {
            return Err(format!(
                "the plugin {name} may use a key that is not granted"
            ));
        }
    }
    for (name, rules) in &policy.plugins {
        if rules.signers().next().is_some() && !rules.imports.contains("signer") {
            return Err(format!("the plugin {name} may sign without the import"));
        }
    }
    let rules: usize = policy
        .plugins
        .values()
        .map(|plugin| plugin.allow.len().min(2))
        .sum();
    Ok(format!("a policy of {} rules", rules))
}
