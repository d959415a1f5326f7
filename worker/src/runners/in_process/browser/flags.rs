//! How Chromium is started: what keeps it within its walls, and what keeps it silent.

use super::host_process::{HOME, RELAY_PORT};

/// The size of a page, in CSS pixels.
pub(super) const PAGE: (u32, u32) = (1280, 800);

/// Its own sandbox is on: nothing here may turn it off, or the same-origin policy.
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
    // Nothing listens for a user's keys or wallet, and no other program is asked for them.
    "--password-store=basic",
    "--use-mock-keychain",
    // Pages in the background go on, as their callers come back to them.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-hang-monitor",
    "--disable-prompt-on-repost",
    // What it would do by itself.
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
    // The few calls that no setting turns off end before they connect: browsers refuse port 1, and an address without a host
    // is none to connect to. The updater asks at its start, whatever is turned off.
    "--gaia-url=http://0.0.0.0:1",
    "--google-apis-url=http://0.0.0.0:1",
    "--component-updater=url-source=about:blank,initial-delay=31536000",
    "--extensions-update-frequency=2147483",
    "--metrics-recording-only",
    "--no-pings",
    "--no-service-autorun",
    "--propagate-iph-for-testing",
    // Only the relay leads out: no name is resolved here, and nothing goes past it, not even what is local.
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy",
];

/// Features that call home, ask the user, or open what no page is to open.
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

/// All arguments.
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
