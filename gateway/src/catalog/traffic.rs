//! Traffic rules: how the calls of a skill are divided among its versions, as an operator set it.
//!
//! The rules of a gateway are in one small file, which is read at the start, and read and written when an operator changes
//! a rule. Several gateways of one user may share it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use openskill_identity::file::{lock_folder, replace};
use openskill_skill::versions::{MAX_VERSIONS, compare};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::entry::{Entry, Share, find_served};

/// The format of the file. Increment it when older builds would misread the file.
const FORMAT: u64 = 1;

/// The maximum number of rules, and the maximum size of their file, in bytes.
const MAX_RULES: usize = 1000;
const MAX_FILE_BYTES: u64 = 4 << 20;

/// The share of one version in a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VersionShare {
    /// The version, or its first components.
    pub(crate) version: String,
    pub(crate) percent: u32,
}

/// The rules of a gateway, by skill id.
pub(crate) type RulesById = BTreeMap<String, Vec<VersionShare>>;

#[derive(Serialize, Deserialize)]
struct RulesFile {
    format: u64,
    skills: RulesById,
}

/// The rules of a gateway, and their file.
#[derive(Debug, Default)]
pub(crate) struct TrafficRules {
    /// If None, the rules end with the process.
    file: Option<PathBuf>,
    current: ArcSwap<RulesById>,
    /// Locked during a change.
    changing: Mutex<()>,
}

impl TrafficRules {
    /// Reads the rules.
    ///
    /// # Errors
    /// The file exists but is not readable, or another build wrote it in a format that this one does not know.
    pub(crate) fn load(file: Option<&Path>) -> io::Result<Self> {
        let rules = file.map(read).transpose().map_err(|error| {
            let path = file.unwrap_or(Path::new("")).display();
            let way_out = "start the build that wrote it, or move the file away and set the traffic rules again";
            io::Error::new(error.kind(), format!("the traffic rules in {path} can't be used: {error}. {way_out}"))
        })?;
        let current = ArcSwap::from_pointee(rules.unwrap_or_default());
        Ok(Self { file: file.map(Path::to_owned), current, changing: Mutex::default() })
    }

    pub(crate) fn current(&self) -> Arc<RulesById> {
        self.current.load_full()
    }

    /// Whether the rules survive the end of the process.
    pub(crate) fn are_stored(&self) -> bool {
        self.file.is_some()
    }

    /// Sets the rule of a skill, or removes it if there are no shares. Blocks on the disk.
    ///
    /// # Errors
    /// There are too many rules ([`io::ErrorKind::QuotaExceeded`]), or the file can't be used. The rules are then as
    /// before.
    pub(crate) fn set(&self, skill_id: &str, shares: Vec<VersionShare>) -> io::Result<()> {
        let _guard = self.changing.lock();
        let folder = self.file.as_deref().map(lock).transpose()?;
        // Another gateway may have changed the file.
        let stored = self.file.as_deref().map(read).transpose()?;
        let mut rules = stored.unwrap_or_else(|| (*self.current()).clone());
        if shares.is_empty() {
            rules.remove(skill_id);
        } else {
            rules.insert(skill_id.to_owned(), shares);
        }
        if rules.len() > MAX_RULES {
            return Err(too_large(format!("a gateway has at most {MAX_RULES} traffic rules")));
        }
        if let (Some(file), Some(folder)) = (&self.file, &folder) {
            write(file, folder, &rules)?;
        }
        self.current.store(Arc::new(rules));
        Ok(())
    }
}

fn read(file: &Path) -> io::Result<RulesById> {
    let mut text = String::new();
    match fs::File::open(file) {
        Ok(opened) => opened.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(RulesById::new()),
        Err(error) => return Err(error),
    };
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(too_large(format!("it has more than {MAX_FILE_BYTES} bytes")));
    }
    // A later format may have other fields.
    let format = serde_json::from_str::<serde_json::Value>(&text)?["format"].as_u64();
    if format != Some(FORMAT) {
        let found = format.map_or_else(|| "none".to_owned(), |it| it.to_string());
        return Err(io::Error::other(format!("its format is {found}, and this build knows {FORMAT}")));
    }
    let rules = serde_json::from_str::<RulesFile>(&text)?.skills;
    if rules.len() > MAX_RULES {
        return Err(too_large(format!("it has more than {MAX_RULES} rules")));
    }
    for (id, rule) in &rules {
        check_sum(rule).map_err(|reason| io::Error::other(format!("{id}: {reason}")))?;
    }
    Ok(rules)
}

/// Locks the folder of the file, which need not exist, against other gateways of this user.
fn lock(file: &Path) -> io::Result<fs::File> {
    if let Some(folder) = file.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    lock_folder(file)
}

/// Replaces the file, so that a crash leaves either the old rules or the new ones.
fn write(file: &Path, folder: &fs::File, rules: &RulesById) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(&RulesFile { format: FORMAT, skills: rules.clone() })?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(too_large(format!("the file of the traffic rules would have more than {MAX_FILE_BYTES} bytes")));
    }
    replace(file, &text, 0o600, |_| Ok(()))?;
    folder.sync_all()
}

fn too_large(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::QuotaExceeded, message)
}

/// Checks that a rule divides all calls.
fn check_sum(shares: &[VersionShare]) -> Result<(), String> {
    let (count, total) = (shares.len(), shares.iter().map(|it| u64::from(it.percent)).sum::<u64>());
    if count > MAX_VERSIONS || total != 100 {
        return Err(format!(
            "a rule divides 100 percent among at most {MAX_VERSIONS} versions: this one has {count} that add up to {total}"
        ));
    }
    Ok(())
}

/// Checks a new rule against the versions that workers serve.
///
/// # Errors
/// The rule is malformed, or names a version that no worker serves.
pub(crate) fn check(shares: &[VersionShare], listed: &Arc<Entry>) -> Result<(), RuleFault> {
    check_sum(shares).map_err(RuleFault::Malformed)?;
    let unserved = shares.iter().find(|it| it.version.is_empty() || listed.version(&it.version).is_none());
    match unserved {
        Some(share) => Err(RuleFault::NotServed(share.version.clone())),
        None => Ok(()),
    }
}

/// Why a rule is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RuleFault {
    Malformed(String),
    /// No worker serves this version.
    NotServed(String),
}

/// Returns the rule that rolls a skill back: all calls go to the newest version that can run and is older than the
/// newest one that gets calls now. None if there is no such version.
pub(crate) fn roll_back(listed: &Entry) -> Option<Vec<VersionShare>> {
    let calls = listed.shares().iter().map(|it| it.entry.skill.version.as_str());
    let newest = calls.max_by(|one, other| compare(one, other)).unwrap_or(&listed.skill.version);
    let is_older = |it: &&Arc<Entry>| !it.candidates.is_empty() && compare(&it.skill.version, newest).is_lt();
    // They are sorted, the newest first.
    let older = listed.versions().iter().find(is_older)?;
    Some(vec![VersionShare { version: older.skill.version.clone(), percent: 100 }])
}

/// Returns the shares of a rule whose versions can run.
pub(super) fn resolve(rule: &[VersionShare], versions: &[Arc<Entry>]) -> Vec<Share> {
    let share = |it: &VersionShare| {
        let entry =
            find_served(&it.version, versions).filter(|entry| it.percent > 0 && !entry.candidates.is_empty())?;
        Some(Share { entry: Arc::clone(entry), percent: it.percent })
    };
    rule.iter().filter_map(share).collect()
}

/// Picks the version of a call. `point` is between 0 and 1: calls with the same point get the same version until the
/// shares change. None if there are no shares.
pub(super) fn pick(shares: &[Share], point: f64) -> Option<&Arc<Entry>> {
    let total: u32 = shares.iter().map(|it| it.percent).sum();
    let mut left = point * f64::from(total);
    let chosen = shares.iter().find(|it| {
        left -= f64::from(it.percent);
        left < 0.0
    });
    chosen.or(shares.last()).map(|it| &it.entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_survive_a_restart_and_those_of_a_later_format_are_refused_with_a_way_out() {
        let folder = std::env::temp_dir().join(format!("openskill-traffic-{}", std::process::id()));
        let file = folder.join("state").join("traffic.json");
        let rules = TrafficRules::load(Some(&file)).unwrap();
        let share = |version: &str| vec![VersionShare { version: version.to_owned(), percent: 100 }];
        rules.set("shout", share("1.2")).unwrap();
        rules.set("other", share("2.0")).unwrap();
        rules.set("other", Vec::new()).unwrap();
        let again = TrafficRules::load(Some(&file)).unwrap();
        assert_eq!(*again.current(), RulesById::from([("shout".to_owned(), share("1.2"))]));
        // Two gateways that share the file do not lose each other's rules.
        again.set("other", share("2.0")).unwrap();
        rules.set("third", share("3.0")).unwrap();
        assert_eq!(rules.current().len(), 3);
        let sum = r#"{"format": 1, "skills": {"shout": [{"version": "1", "percent": 4294967295}]}}"#;
        let long = " ".repeat(MAX_FILE_BYTES as usize + 1);
        for (text, reason) in [
            (r#"{"format": 2, "weights": []}"#, "its format is 2"),
            (sum, "shout: a rule divides 100 percent"),
            (&long, "more than 4194304 bytes"),
        ] {
            fs::write(&file, text).unwrap();
            let refusal = TrafficRules::load(Some(&file)).unwrap_err().to_string();
            assert!(refusal.contains(reason) && refusal.contains("move the file away"), "{refusal}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn there_are_at_most_a_thousand_rules() {
        let share = || vec![VersionShare { version: "1".to_owned(), percent: 100 }];
        let full: RulesById = (0..MAX_RULES).map(|id| (id.to_string(), share())).collect();
        let rules = TrafficRules { current: ArcSwap::from_pointee(full), ..TrafficRules::default() };
        let set = |id: usize| rules.set(&id.to_string(), share());
        assert_eq!(set(MAX_RULES).unwrap_err().kind(), io::ErrorKind::QuotaExceeded);
        assert!(set(0).is_ok());
    }
}
