//! Decides at the start of each call whether it is sampled.

use std::str::FromStr;

use openskill_proto::trace::Trace;

/// A sampler configured by `OTEL_TRACES_SAMPLER`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    kind: SamplerKind,
    /// The ratio of sampled traces, 0 to 1.
    ratio: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SamplerKind {
    /// The ratio always applies, whatever the caller decided.
    Own,
    /// The caller's decision applies. The ratio applies to calls without a decision.
    ParentBased,
}

/// The error for an unknown sampler name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownSampler;

/// A sampler without its ratio, parsed from its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SamplerName {
    /// `always_on`, `parentbased_always_on`.
    On {
        /// Whether the caller's decision takes precedence.
        parent_based: bool,
    },
    /// `parentbased_always_off`.
    OffWithoutParent,
    /// `always_off`: no call is traced, not even a failed one.
    Never,
    /// `traceidratio`, `parentbased_traceidratio`.
    Ratio {
        /// Whether the caller's decision takes precedence.
        parent_based: bool,
    },
}

impl FromStr for SamplerName {
    type Err = UnknownSampler;

    fn from_str(name: &str) -> Result<Self, UnknownSampler> {
        Ok(match name {
            "always_on" => Self::On { parent_based: false },
            "always_off" => Self::Never,
            "traceidratio" => Self::Ratio { parent_based: false },
            "parentbased_always_on" => Self::On { parent_based: true },
            "parentbased_always_off" => Self::OffWithoutParent,
            "parentbased_traceidratio" => Self::Ratio { parent_based: true },
            _ => return Err(UnknownSampler),
        })
    }
}

impl SamplerName {
    /// Returns the sampler with this ratio, which only some samplers use. `None` if no call is ever traced.
    pub fn sampler(self, ratio: f64) -> Option<Sampler> {
        let kind = |parent_based| if parent_based { SamplerKind::ParentBased } else { SamplerKind::Own };
        Some(match self {
            Self::Never => return None,
            Self::On { parent_based } => Sampler { kind: kind(parent_based), ratio: 1.0 },
            Self::OffWithoutParent => Sampler { kind: SamplerKind::ParentBased, ratio: 0.0 },
            Self::Ratio { parent_based } => Sampler { kind: kind(parent_based), ratio },
        })
    }
}

impl Sampler {
    /// Whether a call is sampled.
    pub fn samples(&self, trace: &Trace) -> bool {
        match self.kind {
            SamplerKind::ParentBased if trace.has_parent => trace.context.is_sampled(),
            SamplerKind::ParentBased | SamplerKind::Own => is_within(self.ratio, trace.context.trace_id),
        }
    }
}

/// Decides by the trace id like other OpenTelemetry programs, so that all of them choose the same traces.
fn is_within(ratio: f64, trace_id: [u8; 16]) -> bool {
    if ratio >= 1.0 {
        return true;
    }
    let [.., a, b, c, d, e, f, g, h] = trace_id;
    let place = u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1;
    place < (ratio.max(0.0) * (1_u64 << 63) as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(name: &str, ratio: f64, trace: &Trace) -> bool {
        name.parse::<SamplerName>().unwrap().sampler(ratio).is_some_and(|it| it.samples(trace))
    }

    fn called(flags: &str) -> Trace {
        let parent = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
        Trace::from_headers(None, Some(parent.as_bytes()), None)
    }

    #[test]
    fn a_parent_based_sampler_follows_the_caller_and_others_do_not() {
        for (name, ratio, of_sampled, of_unsampled) in [
            ("parentbased_traceidratio", 0.0, true, false),
            ("parentbased_traceidratio", 1.0, true, false),
            ("parentbased_always_off", 1.0, true, false),
            ("parentbased_always_on", 0.0, true, false),
            ("traceidratio", 0.0, false, false),
            ("traceidratio", 1.0, true, true),
            ("always_on", 0.0, true, true),
            ("always_off", 1.0, false, false),
        ] {
            let found = (sampled(name, ratio, &called("01")), sampled(name, ratio, &called("00")));
            assert_eq!(found, (of_sampled, of_unsampled), "{name} {ratio}");
        }
    }

    #[test]
    fn the_ratio_applies_to_calls_without_a_parent() {
        let share = |name: &str, ratio| {
            let calls = (0..10_000).map(|_| Trace::from_headers(None, None, None));
            calls.filter(|trace| sampled(name, ratio, trace)).count()
        };
        assert_eq!(share("parentbased_traceidratio", 0.0), 0);
        assert_eq!(share("parentbased_traceidratio", 1.0), 10_000);
        assert_eq!(share("parentbased_always_on", 0.0), 10_000);
        assert!((2_200..2_800).contains(&share("traceidratio", 0.25)));
    }

    #[test]
    fn an_unknown_name_is_refused() {
        assert_eq!("jaeger_remote".parse::<SamplerName>(), Err(UnknownSampler));
    }
}
