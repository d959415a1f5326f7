//! The meaning of each error code. This is the only table of codes: grades, blames and statuses are all derived
//! from it.

use crate::v1::{Blame, ErrorCode, Grade, SkillError, skill_error};

/// The meaning of one error code: a row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    /// The code that the row describes.
    pub code: ErrorCode,
    /// The coarse class of the error, for models.
    pub grade: Grade,
    /// Who has to fix the error, unless its reporter says otherwise.
    pub blame: Blame,
    /// Whether the same call may succeed later. An error is retryable only if a retry is also safe.
    pub retryable: bool,
    /// The HTTP status in the REST API.
    pub http: u16,
    /// The gRPC status code, for errors sent as a status.
    pub grpc: GrpcCode,
}

/// The gRPC status codes that errors map to, with their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names and numbers are gRPC's own")]
#[repr(i32)]
pub enum GrpcCode {
    Cancelled = 1,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Internal = 13,
    Unavailable = 14,
    Unauthenticated = 16,
}

impl GrpcCode {
    /// Returns the name in the gRPC documentation, such as `NOT_FOUND`.
    pub fn name(self) -> &'static str {
        GRPC_NAMES[self as usize]
    }
}

/// The names of gRPC status codes, indexed by number.
const GRPC_NAMES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

#[cfg(feature = "grpc")]
impl From<GrpcCode> for tonic::Code {
    fn from(code: GrpcCode) -> Self {
        Self::from_i32(code as i32)
    }
}

/// Returns the name of a status code in the gRPC documentation, such as `NOT_FOUND`.
#[cfg(feature = "grpc")]
pub fn grpc_name(code: tonic::Code) -> &'static str {
    GRPC_NAMES[code as usize]
}

macro_rules! table {
    ($($code:ident $grade:ident $blame:ident $retry:literal $http:literal $grpc:ident;)*) => {
        /// All codes except the unspecified one, ordered by number.
        pub const TABLE: &[Meaning] = &[$(Meaning {
            code: ErrorCode::$code,
            grade: Grade::$grade,
            blame: Blame::$blame,
            retryable: $retry,
            http: $http,
            grpc: GrpcCode::$grpc,
        }),*];
    };
}

table! {
    // code              grade           blame   retry  HTTP gRPC
    InvalidArgument      ParamError      Caller  false  400  InvalidArgument;
    InvalidJson          ParseError      Caller  false  400  InvalidArgument;
    NotFound             ParamError      Caller  false  404  NotFound;
    ForbiddenPath        ParamError      Caller  false  403  PermissionDenied;
    PermissionDenied     ParamError      Caller  false  403  PermissionDenied;
    Timeout              ExecutionError  Skill   true   504  DeadlineExceeded;
    Cancelled            ExecutionError  Caller  false  499  Cancelled;
    Internal             ExecutionError  Skill   false  500  Internal;
    ToolInvocationError  ExecutionError  Worker  true   502  Unavailable;
    ExecutionError       ExecutionError  Skill   false  502  Internal;
    OutputTooLarge       ExecutionError  Skill   false  502  Internal;
    NetworkError         NetworkError    Skill   true   502  Unavailable;
    Overloaded           NetworkError    Gateway true   503  ResourceExhausted;
    Unavailable          NetworkError    Worker  true   503  Unavailable;
    CircuitOpen          ExecutionError  Skill   true   503  Unavailable;
    AskUserUnavailable   ParamError      Caller  false  409  FailedPrecondition;
    McpParamError        ParamError      Caller  false  400  InvalidArgument;
    McpParseError        ParseError      Skill   false  502  Internal;
    McpExecutionError    ExecutionError  Skill   false  502  Internal;
    McpNetworkError      NetworkError    Skill   true   502  Unavailable;
    McpTimeout           NetworkError    Skill   true   504  DeadlineExceeded;
    McpNotFound          ParamError      Caller  false  404  NotFound;
    ConversationBusy     ParamError      Caller  false  409  FailedPrecondition;
    Unauthenticated      ParamError      Caller  false  401  Unauthenticated;
    RateLimited          NetworkError    Caller  true   429  ResourceExhausted;
    FailedPrecondition   ParamError      Caller  false  409  FailedPrecondition;
}

impl ErrorCode {
    /// Returns the row of this code. The unspecified code means `INTERNAL`.
    pub fn meaning(self) -> &'static Meaning {
        let row = (self as usize).checked_sub(1).unwrap_or(ErrorCode::Internal as usize - 1);
        &TABLE[row]
    }

    /// Parses a code that a skill reports, such as `INVALID_ARGUMENT`. Returns `None` for an unknown code, and for
    /// a code that only openskill itself may report.
    pub fn from_skill(name: &str) -> Option<Self> {
        let refusals = [Self::Overloaded, Self::Unavailable, Self::CircuitOpen, Self::ConversationBusy];
        let of_callers = [Self::Unauthenticated, Self::RateLimited, Self::FailedPrecondition];
        let reserved = [&refusals[..], &of_callers, &[Self::Unspecified, Self::Cancelled]].concat();
        Self::from_str_name(name).filter(|code| !reserved.contains(code))
    }

    /// Returns the names of the codes that a skill may report.
    pub fn names_for_skills() -> impl Iterator<Item = &'static str> {
        TABLE.iter().map(|row| row.code.as_str_name()).filter(|name| Self::from_skill(name).is_some())
    }
}

impl Grade {
    /// Returns the name in JSON, such as `param_error`.
    pub fn json_name(self) -> &'static str {
        match self {
            Self::ParamError => "param_error",
            Self::ParseError => "parse_error",
            Self::NetworkError => "network_error",
            Self::ExecutionError | Self::Unspecified => "execution_error",
        }
    }
}

impl Blame {
    /// Returns the name in JSON, such as `caller`.
    pub fn json_name(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Skill => "skill",
            Self::Worker => "worker",
            Self::Gateway | Self::Unspecified => "gateway",
        }
    }
}

impl SkillError {
    /// Creates an error with the defaults of its code. `message` is sent to callers: it must not contain a host
    /// path or a secret.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let meaning = code.meaning();
        Self {
            code: meaning.code.into(),
            message: message.into(),
            more: None,
            grade: meaning.grade.into(),
            blame: meaning.blame.into(),
            retryable: meaning.retryable,
            retry_after_ms: 0,
            may_have_run: false,
        }
    }

    /// Creates an `OVERLOADED` error: a limit is reached, and nothing was started. Suggests a retry after a
    /// second.
    pub fn overloaded(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Overloaded, message).with_retry_after_ms(1000)
    }

    /// Creates an `UNAVAILABLE` error: no worker can take the call now. Suggests a retry after half a second.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Unavailable, message).with_retry_after_ms(500)
    }

    /// Whether the error is sent as a gRPC status instead of a result: the gateway could not accept the call, so
    /// nothing ran, and only the calling program or an operator can fix it. In REST, all errors have the same
    /// form.
    pub fn is_status(&self) -> bool {
        let is_refusal = match self.code() {
            ErrorCode::Overloaded | ErrorCode::Unavailable => self.blame() == Blame::Gateway,
            ErrorCode::Unauthenticated | ErrorCode::RateLimited => true,
            _ => false,
        };
        is_refusal && !self.may_have_run
    }

    /// Sets the details, a JSON object as text.
    #[must_use]
    pub fn with_details(mut self, details_json: impl Into<String>) -> Self {
        self.more = Some(skill_error::More::DetailsJson(details_json.into()));
        self
    }

    /// Replaces the blame from the table.
    #[must_use]
    pub fn with_blame(mut self, blame: Blame) -> Self {
        self.blame = blame.into();
        self
    }

    /// Suggests a delay before a retry.
    #[must_use]
    pub fn with_retry_after_ms(mut self, retry_after_ms: u64) -> Self {
        self.retry_after_ms = retry_after_ms;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_row_at_its_number() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.code as usize, index + 1);
            assert_eq!(row.code.meaning(), row);
        }
        assert!(ErrorCode::try_from(TABLE.len() as i32 + 1).is_err(), "a code without a row");
    }

    #[cfg(feature = "grpc")]
    #[test]
    fn grpc_codes_have_the_numbers_that_grpc_gives_them() {
        for row in TABLE {
            assert_eq!(format!("{:?}", row.grpc), format!("{:?}", tonic::Code::from(row.grpc)));
            assert_eq!(row.grpc.name(), grpc_name(row.grpc.into()));
        }
    }

    #[test]
    fn an_unspecified_code_means_internal() {
        assert_eq!(ErrorCode::Unspecified.meaning().code, ErrorCode::Internal);
    }

    #[test]
    fn only_what_the_gateway_could_not_take_is_a_status() {
        let unavailable = || SkillError::new(ErrorCode::Unavailable, "");
        assert!(unavailable().with_blame(Blame::Gateway).is_status() && SkillError::overloaded("").is_status());
        assert!(!unavailable().is_status(), "a worker was lost, or the skill cannot run");
        let lost = SkillError { may_have_run: true, ..unavailable().with_blame(Blame::Gateway) };
        assert!(!lost.is_status(), "a program that repeats calls on this status would run it twice");
        let statuses =
            [ErrorCode::Overloaded, ErrorCode::Unavailable, ErrorCode::Unauthenticated, ErrorCode::RateLimited];
        let others = TABLE.iter().filter(|row| !statuses.contains(&row.code));
        for row in others {
            assert!(!SkillError::new(row.code, "").with_blame(Blame::Gateway).is_status(), "{:?}", row.code);
        }
    }

    #[test]
    fn a_skill_cannot_report_the_gateways_own_codes() {
        assert_eq!(ErrorCode::from_skill("FORBIDDEN_PATH"), Some(ErrorCode::ForbiddenPath));
        assert_eq!(ErrorCode::from_skill("OVERLOADED"), None);
        assert_eq!(ErrorCode::from_skill("no such code"), None);
    }
}
