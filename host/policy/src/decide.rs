//! Decides what a plugin may do under its policy.

use std::collections::BTreeSet;

use flyball_types::{ApiError, Effect, FieldPath, Kind, Mask, printable};

use crate::{PluginPolicy, Rule};

impl PluginPolicy {
    /// Fails with `Denied` if the plugin may not do this. The namespace is empty for a cluster-scoped object and for
    /// all namespaces.
    pub fn check(
        &self,
        verb: &str,
        kind: &Kind,
        subresource: &str,
        namespace: &str,
    ) -> Result<(), ApiError> {
        let name = kind.to_string();
        if self.grants_in(verb, &name, subresource, namespace) {
            return Ok(());
        }
        if self.is_description {
            let is_elsewhere = self.grants_somewhere(verb, &name, subresource);
            let place = if is_elsewhere { namespace } else { "" };
            return Err(ApiError::not_asked(verb, &name, subresource, place));
        }
        let slash = if subresource.is_empty() { "" } else { "/" };
        let place = if namespace.is_empty() {
            String::new()
        } else {
            format!(" in the namespace {namespace}")
        };
        // Subresource and namespace are the guest's text.
        Err(ApiError::denied(printable(&format!(
            "the policy does not let this plugin {verb} {name}{slash}{subresource}{place}"
        ))))
    }

    /// Whether it may do this in some namespace; the kind may be `*`.
    pub(crate) fn grants_somewhere(&self, verb: &str, kind: &str, subresource: &str) -> bool {
        self.allow
            .iter()
            .any(|rule| rule.has(verb, kind, subresource))
    }

    /// Whether it may do this in a namespace, or everywhere if the namespace is empty; the kind may be a pattern.
    pub(crate) fn grants_in(
        &self,
        verb: &str,
        kind: &str,
        subresource: &str,
        namespace: &str,
    ) -> bool {
        let mut rules = self.allow.iter();
        rules.any(|rule| rule.allows(verb, kind, subresource, namespace))
    }

    /// Whether this policy grants everything that the other grants. Rules are compared one by one: true is certain,
    /// false means unknown.
    pub fn covers(&self, other: &Self) -> bool {
        self.imports.is_superset(&other.imports)
            && self.http_hosts.is_superset(&other.http_hosts)
            && self.signer_keys.is_superset(&other.signer_keys)
            && (self.cloud_provider == other.cloud_provider || other.cloud_provider.is_none())
            && self.credentials.covers(&other.credentials)
            && other.certificates.iter().all(|rule| {
                let mut own = self.certificates.iter();
                own.any(|own| own.covers(rule))
            })
            && other.allow.iter().all(|rule| self.covers_rule(rule))
    }

    fn covers_rule(&self, other: &Rule) -> bool {
        let grants = |kind: &str, verb: &str| {
            self.allow.iter().any(|rule| {
                rule.has(verb, kind, &other.subresource)
                    && has_all(&rule.namespaces, &other.namespaces)
                    && has_all(&rule.fields, &other.fields)
            })
        };
        let mut kinds = other.kinds.iter();
        kinds.all(|kind| other.verbs.iter().all(|verb| grants(kind, verb)))
    }

    /// Whether the plugin may watch this kind in this namespace, or in at least one namespace if none is given.
    pub fn may_watch(&self, kind: &Kind, namespace: &str) -> bool {
        let mut rules = self.reading(&["watch"], kind, "");
        rules.any(|rule| namespace.is_empty() || rule.is_for(namespace))
    }

    /// The namespaces in which the plugin may watch a kind; none for all.
    pub fn watched_namespaces(&self, kind: &Kind) -> Option<BTreeSet<String>> {
        let rules = || self.reading(&["watch"], kind, "");
        if rules().any(|rule| rule.namespaces.is_empty()) {
            return None;
        }
        Some(rules().flat_map(|rule| &rule.namespaces).cloned().collect())
    }

    /// The fields that a watch may not read although it shows objects that have them. A watch without a namespace shows
    /// the objects of all namespaces that [`PluginPolicy::watched_namespaces`] returns, so each of these must grant the
    /// fields.
    pub fn ungranted_fields(&self, kind: &Kind, namespace: &str, read: &Mask) -> Vec<FieldPath> {
        let mut places: BTreeSet<&str> = BTreeSet::new();
        if namespace.is_empty() {
            for rule in self.reading(&["watch"], kind, "") {
                places.extend(rule.namespaces.iter().map(String::as_str));
                if rule.namespaces.is_empty() {
                    places.insert("");
                }
            }
        } else {
            places.insert(namespace);
        }
        let visible = places
            .into_iter()
            .map(|place| self.visible(&["watch"], kind, "", place));
        let missing = visible.flat_map(|visible| visible.missing(read));
        missing.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The fields that it may see of objects of a kind in a namespace, by a rule that grants one of these verbs. An
    /// empty namespace stands for a cluster-scoped object and for all namespaces: only rules for all namespaces apply
    /// to it.
    pub fn visible(
        &self,
        verbs: &[&str],
        kind: &Kind,
        subresource: &str,
        namespace: &str,
    ) -> Visible {
        let rules = || {
            self.reading(verbs, kind, subresource)
                .filter(|rule| rule.is_for(namespace))
        };
        if rules().next().is_none() {
            return Visible::Nothing;
        }
        if rules().any(|rule| rule.fields.is_empty()) {
            return Visible::All;
        }
        // The policy was checked. If all fields together are too complex, only the fields of the first rule are
        // visible.
        let fields = Mask::parse(rules().flat_map(|rule| &rule.fields));
        let fields = fields.or_else(|_| Mask::parse(rules().take(1).flat_map(|rule| &rule.fields)));
        Visible::Fields(fields.unwrap_or_default())
    }

    /// Fails unless the plugin may read, with all its fields, a resource that the API server does not list as a kind.
    /// `any` has the resource's group and version, and `*` as its kind. Rules for single kinds don't grant the read,
    /// because the resource may belong to another kind that has not been listed yet.
    ///
    /// # Errors
    /// `UnknownKind`.
    pub(crate) fn check_unlisted(
        &self,
        verb: &str,
        any: &Kind,
        subresource: &str,
        namespace: &str,
    ) -> Result<(), ApiError> {
        let of_group = |known: &String| {
            known
                .parse()
                .is_ok_and(|known: Kind| known.group == any.group)
        };
        let limits_a_kind = |rule: &Rule| {
            !rule.fields.is_empty()
                && (rule.is_of(&any.to_string()) || rule.kinds.iter().any(of_group))
        };
        if self.check(verb, any, subresource, namespace).is_ok()
            && !self.allow.iter().any(limits_a_kind)
        {
            return Ok(());
        }
        Err(ApiError::unknown_kind(printable(&format!(
            "the API server lists no such kind of {}, and the policy does not let this plugin {verb} what is not listed there: \
             it takes a rule for all of the group, without `fields`",
            any.api_version()
        ))))
    }

    /// Whether a rule for this kind limits the fields that are read.
    pub(crate) fn limits_fields(&self, kind: &Kind) -> bool {
        let name = kind.to_string();
        self.allow
            .iter()
            .any(|rule| !rule.fields.is_empty() && rule.is_of(&name))
    }

    fn reading(
        &self,
        verbs: &[&str],
        kind: &Kind,
        subresource: &str,
    ) -> impl Iterator<Item = &Rule> {
        let name = kind.to_string();
        self.allow
            .iter()
            .filter(move |rule| verbs.iter().any(|verb| rule.has(verb, &name, subresource)))
    }

    /// Fails with `Denied` if the plugin may not use this import.
    pub fn check_import(&self, import: &str) -> Result<(), ApiError> {
        if self.imports.contains(import) {
            return Ok(());
        }
        Err(ApiError::denied(format!(
            "the policy does not let this plugin use `{}`",
            printable(import)
        )))
    }
}

impl Rule {
    fn allows(&self, verb: &str, kind: &str, subresource: &str, namespace: &str) -> bool {
        self.has(verb, kind, subresource) && self.is_for(namespace)
    }

    fn has(&self, verb: &str, kind: &str, subresource: &str) -> bool {
        (self.verbs.contains(verb) || self.verbs.contains("*"))
            && self.is_of(kind)
            && (self.subresource == subresource || self.subresource == "*")
    }

    pub(super) fn is_of(&self, kind: &str) -> bool {
        self.kinds
            .iter()
            .any(|known| known == kind || known == "*" || is_in_group(kind, known))
    }

    /// Whether the rule grants only reads.
    pub(super) fn only_reads(&self) -> bool {
        self.subresource.is_empty()
            && self
                .verbs
                .iter()
                .all(|verb| matches!(verb.as_str(), "watch" | "get" | "list"))
    }

    /// Whether the rule applies to a namespace. An empty namespace stands for all namespaces.
    pub(super) fn is_for(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|known| known == namespace)
    }
}

/// Whether a kind matches a pattern `GROUP/*`.
fn is_in_group(kind: &str, pattern: &str) -> bool {
    let group = pattern.strip_suffix("/*");
    let rest = group.and_then(|group| kind.strip_prefix(group)?.strip_prefix('/'));
    rest.is_some_and(|rest| rest.contains('/'))
}

/// Whether a list of a rule contains all of another list. An empty list stands for all values.
fn has_all(list: &[String], other: &[String]) -> bool {
    list.is_empty() || !other.is_empty() && other.iter().all(|one| list.contains(one))
}

/// The part of an object that a plugin may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visible {
    Nothing,
    Fields(Mask),
    All,
}

impl Visible {
    /// Whether these fields may be seen.
    pub fn covers(&self, read: &Mask) -> bool {
        match self {
            Self::Nothing => Mask::default().covers(read),
            Self::Fields(granted) => granted.covers(read),
            Self::All => true,
        }
    }

    /// Fails with `Denied` if one of these fields of a kind may not be seen.
    pub fn check(&self, kind: &Kind, read: &Mask) -> Result<(), ApiError> {
        deny_hidden(kind, &self.missing(read))
    }

    /// The paths of `read` that may not be seen.
    fn missing(&self, read: &Mask) -> Vec<FieldPath> {
        if self.covers(read) {
            return Vec::new();
        }
        let is_missing = |path: &FieldPath| !self.covers(&Mask::from(path));
        read.paths().into_iter().filter(is_missing).collect()
    }

    /// An error of the server as the plugin may see it. Messages about invalid fields, conflicts and refusals of
    /// admission may quote any field of the object.
    pub fn refusal(&self, kind: &Kind, mut error: ApiError) -> ApiError {
        let is_told_by_name = matches!(error.reason.as_str(), "NotFound" | "AlreadyExists");
        if *self == Self::All || error.effect == Effect::None || is_told_by_name {
            return error;
        }
        error.message = format!(
            "the request failed with {}; the API server's message is hidden, because the policy limits the fields that this plugin may \
             read of {kind}",
            error.reason
        );
        error
    }

    /// Returns what both allow. At least one of them limits no fields.
    pub fn within(self, outer: Self) -> Self {
        match (self, outer) {
            (Self::Nothing, _) | (_, Self::Nothing) => Self::Nothing,
            (own, Self::All) => own,
            (_, outer) => outer,
        }
    }

    /// The mask that an answer of the server is reduced to; none if it is not reduced.
    pub fn mask(self) -> Option<Mask> {
        match self {
            Self::Nothing => Some(Mask::default()),
            Self::Fields(granted) => Some(granted),
            Self::All => None,
        }
    }
}

/// Fails with `Denied` if there are hidden fields.
pub(crate) fn deny_hidden(kind: &Kind, hidden: &[FieldPath]) -> Result<(), ApiError> {
    if hidden.is_empty() {
        return Ok(());
    }
    let hidden: Vec<String> = hidden.iter().map(FieldPath::to_string).collect();
    Err(ApiError::denied(format!(
        "the policy does not let this plugin see {} of {kind}",
        hidden.join(", ")
    )))
}

#[cfg(test)]
mod tests;
