//! The debug pages of controllers: `/debug/controllers/<name>/<page>`.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

/// A page, rendered for each request.
pub struct Page {
    /// The media type, for example `text/vnd.graphviz`.
    pub content_type: &'static str,
    pub body: String,
}

/// Renders a page from the decoded query of a request. May be called from several threads.
pub type RenderPage = Arc<dyn Fn(&[(String, String)]) -> Page + Send + Sync>;

/// The pages by controller and name. Clones share the pages.
#[derive(Clone, Default)]
pub struct DebugPages {
    pages: Arc<RwLock<BTreeMap<(String, String), RenderPage>>>,
}

/// Removes its page when it is dropped.
#[must_use = "the page is removed when this is dropped"]
pub struct PageRegistration {
    key: (String, String),
    render: RenderPage,
    pages: DebugPages,
}

impl DebugPages {
    /// Adds a page of a controller until the registration is dropped. Replaces a page of the same name.
    pub fn add(
        &self,
        controller: &str,
        page: &str,
        render: impl Fn(&[(String, String)]) -> Page + Send + Sync + 'static,
    ) -> PageRegistration {
        let key = (controller.to_owned(), page.to_owned());
        let render: RenderPage = Arc::new(render);
        self.pages.write().insert(key.clone(), render.clone());
        PageRegistration {
            key,
            render,
            pages: self.clone(),
        }
    }

    /// Renders a page of a controller; `None` if there is no such page.
    pub(crate) fn render(&self, controller: &str, page: &str, query: &str) -> Option<Page> {
        let key = (controller.to_owned(), page.to_owned());
        let render = self.pages.read().get(&key)?.clone();
        let pairs: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect();
        Some(render(&pairs))
    }
}

impl Drop for PageRegistration {
    fn drop(&mut self) {
        let mut pages = self.pages.pages.write();
        if pages
            .get(&self.key)
            .is_some_and(|own| Arc::ptr_eq(own, &self.render))
        {
            pages.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn echo(query: &[(String, String)]) -> Page {
        let body = query
            .iter()
            .map(|(key, value)| format!("{key} is {value}; "))
            .collect();
        Page {
            content_type: "text/plain",
            body,
        }
    }

    #[test]
    fn a_page_exists_as_long_as_its_registration() {
        let pages = DebugPages::default();
        let registration = pages.add("a-controller", "graph", echo);
        let body = |page: Option<Page>| page.map(|page| page.body);
        assert_eq!(
            body(pages.render("a-controller", "graph", "")).as_deref(),
            Some("")
        );
        assert_eq!(body(pages.render("a-controller", "other", "")), None);
        drop(registration);
        assert_eq!(body(pages.render("a-controller", "graph", "")), None);
    }

    #[test]
    fn a_query_is_decoded() {
        let pages = DebugPages::default();
        let _page = pages.add("a", "p", echo);
        let shown = pages
            .render("a", "p", "uid=x%2Fy&uid=%C3%A9+1&flag")
            .unwrap()
            .body;
        assert_eq!(shown, "uid is x/y; uid is é 1; flag is ; ");
    }
}
