//! The display name and icons of a skill, for lists of tools.

use openskill_proto::v1::Icon;
use serde::Deserialize;
use serde_json::Value;

use super::checks::{ManifestFault, refuse};

/// The maximum length of a title, in bytes.
const MAX_TITLE_BYTES: usize = 256;

/// The maximum number of a skill's icons, and their maximum total size in bytes. A `data:` URI contains a whole
/// image.
const MAX_ICONS: usize = 8;
const MAX_ICON_BYTES: usize = 64 * 1024;

/// How a skill is displayed in lists of tools.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Presentation {
    /// The display name. May be empty.
    pub title: String,
    /// The icons, from which a client chooses.
    pub icons: Vec<Icon>,
}

/// An icon as the manifest contains it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawIcon {
    src: String,
    media_type: String,
    sizes: Vec<String>,
    theme: String,
}

impl Presentation {
    /// Creates the presentation of an MCP server's tool. Omits unusable parts, because the tool works without
    /// them.
    pub(crate) fn from_tool(title: &str, icons: Option<&Value>) -> Self {
        let title = Some(title.trim()).filter(|it| is_title(it)).unwrap_or_default().to_owned();
        let icons = icons.and_then(Value::as_array).into_iter().flatten().filter_map(parse_icon);
        let mut icons: Vec<_> = icons.filter(|it| fault(it).is_none()).take(MAX_ICONS).collect();
        while size(&icons) > MAX_ICON_BYTES {
            icons.pop();
        }
        Self { title, icons }
    }

    /// Returns the size in a worker's state, in bytes.
    pub(super) fn size(&self) -> usize {
        self.title.len() + size(&self.icons)
    }
}

/// Validates the title and icons in a manifest.
pub(super) fn resolve(title: String, icons: Vec<RawIcon>) -> Result<Presentation, ManifestFault> {
    if !title.is_empty() && !is_title(&title) {
        let reason =
            format!("must be at most {MAX_TITLE_BYTES} bytes on one line and must not contain control characters");
        return refuse("title", reason);
    }
    let wire = |it: RawIcon| Icon { src: it.src, media_type: it.media_type, sizes: it.sizes, theme: it.theme };
    let icons: Vec<_> = icons.into_iter().map(wire).collect();
    if let Some(reason) = icons.iter().find_map(fault) {
        return refuse("icons", reason);
    }
    if icons.len() > MAX_ICONS || size(&icons) > MAX_ICON_BYTES {
        return refuse("icons", format!("must have at most {MAX_ICONS} icons with {MAX_ICON_BYTES} bytes in total"));
    }
    Ok(Presentation { title, icons })
}

fn is_title(title: &str) -> bool {
    !title.is_empty() && title.len() <= MAX_TITLE_BYTES && !title.chars().any(char::is_control)
}

fn size(icons: &[Icon]) -> usize {
    icons.iter().map(|it| it.src.len() + it.media_type.len() + it.sizes.iter().map(String::len).sum::<usize>()).sum()
}

/// Returns why an icon can't be used, or `None` if it can. Clients load the content of `src`, so only two schemes
/// are allowed.
fn fault(icon: &Icon) -> Option<&'static str> {
    let is_ours = icon.src.starts_with("https://") || icon.src.starts_with("data:image/");
    if !is_ours || !icon.src.bytes().all(|it| it.is_ascii_graphic()) {
        return Some("src must be an https:// URL or a data:image/ URI");
    }
    let is_size = |text: &String| {
        let is_number = |it: &str| (1..=5).contains(&it.len()) && it.bytes().all(|it| it.is_ascii_digit());
        text == "any" || text.split_once('x').is_some_and(|(width, height)| is_number(width) && is_number(height))
    };
    if icon.sizes.len() > MAX_ICONS || !icon.sizes.iter().all(is_size) {
        return Some("sizes must be a list such as [48x48, any]");
    }
    let is_type = icon.media_type.starts_with("image/") && icon.media_type.bytes().all(|it| it.is_ascii_graphic());
    if !icon.media_type.is_empty() && !is_type {
        return Some("media_type must be the type of an image, such as image/png");
    }
    let is_theme = matches!(icon.theme.as_str(), "" | "light" | "dark");
    (!is_theme).then_some("theme must be light or dark")
}

/// Parses an icon in MCP's format.
fn parse_icon(icon: &Value) -> Option<Icon> {
    let text = |field: &str| icon.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let sizes = icon.get("sizes").and_then(Value::as_array).into_iter().flatten();
    let sizes = sizes.filter_map(Value::as_str).map(str::to_owned).collect();
    icon.is_object().then(|| Icon { src: text("src"), media_type: text("mimeType"), sizes, theme: text("theme") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn icon(json: Value) -> Result<Presentation, ManifestFault> {
        resolve(String::new(), vec![serde_json::from_value(json).unwrap()])
    }

    #[test]
    fn a_title_and_icons_are_kept_as_written() {
        let icons = vec![json!({"src": "https://example.com/a.png", "sizes": ["48x48", "any"], "theme": "dark"})];
        let icons: Vec<RawIcon> = icons.into_iter().map(|it| serde_json::from_value(it).unwrap()).collect();
        let shown = resolve("Echo".to_owned(), icons).unwrap();
        assert_eq!((shown.title.as_str(), shown.icons[0].theme.as_str()), ("Echo", "dark"));
        assert_eq!(shown.icons[0].sizes, ["48x48", "any"]);
    }

    #[test]
    fn what_a_client_should_not_load_is_refused() {
        for src in ["http://example.com/a.png", "javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", ""] {
            assert!(icon(json!({"src": src})).is_err(), "{src}");
        }
        let src = "https://example.com/a.png";
        assert!(icon(json!({"src": src, "sizes": ["big"]})).is_err());
        assert!(icon(json!({"src": src, "media_type": "text/html"})).is_err());
        assert!(icon(json!({"src": src, "theme": "blue"})).is_err());
        assert!(resolve("two\nlines".to_owned(), Vec::new()).is_err());
        assert!(resolve("x".repeat(257), Vec::new()).is_err());
    }

    #[test]
    fn of_a_server_only_what_is_usable_counts() {
        let icons = json!([{"src": "file:///a"}, 5, {"src": "https://example.com/a.png", "mimeType": "image/png"}]);
        let shown = Presentation::from_tool(" Add ", Some(&icons));
        assert_eq!((shown.title.as_str(), shown.icons.len()), ("Add", 1));
        assert_eq!(shown.icons[0].media_type, "image/png");
        let large = json!([{"src": format!("data:image/png;base64,{}", "A".repeat(70_000))}]);
        assert_eq!(Presentation::from_tool("two\nlines", Some(&large)), Presentation::default());
    }
}
