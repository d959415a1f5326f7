use std::collections::HashMap;
use std::io::Cursor;

use super::*;
use openskill_readers_protocol::definitions::protocol::{Definition, Kind, MAX_DEFINITIONS, MAX_TEXT_BYTES};

fn parse(language: Language, source: &[u8]) -> Reply {
    reply(&mut HashMap::new(), language, source).unwrap()
}

/// Finds definitions. Returns their kinds and qualified names.
fn found(language: Language, source: &str) -> Vec<String> {
    let reply = parse(language, source.as_bytes());
    assert!(!reply.syntax_errors, "{language:?} does not parse its own example");
    let shown =
        |it: &Definition| format!("{} {}", serde_json::to_value(it.kind).unwrap().as_str().unwrap(), it.qualified_name);
    reply.definitions.iter().map(shown).collect()
}

#[test]
fn every_grammar_is_of_an_abi_that_the_library_reads() {
    for language in Language::all() {
        let reply = parse(language, b"");
        assert!(reply.definitions.is_empty(), "{language:?}");
    }
}

#[test]
fn python() {
    let source = "@d\nclass A(B):\n    async def m(self, x: int) -> str:\n        def inner(): pass\n\nif True:\n    def f(a,\n          b=1):\n        return 1\n";
    assert_eq!(found(Language::Python, source), ["class A", "method A.m", "function A.m.inner", "function f"]);
    let reply = parse(Language::Python, source.as_bytes());
    let f = &reply.definitions[3];
    assert_eq!((f.signature.as_str(), f.start_line, f.end_line, f.name.as_str()), ("def f(a, b=1)", 7, 9, "f"));
    assert_eq!(reply.definitions[1].signature, "async def m(self, x: int) -> str");
}

#[test]
fn rust() {
    let source = "mod m { pub struct S<T>(T); impl<T> Clone for S<T> { fn clone(&self) -> Self { const X: u8 = 1; todo!() } } }\n\
                  trait T { fn a(&self); type Y; }\nenum E { A }\nmacro_rules! mac { () => {} }\nconst C: u8 = 1;\nfn free() {}\n";
    assert_eq!(
        found(Language::Rust, source),
        [
            "module m",
            "struct m::S",
            "method m::S::clone",
            "trait T",
            "method T::a",
            "enum E",
            "macro mac",
            "constant C",
            "function free"
        ]
    );
}

#[test]
fn javascript_and_typescript() {
    let source = "class A { constructor() {} get b() { return 1 } c = () => 2; static #d() {} }\nfunction f() {}\nconst g = async () => 3;\nconst o = { h() {}, i: function () {}, j: 1 };\nA.prototype.k = function () {};\nlet notOne = 1;\n";
    assert_eq!(
        found(Language::JavaScript, source),
        [
            "class A",
            "method A.constructor",
            "method A.b",
            "method A.c",
            "method A.#d",
            "function f",
            "function g",
            "method h",
            "method i",
            "function A.prototype.k"
        ]
    );
    let source = "namespace N { export interface I { m(a: string): void } export type T = string; export enum E { A } }\nabstract class B<T> { abstract x(): T; y = (z: T) => z; }\nfunction over(a: string): void;\nfunction over(a: any) {}\n";
    let expected = [
        "namespace N",
        "interface N.I",
        "method N.I.m",
        "type N.T",
        "enum N.E",
        "class B",
        "method B.x",
        "method B.y",
        "function over",
        "function over",
    ];
    assert_eq!(found(Language::TypeScript, source), expected);
    assert_eq!(found(Language::Tsx, "const V = () => <b>{1}</b>;\n"), ["function V"]);
}

#[test]
fn go_and_java() {
    let source = "package p\ntype S struct{}\ntype I interface{ M() }\ntype A = int\nconst C = 1\nfunc (s *S) M() {}\nfunc F[T any](t T) { const local = 1 }\n";
    assert_eq!(
        found(Language::Go, source),
        ["struct S", "interface I", "method I.M", "type A", "constant C", "method S.M", "function F"]
    );
    let source = "package p; public class A<T> { A() {} int m() { return 1; } enum E { X } record R(int a) {} interface I { void n(); } @interface N { int v(); } }\n";
    assert_eq!(
        found(Language::Java, source),
        [
            "class A",
            "method A.A",
            "method A.m",
            "enum A.E",
            "class A.R",
            "interface A.I",
            "method A.I.n",
            "interface A.N",
            "method A.N.v"
        ]
    );
}

#[test]
fn c_and_cpp() {
    let source = "#define M 1\n#define F(x) x\nstruct S { int a; };\nstruct S *declared;\ntypedef struct { int b; } T;\nenum E { A };\nstatic int *f(int a, int (*cb)(int)) { return 0; }\nint prototype(void);\n";
    assert_eq!(found(Language::C, source), ["macro M", "macro F", "struct S", "type T", "enum E", "function f"]);
    let source = "namespace a::b { template <class T> class C : D { public: C(); ~C() {} T m() const; operator bool() const { return true; } bool operator==(const C&) const { return true; } int field; }; }\nint a::b::C<int>::m() const { return 1; }\nusing X = int;\nint free_one() { return 1; }\n";
    assert_eq!(
        found(Language::Cpp, source),
        [
            "namespace a::b",
            "class a::b::C",
            "method a::b::C::C",
            "method a::b::C::~C",
            "method a::b::C::m",
            "method a::b::C::operator bool",
            "method a::b::C::operator==",
            "method a::b::C::m",
            "type X",
            "function free_one"
        ]
    );
}

#[test]
fn methods_that_a_cpp_class_only_declares() {
    let source = "class Widget { public: Widget(); explicit Widget(int n); Widget(const Widget&) = delete; virtual ~Widget(); void draw() const; operator bool() const; template <class T> void set(T t); friend void swap(Widget&, Widget&); int (*callback)(int); int at; class Later; };\nstruct S { S(); };\nint prototype(void);\nvoid f() { Widget local(); }\n";
    assert_eq!(
        found(Language::Cpp, source),
        [
            "class Widget",
            "method Widget::Widget",
            "method Widget::Widget",
            "method Widget::Widget",
            "method Widget::~Widget",
            "method Widget::draw",
            "method Widget::operator bool",
            "method Widget::set",
            "struct S",
            "method S::S",
            "function f"
        ]
    );
}

#[test]
fn functions_that_a_component_is_made_of() {
    let source = "export const Card = memo(({a}: {a: string}) => <div>{a}</div>);\nexport const Inp = forwardRef<HTMLInputElement, P>((p, ref) => <input ref={ref}/>);\nconst Both = React.memo(forwardRef(function Inner(p) { return <b/>; }));\nconst Typed = ((p) => <i/>) as FC;\nconst kept = (() => 1) satisfies F;\nconst names = load(() => 1);\nconst Names = all.map((it) => it.name);\nconst Context = createContext(null);\n";
    assert_eq!(
        found(Language::Tsx, source),
        ["function Card", "function Inp", "function Both", "function Typed", "function kept"]
    );
    let signatures: Vec<_> =
        parse(Language::Tsx, source.as_bytes()).definitions.into_iter().map(|it| it.signature).collect();
    assert_eq!(signatures[0], "Card = memo(({a}: {a: string}) =>");
    assert_eq!(signatures[2], "Both = React.memo(forwardRef(function Inner(p)");
}

#[test]
fn kotlin_in_one_line() {
    let source = "interface If { fun i() }\nobject Ob { fun o() {} }\nfun interface Fi { fun run() }\nenum class En { A, B; fun e() {} }\ndata class D(val x: Int)\nclass Two { fun a() {} @Inject private fun b() = run { 1 } companion object { const val C = 1 } val s = \"${ 1 } }\" }\nclass Tight {fun t()}\nclass Empty { }\nfun top(x: Int) = when (x) { 1 -> listOf(1).map { it } else -> { } }\n";
    assert_eq!(
        found(Language::Kotlin, source),
        [
            "interface If",
            "method If.i",
            "object Ob",
            "method Ob.o",
            "interface Fi",
            "method Fi.run",
            "class En",
            "method En.e",
            "class D",
            "class Two",
            "method Two.a",
            "method Two.b",
            "object Two.Companion",
            "class Tight",
            "method Tight.t",
            "class Empty",
            "function top"
        ]
    );
    let reply = parse(Language::Kotlin, format!("{source}fun (\n").as_bytes());
    assert_eq!((reply.syntax_errors, reply.definitions.len()), (true, 17), "what follows a real error stays one");
    let lines: Vec<_> = reply.definitions.iter().map(|it| it.start_line).collect();
    assert_eq!(lines, [1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 6, 6, 6, 7, 7, 8, 9]);
    // Braces in text rather than in code, and templates, which end with a brace.
    let source = "class A { val c = '}'; val s = \"\"\"x } ${ if (a) { \"${b} \\\" }\" } else { c } } \"\"\" }\nclass B { fun `a } b`() {} /* } fun c() {} */ }\nclass C { fun d() {} // } fun e() {}\n}\nclass F { val f = { x: Int -> } }\n";
    assert_eq!(
        found(Language::Kotlin, source),
        ["class A", "class B", "method B.`a } b`", "class C", "method C.d", "class F"]
    );
    for unfinished in ["\"${", "\"${ {", "\"\\", "'", "/*", "\"\"\"${ \"", "}}}}", "} fun", "${"] {
        parse(Language::Kotlin, format!("class A {{ fun a() {{}} }}\n{unfinished}").as_bytes());
    }
}

#[test]
fn others() {
    let source = "namespace N;\nclass A { A() {} int P { get; set; } void M<T>() { void L() {} } interface I { } struct S { } enum E { X } }\ndelegate void D();\nrecord R(int X);\n";
    assert_eq!(
        found(Language::CSharp, source),
        [
            "namespace N",
            "class A",
            "method A.A",
            "property A.P",
            "method A.M",
            "function A.M.L",
            "interface A.I",
            "struct A.S",
            "enum A.E",
            "type D",
            "class R"
        ]
    );
    let source = "module M\n  class A < B\n    def m(x) = x\n    def self.s; end\n    class << self\n      def t; end\n    end\n  end\nend\ndef top; end\n";
    assert_eq!(
        found(Language::Ruby, source),
        ["module M", "class M.A", "method M.A.m", "method M.A.s", "method M.A.t", "method top"]
    );
    let source = "<?php namespace A\\B; interface I {} trait T {} enum E { case X; } class C { function m(): int { return 1; } } function f() {}\n";
    let expected = ["namespace A\\B", "interface I", "trait T", "enum E", "class C", "method C::m", "function f"];
    assert_eq!(found(Language::Php, source), expected);
    assert_eq!(
        found(Language::Bash, "f() { g() { :; }; }\nfunction h { :; }\n"),
        ["function f", "function f.g", "function h"]
    );
    let source = "function a.b:c() end\nlocal function d() end\ne = function() end\nlocal g = function() end\nlocal t = { h = function() end, 1 }\n";
    assert_eq!(found(Language::Lua, source), ["method a.b.c", "function d", "function e", "function g", "function h"]);
    let source = "class A {\n  fun m() {}\n  companion object {\n    fun s() {}\n  }\n  object O\n}\ninterface I\nenum class E { X }\nfun top() {}\ntypealias T = Int\n";
    assert_eq!(
        found(Language::Kotlin, source),
        [
            "class A",
            "method A.m",
            "object A.Companion",
            "method A.Companion.s",
            "object A.O",
            "interface I",
            "class E",
            "function top",
            "type T"
        ]
    );
    let source =
        "package p\ntrait T { def a: Int }\nobject O { def b(x: Int) = x; type Y = Int }\ncase class C(x: Int)\n";
    assert_eq!(
        found(Language::Scala, source),
        ["trait T", "method T.a", "object O", "method O.b", "type O.Y", "class C"]
    );
}

#[test]
fn hostile_sources_are_parsed_within_bounds() {
    for language in Language::all() {
        for source in ["(".repeat(2_000), "{[(<".repeat(500), "\0\u{1}\n".repeat(500), "\"".repeat(999)] {
            let reply = parse(language, source.as_bytes());
            assert!(reply.definitions.len() <= MAX_DEFINITIONS, "{language:?}");
        }
        parse(language, &[0xff; 1000]);
    }
    let long = format!("class {} {{ }}\n", "a".repeat(100_000));
    let reply = parse(Language::Java, long.as_bytes());
    assert!(reply.definitions.iter().all(|it| it.name.len() <= MAX_TEXT_BYTES && it.signature.len() <= MAX_TEXT_BYTES));
    let many = "def f(): pass\n".repeat(MAX_DEFINITIONS + 5);
    let reply = parse(Language::Python, many.as_bytes());
    assert_eq!((reply.definitions.len(), reply.truncated), (MAX_DEFINITIONS, true));
    let nested: String = (0..3000).map(|it| format!("{}def f{it}():\n", " ".repeat(it % 90))).collect();
    assert!(
        parse(Language::Python, nested.as_bytes())
            .definitions
            .iter()
            .all(|it| it.qualified_name.len() <= MAX_TEXT_BYTES)
    );
}

#[test]
fn the_process_answers_request_after_request_and_ends_with_its_input() {
    let mut input = Vec::new();
    for source in ["def a(): pass\n", "class B: pass\n"] {
        input.extend(serde_json::to_vec(&Request { language: Language::Python, bytes: source.len() }).unwrap());
        input.push(b'\n');
        input.extend(source.as_bytes());
    }
    let mut output = Vec::new();
    serve(Cursor::new(&input), &mut output).unwrap();
    let replies: Vec<Reply> = output
        .split(|it| *it == b'\n')
        .filter(|it| !it.is_empty())
        .map(|it| serde_json::from_slice(it).unwrap())
        .collect();
    assert_eq!(replies.iter().map(|it| it.definitions[0].kind).collect::<Vec<_>>(), [Kind::Function, Kind::Class]);
    let too_large = format!(
        "{}\n",
        serde_json::to_string(&Request { language: Language::C, bytes: MAX_SOURCE_BYTES + 1 }).unwrap()
    );
    assert!(serve(Cursor::new(too_large), Vec::new()).is_err());
    assert!(serve(Cursor::new("nonsense\n"), Vec::new()).is_err());
    assert!(serve(Cursor::new(&input[..input.len() - 3]), Vec::new()).is_err(), "half a source");
}
