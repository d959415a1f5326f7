//! The names, as words without separators, in lower case.

use super::kind::Kind::{
    self, Authorization, Code, Cookie, Name, Password, Query, Secret, Session, ToolCall, Value, Weak,
};

/// Last words of a name, sorted, with what they say about the value.
#[rustfmt::skip]
pub(super) const NAMES: &[(&[u8], Kind)] = &[
    (b"accesskey", Secret), (b"accesskeysecret", Weak), (b"accesspin", Code), (b"accesstoken", Secret),
    (b"accesstokens", Secret), (b"accountkey", Secret), (b"adminkey", Secret), (b"aeskey", Secret),
    (b"algolia", Weak), (b"anthropic", Weak), (b"apikey", Secret), (b"apikeys", Secret), (b"apisecret", Secret),
    (b"apitoken", Secret), (b"apitokens", Secret), (b"appkey", Secret), (b"applicationkey", Secret),
    (b"appsecret", Secret), (b"aspsessionid", Weak), (b"assertion", Weak), (b"auth", Weak), (b"authcode", Secret),
    (b"authkey", Secret), (b"authorization", Authorization), (b"authorizationcode", Secret), (b"authpass", Secret),
    (b"authtoken", Secret), (b"authtokens", Secret), (b"backupcode", Secret), (b"backupcodes", Secret),
    (b"bearer", Secret), (b"bearertoken", Secret), (b"bitbucket", Weak), (b"botkey", Secret), (b"bottoken", Secret),
    (b"cardcvc", Code), (b"cardcvv", Code), (b"cardnumber", Secret), (b"ccnumber", Secret),
    (b"cleartextpassword", Password), (b"clientassertion", Secret), (b"clientkey", Secret),
    (b"clientkeydata", Secret), (b"clientsecret", Secret), (b"cloudflare", Weak), (b"code", Query),
    (b"codecov", Weak), (b"codesecret", Secret), (b"codeverifier", Secret), (b"cohere", Weak),
    (b"connectionstring", Secret), (b"connectionstrings", Secret), (b"connectsid", Weak), (b"connstr", Secret),
    (b"connstring", Secret), (b"consumerkey", Secret), (b"consumersecret", Secret), (b"contentful", Weak),
    (b"contrasena", Password), (b"cookie", Cookie), (b"cookie2", Cookie), (b"cookies", Cookie),
    (b"cookiesecret", Secret), (b"credential", Secret), (b"credentials", Secret), (b"creditcard", Secret),
    (b"creditcardnumber", Secret), (b"creds", Secret), (b"csrf", Weak), (b"csrftoken", Secret), (b"cvc", Code),
    (b"cvc2", Code), (b"cvn", Code), (b"cvv", Code), (b"cvv2", Code), (b"dashscope", Weak), (b"datadog", Weak),
    (b"dbpass", Password), (b"dbpw", Password), (b"decryptionkey", Secret), (b"deepseek", Weak), (b"default", Value),
    (b"deploykey", Secret), (b"deploytoken", Secret), (b"devicecode", Secret), (b"devicetoken", Secret),
    (b"devkey", Secret), (b"dockerauth", Secret), (b"dockerconfigjson", Secret), (b"dropbox", Weak), (b"dsn", Weak),
    (b"encryptionkey", Secret), (b"env", Name), (b"envvar", Name), (b"fastly", Weak), (b"field", Name),
    (b"fireworks", Weak), (b"functionskey", Secret), (b"github", Weak), (b"gitlab", Weak), (b"groq", Weak),
    (b"hashedpassword", Password), (b"haslo", Password), (b"header", Name), (b"heroku", Weak), (b"hmac", Weak),
    (b"hmackey", Secret), (b"hubsignature", Secret), (b"identitytoken", Secret), (b"idtoken", Secret),
    (b"integrationkey", Secret), (b"intercom", Weak), (b"jobtoken", Secret), (b"jsessionid", Weak), (b"jwt", Secret),
    (b"jwtkey", Secret), (b"jwtsecret", Secret), (b"jwttoken", Secret), (b"kennwort", Password), (b"key", Query),
    (b"keypass", Secret), (b"keystorepass", Secret), (b"kmskey", Secret), (b"launchdarkly", Weak),
    (b"licencekey", Secret), (b"license", Weak), (b"licensekey", Secret), (b"mailchimp", Weak), (b"mailgun", Weak),
    (b"mapbox", Weak), (b"masterauth", Secret), (b"masterkey", Secret), (b"masterpassword", Password),
    (b"mfacode", Code), (b"minimax", Weak), (b"mistral", Weak), (b"mnemonic", Password),
    (b"mnemonicphrase", Password), (b"moonshot", Weak), (b"motdepasse", Password), (b"mysqlpwd", Password),
    (b"name", Name), (b"netlify", Weak), (b"networkkey", Secret), (b"npmauth", Secret), (b"okta", Weak),
    (b"onetimecode", Code), (b"onetimepassword", Code), (b"openai", Weak), (b"otp", Code), (b"otpcode", Code),
    (b"pannumber", Secret), (b"param", Name), (b"parameter", Name), (b"pass", Password), (b"passcode", Password),
    (b"passcodepin", Code), (b"passphrase", Password), (b"passwd", Password), (b"password", Password),
    (b"passwordconfirm", Password), (b"passwordhash", Password), (b"passwords", Password), (b"passwort", Password),
    (b"pat", Weak), (b"paypal", Weak), (b"perplexity", Weak), (b"pgpassword", Password), (b"phpsessid", Weak),
    (b"pin", Code), (b"pincode", Code), (b"pinecone", Weak), (b"plaid", Weak), (b"presharedkey", Secret),
    (b"privatekey", Secret), (b"privatetoken", Secret), (b"privpass", Secret), (b"property", Name),
    (b"proxyauthorization", Authorization), (b"psk", Secret), (b"puk", Code), (b"pushtoken", Secret),
    (b"pw", Password), (b"pwd", Password), (b"pwdhash", Password), (b"rapidapi", Weak), (b"recoverycode", Secret),
    (b"recoverycodes", Secret), (b"recoverykey", Secret), (b"recoveryphrase", Password), (b"refreshtoken", Secret),
    (b"refreshtokens", Secret), (b"registrationtoken", Secret), (b"replicate", Weak), (b"requirepass", Secret),
    (b"rootkey", Secret), (b"rootpw", Password), (b"rsakey", Secret), (b"salt", Weak), (b"samlresponse", Secret),
    (b"sastoken", Secret), (b"secret", Secret), (b"secretaccesskey", Secret), (b"secretbinary", Secret),
    (b"secretid", Weak), (b"secretkey", Secret), (b"secretkeybase", Secret), (b"secretphrase", Password),
    (b"secrets", Secret), (b"secretstring", Secret), (b"secretvalue", Secret), (b"securitycode", Code),
    (b"securitytoken", Secret), (b"seed", Weak), (b"seedphrase", Password), (b"sendgrid", Weak), (b"senha", Password),
    (b"sentry", Weak), (b"serverkey", Secret), (b"servicekey", Secret), (b"servicerolekey", Secret),
    (b"servicetoken", Secret), (b"sessid", Weak), (b"session", Weak), (b"sessionid", Session),
    (b"sessionkey", Secret), (b"sessiontoken", Secret), (b"setcookie", Cookie), (b"setcookie2", Cookie),
    (b"sharedaccesskey", Secret), (b"sharedaccesssignature", Secret), (b"sharedkey", Secret),
    (b"sharedsecret", Secret), (b"sid", Weak), (b"sig", Query), (b"sign", Query), (b"signature", Query),
    (b"signingkey", Secret), (b"smscode", Code), (b"smtppass", Password), (b"snyk", Weak),
    (b"socialsecuritynumber", Secret), (b"spotify", Weak), (b"sshkey", Secret), (b"sshpass", Password),
    (b"sslkey", Secret), (b"ssn", Secret), (b"storagekey", Secret), (b"storepass", Secret),
    (b"subscriptionkey", Secret), (b"sumologic", Weak), (b"ticket", Weak), (b"tlskey", Secret), (b"together", Weak),
    (b"token", Secret), (b"toolcallid", ToolCall), (b"totp", Code), (b"totpsecret", Secret), (b"travis", Weak),
    (b"twilio", Weak), (b"twitch", Weak), (b"twitter", Weak), (b"twofactorcode", Code), (b"userkey", Secret),
    (b"userpass", Password), (b"userpw", Password), (b"value", Value), (b"variable", Name), (b"vercel", Weak),
    (b"verificationcode", Code), (b"wachtwoord", Password), (b"walletseed", Secret), (b"webhooksecret", Secret),
    (b"webhooktoken", Secret), (b"wpakey", Secret), (b"writekey", Secret), (b"wwwauthorization", Authorization),
    (b"xamzcredential", Secret), (b"xamzsecuritytoken", Secret), (b"xamzsignature", Secret), (b"xapikey", Secret),
    (b"xauth", Secret), (b"xauthkey", Weak), (b"xauthorization", Authorization),
    (b"xforwardedauthorization", Authorization), (b"xgoogsignature", Secret), (b"xhubsignature", Secret),
    (b"xsrf", Weak), (b"xsrftoken", Secret), (b"zendesk", Weak), (b"zhipu", Weak),
];

/// Last words that sound like a secret and are none, sorted.
#[rustfmt::skip]
pub(super) const HARMLESS: &[&[u8]] = &[
    b"allpass", b"areacode", b"bandpass", b"barcode", b"betoken", b"bostoken", b"bypass", b"bypasstoken", b"cachekey",
    b"cancellationtoken", b"canceltoken", b"changepassword", b"charcode", b"classname", b"clstoken", b"compass",
    b"continuationtoken", b"countrycode", b"currencycode", b"currenttoken", b"curtoken", b"displayname",
    b"documentcookie", b"encompass", b"endtoken", b"eostoken", b"errorcode", b"exitcode", b"filename", b"firstname",
    b"firstpass", b"firsttoken", b"foreignkey", b"forgotpassword", b"fullname", b"groupkey", b"haspassword",
    b"hidepassword", b"highpass", b"hostkey", b"hostname", b"httpcode", b"idempotencykey", b"identifiertoken",
    b"imagetoken", b"inputtoken", b"invalidpassword", b"ispassword", b"keycode", b"keyname", b"languagecode",
    b"lastname", b"lasttoken", b"lookaheadtoken", b"lowpass", b"masktoken", b"maxtoken", b"multipass",
    b"nextmarkertoken", b"nextpagetoken", b"nextsynctoken", b"nexttoken", b"nontoken", b"nopassword", b"ntoken",
    b"numtoken", b"objectkey", b"onepass", b"opcode", b"outputtoken", b"overpass", b"padtoken", b"pagetoken",
    b"pagingtoken", b"partitionkey", b"passpass", b"pertoken", b"postalcode", b"previoustoken", b"prevtoken",
    b"primarykey", b"publickey", b"publictoken", b"publishablekey", b"qrcode", b"queryparam", b"registrykey",
    b"renderpass", b"resetpassword", b"responsecode", b"resumetoken", b"returncode", b"routingkey", b"rowkey",
    b"secondpass", b"secretsauce", b"secretservice", b"septoken", b"sessionname", b"showpassword", b"singlepass",
    b"sitekey", b"sortkey", b"sourcecode", b"specialtoken", b"starttoken", b"statuscode", b"stoptoken",
    b"stringtoken", b"subtoken", b"surpass", b"synctoken", b"testpass", b"thecookie", b"tokenpertoken",
    b"topsecretlevel", b"totaltoken", b"trespass", b"underpass", b"unicode", b"unktoken", b"username", b"watchtoken",
    b"wrongpassword", b"zipcode",
];

/// Words after a name that change nothing: `password_new` is a password.
#[rustfmt::skip]
pub(super) const AFTERTHOUGHTS: &[&[u8]] = &[
    b"value", b"text", b"plain", b"plaintext", b"string", b"str", b"b64", b"base64", b"raw", b"encoded",
    b"confirmation", b"confirm", b"confirmed", b"repeat", b"again", b"verify", b"verification", b"old", b"new",
    b"current", b"prod", b"production", b"dev", b"development", b"staging", b"default", b"backup", b"primary",
    b"secondary", b"tmp", b"temp", b"hash", b"hashed", b"input", b"param", b"arg", b"argument", b"header", b"env",
    b"var", b"data", b"content", b"override", b"main", b"admin", b"root", b"test", b"live", b"sandbox", b"v1", b"v2",
];

/// Words before a name that make it another one: `has_password` is none.
#[rustfmt::skip]
pub(super) const NOT_A_SECRET: &[&[u8]] = &[
    b"allow", b"allows", b"bad", b"bos", b"cancel", b"cancellation", b"change", b"cls", b"continuation", b"count",
    b"cur", b"current", b"disable", b"enable", b"end", b"eos", b"erc20", b"first", b"forget", b"forgot",
    b"fungible", b"governance", b"has", b"hide", b"identifier", b"image", b"incorrect", b"input", b"invalid", b"is",
    b"keyword", b"last", b"lexer", b"lookahead", b"mask", b"max", b"min", b"missing", b"n", b"need", b"needs",
    b"next", b"nft", b"no", b"not", b"num", b"output", b"pad", b"page", b"paging", b"parse", b"per", b"prev",
    b"previous", b"require", b"required", b"requires", b"reset", b"resume", b"sep", b"show", b"special", b"start",
    b"stop", b"stringify", b"sync", b"syntax", b"toggle", b"total", b"unk", b"use", b"uses", b"using", b"utility",
    b"watch", b"with", b"without", b"wrong",
];

/// Ends of words that were written without a separator: `githubtoken`.
pub(super) const GLUED: &[(&[u8], Kind)] = &[
    (b"password", Password),
    (b"passwd", Password),
    (b"passphrase", Password),
    (b"secret", Secret),
    (b"apikey", Secret),
    (b"secretkey", Secret),
    (b"accesskey", Secret),
    (b"privatekey", Secret),
    (b"token", Secret),
    (b"credentials", Secret),
    (b"clientsecret", Secret),
    (b"accesstoken", Secret),
    (b"authorization", Authorization),
    (b"sessionid", Session),
];
