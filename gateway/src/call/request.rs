//! A call as each face passes it on: its ids, its unvalidated arguments, its deadline.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use openskill_proto::limits::{MAX_ID_BYTES, MAX_SKILL_ID_BYTES, MAX_TIMEOUT_MS};
use openskill_proto::trace::{Trace, hex, random_id};
use openskill_proto::v1::invoke_request::Arguments;
use openskill_proto::v1::{Delegation, Envelope, ErrorCode, InvokeRequest, SkillError};
use tokio::sync::Notify;

use crate::arguments::{self, Policy, Repair};

use super::claim::CallClaim;
use super::input::{Input, weigh};
use super::operation::Operation;
use super::principal::Principal;
use super::stage::CallStage;

/// What is known from a request's headers and its connection. Applies to each call in the request.
#[derive(Debug, Clone)]
pub(crate) struct RequestContext {
    pub(crate) trace: Trace,
    pub(crate) operation: &'static Operation,
    /// The timeout in the headers.
    pub(crate) timeout: Option<Duration>,
    pub(crate) principal: Principal,
}

impl RequestContext {
    /// The context of a request without headers: a new trace, no timeout, the anonymous principal.
    pub(crate) fn unknown() -> Self {
        let trace = Trace::from_headers(None, None, None);
        Self { trace, operation: &Operation::INTERNAL, timeout: None, principal: Principal::anonymous() }
    }
}

/// A call, as a face received it.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) skill_id: String,
    /// The version that the caller names, or its first components. Empty if the gateway chooses.
    pub(crate) version: String,
    /// The toolset that a raw call names.
    pub(crate) toolset: Option<String>,
    pub(crate) input: Input,
    pub(crate) policy: Policy,
    /// Deviations that were tolerated to find the skill and the arguments in a raw call.
    pub(crate) deviations: Vec<Repair>,
    pub(crate) call_id: String,
    pub(crate) principal: Principal,
    pub(crate) session_id: String,
    /// May be empty.
    pub(crate) idempotency_key: String,
    pub(crate) envelope: Envelope,
    /// Whether the caller answers questions.
    pub(crate) interactive: bool,
    /// The kinds of questions that the caller answers, as `InputKind` numbers. Empty if it answers only forms.
    pub(crate) answers: Vec<i32>,
    /// Secrets in the arguments that the schema does not mark.
    pub(crate) secret_values: Vec<String>,
    /// The definition that the caller approved, as [`openskill_proto::v1::Skill::definition_hash`]. Empty if any
    /// definition is accepted.
    pub(crate) definition_hash: String,
    /// The remaining budget of the agent's turn. None if the caller is not an agent.
    pub(crate) delegation: Option<Delegation>,
    pub(crate) trace: Trace,
    pub(crate) operation: &'static Operation,
    pub(crate) received: Instant,
    /// The caller's timeout: the shorter one of header and field.
    pub(crate) timeout: Option<Duration>,
    /// Why the request is invalid, if it is. Kept here so that the response can name the call.
    pub(crate) fault: Option<SkillError>,
    pub(crate) stage: CallStage,
    /// The claim of the operation that runs this call, if one does.
    pub(crate) claim: Option<CallClaim>,
    /// Notified if somebody cancels the call by its id. Only the call itself waits for it.
    pub(crate) cancellation: Notify,
}

impl Call {
    /// Reads a request.
    pub(crate) fn new(mut request: InvokeRequest, context: RequestContext) -> Self {
        let named = take_version(&mut request.skill_id);
        let raw = read_raw(&mut request);
        // A raw call may name a version, too.
        let in_raw = take_version(&mut request.skill_id);
        let fault = raw.as_ref().err().cloned().or_else(|| find_fault(&request, [&named, &in_raw]));
        let version = in_raw.or(named).unwrap_or_default();
        let is_struct = matches!(request.arguments, Some(Arguments::Input(_)) | None);
        let input = Input::read(request.arguments.take());
        let fault = fault.or_else(|| input.as_ref().err().cloned());
        let input = input.unwrap_or_else(|_| Input::unreadable(is_struct));
        Self::build(request, version, context, raw.unwrap_or_default(), input, fault)
    }

    /// Creates the call of a request whose arguments could not be read.
    pub(crate) fn unread(mut request: InvokeRequest, context: RequestContext, fault: SkillError) -> Self {
        let version = take_version(&mut request.skill_id).unwrap_or_default();
        let (raw, input) = (arguments::ToolCall::default(), Input::unreadable(false));
        Self::build(request, version, context, raw, input, Some(fault))
    }

    fn build(
        request: InvokeRequest,
        version: String,
        context: RequestContext,
        raw: arguments::ToolCall,
        input: Input,
        fault: Option<SkillError>,
    ) -> Self {
        let policy = request.argument_policy().into();
        let field = (request.timeout_ms > 0).then(|| Duration::from_millis(request.timeout_ms.into()));
        let envelope = request.envelope();
        let call_id = match request.call_id {
            id if id.is_empty() => format!("call-{}", hex(&random_id::<8>())),
            id => printable(id, MAX_ID_BYTES),
        };
        Self {
            envelope,
            skill_id: printable(request.skill_id, MAX_SKILL_ID_BYTES),
            version: printable(version, MAX_ID_BYTES),
            input,
            toolset: raw.toolset,
            policy,
            deviations: raw.repairs,
            call_id,
            interactive: request.interactive && context.principal.is_interactive(),
            answers: request.answers,
            principal: context.principal,
            session_id: printable(request.session_id, MAX_ID_BYTES),
            idempotency_key: printable(request.idempotency_key, MAX_ID_BYTES),
            secret_values: request.secret_values,
            definition_hash: request.definition_hash,
            delegation: request.delegation,
            trace: context.trace,
            operation: context.operation,
            received: Instant::now(),
            timeout: [context.timeout, field].into_iter().flatten().min(),
            fault,
            stage: CallStage::default(),
            claim: None,
            cancellation: Notify::new(),
        }
    }

    /// Whether it runs for a claim with this epoch.
    pub(crate) fn has_epoch(&self, epoch: i64) -> bool {
        self.claim.as_ref().is_some_and(|it| it.run.epoch == epoch.cast_unsigned())
    }

    /// Returns the deadline. `granted` is the time that its skill is granted.
    pub(crate) fn deadline(&self, granted: Duration) -> Instant {
        self.received + self.timeout.map_or(granted, |timeout| timeout.min(granted))
    }

    /// Returns the point between 0 and 1 that decides its version under a traffic rule. The calls of a session have the
    /// same point, as have those with the same idempotency key.
    pub(crate) fn traffic_point(&self) -> f64 {
        let mut hasher = DefaultHasher::new();
        self.principal.name().hash(&mut hasher);
        match (self.session_id.as_str(), self.idempotency_key.as_str()) {
            ("", "") => (&self.call_id, self.received).hash(&mut hasher),
            ("", key) => key.hash(&mut hasher),
            (session, _) => session.hash(&mut hasher),
        }
        (hasher.finish() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Whether the caller's timeout is shorter than `granted`.
    pub(crate) fn shortens(&self, granted: Duration) -> bool {
        self.timeout.is_some_and(|timeout| timeout < granted)
    }

    /// Whether the deadline has passed, before the skill's granted time is known.
    pub(crate) fn is_overdue(&self, default: Duration) -> bool {
        self.received.elapsed() >= self.timeout.unwrap_or(default)
    }
}

/// Returns the time that a skill is granted: its manifest's timeout, or the default, up to the limit. A caller can
/// only request less.
pub(crate) fn granted_time(default: Duration, manifest_ms: u32) -> Duration {
    let manifest = (manifest_ms > 0).then(|| Duration::from_millis(manifest_ms.into()));
    manifest.unwrap_or(default).min(Duration::from_millis(MAX_TIMEOUT_MS.into()))
}

/// Makes an id safe to display and log, even if the call is refused because of it.
fn printable(mut id: String, most: usize) -> String {
    id.truncate(id.floor_char_boundary(most));
    id.retain(|it| !it.is_control());
    id
}

/// Reads a model's raw call. Afterwards, the request names its skill, and its arguments are text. Leaves other
/// requests unchanged.
fn read_raw(request: &mut InvokeRequest) -> Result<arguments::ToolCall, SkillError> {
    let Some(Arguments::Call(text)) = &request.arguments else { return Ok(arguments::ToolCall::default()) };
    weigh(text)?;
    let given = (!request.skill_id.is_empty()).then_some(request.skill_id.as_str());
    let read = arguments::read_tool_call(text, given)
        .map_err(|reason| SkillError::new(ErrorCode::InvalidJson, format!("the call can't be read: {reason}")))?;
    if let Some(skill) = &read.skill {
        request.skill_id.clone_from(skill);
    }
    if let (true, Some(id)) = (request.call_id.is_empty(), &read.call_id) {
        request.call_id.clone_from(id);
    }
    request.arguments = Some(Arguments::InputJson(read.arguments.clone()));
    Ok(read)
}

/// Takes the version off `id@version`. None if there is no `@`.
fn take_version(skill_id: &mut String) -> Option<String> {
    let (id, version) = skill_id.split_once('@')?;
    let (length, version) = (id.len(), version.to_owned());
    skill_id.truncate(length);
    Some(version)
}

/// Finds what is wrong with a request's ids. `versions`: those that the request and the raw call in it name.
fn find_fault(request: &InvokeRequest, versions: [&Option<String>; 2]) -> Option<SkillError> {
    let invalid = |message: String| Some(SkillError::new(ErrorCode::InvalidArgument, message));
    if let [Some(named), Some(in_raw)] = versions
        && named != in_raw
    {
        return invalid("the call names another version of the skill than the request: name only one".to_owned());
    }
    let version = versions.into_iter().flatten().next();
    if version.is_some_and(String::is_empty) {
        return invalid("skill_id ends with '@': write the version after it, or leave it out".to_owned());
    }
    let ids = [
        ("call_id", request.call_id.as_str()),
        ("session_id", &request.session_id),
        ("idempotency_key", &request.idempotency_key),
        ("the version of a skill", version.map_or("", String::as_str)),
    ];
    for (name, id) in ids {
        if id.len() > MAX_ID_BYTES || id.chars().any(char::is_control) {
            return invalid(format!(
                "{name} must be at most {MAX_ID_BYTES} bytes and must not contain control characters"
            ));
        }
    }
    if request.skill_id.is_empty() {
        return invalid("skill_id is missing".to_owned());
    }
    if request.skill_id.len() > MAX_SKILL_ID_BYTES || request.skill_id.chars().any(char::is_control) {
        return Some(SkillError::new(
            ErrorCode::NotFound,
            "skill_id is not a valid id: `openskill skills`, GET /skills and ListSkills list the skills",
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: Duration = Duration::from_secs(15);

    fn call(timeout_ms: u32, header: Option<Duration>) -> Call {
        let request = InvokeRequest { skill_id: "echo".to_owned(), timeout_ms, ..InvokeRequest::default() };
        Call::new(request, RequestContext { timeout: header, ..RequestContext::unknown() })
    }

    #[test]
    fn the_shortest_timeout_sets_the_deadline() {
        let after = |call: &Call, manifest| call.deadline(granted_time(DEFAULT, manifest)) - call.received;
        assert_eq!(after(&call(0, None), 0), DEFAULT);
        assert_eq!(after(&call(500, None), 0), Duration::from_millis(500));
        assert_eq!(after(&call(500, Some(Duration::from_millis(200))), 0), Duration::from_millis(200));
        assert_eq!(after(&call(60_000, None), 0), DEFAULT);
        assert_eq!(after(&call(0, None), 1000), Duration::from_secs(1));
        assert_eq!(after(&call(60_000, None), 30_000), Duration::from_secs(30));
    }

    #[test]
    fn an_invalid_request_keeps_its_fault() {
        let base = InvokeRequest { skill_id: "echo".to_owned(), ..InvokeRequest::default() };
        let requests = [
            InvokeRequest { idempotency_key: "k".repeat(129), ..base.clone() },
            InvokeRequest { arguments: Some(Arguments::Call("{".to_owned())), ..base.clone() },
            InvokeRequest { arguments: Some(Arguments::Call("<other>{}</other>".to_owned())), ..base.clone() },
            InvokeRequest { skill_id: String::new(), ..base.clone() },
            InvokeRequest { call_id: "x".repeat(129), ..base },
        ];
        for request in requests {
            let call = Call::new(request.clone(), RequestContext::unknown());
            assert!(call.fault.is_some(), "{request:?}");
        }
    }

    #[test]
    fn null_and_an_empty_string_are_no_arguments_in_every_form() {
        let mut forms = vec![Arguments::Call("{'name': 'echo', 'arguments': None}".to_owned())];
        for text in ["", " \n", "null", " null\n"] {
            let encoded = serde_json::Value::from(text);
            forms.push(Arguments::InputJson(text.to_owned()));
            forms.push(Arguments::Call(format!(r#"{{"name": "echo", "arguments": {encoded}}}"#)));
            forms.push(Arguments::Call(format!(r#"{{"type": "tool_use", "name": "echo", "input": {encoded}}}"#)));
        }
        for key in ["arguments", "args", "params"] {
            forms.push(Arguments::Call(format!(r#"{{"functionCall": {{"name": "echo", "{key}": null}}}}"#)));
        }
        for arguments in forms {
            let request =
                InvokeRequest { skill_id: "echo".to_owned(), arguments: Some(arguments), ..InvokeRequest::default() };
            let call = Call::new(request.clone(), RequestContext::unknown());
            assert_eq!((call.input.text(), call.fault), ("{}", None), "{request:?}");
        }
    }

    #[test]
    fn a_call_names_a_version_in_every_form_and_its_session_decides_the_version_otherwise() {
        let call = |skill_id: &str, text: &str, session: &str| {
            let (skill_id, session_id) = (skill_id.to_owned(), session.to_owned());
            let arguments = Some(Arguments::Call(text.to_owned()));
            Call::new(
                InvokeRequest { skill_id, arguments, session_id, ..InvokeRequest::default() },
                RequestContext::unknown(),
            )
        };
        let named = |name: &str| format!(r#"{{"name": "{name}", "arguments": {{}}}}"#);
        for (skill_id, text) in [
            ("echo@1.2", "{}"),
            ("", &named("echo@1.2")),
            ("echo@1.2", &named("echo")),
            ("echo@1.2", &named("echo@1.2")),
        ] {
            let call = call(skill_id, text, "");
            assert_eq!((call.skill_id.as_str(), call.version.as_str(), call.fault), ("echo", "1.2", None), "{text}");
        }
        for (skill_id, text) in [("echo@", "{}"), ("echo@1.2", &named("echo@2")), ("echo@1.2", &named("other@1.2"))] {
            assert!(call(skill_id, text, "").fault.is_some(), "{skill_id} {text}");
        }
        let point = |session| call("echo", "{}", session).traffic_point();
        assert_eq!(point("a"), point("a"));
        assert_ne!(point("a"), point("b"));
        assert_ne!(point(""), point(""), "calls without a session are divided one by one");
    }

    #[test]
    fn a_call_without_an_id_gets_one() {
        assert_ne!(call(0, None).call_id, call(0, None).call_id);
    }
}
