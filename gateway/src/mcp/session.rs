//! The capabilities that a client declares, and session ids. An id contains everything that the gateway must know
//! about its session, sealed.

use std::collections::HashMap;

use openskill_proto::trace::{hex, random_id};
use openskill_proto::v1::InputKind;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::revision::Revision;
use super::seal::{Key, Purpose};

/// The extension for calls that become tasks.
pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";

/// The capabilities of a client, as far as the gateway uses them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, expecting = "an object")]
pub(crate) struct Capabilities {
    elicitation: Option<Elicitation>,
    sampling: Option<IgnoredAny>,
    roots: Option<IgnoredAny>,
    extensions: HashMap<String, IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, expecting = "an object")]
struct Elicitation {
    form: Option<IgnoredAny>,
    url: Option<IgnoredAny>,
}

impl Capabilities {
    /// Returns the kinds of questions that skills may ask the client.
    pub(crate) fn abilities(&self) -> Abilities {
        let elicitation = self.elicitation.as_ref();
        Abilities {
            // An empty `elicitation` means forms, because the first revision supported nothing else.
            elicitation: elicitation.is_some_and(|it| it.form.is_some() || it.url.is_none()),
            url: elicitation.is_some_and(|it| it.url.is_some()),
            sampling: self.sampling.is_some(),
            roots: self.roots.is_some(),
        }
    }

    /// Whether it accepts a task in place of a result.
    pub(crate) fn takes_tasks(&self) -> bool {
        self.extensions.contains_key(TASKS)
    }
}

/// The lifetime of a session, in seconds. Clients start a new session when it ends.
pub(crate) const LIFETIME_S: u64 = 7 * 24 * 3600;

/// The version of the payload format.
const FORM: u8 = 1;

/// What the client declared when the session began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// Whether it can show its user a form.
    pub(crate) elicitation: bool,
    /// Whether it can ask its user to open a URL.
    pub(crate) url: bool,
    pub(crate) sampling: bool,
    pub(crate) roots: bool,
}

impl Abilities {
    /// Returns the kinds of questions that it answers.
    pub(crate) fn kinds(self) -> Vec<InputKind> {
        let all = [
            (self.elicitation, InputKind::Form),
            (self.url, InputKind::Url),
            (self.sampling, InputKind::Sampling),
            (self.roots, InputKind::Roots),
        ];
        all.into_iter().filter_map(|(can, kind)| can.then_some(kind)).collect()
    }
}

/// A session, as encoded in its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) revision: Revision,
    pub(crate) abilities: Abilities,
    /// Seconds since 1970.
    begun_s: u64,
    nonce: [u8; 16],
    /// `mcp-` and the hexadecimal digits of the nonce. Formatted once per request, because it is read several times.
    name: [u8; 36],
}

impl Session {
    pub(crate) fn begin(revision: Revision, abilities: Abilities, now_s: u64) -> Self {
        Self::from_parts(revision, abilities, now_s, random_id())
    }

    fn from_parts(revision: Revision, abilities: Abilities, begun_s: u64, nonce: [u8; 16]) -> Self {
        let mut name = *b"mcp-00000000000000000000000000000000";
        name[4..].copy_from_slice(hex(&nonce).as_bytes());
        Self { revision, abilities, begun_s, nonce, name }
    }

    /// Returns the id. It works only for the same `owner`.
    pub(crate) fn id(&self, key: &Key, owner: &str) -> String {
        let Abilities { elicitation, url, sampling, roots } = self.abilities;
        let bits = [elicitation, sampling, roots, url].into_iter().enumerate();
        let abilities = bits.fold(0, |all, (place, can)| all | u8::from(can) << place);
        let revision = Revision::ALL.iter().position(|it| *it == self.revision).unwrap_or_default() as u8;
        let mut payload = vec![FORM, revision, abilities];
        payload.extend(self.begun_s.to_be_bytes());
        payload.extend(self.nonce);
        key.seal(Purpose::Session, owner, &payload)
    }

    /// Opens an id. None if it is forged, belongs to another owner, or has expired.
    pub(crate) fn read(id: &[u8], key: &Key, owner: &str, now_s: u64) -> Option<Self> {
        let payload = key.open(Purpose::Session, owner, id)?;
        let (&[FORM, place, abilities], rest) = payload.split_first_chunk::<3>()? else { return None };
        let (begun_s, nonce) = rest.split_first_chunk::<8>()?;
        let (begun_s, nonce) = (u64::from_be_bytes(*begun_s), nonce.try_into().ok()?);
        let has = |bit: u8| abilities & bit != 0;
        let abilities = Abilities { elicitation: has(1), sampling: has(2), roots: has(4), url: has(8) };
        let session = Self::from_parts(*Revision::ALL.get(usize::from(place))?, abilities, begun_s, nonce);
        // Saturating, because another replica's clock may be slightly ahead.
        (now_s.saturating_sub(begun_s) < LIFETIME_S).then_some(session)
    }

    /// The session's name within this process and for skills. It can't be used as an id.
    pub(crate) fn name(&self) -> &str {
        // The name is ASCII.
        std::str::from_utf8(&self.name).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elicitation_means_forms_unless_it_says_otherwise() {
        let abilities = |text: &str| serde_json::from_str::<Capabilities>(text).unwrap().abilities();
        for (text, form, url) in [
            ("{}", false, false),
            (r#"{"elicitation": {}}"#, true, false),
            (r#"{"elicitation": {"form": {}}}"#, true, false),
            (r#"{"elicitation": {"url": {}}}"#, false, true),
            (r#"{"elicitation": {"form": {}, "url": {}}}"#, true, true),
        ] {
            let Abilities { elicitation, url: opens, .. } = abilities(text);
            assert_eq!((elicitation, opens), (form, url), "{text}");
        }
        let all = abilities(r#"{"sampling": {"tools": {}}, "roots": {"listChanged": true}, "unknown": 5}"#);
        assert!(all.sampling && all.roots && !all.elicitation);
    }

    #[test]
    fn tasks_are_an_extension() {
        let takes = |text: &str| serde_json::from_str::<Capabilities>(text).unwrap().takes_tasks();
        assert!(takes(r#"{"extensions": {"io.modelcontextprotocol/tasks": {}}}"#));
        assert!(!takes(r#"{"extensions": {"example.com/x": {}}, "tasks": {}}"#));
    }

    const NOW: u64 = 1_800_000_000;

    #[test]
    fn an_id_says_everything_of_its_session_to_every_replica() {
        let (key, replica) = (Key::from_secret(&[7; 32]), Key::from_secret(&[7; 32]));
        for revision in Revision::ALL {
            let abilities = Abilities { elicitation: true, url: true, sampling: false, roots: true };
            let session = Session::begin(revision, abilities, NOW);
            let id = session.id(&key, "alice");
            assert!(id.bytes().all(|it| it.is_ascii_graphic()) && id.len() < 80, "{id}");
            assert_eq!(Session::read(id.as_bytes(), &replica, "alice", NOW + 5), Some(session));
        }
    }

    #[test]
    fn an_id_of_somebody_else_or_too_old_is_none() {
        let key = Key::random();
        let id = Session::begin(Revision::V2025_11_25, Abilities::default(), NOW).id(&key, "alice");
        let read = |owner, now| Session::read(id.as_bytes(), &key, owner, now);
        assert!(read("alice", NOW + LIFETIME_S - 1).is_some() && read("alice", NOW - 60).is_some());
        assert_eq!(read("alice", NOW + LIFETIME_S), None);
        assert_eq!(read("bob", NOW), None);
        assert_eq!(Session::read(id.as_bytes(), &Key::random(), "alice", NOW), None);
        let of_another_form = key.seal(Purpose::Session, "alice", &[9; 27]);
        assert_eq!(Session::read(of_another_form.as_bytes(), &key, "alice", NOW), None);
    }

    #[test]
    fn two_sessions_have_two_names() {
        let session = || Session::begin(Revision::V2025_06_18, Abilities::default(), NOW);
        assert_ne!(session().name(), session().name());
        let nonce = std::array::from_fn(|at| (at * 17) as u8);
        let session = Session::from_parts(Revision::V2025_06_18, Abilities::default(), NOW, nonce);
        assert_eq!(session.name(), "mcp-00112233445566778899aabbccddeeff");
    }
}
