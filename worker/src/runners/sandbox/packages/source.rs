//! The source of session packages: only the index and folder that the operator configures.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use openskill_sandbox::jail::Network;
use url::Url;

use crate::config::{Index, PythonPackages, Variables};

/// The worker's variables that configure network access.
const OF_NETWORK: [&str; 8] =
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"];

/// The worker's variables that contain paths of certificate authorities.
const OF_CERTIFICATES: [&str; 3] = ["PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"];

/// The port that is always allowed, because an index may refer to files on other hosts over HTTPS.
const HTTPS: u16 = 443;

/// An index, a folder or page of wheels, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PackageSource {
    index: Option<String>,
    folder: Option<PathBuf>,
    page: Option<String>,
    /// The variables that configure network access.
    pub(super) variables: Variables,
}

impl PackageSource {
    /// Reads the source from the settings.
    ///
    /// # Errors
    /// If no source is configured, returns what to do, for people.
    pub(super) fn from_settings(settings: &PythonPackages) -> Result<Self, String> {
        let index = match &settings.index {
            Index::Url(url) => Some(url.clone()),
            Index::Configured | Index::None => None,
        };
        let page = settings.wheel_page().map(str::to_owned);
        let folder = settings.wheel_folder().map(Path::to_owned);
        if index.is_none() && page.is_none() && folder.is_none() {
            return Err(
                "this worker has no source of packages for sessions: set OPENSKILL_PYTHON_INDEX_URL to the URL of an \
                        index, or OPENSKILL_PYTHON_FIND_LINKS to a directory of wheels"
                    .to_owned(),
            );
        }
        Ok(Self { index, folder, page, variables: settings.variables.clone() })
    }

    /// Returns a text that identifies the source. It changes when a wheel is added to or removed from the folder.
    pub(super) fn text(&self) -> String {
        let changed = |it: &PathBuf| std::fs::metadata(it).map_or((0, 0), |it| (it.mtime(), it.mtime_nsec()));
        format!("{:?} {:?} {:?} {:?}", self.index, self.page, self.folder, self.folder.as_ref().map(changed))
    }

    /// Returns the arguments with which pip uses only this source.
    pub(super) fn args(&self) -> Vec<String> {
        let mut args = Vec::new();
        if self.index.is_none() {
            args.push("--no-index".to_owned());
        }
        if let Some(folder) = &self.folder {
            args.extend(["--find-links".to_owned(), folder.to_string_lossy().into_owned()]);
        }
        args
    }

    /// Returns pip's variables. URLs are variables, because a command line would reveal a password in a URL.
    /// `worker`: looks up one of the worker's variables.
    pub(super) fn env(&self, worker: impl Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
        let mut env = BTreeMap::from([("PIP_CONFIG_FILE".to_owned(), "/dev/null".to_owned())]);
        let urls = [("PIP_INDEX_URL", &self.index), ("PIP_FIND_LINKS", &self.page)];
        env.extend(urls.into_iter().filter_map(|(name, url)| Some((name.to_owned(), url.clone()?))));
        if self.uses_network() {
            let passed = OF_NETWORK.iter().chain(&OF_CERTIFICATES);
            env.extend(passed.filter_map(|name| Some(((*name).to_owned(), worker(name)?))));
        }
        env
    }

    /// Returns the files and folders that pip reads.
    pub(super) fn readable(&self, worker: impl Fn(&str) -> Option<String>) -> Vec<PathBuf> {
        let certificates = OF_CERTIFICATES.iter().filter_map(|name| worker(name)).map(PathBuf::from);
        let certificates = certificates.filter(|it| it.is_absolute() && self.uses_network());
        certificates.chain(self.folder.clone()).collect()
    }

    /// Returns the network access that pip needs: the ports of the index and the proxies, or none if all packages
    /// are in a folder.
    pub(super) fn network(&self, worker: impl Fn(&str) -> Option<String>) -> Network {
        if !self.uses_network() {
            return Network::None;
        }
        let names = OF_NETWORK.iter().filter(|name| !name.eq_ignore_ascii_case("no_proxy"));
        let proxies = names.filter_map(|name| worker(name));
        // pip also interprets `proxy:3128` as an HTTP proxy.
        let proxies = proxies.map(|it| if it.contains("://") { it } else { format!("http://{it}") });
        let urls = self.index.iter().chain(&self.page).cloned().chain(proxies);
        let port = |url: String| Url::parse(&url).ok()?.port_or_known_default();
        let mut ports: Vec<u16> = urls.filter_map(port).chain([HTTPS]).collect();
        ports.sort_unstable();
        ports.dedup();
        Network::Connect(ports)
    }

    /// Returns the URLs of the index and the page. Their paths may contain a token.
    pub(super) fn urls(&self) -> impl Iterator<Item = &str> {
        self.index.iter().chain(&self.page).map(|it| it.trim_end_matches('/'))
    }

    /// Returns the folder of wheels, if one is configured.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    fn uses_network(&self) -> bool {
        self.index.is_some() || self.page.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(index: Option<&str>, folder: Option<&str>) -> PackageSource {
        PackageSource {
            index: index.map(str::to_owned),
            folder: folder.map(PathBuf::from),
            page: None,
            variables: Variables::default(),
        }
    }

    #[test]
    fn a_folder_needs_no_network_and_an_index_only_its_ports() {
        let none = |_: &str| None;
        let folder = source(None, Some("/srv/wheels"));
        assert_eq!(folder.network(none), Network::None);
        assert_eq!(folder.args(), ["--no-index", "--find-links", "/srv/wheels"]);
        assert_eq!(folder.readable(none), [PathBuf::from("/srv/wheels")]);
        let index = source(Some("https://ann:pw@own:8443/simple"), None);
        assert_eq!(index.network(none), Network::Connect(vec![443, 8443]));
        let proxy = |name: &str| (name == "HTTPS_PROXY").then(|| "http://proxy:3128".to_owned());
        assert_eq!(index.network(proxy), Network::Connect(vec![443, 3128, 8443]));
    }

    #[test]
    fn a_proxy_may_be_named_without_a_scheme() {
        let index = source(Some("https://own:8443/simple"), None);
        for proxy in ["proxy:3128", "10.0.0.1:3128", "ann:pw@proxy:3128/", "[::1]:3128"] {
            let ports = index.network(|name| (name == "https_proxy").then(|| proxy.to_owned()));
            assert_eq!(ports, Network::Connect(vec![443, 3128, 8443]), "{proxy}");
        }
        let hosts_without = index.network(|name| (name == "NO_PROXY").then(|| "localhost,own".to_owned()));
        assert_eq!(hosts_without, Network::Connect(vec![443, 8443]));
    }

    #[test]
    fn a_password_is_in_no_argument_and_a_secret_of_the_worker_nowhere() {
        let index = source(Some("https://ann:pw@own/simple"), None);
        assert!(!index.args().concat().contains("pw"));
        let worker = |name: &str| Some(format!("value of {name}"));
        let env = index.env(worker);
        assert_eq!(env["PIP_INDEX_URL"], "https://ann:pw@own/simple");
        assert!(env.contains_key("HTTPS_PROXY") && env.contains_key("PIP_CERT"));
        assert!(!env.contains_key("PIP_EXTRA_INDEX_URL") && !env.contains_key("HOME"));
        assert!(!source(None, Some("/x")).env(worker).contains_key("HTTPS_PROXY"));
    }
}
