//! The custom resource of a new project. The templates are about a `Greeting` of the group `NAME.example.com`; another
//! resource takes its names.

use std::collections::BTreeSet;

use anyhow::{Result, bail, ensure};
use flyball_types::usual_plural;

/// The kind in the templates.
const TEMPLATE: &str = "Greeting";

/// Words that can't be a variable in one of the languages.
const KEYWORDS: &str = "abstract and as assert async auto await become bool box break case catch chan char class const \
    continue crate debugger def default defer del delete do double dyn elif else enum error except \
    export extends extern false final finally float fn for from func function gen global go goto if impl \
    implements import in inline instanceof int interface is lambda let long loop macro map match mod \
    move mut new nil none not null or override package pass private pub raise range ref register return \
    select self short signed sizeof static string struct super switch this throw trait true try type \
    typedef typeof union unsafe unsigned unsized use var virtual void volatile where while with yield";

/// The names of a custom resource.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    /// As in `Website`.
    kind: String,
    /// As in `web.example.com`.
    group: String,
    /// As in `websites`.
    plural: String,
}

/// The marker of controller-gen before that of the plural. The usual plural needs none.
const GO_MARKER: &str = "// +kubebuilder:object:root=true";

impl Resource {
    /// The custom resource of the plugin `name`. What is not given is the templates'.
    ///
    /// # Errors
    /// A name has the wrong form.
    pub(crate) fn new(
        name: &str,
        kind: Option<&str>,
        group: Option<&str>,
        plural: Option<&str>,
    ) -> Result<Self> {
        let kind = kind.unwrap_or(TEMPLATE);
        ensure!(
            is_kind(kind),
            "`{kind}` can't be a kind: use letters and digits, an upper-case letter first, as in `Website`"
        );
        let group = group.map_or_else(|| format!("{name}.example.com"), str::to_owned);
        ensure!(
            is_group(&group),
            "`{group}` can't be a group: write the name of a domain that is yours, as in `web.example.com`"
        );
        if group.ends_with(".k8s.io") || group.ends_with(".kubernetes.io") {
            bail!(
                "`{group}` can't be the group, because it is Kubernetes' own: name one of your own domain"
            );
        }
        let plural = plural.map_or_else(|| usual_plural(kind), str::to_owned);
        ensure!(
            is_label(&plural),
            "`{plural}` can't be a plural: use lower-case letters, as in `websites`"
        );
        Ok(Self {
            kind: kind.to_owned(),
            group,
            plural,
        })
    }

    /// Fails if the files of a template have another type or constant with the name of the kind.
    pub(crate) fn check(&self, files: &[(&str, &str)]) -> Result<()> {
        let words = words(files);
        let taken = [self.kind.as_str(), &constant(&self.kind)].map(|name| words.contains(name));
        if self.kind != TEMPLATE && taken.contains(&true) {
            bail!(
                "`{}` can't be the kind of the project's custom resource, because its code has another thing with this name: \
                 choose another kind",
                self.kind
            );
        }
        Ok(())
    }

    /// Returns the text of a template's file with the names of this resource. `files` has all files of the template.
    pub(crate) fn renamed(&self, file: &str, text: &str, files: &[(&str, &str)]) -> String {
        let text = text.replace("{{NAME}}.example.com", &self.group);
        let (singular, plural) = (self.kind.to_ascii_lowercase(), &self.plural);
        if file.ends_with(".yaml.in") {
            return text
                .replace("greetings", plural)
                .replace("greeting", &singular)
                .replace(TEMPLATE, &self.kind);
        }
        let usual = usual_plural(&self.kind);
        let definition = format!("CustomResource::of::<{TEMPLATE}>()");
        let text = match *plural == usual {
            true => text,
            false => text
                .replace(&definition, &format!("{definition}.plural({plural:?})"))
                .replace(
                    GO_MARKER,
                    &format!("{GO_MARKER}\n// +kubebuilder:resource:path={plural}"),
                ),
        };
        if self.kind == TEMPLATE {
            return text;
        }
        let words = words(files);
        let is_taken =
            |name: &str| words.contains(name) || KEYWORDS.split(' ').any(|keyword| keyword == name);
        let variable = match is_taken(&singular) {
            true => format!("my{singular}"),
            false => singular.clone(),
        };
        let several = match is_taken(plural) || *plural == variable {
            true => format!("all{plural}"),
            false => plural.clone(),
        };
        text.replace("greetings", &several.replace('-', ""))
            .replace("greeting", &variable)
            .replace("GREETING", &constant(&self.kind))
            .replace(TEMPLATE, &self.kind)
    }
}

/// The words of the code of a template.
fn words<'a>(files: &[(&'a str, &'a str)]) -> BTreeSet<&'a str> {
    let code = files
        .iter()
        .filter(|(file, _)| !file.ends_with(".md.in") && !file.ends_with(".yaml.in"));
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    code.flat_map(|(_, text)| text.split(move |c| !is_word(c)))
        .collect()
}

/// The name of a constant: `WEB_SITE` of `WebSite`.
fn constant(kind: &str) -> String {
    let mut name = String::new();
    let mut was_lower = false;
    for c in kind.chars() {
        if c.is_ascii_uppercase() && was_lower {
            name.push('_');
        }
        was_lower = !c.is_ascii_uppercase();
        name.push(c.to_ascii_uppercase());
    }
    name
}

fn is_kind(text: &str) -> bool {
    text.len() <= 63
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric())
}

fn is_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.ends_with('-')
}

/// A DNS name with at least two parts. Kubernetes takes others, but only for its own groups.
fn is_group(text: &str) -> bool {
    let is_part = |part: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        (1..=63).contains(&part.len())
            && part.chars().all(inner)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    text.len() <= 253 && text.contains('.') && text.split('.').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(kind: &str, plural: Option<&str>) -> Resource {
        Resource::new("a", Some(kind), Some("web.example.com"), plural).unwrap()
    }

    #[test]
    fn all_names_of_the_resource_are_replaced() {
        let code = "let greeting = get::<Greeting>(GREETING); // greetings of {{NAME}}.example.com\nlet text = 1;";
        let files = [("a.rs.in", code)];
        let renamed = |resource: Resource| resource.renamed("a.rs.in", code, &files);
        assert_eq!(
            renamed(resource("WebSite", None)),
            "let website = get::<WebSite>(WEB_SITE); // websites of web.example.com\nlet text = 1;"
        );
        // Another variable and a keyword have these names.
        assert!(renamed(resource("Text", None)).starts_with("let mytext = get::<Text>(TEXT);"));
        assert!(renamed(resource("Type", None)).starts_with("let mytype = get::<Type>(TYPE);"));
        let yaml = "name: greetings.{{NAME}}.example.com\nkind: Greeting\nsingular: greeting";
        let leaf = resource("Leaf", Some("leaves")).renamed("crd.yaml.in", yaml, &files);
        assert_eq!(
            leaf,
            "name: leaves.web.example.com\nkind: Leaf\nsingular: leaf"
        );
        let definition = "CustomResource::of::<Greeting>()";
        let leaf = resource("Leaf", Some("leaves")).renamed("api.rs.in", definition, &files);
        assert_eq!(leaf, "CustomResource::of::<Leaf>().plural(\"leaves\")");
        let leaf = resource("Leaf", Some("leaves")).renamed("api.go.in", GO_MARKER, &files);
        assert_eq!(
            leaf,
            format!("{GO_MARKER}\n// +kubebuilder:resource:path=leaves")
        );
    }

    #[test]
    fn names_of_a_wrong_form_or_of_another_type_are_refused() {
        let new = |kind: &str, group: &str, plural: &str| {
            Resource::new("a", Some(kind), Some(group), Some(plural)).is_ok()
        };
        assert!(new("Leaf", "example.com", "leaves"));
        for (kind, group, plural) in [
            ("leaf", "example.com", "leaves"),
            ("Le-af", "example.com", "leaves"),
            ("", "example.com", "leaves"),
            ("Leaf", "example", "leaves"),
            ("Leaf", "Example.com", "leaves"),
            ("Leaf", "apps.k8s.io", "leaves"),
            ("Leaf", "example.com", "Leaves"),
            ("Leaf", "example.com", ""),
        ] {
            assert!(!new(kind, group, plural), "{kind} {group} {plural}");
        }
        let files = [("a.go.in", "type ConfigMap struct")];
        assert!(resource("ConfigMap", None).check(&files).is_err());
        assert!(resource("Website", None).check(&files).is_ok());
    }
}
