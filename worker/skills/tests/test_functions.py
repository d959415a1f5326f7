"""Functions that are skills: what a worker reads in their files, and how they are called.

python3 -m unittest discover -s worker/skills/tests
"""

import json
import subprocess
import sys
import textwrap
import unittest

from host import SKILLS

sys.path.insert(0, str(SKILLS))

from openskill_sdk import Context, Result, SkillError, skill  # noqa: E402

READER = SKILLS.parent / "src/registry/functions/reader.py"


def read(body, head="from openskill_sdk import Context, skill\n", name="made.py"):
    """What the reader prints for a file, as a worker starts it."""
    text = head + textwrap.dedent(body)
    command = [sys.executable, "-I", "-S", str(READER), name]
    done = subprocess.run(command, input=text.encode("utf-8", "surrogatepass"), capture_output=True, timeout=20)
    return json.loads(done.stdout)


class Signatures(unittest.TestCase):
    maxDiff = None

    def keys(self, body, **options):
        found = read(body, **options)
        self.assertEqual([], found["problems"])
        return {it["key"]: it["value"] for it in found["skills"][0]["keys"]}

    def properties(self, parameters, head=""):
        schema = self.keys(f"{head}\n@skill\ndef f({parameters}): pass\n")["input_schema"]
        return schema["properties"], schema["required"]

    def test_each_annotation_is_a_schema(self):
        text = {"type": "string"}
        head = "from typing import Annotated, Any, List, Literal, NewType, Optional, Sequence, Union\n"
        head += "import datetime, typing as t\nfrom pathlib import Path\nTone = Literal['a', 'b']\nId = NewType('Id', int)"
        for annotation, schema in {
            "str": text,
            "int": {"type": "integer"},
            "float": {"type": "number"},
            "bool": {"type": "boolean"},
            "None": {"type": "null"},
            "Any": {},
            "list": {"type": "array"},
            "list[str]": {"type": "array", "items": text},
            "List['str']": {"type": "array", "items": text},
            "Sequence[Any]": {"type": "array"},
            "set[str]": {"type": "array", "items": text, "uniqueItems": True},
            "tuple[str, ...]": {"type": "array", "items": text},
            "tuple[str, str]": {"type": "array", "prefixItems": [text, text], "minItems": 2, "maxItems": 2},
            "dict": {"type": "object"},
            "dict[str, list[str]]": {"type": "object", "additionalProperties": {"type": "array", "items": text}},
            "Tone": {"type": "string", "enum": ["a", "b"]},
            "t.Literal['a', 1, None]": {"enum": ["a", 1, None]},
            "Id": {"type": "integer"},
            "Optional[str]": {"type": ["string", "null"]},
            "Tone | None": {"type": ["string", "null"], "enum": ["a", "b", None]},
            "'str | int'": {"anyOf": [text, {"type": "integer"}]},
            "Union[str, int, None]": {"anyOf": [text, {"type": "integer"}, {"type": "null"}]},
            "datetime.date": {"type": "string", "format": "date"},
            "Path": text,
            "Annotated[str, 'the name']": {"type": "string", "description": "the name"},
            "Annotated[int, {'minimum': 1}, 'how many']": {"type": "integer", "minimum": 1, "description": "how many"},
        }.items():
            with self.subTest(annotation=annotation):
                self.assertEqual(({"a": schema}, ["a"]), self.properties(f"a: {annotation}", head))

    def test_defaults_that_are_literals_are_in_the_schema(self):
        head = "import enum\nMOST = 60 * 60\nclass Color(enum.Enum):\n    RED = 'red'"
        properties, required = self.properties("a=-1, b=MOST, c=Color.RED, d=(1, 'x'), e=open('x'), f: int = None, *, g", head)
        self.assertEqual([-1, 3600, "red", [1, "x"]], [properties[it]["default"] for it in "abcd"])
        self.assertEqual((["g"], False, False), (required, "default" in properties["e"], "default" in properties["f"]))

    def test_classes_of_the_file_are_definitions(self):
        keys = self.keys('''
            import enum
            from dataclasses import dataclass, field
            from typing import ClassVar, NotRequired, TypedDict
            from pydantic import BaseModel, Field

            class Color(str, enum.Enum):
                """Which one."""
                RED = "red"
                BLUE = "blue"

            @dataclass
            class Base:
                id: int

            @dataclass(frozen=True)
            class Node(Base):
                """A node.

                Attributes:
                    name: what it is called
                """
                name: str = "x"
                color: Color = Color.BLUE
                tags: list[str] = field(default_factory=list)
                next: "Node | None" = None
                count: ClassVar[int] = 0
                seen: bool = field(default=False, init=False)

            class Options(TypedDict):
                depth: int
                wide: NotRequired[bool]

            class Model(BaseModel):
                size: int = Field(ge=1, le=10, description="how large")
                label: str = Field("none", alias="name", max_length=5)
                _hidden: int = 0

            @skill
            def f(node: Node, options: Options, model: Model) -> Node: ...
        ''')
        definitions = {
            "Color": {"type": "string", "enum": ["red", "blue"], "description": "Which one."},
            "Node": {
                "type": "object", "description": "A node.", "required": ["id"], "additionalProperties": False,
                "properties": {
                    "id": {"type": "integer"},
                    "name": {"type": "string", "description": "what it is called", "default": "x"},
                    "color": {"$ref": "#/$defs/Color", "default": "blue"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}], "default": None},
                },
            },
            "Options": {
                "type": "object", "required": ["depth"],
                "properties": {"depth": {"type": "integer"}, "wide": {"type": "boolean"}},
            },
            "Model": {
                "type": "object", "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "minimum": 1, "maximum": 10, "description": "how large"},
                    "name": {"type": "string", "maxLength": 5, "default": "none"},
                },
            },
        }
        self.assertEqual(definitions, keys["input_schema"]["$defs"])
        self.assertEqual({"$ref": "#/$defs/Node"}, keys["input_schema"]["properties"]["node"])
        definitions["Node"]["properties"]["seen"] = {"type": "boolean", "default": False}  # of a result
        self.assertEqual({**definitions["Node"], "$defs": {name: definitions[name] for name in ("Node", "Color")}}, keys["output_schema"])

    def test_the_schema_of_a_result_has_the_names_that_it_is_dumped_with(self):
        schema = self.keys('''
            from pydantic import BaseModel, Field
            class Model(BaseModel):
                label: str = Field(alias="name")
                secret: str = Field("", exclude=True)
            @skill
            def f() -> Model: ...
        ''')["output_schema"]
        self.assertEqual((["label"], ["label"]), (list(schema["properties"]), schema["required"]))

    def test_a_name_means_what_the_top_level_of_the_file_says(self):
        text, number = {"type": "string"}, {"type": "integer"}
        head = "from elsewhere import Id\nimport enum\nclass Id(enum.Enum):\n    ONE = 1\n"
        head += "def inner():\n    from elsewhere import Name\nName = str\n"
        head += "try:\n    from uuid import UUID as Key\nexcept ImportError:\n    Key = str\n"
        properties, _ = self.properties("a: Id = Id.ONE, b: Name = '', c: Key = ''", head)
        expected = {"a": {"$ref": "#/$defs/Id", "default": 1}, "b": {**text, "default": ""}, "c": {**text, "format": "uuid", "default": ""}}
        self.assertEqual(expected, properties)
        self.assertEqual(({"a": number}, ["a"]), self.properties("a: Id", "Id = int\nif True:\n    Id = str"))

    def test_the_docstring_describes_the_skill_and_its_arguments(self):
        keys = self.keys('''
            @skill
            def f(path: str, most: int = 1, context: Context = None) -> dict:
                """Count lines.

                Only of text files.

                Args:
                    path (str): the file: below
                        data/
                    most: how many
                    nothing: not a parameter

                Returns:
                    The number.
                """
        ''')
        self.assertEqual("Count lines.\n\nOnly of text files.\n\nReturns:\n    The number.", keys["description"])
        properties = keys["input_schema"]["properties"]
        self.assertEqual({"path": "the file: below data/", "most": "how many"}, {key: it["description"] for key, it in properties.items()})
        self.assertEqual({"type": "object"}, keys["output_schema"])

    def test_the_decorator_has_the_keys_of_a_manifest(self):
        head = '''# /// script
# dependencies = [
#   "rich",
#   "httpx>=0.27",
# ]
# ///
import openskill_sdk as sdk
'''
        keys = self.keys("@sdk.skill(id='say', timeout=1.5, read_only=True, env=['A'], limits={'memory_mb': 2 * 64})\ndef f(): ...\n", head=head)
        expected = {"id": "say", "timeout_ms": 1500, "read_only": True, "env": ["A"], "limits": {"memory_mb": 128},
                    "type": "cli", "runtime": "python", "entry": "made.py",
                    "python": {"function": "f", "requirements": ["rich", "httpx>=0.27"]}}
        self.assertEqual(expected, {key: keys[key] for key in expected})
        own = self.keys("@sdk.skill(requirements=['a'], input_schema={'type': 'object'})\ndef f(x: Unknown): ...\n", head=head)
        self.assertEqual((["a"], {"type": "object"}), (own["python"]["requirements"], own["input_schema"]))

    def test_what_can_not_be_read_is_a_problem_with_its_line(self):
        for body, line, words in (
            ("def f(a: Order): pass", 4, "is not known"),
            ("def f(\n  a: str,\n  b: list[Imported],\n): pass", 6, "comes from 'elsewhere'"),
            ("def f(*rest): pass", 4, "*rest"),
            ("def f(a: dict[int, str]): pass", 4, "must be str"),
            ("def f(a: bytes): pass", 4, "bytes"),
            ("def f(a: Plain): pass\nclass Plain: pass", 4, "Plain"),
            ("def f(a: 'list[') : pass", 4, "list["),
            ("def f(a: Self): pass\nSelf = list['Self']", 5, "refers to itself"),
            ("@skill(timeout=slow())\ndef f(): pass", 4, "must be a literal"),
            ("@skill('f')\ndef f(): pass", 4, "by name"),
            ("@skill(**all)\ndef f(): pass", 4, "by name"),
            ("@skill(entry='x')\ndef f(): pass", 4, "can't be set"),
            ("@skill(python={'function': 'g'})\ndef f(): pass", 4, "can't be set"),
            ("def f(): pass\n@skill\ndef f(a): pass", 6, "f is bound again"),
            ("def f(): pass\nfor x, f in []: pass", 5, "f is bound again"),
            ("def f(a: D): pass\nimport dataclasses as d\n@d.dataclass\nclass D:\n  x: d.InitVar[int]", 8, "InitVar"),
            ("class A:\n  @skill\n  def f(self): pass", 6, "top level"),
            ("def f(:", 4, "not Python"),
            ("def f(a='\\ud800'): pass\n@skill(title='\\ud800')\ndef g(): pass", 5, "must be a literal"),
        ):
            with self.subTest(body=body):
                skill = "" if body.startswith(("@", "class")) else "@skill"
                found = read(f"from elsewhere import Imported\n{skill}\n{body}\n")["problems"]
                self.assertEqual((1, line), (len(found), found[0]["line"]), found)
                self.assertIn(words, found[0]["reason"])

    def test_files_and_functions_are_bounded(self):
        many = read("".join(f"@skill\ndef f{number}(): pass\n" for number in range(300)))
        self.assertEqual((256, 1), (len(many["skills"]), len(many["problems"])))
        self.assertEqual("skills", next(iter(read("x = " + "(" * 5000))))

    def test_a_hostile_file_takes_little_time(self):
        doubled = "".join(f"T{n} = tuple[T{n + 1}, T{n + 1}]\n" for n in range(40)) + "T40 = int\n@skill\ndef g(a: T0): pass\n"
        for body, head, problems in (
            (f"@a{'.a' * 200}\ndef g(): pass\n", "", 0),
            ("", "# /// script\n" + "#\n" * 100_000 + "x = 1\n", 0),
            ("", "# /// script\n" * 20_000, 0),
            (f"@skill\ndef g():\n    '''g\n\n    Args:\n      a{' ' * 200_000}b\n    '''\n", "", 0),
            (doubled, "", 1),
        ):
            with self.subTest(body=body[:20], head=head[:20]):
                found = read(f"{body}@skill\ndef f(): pass\n", head=f"{head}from openskill_sdk import skill\n")
                self.assertEqual(problems, len(found["problems"]), found["problems"])
                self.assertEqual("f", found["skills"][-1]["function"])

    def test_a_file_has_no_name_of_a_module_of_python(self):
        found = read("@skill\ndef f(): pass\n", name="types.py")
        self.assertEqual(([], 3), (found["skills"], found["problems"][0]["line"]))
        self.assertIn("'types'", found["problems"][0]["reason"])
        self.assertEqual([], read("x = 1\n", head="", name="types.py")["problems"])

    def test_other_decorators_are_not_ours(self):
        found = read("@skill.other\n@property\ndef f(): pass\n")
        self.assertEqual(([], []), (found["skills"], found["problems"]))


class Calls(unittest.TestCase):
    def test_a_function_is_called_as_any_other(self):
        @skill(read_only=True)
        def twice(text: str, context: Context = Context()) -> str:
            context.progress(0.5)
            return text * 2

        self.assertEqual("abab", twice("ab"))
        self.assertIsNone(Context().remaining())
        self.assertIs(twice, skill(twice))

    def test_arguments_become_the_types_of_the_parameters(self):
        import dataclasses
        import datetime
        import enum
        import typing

        from openskill_sdk.functions import call

        class Color(enum.Enum):
            RED = "red"

        @dataclasses.dataclass
        class Point:
            x: float
            color: Color = Color.RED

        def f(point: Point, many: typing.List[Point], when: typing.Optional[datetime.date] = None, *, n: int = 1, context=None):
            return point, many, when, n, type(context)

        given = {"point": {"x": 1, "color": "red"}, "many": [{"x": 2.5}], "when": "2026-01-02", "n": 3.0}
        expected = (Point(1.0), [Point(2.5)], datetime.date(2026, 1, 2), 3, Context)
        self.assertEqual(expected, call(f, given))
        for wrong, field in (({"n": 1.5}, "n"), ({"point": {}}, "point.x"), ({"point": {"x": 1, "y": 1}}, "point.y"),
                             ({"when": "soon"}, "when"), ({"many": [{"x": "1"}]}, "many[0].x"), ({"other": 1}, "other")):
            with self.subTest(wrong=wrong), self.assertRaises(SkillError) as raised:
                call(f, {**given, **wrong})
            self.assertEqual(("INVALID_ARGUMENT", field), (raised.exception.code, raised.exception.details["field"]))

    def test_what_a_schema_says_is_what_a_call_takes(self):
        import dataclasses
        import enum
        import types
        import typing

        from openskill_sdk.functions import convert

        class Color(enum.Enum):
            RED = "red"
            GREEN = (0, 255)

        @dataclasses.dataclass
        class Point:
            x: int

        self.assertIs(Color.RED, convert("red", typing.Literal[Color.RED], "a"))
        self.assertIs(Color.GREEN, convert([0, 255], Color, "a"))
        self.assertEqual([1], convert([1], types.SimpleNamespace(__value__=typing.List[int]), "a"))
        for value, hint in (("blue", typing.Literal[Color.RED]), ([0], Color), ([{"x": 1}], typing.Set[Point])):
            with self.subTest(value=value), self.assertRaises(SkillError) as raised:
                convert(value, hint, "a")
            self.assertEqual(("INVALID_ARGUMENT", "a"), (raised.exception.code, raised.exception.details["field"]))

    def test_a_result_of_such_types_becomes_json(self):
        import dataclasses
        import datetime
        import enum

        from openskill_sdk.runtime import _encode

        color = enum.Enum("Color", {"RED": "red"})
        point = dataclasses.make_dataclass("Point", ["x", "color"])
        result = Result({"points": [point(1, color.RED)], "tags": {1}, "when": datetime.date(2026, 1, 2)})
        expected = {"points": [{"x": 1, "color": "red"}], "tags": [1], "when": "2026-01-02"}
        self.assertEqual(expected, json.loads(_encode(result.data)))

    def test_an_asynchronous_function_is_awaited(self):
        from openskill_sdk.functions import call

        async def later(n: int) -> int:
            return n + 1

        self.assertEqual(3, call(later, {"n": 2}))


if __name__ == "__main__":
    unittest.main()
