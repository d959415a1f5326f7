//! Rules about system calls as one program for the kernel (classic BPF), which it runs before each call.
//!
//! A tree over the calls' numbers: the kernel tries every number when the program is put in place, for each process anew,
//! and a list of a hundred comparisons would cost more than all else about the jail.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, sock_filter};

use super::numbers::ABSENT;

/// What must hold of one argument of a call. Its lower 32 bits are looked at: no argument named in a rule has more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Test {
    /// It is another number.
    Not(u8, u32),
    /// These bits of it (first) are these (second).
    Bits(u8, u32, u32),
}

impl Test {
    /// It is this number.
    pub(super) const fn is(argument: u8, number: u32) -> Self {
        Self::Bits(argument, u32::MAX, number)
    }
}

/// Which calls end in an error, and when. A call that no rule is about is made.
#[derive(Debug, Default)]
pub(super) struct Rules(BTreeMap<u32, Vec<(u32, Vec<Test>)>>);

/// Comparisons in a row, at the ends of the tree.
const ROW: usize = 4;

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

// Where a call's description has what.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// The architecture as a call's description names it (linux/audit.h). None: there are no numbers for it.
const OWN_ARCHITECTURE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xc000_003e)
} else if cfg!(target_arch = "aarch64") {
    Some(0xc000_00b7)
} else {
    None
};

const fn statement(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

impl Rules {
    /// This call ends in this error, whatever its arguments are, unless an earlier rule says otherwise.
    pub(super) fn always(&mut self, errno: u32, calls: &[i64]) {
        calls.iter().for_each(|call| self.when(errno, *call, &[]));
    }

    /// This call ends in this error if all tests hold.
    pub(super) fn when(&mut self, errno: u32, call: i64, tests: &[Test]) {
        if call != ABSENT {
            self.0.entry(call as u32).or_default().push((errno, tests.to_vec()));
        }
    }

    /// The program. `foreign` is the first number that belongs to another architecture of the same kernel; from it on, calls
    /// end in `errno`. None: there are no rules for this machine.
    pub(super) fn compile(&self, (foreign, errno): (u32, u32)) -> Option<BpfProgram> {
        let mut program = vec![
            statement(LOAD, ARCHITECTURE),
            sock_filter { code: IF_EQUAL, jt: 1, jf: 0, k: OWN_ARCHITECTURE? },
            statement(RETURN, KILL),
            statement(LOAD, NUMBER),
            sock_filter { code: IF_AT_LEAST, jt: 0, jf: 1, k: foreign },
            statement(RETURN, ERROR | errno),
        ];
        let calls: Vec<_> = self.0.iter().map(|(call, rules)| (*call, of_call(rules))).collect();
        program.extend(tree(&calls));
        Some(program)
    }
}

fn tree(calls: &[(u32, BpfProgram)]) -> BpfProgram {
    if calls.len() > ROW {
        let (low, high) = calls.split_at(calls.len() / 2);
        let (below, above) = (tree(low), tree(high));
        let middle = high.first().map_or(0, |it| it.0);
        // A conditional jump reaches 255 statements, the other one any number.
        let mut program =
            vec![sock_filter { code: IF_AT_LEAST, jt: 0, jf: 1, k: middle }, statement(JUMP, below.len() as u32)];
        program.extend(below.into_iter().chain(above));
        return program;
    }
    let mut program = BpfProgram::new();
    for (call, rules) in calls {
        program.push(sock_filter { code: IF_EQUAL, jt: 1, jf: 0, k: *call });
        program.push(statement(JUMP, rules.len() as u32));
        program.extend(rules.iter().cloned());
    }
    program.push(statement(RETURN, ALLOW));
    program
}

/// What is done about a call once its number is known: always ends in a return.
fn of_call(rules: &[(u32, Vec<Test>)]) -> BpfProgram {
    let mut program = BpfProgram::new();
    for (errno, tests) in rules {
        let mut rule = vec![statement(RETURN, ERROR | errno)];
        // From the last to the first, so that each knows how far it is to the end.
        for test in tests.iter().rev() {
            let end = rule.len() as u8;
            let mut tested = match *test {
                Test::Not(argument, number) => vec![
                    statement(LOAD, ARGUMENTS + 8 * u32::from(argument)),
                    sock_filter { code: IF_EQUAL, jt: end, jf: 0, k: number },
                ],
                Test::Bits(argument, mask, bits) => vec![
                    statement(LOAD, ARGUMENTS + 8 * u32::from(argument)),
                    statement(AND, mask),
                    sock_filter { code: IF_EQUAL, jt: 0, jf: end, k: bits },
                ],
            };
            tested.append(&mut rule);
            rule = tested;
        }
        program.append(&mut rule);
    }
    program.push(statement(RETURN, ALLOW));
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program as the kernel would.
    fn run(program: &[sock_filter], number: u32, arguments: [u32; 3]) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let it = &program[at];
            at += 1;
            let jump = |taken| usize::from(if taken { it.jt } else { it.jf });
            match it.code {
                LOAD if it.k == NUMBER => value = number,
                LOAD if it.k == ARCHITECTURE => value = OWN_ARCHITECTURE.unwrap(),
                LOAD => value = arguments[((it.k - ARGUMENTS) / 8) as usize],
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
        let mut rules = Rules::default();
        for call in (0..300).step_by(3) {
            rules.always(call as u32 % 7 + 1, &[call]);
        }
        let long: Vec<_> = (0..60).map(|number| Test::is(0, number)).collect();
        long.iter().for_each(|test| rules.when(40, 100, &[*test, Test::Not(1, 5), Test::Bits(2, 0xf0, 0x20)]));
        let program = rules.compile((512, 38)).unwrap();
        for call in 0..512 {
            let expected = if call % 3 == 0 && call < 300 { ERROR | (call % 7 + 1) } else { ALLOW };
            assert_eq!(run(&program, call, [99, 5, 0]), expected, "{call}");
        }
        for (arguments, expected) in [
            ([59, 4, 0x2f], ERROR | 40),
            ([0, 4, 0x20], ERROR | 40),
            ([60, 4, 0x2f], ALLOW),
            ([59, 5, 0x2f], ALLOW),
            ([59, 4, 0x3f], ALLOW),
        ] {
            assert_eq!(run(&program, 100, arguments), expected, "{arguments:?}");
        }
        assert_eq!(run(&program, 512, [0; 3]), ERROR | 38);
        assert_eq!(run(&program, u32::MAX, [0; 3]), ERROR | 38);
    }

    #[test]
    fn an_earlier_rule_wins() {
        let mut rules = Rules::default();
        rules.when(1, 7, &[Test::is(0, 1)]);
        rules.always(2, &[7]);
        let program = rules.compile((512, 38)).unwrap();
        assert_eq!([run(&program, 7, [1, 0, 0]), run(&program, 7, [2, 0, 0])], [ERROR | 1, ERROR | 2]);
    }
}
