//! Enterprise policies, which Chromium reads from files. They cover settings that have no flag, and settings
//! that pages could circumvent if they were set by a flag.

use std::path::PathBuf;

use serde_json::json;

/// Where Chromium and Chrome look for policy files.
const FILES: [&str; 2] =
    ["/etc/chromium/policies/managed/openskill.json", "/etc/opt/chrome/policies/managed/openskill.json"];

/// Returns the policy files with their content.
pub(super) fn policies() -> Vec<(PathBuf, String)> {
    let policies = json!({
        // Allow only web addresses. The browser's internal pages show and do more than a page may.
        "URLBlocklist": [
            "file://*", "chrome://*", "chrome-untrusted://*", "devtools://*", "view-source:*", "ftp://*",
            "chrome-extension://*",
        ],
        "WebRtcIPHandling": "disable_non_proxied_udp",
        "AllowFileSelectionDialogs": false,
        // The PDF viewer is an extension whose output scripts can't read, so download PDF files instead.
        "AlwaysOpenPdfExternally": true,
        "ExtensionInstallBlocklist": ["*"],
        "PasswordManagerEnabled": false,
        "AutofillAddressEnabled": false,
        "AutofillCreditCardEnabled": false,
        // Deny permission prompts (2), because there is no user to answer them.
        "DefaultGeolocationSetting": 2,
        "DefaultNotificationsSetting": 2,
        "DefaultWebBluetoothGuardSetting": 2,
        "DefaultWebUsbGuardSetting": 2,
        "DefaultSerialGuardSetting": 2,
        "DefaultWebHidGuardSetting": 2,
        "AudioCaptureAllowed": false,
        "VideoCaptureAllowed": false,
        // Disable background activity.
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
