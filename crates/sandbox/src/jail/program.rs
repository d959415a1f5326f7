//! Compiles rules about system calls into one classic BPF program, which the kernel runs before each call.
//!
//! The program is a binary tree over the call numbers, in which neighbors with the same rule share a leaf. The
//! kernel tries each number when a process installs the program, so a list of hundreds of comparisons would cost
//! more than the rest of the jail.

use seccompiler::{BpfProgram, sock_filter};

/// The lowest number that was not reviewed and belongs to a newer kernel. All calls of the x32 architecture also
/// have higher numbers.
pub(super) const UNREVIEWED: u32 = 470;

/// Marks a call that does not exist on this architecture.
pub(super) const ABSENT: i64 = -1;

/// A condition on one argument of a call. Checks the lower 32 bits, because no argument in a rule is wider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Test {
    /// The argument (first number) differs from the second number.
    Not(u8, i32),
    /// The argument (first number), masked with the second number, equals the third.
    Bits(u8, i32, i32),
}

impl Test {
    /// Tests that the argument equals this number.
    pub(super) const fn is(argument: u8, number: i32) -> Self {
        Self::Bits(argument, -1, number)
    }
}

/// The action for each reviewed call, by number. All other calls fail as if they did not exist.
#[derive(Debug)]
pub(super) struct Rules(Vec<Call>);

/// The action for one call.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    /// Errors with their tests. The first error whose tests all match applies.
    refusals: Vec<(u32, Vec<Test>)>,
    /// The action if none of the errors applies.
    end: u32,
}

// As in linux/bpf_common.h and linux/seccomp.h.
const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const ERROR: u32 = 0x0005_0000;
const KILL: u32 = 0x8000_0000;
const ENOSYS: u32 = 38;

// Offsets in the description of a call (`struct seccomp_data`).
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// The place of this architecture's numbers in the groups of calls, and its value in the description of a call
/// (linux/audit.h). `None` if its numbers are unknown.
pub(super) const OWN_ARCHITECTURE: Option<(usize, u32)> = if cfg!(target_arch = "x86_64") {
    Some((0, 0xc000_003e))
} else if cfg!(target_arch = "aarch64") {
    Some((1, 0xc000_00b7))
} else {
    None
};

const fn statement(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

impl Rules {
    /// Creates rules that answer all calls with this error until they are allowed.
    pub(super) fn refusing(errno: u32) -> Self {
        Self(vec![Call::ending(ERROR | errno); UNREVIEWED as usize])
    }

    /// Allows these calls.
    pub(super) fn allow(&mut self, calls: &[i64]) {
        self.set(ALLOW, calls);
    }

    /// Answers these calls with this error, whatever their arguments are.
    pub(super) fn refuse(&mut self, errno: u32, calls: &[i64]) {
        self.set(ERROR | errno, calls);
    }

    /// Answers this call with this error if all tests match. Has no effect on a call that is refused anyway.
    pub(super) fn refuse_if(&mut self, errno: u32, call: i64, tests: &[Test]) {
        if let Some(call) = self.call(call).filter(|it| it.end == ALLOW) {
            call.refusals.push((errno, tests.to_vec()));
        }
    }

    /// Returns the restrictions of these rules that an installed filter (`other`) does not have. Allows everything
    /// else, because the installed filter decides it.
    pub(super) fn beyond(&self, other: &Self) -> Self {
        let calls = self.0.iter().zip(&other.0);
        Self(calls.map(|(own, other)| if own == other { Call::ending(ALLOW) } else { own.clone() }).collect())
    }

    fn set(&mut self, end: u32, calls: &[i64]) {
        for call in calls {
            if let Some(call) = self.call(*call) {
                *call = Call::ending(end);
            }
        }
    }

    fn call(&mut self, number: i64) -> Option<&mut Call> {
        if number == ABSENT { None } else { self.0.get_mut(usize::try_from(number).ok()?) }
    }

    /// Compiles the program. Returns `None` if no rules exist for this architecture.
    pub(super) fn compile(&self) -> Option<BpfProgram> {
        let mut program = vec![
            statement(LOAD, ARCHITECTURE),
            sock_filter { code: IF_EQUAL, jt: 1, jf: 0, k: OWN_ARCHITECTURE?.1 },
            statement(RETURN, KILL),
            statement(LOAD, NUMBER),
        ];
        // The leaves, each with the first number that it applies to.
        let mut leaves: Vec<(u32, BpfProgram)> = Vec::new();
        for (number, call) in self.0.iter().enumerate() {
            if number == 0 || self.0[number - 1] != *call {
                leaves.push((number as u32, call.program()));
            }
        }
        leaves.push((UNREVIEWED, vec![statement(RETURN, ERROR | ENOSYS)]));
        program.extend(tree(&leaves));
        Some(program)
    }
}

fn tree(leaves: &[(u32, BpfProgram)]) -> BpfProgram {
    let (below, above) = match leaves {
        [] => return BpfProgram::new(),
        [(_, leaf)] => return leaf.clone(),
        _ => leaves.split_at(leaves.len() / 2),
    };
    let middle = above.first().map_or(0, |it| it.0);
    let (below, above) = (tree(below), tree(above));
    let mut program = match u8::try_from(below.len()) {
        Ok(length) => vec![sock_filter { code: IF_AT_LEAST, jt: length, jf: 0, k: middle }],
        // A conditional jump spans at most 255 statements. An unconditional one has no such limit.
        Err(_) => vec![sock_filter { code: IF_AT_LEAST, jt: 0, jf: 1, k: middle }, statement(JUMP, below.len() as u32)],
    };
    program.extend(below.into_iter().chain(above));
    program
}

impl Call {
    const fn ending(end: u32) -> Self {
        Self { refusals: Vec::new(), end }
    }

    /// Returns the statements that decide on the call when its number is known. They always end in a return.
    fn program(&self) -> BpfProgram {
        let mut program = BpfProgram::new();
        for (errno, tests) in &self.refusals {
            let mut rule = vec![statement(RETURN, ERROR | errno)];
            // Compile from last to first, so that each test knows its distance to the end.
            for test in tests.iter().rev() {
                let end = rule.len() as u8;
                let mut tested = match *test {
                    Test::Not(argument, number) => vec![
                        statement(LOAD, ARGUMENTS + 8 * u32::from(argument)),
                        sock_filter { code: IF_EQUAL, jt: end, jf: 0, k: number as u32 },
                    ],
                    Test::Bits(argument, mask, bits) => vec![
                        statement(LOAD, ARGUMENTS + 8 * u32::from(argument)),
                        statement(AND, mask as u32),
                        sock_filter { code: IF_EQUAL, jt: 0, jf: end, k: bits as u32 },
                    ],
                };
                tested.append(&mut rule);
                rule = tested;
            }
            program.append(&mut rule);
        }
        program.push(statement(RETURN, self.end));
        program
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Rules {
        /// Returns the error of a call when the kernel runs the program, or `None` if the call is allowed.
        pub(in crate::jail) fn run(&self, number: u32, arguments: impl AsRef<[u32]>) -> Option<u32> {
            match run(&self.compile().unwrap(), number, arguments.as_ref()) {
                ALLOW => None,
                error => Some(error & 0xffff),
            }
        }
    }

    /// Runs a program as the kernel does. Missing arguments are zero.
    fn run(program: &[sock_filter], number: u32, arguments: &[u32]) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let it = &program[at];
            at += 1;
            let jump = |taken| usize::from(if taken { it.jt } else { it.jf });
            match it.code {
                LOAD if it.k == NUMBER => value = number,
                LOAD if it.k == ARCHITECTURE => value = OWN_ARCHITECTURE.unwrap().1,
                LOAD => value = arguments.get(((it.k - ARGUMENTS) / 8) as usize).copied().unwrap_or(0),
                AND => value &= it.k,
                JUMP => at += it.k as usize,
                IF_EQUAL => at += jump(value == it.k),
                IF_AT_LEAST => at += jump(value >= it.k),
                RETURN => return it.k,
                code => panic!("{code}"),
            }
        }
    }

    #[test]
    fn each_call_meets_its_own_rules_and_no_other() {
        let mut rules = Rules::refusing(38);
        for call in (0..300).step_by(3) {
            rules.refuse(call as u32 % 7 + 1, &[call]);
            rules.allow(&[call + 1]);
        }
        let long: Vec<_> = (0..60).map(|number| Test::is(0, number)).collect();
        long.iter().for_each(|test| rules.refuse_if(40, 100, &[*test, Test::Not(1, 5), Test::Bits(2, 0xf0, 0x20)]));
        let program = rules.compile().unwrap();
        for call in 0..600 {
            let expected = match call % 3 {
                0 if call < 300 => ERROR | (call % 7 + 1),
                1 if call < 300 => ALLOW,
                _ => ERROR | 38,
            };
            assert_eq!(run(&program, call, &[99, 5]), expected, "{call}");
        }
        for (arguments, expected) in [
            ([59, 4, 0x2f, 0], ERROR | 40),
            ([0, 4, 0x20, 0], ERROR | 40),
            ([60, 4, 0x2f, 0], ALLOW),
            ([59, 5, 0x2f, 0], ALLOW),
            ([59, 4, 0x3f, 0], ALLOW),
        ] {
            assert_eq!(run(&program, 100, &arguments), expected, "{arguments:?}");
        }
        assert_eq!(run(&program, u32::MAX, &[]), ERROR | 38);
    }

    #[test]
    fn an_earlier_condition_wins_and_none_changes_what_is_refused() {
        let mut rules = Rules::refusing(38);
        rules.allow(&[7]);
        rules.refuse(3, &[8]);
        for call in [7, 8, 9] {
            rules.refuse_if(1, call, &[Test::is(0, 1)]);
            rules.refuse_if(2, call, &[]);
        }
        assert_eq!([1, 2].map(|it| rules.run(7, [it, 0, 0, 0])), [Some(1), Some(2)]);
        assert_eq!([8, 9].map(|call| rules.run(call, [1, 0, 0, 0])), [Some(3), Some(38)]);
    }

    #[test]
    fn what_goes_beyond_other_rules_is_what_differs_from_them() {
        let (mut wide, mut narrow) = (Rules::refusing(38), Rules::refusing(38));
        wide.allow(&[1, 2]);
        narrow.allow(&[1]);
        narrow.refuse(1, &[2]);
        narrow.refuse_if(4, 1, &[Test::is(0, 4)]);
        let beyond = narrow.beyond(&wide);
        assert_eq!([1, 2, 3, 600].map(|call| beyond.run(call, [0; 4])), [None, Some(1), None, Some(38)]);
        assert_eq!(beyond.run(1, [4, 0, 0, 0]), Some(4));
    }
}
