//! Matches paths with path templates.

/// Whether a path matches a template. `{name}` matches the rest of a segment, and `{*name}` the rest of the path.
/// Neither may be empty. A verb may follow, whose colon may be percent-encoded.
pub(super) fn fits(template: &str, path: &str) -> bool {
    let Some((before, parameter)) = template.split_once('{') else { return template == path };
    let Some(rest) = path.strip_prefix(before) else { return false };
    let (name, after) = parameter.split_once('}').unwrap_or((parameter, ""));
    let is_one_segment = !name.starts_with('*');
    let value = match after.strip_prefix(':') {
        Some(verb) => rest.strip_suffix(verb).and_then(without_colon),
        None => {
            let end = if is_one_segment { rest.find('/').unwrap_or(rest.len()) } else { rest.len() };
            let (value, rest) = rest.split_at(end);
            fits(after, rest).then_some(value)
        }
    };
    value.is_some_and(|it| !it.is_empty() && (!is_one_segment || !it.contains('/')))
}

fn without_colon(value: &str) -> Option<&str> {
    [":", "%3A", "%3a"].iter().find_map(|colon| value.strip_suffix(colon))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_fits_paths_with_something_in_each_parameter() {
        for (template, path, expected) in [
            ("/skills", "/skills", true),
            ("/skills", "/skills/", false),
            ("/skills/{id}", "/skills/echo", true),
            ("/skills/{id}", "/skills/", false),
            ("/skills/{id}", "/skills/a/b", false),
            ("/skills/{id}:invoke", "/skills/echo:invoke", true),
            ("/skills/{id}:invoke", "/skills/echo%3ainvoke", true),
            ("/skills/{id}:invoke", "/skills/:invoke", false),
            ("/skills/{id}:invoke", "/skills/a/b:invoke", false),
            ("/skills/{id}:invoke", "/skills/invoke", false),
            ("/agent/conversations/{id}/events", "/agent/conversations/c/events", true),
            ("/agent/conversations/{id}/events", "/agent/conversations/c/d/events", false),
            ("/operations/{id}/artifacts/{number}", "/operations/o/artifacts/0", true),
            ("/operations/{id}/artifacts/{number}", "/operations/o/artifacts/", false),
            ("/agent/conversations/{id}", "/agent/conversations/c/events", false),
            ("/artifacts/{*handle}", "/artifacts/a/b", true),
            ("/artifacts/{*handle}", "/artifacts/", false),
        ] {
            assert_eq!(fits(template, path), expected, "{template} {path}");
        }
    }
}
