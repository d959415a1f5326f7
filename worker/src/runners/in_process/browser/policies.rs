//! The policies of an organization, as Chromium reads them from files: what flags can't say, or pages could get around.

use std::path::PathBuf;

use serde_json::json;

/// Where Chromium and Chrome look for them.
const FILES: [&str; 2] =
    ["/etc/chromium/policies/managed/openskill.json", "/etc/opt/chrome/policies/managed/openskill.json"];

/// The files, and what they hold.
pub(super) fn policies() -> Vec<(PathBuf, String)> {
    let policies = json!({
        // No addresses but those of the web. The browser's own pages show and do more than a page may.
        "URLBlocklist": [
            "file://*", "chrome://*", "chrome-untrusted://*", "devtools://*", "view-source:*", "ftp://*",
            "chrome-extension://*",
        ],
        "WebRtcIPHandling": "disable_non_proxied_udp",
        "AllowFileSelectionDialogs": false,
        // Its viewer is an extension, and draws nothing that a script can read.
        "AlwaysOpenPdfExternally": true,
        "ExtensionInstallBlocklist": ["*"],
        "PasswordManagerEnabled": false,
        "AutofillAddressEnabled": false,
        "AutofillCreditCardEnabled": false,
        // Nothing is asked that nobody is there to answer: 2 is no.
        "DefaultGeolocationSetting": 2,
        "DefaultNotificationsSetting": 2,
        "DefaultWebBluetoothGuardSetting": 2,
        "DefaultWebUsbGuardSetting": 2,
        "DefaultSerialGuardSetting": 2,
        "DefaultWebHidGuardSetting": 2,
        "AudioCaptureAllowed": false,
        "VideoCaptureAllowed": false,
        // Nothing of its own accord.
        "BackgroundModeEnabled": false,
        "BrowserNetworkTimeQueriesEnabled": false,
        "BrowserSignin": 0,
        "ComponentUpdatesEnabled": false,
        "DefaultBrowserSettingEnabled": false,
        "DnsOverHttpsMode": "off",
        "DomainReliabilityAllowed": false,
        "GenAiDefaultSettings": 2,
        "MetricsReportingEnabled": false,
        "NetworkPredictionOptions": 2,
        "PromotionsEnabled": false,
        "SafeBrowsingProtectionLevel": 0,
        "SearchSuggestEnabled": false,
        "SpellCheckServiceEnabled": false,
        "SyncDisabled": true,
        "TranslateEnabled": false,
        "UrlKeyedAnonymizedDataCollectionEnabled": false,
    });
    FILES.iter().map(|it| (PathBuf::from(it), policies.to_string())).collect()
}
