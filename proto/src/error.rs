//! What each error code means: the only table in openskill that maps a code to anything.

use crate::v1::{Blame, ErrorCode, Grade, SkillError, skill_error};

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    /// The code.
    pub code: ErrorCode,
    /// Coarse class for a model.
    pub grade: Grade,
    /// Who has to act, unless the origin of the error knows better.
    pub blame: Blame,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    /// The status over REST.
    pub http: u16,
    /// The status code over gRPC, where the error travels as a status.
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
}

#[cfg(feature = "grpc")]
impl From<GrpcCode> for tonic::Code {
    fn from(code: GrpcCode) -> Self {
        Self::from_i32(code as i32)
    }
}

macro_rules! table {
    ($($code:ident $grade:ident $blame:ident $retry:literal $http:literal $grpc:ident;)*) => {
        /// Every code but the unspecified one, in the order of their numbers.
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
}

impl ErrorCode {
    /// The row of this code. The unspecified code means `INTERNAL`.
    pub fn meaning(self) -> &'static Meaning {
        let row = (self as usize).checked_sub(1).unwrap_or(ErrorCode::Internal as usize - 1);
        &TABLE[row]
    }

    /// A skill's name for its error, such as `INVALID_ARGUMENT`. None if there is no such code, or if it is one that
    /// only openskill itself may give.
    pub fn from_skill(name: &str) -> Option<Self> {
        let reserved = [Self::Unspecified, Self::Overloaded, Self::Unavailable, Self::CircuitOpen, Self::Cancelled];
        Self::from_str_name(name).filter(|code| !reserved.contains(code))
    }
}

impl Grade {
    /// The name in JSON, such as `param_error`.
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
    /// The name in JSON, such as `caller`.
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
    /// An error with all that follows from its code. `message` is for outside: no path of the host, no secret.
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
        }
    }

    /// `OVERLOADED`: a bound is reached and nothing was started. Suggests a retry after a second.
    pub fn overloaded(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Overloaded, message).with_retry_after_ms(1000)
    }

    /// `UNAVAILABLE`: nobody takes the call now. Suggests a retry after half a second.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Unavailable, message).with_retry_after_ms(500)
    }

    /// With details: a JSON object as text.
    #[must_use]
    pub fn with_details(mut self, details_json: impl Into<String>) -> Self {
        self.more = Some(skill_error::More::DetailsJson(details_json.into()));
        self
    }

    /// With someone else to blame than the table says.
    #[must_use]
    pub fn with_blame(mut self, blame: Blame) -> Self {
        self.blame = blame.into();
        self
    }

    /// With a hint when to come back.
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
        }
    }

    #[test]
    fn an_unspecified_code_is_an_internal_fault() {
        assert_eq!(ErrorCode::Unspecified.meaning().code, ErrorCode::Internal);
    }

    #[test]
    fn a_skill_cannot_speak_for_the_gateway() {
        assert_eq!(ErrorCode::from_skill("FORBIDDEN_PATH"), Some(ErrorCode::ForbiddenPath));
        assert_eq!(ErrorCode::from_skill("OVERLOADED"), None);
        assert_eq!(ErrorCode::from_skill("no such code"), None);
    }
}
