//! What controllers show of themselves to those who look for a fault: `/debug/controllers/<name>/<page>`.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;
/// A page, made anew for each request.
pub struct Page {
    /// As in `text/vnd.graphviz`.
    pub content_type: &'static str,
    /// The text.
    pub body: String,
}

/// Makes a page of the query of a request, decoded into keys and values. May be called from several threads.
pub type Show = Arc<dyn Fn(&[(String, String)]) -> Page + Send + Sync>;

/// The pages by controller and name. A clone adds to the same pages.
#[derive(Clone, Default)]
pub struct DebugPages {
    pages: Arc<RwLock<BTreeMap<(String, String), Show>>>,
}

/// Takes its page out when it is dropped.
#[must_use = "the page is taken out when this is dropped"]
pub struct PageRegistration {
    key: (String, String),
    show: Show,
    pages: DebugPages,
}

impl DebugPages {
    /// Adds a page of a controller, in place of one of the same name, for as long as the registration is kept.
    pub fn add(
        &self,
        controller: &str,
        page: &str,
        show: impl Fn(&[(String, String)]) -> Page + Send + Sync + 'static,
    ) -> PageRegistration {
        let (key, show): (_, Show) = ((controller.to_owned(), page.to_owned()), Arc::new(show));
        self.pages.write().insert(key.clone(), show.clone());
        PageRegistration {
            key,
            show,
            pages: self.clone(),
        }
    }

    /// Makes a page of a controller; none if there is none of that name.
    pub(crate) fn show(&self, controller: &str, page: &str, query: &str) -> Option<Page> {
        let key = (controller.to_owned(), page.to_owned());
        let show = self.pages.read().get(&key)?.clone();
        let pairs: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect();
        Some(show(&pairs))
    }
}

impl Drop for PageRegistration {
    fn drop(&mut self) {
        let mut pages = self.pages.pages.write();
        if pages
            .get(&self.key)
            .is_some_and(|own| Arc::ptr_eq(own, &self.show))
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
    fn a_page_is_there_as_long_as_its_registration() {
        let pages = DebugPages::default();
        let registration = pages.add("a-controller", "graph", echo);
        let body = |page: Option<Page>| page.map(|page| page.body);
        assert_eq!(
            body(pages.show("a-controller", "graph", "")).as_deref(),
            Some("")
        );
        assert_eq!(body(pages.show("a-controller", "other", "")), None);
        drop(registration);
        assert_eq!(body(pages.show("a-controller", "graph", "")), None);
    }

    #[test]
    fn a_query_is_decoded() {
        let pages = DebugPages::default();
        let _page = pages.add("a", "p", echo);
        let shown = pages
            .show("a", "p", "uid=x%2Fy&uid=%C3%A9+1&flag")
            .unwrap()
            .body;
        assert_eq!(shown, "uid is x/y; uid is é 1; flag is ; ");
    }
}
