//! Parses the artifacts in a normalized result: `[{"name": "...", "media_type": "...", "data": "<base64>"}]`.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use openskill_proto::v1::Artifact;
use openskill_proto::v1::artifact::Content;
use openskill_sandbox::untrusted_json::parse;
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct ListedArtifact<'a> {
    #[serde(default)]
    name: String,
    #[serde(default)]
    media_type: String,
    #[serde(borrow)]
    data: Cow<'a, str>,
}

/// Returns the artifacts with the skill's labels, and a warning if some can't be parsed.
pub(super) fn read(listed: &RawValue) -> (Vec<Artifact>, Option<String>) {
    let Ok(entries) = parse::<Vec<&RawValue>>(listed.get().as_bytes()) else {
        return (Vec::new(), Some("the result's artifacts were dropped: they are not a list, or too many".to_owned()));
    };
    let artifacts: Vec<_> = entries.iter().filter_map(|it| artifact(it)).collect();
    let malformed = entries.len() - artifacts.len();
    let warning = || format!("{malformed} artifacts of the result were dropped: each needs `data` in base64");
    (artifacts, (malformed > 0).then(warning))
}

fn artifact(entry: &RawValue) -> Option<Artifact> {
    let ListedArtifact { name, media_type, data } = serde_json::from_str(entry.get()).ok()?;
    let content = STANDARD.decode(data.as_bytes()).ok()?;
    Some(Artifact { name, media_type, content: Some(Content::Data(content.into())), ..Artifact::default() })
}
