//! Decides at the start of each call whether it is sampled.

use openskill_proto::trace::Trace;

/// A sampler configured by `OTEL_TRACES_SAMPLER`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    /// Whether the caller's decision applies. The ratio then applies only to calls without a decision.
    is_parent_based: bool,
    /// The ratio of sampled traces, 0 to 1.
    ratio: f64,
}

/// The error for an unknown sampler name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownSampler;

impl Sampler {
    /// Returns the sampler with this name and ratio, which only some samplers use. `None` if no call is ever traced,
    /// not even a failed one.
    ///
    /// # Errors
    /// OpenTelemetry defines no sampler with this name, or this crate does not support it.
    pub fn from_name(name: &str, ratio: f64) -> Result<Option<Self>, UnknownSampler> {
        let (is_parent_based, base) = match name.strip_prefix("parentbased_") {
            Some(base) => (true, base),
            None => (false, name),
        };
        let ratio = match base {
            "always_on" => 1.0,
            "always_off" if is_parent_based => 0.0,
            "always_off" => return Ok(None),
            "traceidratio" => ratio,
            _ => return Err(UnknownSampler),
        };
        Ok(Some(Self { is_parent_based, ratio }))
    }

    /// Whether a call is sampled.
    pub fn samples(&self, trace: &Trace) -> bool {
        if self.is_parent_based && trace.has_parent {
            return trace.context.is_sampled();
        }
        is_within(self.ratio, trace.context.trace_id)
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
        Sampler::from_name(name, ratio).unwrap().is_some_and(|it| it.samples(trace))
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
        for name in ["jaeger_remote", "parentbased_parentbased_always_on", "parentbased_", ""] {
            assert_eq!(Sampler::from_name(name, 1.0), Err(UnknownSampler), "{name}");
        }
    }
}
