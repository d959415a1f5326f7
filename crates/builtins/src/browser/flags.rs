//! Chromium's command line. It keeps the browser sandboxed and prevents requests to other services.

use super::host_process::{HOME, RELAY_PORT};

/// The size of a page, in CSS pixels.
pub(super) const PAGE: (u32, u32) = (1280, 800);

/// The flags for every browser. Chromium's own sandbox stays on: no flag may disable it or the same-origin policy.
const PLAIN: &[&str] = &[
    "--headless=new",
    "--lang=en-US",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--mute-audio",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    // Don't use the user's keyring or wallet.
    "--password-store=basic",
    "--use-mock-keychain",
    // Keep background pages running, because callers return to them.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-hang-monitor",
    "--disable-prompt-on-repost",
    // Disable background activity.
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-client-side-phishing-detection",
    "--disable-component-extensions-with-background-pages",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-field-trial-config",
    "--disable-search-engine-choice-screen",
    "--disable-sync",
    // No setting disables the remaining few requests, so they fail before connecting: browsers reject port 1, and
    // an address without a host can't be reached. The updater always sends a request at startup.
    "--gaia-url=http://0.0.0.0:1",
    "--google-apis-url=http://0.0.0.0:1",
    "--component-updater=url-source=about:blank,initial-delay=31536000",
    "--extensions-update-frequency=2147483",
    "--metrics-recording-only",
    "--no-pings",
    "--no-service-autorun",
    "--propagate-iph-for-testing",
    // Send everything through the relay, even requests to local addresses. The browser resolves no names itself.
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy",
];

/// Features that contact other services, prompt the user, or give pages unwanted access.
const DISABLED: &[&str] = &[
    "AcceptCHFrame",
    "AutofillServerCommunication",
    "BackForwardCache",
    "CertificateTransparencyComponentUpdater",
    "DialMediaRouteProvider",
    "DestroyProfileOnBrowserClose",
    "GlobalMediaControls",
    "InterestFeedContentSuggestions",
    "MediaRouter",
    "OptimizationGuideModelDownloading",
    "OptimizationHints",
    "OptimizationHintsFetching",
    "PaintHolding",
    "PrivacySandboxSettings4",
    "SegmentationPlatform",
    "Translate",
];

/// Returns the complete list of arguments.
pub(super) fn arguments() -> Vec<String> {
    let (width, height) = PAGE;
    let mut all: Vec<String> = PLAIN.iter().map(|it| (*it).to_owned()).collect();
    all.extend([
        format!("--user-data-dir={HOME}/profile"),
        format!("--disk-cache-size={}", 32 << 20),
        format!("--window-size={width},{}", height + 150),
        format!("--proxy-server=socks5://127.0.0.1:{RELAY_PORT}"),
        format!("--disable-features={}", DISABLED.join(",")),
        "about:blank".to_owned(),
    ]);
    all
}

#[cfg(test)]
mod tests {
    use super::arguments;

    #[test]
    fn the_browsers_own_walls_stay() {
        for argument in arguments() {
            for wall in ["no-sandbox", "disable-web-security", "disable-site-isolation", "single-process", "no-zygote"]
            {
                assert!(!argument.contains(wall), "{argument}");
            }
        }
    }
}
