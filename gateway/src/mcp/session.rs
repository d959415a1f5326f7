//! Ids of sessions. An id holds everything that the gateway has to know of its session, sealed.

use openskill_proto::trace::{hex, random_id};
use openskill_proto::v1::InputKind;

use super::revision::Revision;
use super::seal::{Key, Purpose};

/// How long a session lasts, in seconds. A client whose session has ended begins a new one by itself.
pub(crate) const LIFETIME_S: u64 = 7 * 24 * 3600;

/// The form of the payload.
const FORM: u8 = 1;

/// What a client can do, as it said when the session began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// Asks its user by a form.
    pub(crate) elicitation: bool,
    /// Asks its user to open a URL.
    pub(crate) url: bool,
    pub(crate) sampling: bool,
    pub(crate) roots: bool,
}

impl Abilities {
    /// The kinds of questions that it answers.
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

/// A session, as its id says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) revision: Revision,
    pub(crate) abilities: Abilities,
    /// Seconds since 1970.
    begun_s: u64,
    nonce: [u8; 16],
    name: Name,
}

/// `mcp-` and the hexadecimal digits of a nonce. Written once a request, and read several times.
type Name = [u8; 36];

impl Session {
    pub(crate) fn begin(revision: Revision, abilities: Abilities, now_s: u64) -> Self {
        Self::of(revision, abilities, now_s, random_id())
    }

    fn of(revision: Revision, abilities: Abilities, begun_s: u64, nonce: [u8; 16]) -> Self {
        Self { revision, abilities, begun_s, nonce, name: name(&nonce) }
    }

    /// The id. Only `owner` can use it.
    pub(crate) fn id(&self, key: &Key, owner: &str) -> String {
        let Abilities { elicitation, url, sampling, roots } = self.abilities;
        let bits = [elicitation, sampling, roots, url].into_iter().enumerate();
        let abilities = bits.fold(0, |all, (place, can)| all | u8::from(can) << place);
        let mut payload = vec![FORM, place(self.revision), abilities];
        payload.extend(self.begun_s.to_be_bytes());
        payload.extend(self.nonce);
        key.seal(Purpose::Session, owner, &payload)
    }

    /// The session of an id. None if it is forged, somebody else's, or too old.
    pub(crate) fn read(id: &[u8], key: &Key, owner: &str, now_s: u64) -> Option<Self> {
        let payload = key.open(Purpose::Session, owner, id)?;
        let (&[FORM, place, abilities], rest) = payload.split_first_chunk::<3>()? else { return None };
        let (begun_s, nonce) = rest.split_first_chunk::<8>()?;
        let (begun_s, nonce) = (u64::from_be_bytes(*begun_s), nonce.try_into().ok()?);
        let has = |bit: u8| abilities & bit != 0;
        let abilities = Abilities { elicitation: has(1), sampling: has(2), roots: has(4), url: has(8) };
        let session = Self::of(*Revision::ALL.get(usize::from(place))?, abilities, begun_s, nonce);
        // A replica's clock may be a little ahead.
        (now_s.saturating_sub(begun_s) < LIFETIME_S).then_some(session)
    }

    /// Its name in this process, and to skills: nobody can use it as an id.
    pub(crate) fn name(&self) -> &str {
        // It is ASCII.
        std::str::from_utf8(&self.name).unwrap_or_default()
    }
}

fn name(nonce: &[u8; 16]) -> Name {
    let mut name = *b"mcp-00000000000000000000000000000000";
    name[4..].copy_from_slice(hex(nonce).as_bytes());
    name
}

fn place(revision: Revision) -> u8 {
    Revision::ALL.iter().position(|it| *it == revision).unwrap_or_default() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    #[test]
    fn an_id_says_everything_of_its_session_to_every_replica() {
        let (key, replica) = (Key::of(&[7; 32]), Key::of(&[7; 32]));
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
        let session = Session::of(Revision::V2025_06_18, Abilities::default(), NOW, nonce);
        assert_eq!(session.name(), "mcp-00112233445566778899aabbccddeeff");
    }
}
