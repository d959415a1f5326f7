"""Reads the functions of a Python file that are skills, without running any of it: only their text is parsed.

Started by the worker with `-I -S`, the file's name as its argument and the file's text on stdin. Prints one JSON object: `skills`, each
with the keys of its manifest and their lines, and `problems`, each with a line and a reason.
"""

import ast
import itertools
import json
import math
import os
import re
import resource
import sys

SDK = "openskill_sdk"
# Bounds of this process, and of what it reads.
CPU_SECONDS = 4
MEMORY_BYTES = 1 << 30
MOST_MODULES = 500
MOST_FUNCTIONS = 256
# Types and literals that are read, of which aliases can mean very many.
MOST_STEPS = 200_000
# A problem may quote a type or a value.
MOST_QUOTED = 80

# Modules whose types have the same names in each of them.
TYPING = ("typing.", "typing_extensions.", "collections.abc.", "builtins.")
SIMPLE = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "None": {"type": "null"},
    "NoneType": {"type": "null"},
    "Any": {},
    "object": {},
    "datetime.datetime": {"type": "string", "format": "date-time"},
    "datetime.date": {"type": "string", "format": "date"},
    "uuid.UUID": {"type": "string", "format": "uuid"},
    "pathlib.Path": {"type": "string"},
}
LISTS = ("list", "List", "Sequence", "MutableSequence", "Iterable", "Collection")
SETS = ("set", "Set", "frozenset", "FrozenSet", "AbstractSet", "MutableSet")
DICTS = ("dict", "Dict", "Mapping", "MutableMapping")
ENUMS = ("enum.Enum", "enum.IntEnum", "enum.StrEnum")
DATACLASSES = ("dataclasses.dataclass", "pydantic.dataclasses.dataclass")
FIELDS = ("dataclasses.field", "pydantic.Field", "pydantic.fields.Field")
# Constraints of Pydantic's `Field`, by the keywords of JSON Schema.
CONSTRAINTS = {
    "ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum", "multiple_of": "multipleOf",
    "pattern": "pattern", "title": "title", "description": "description", "examples": "examples",
}
LENGTHS = {"min_length": ("minLength", "minItems"), "max_length": ("maxLength", "maxItems")}

# Settings of the decorator that are not the manifest's own.
FIXED = ("type", "runtime", "entry")

SECTION = re.compile(r"(Args|Arguments|Parameters|Params|Attributes):\s*$")
# In time that grows with the line alone.
ENTRY = re.compile(r"(\s+)\*{0,2}(\w+)(?:\s*\([^)]*\))?\s*:\s*(.*)$")
DEPENDENCIES = re.compile(r"(?ms)^dependencies\s*=\s*(\[.*?\])\s*$")


class Problem(Exception):
    """What can't be read, with its line."""

    def __init__(self, node, reason):
        super().__init__(reason)
        self.line = getattr(node, "lineno", node)


class NotLiteral(Exception):
    """An expression whose value only running it would tell."""


def quoted(node):
    text = ast.unparse(node)
    return text if len(text) <= MOST_QUOTED else text[:MOST_QUOTED] + "..."


# Statements whose inner statements belong to the module as well.
BLOCKS = (ast.If, ast.Try, getattr(ast, "TryStar", ast.Try), ast.ExceptHandler, ast.With)


def module_statements(tree):
    """The statements of a module in order, with those in its blocks, but not those of functions and classes."""
    pending = tree.body[::-1]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, BLOCKS):
            inner = [it for part in ("body", "handlers", "orelse", "finalbody") for it in getattr(node, part, ())]
            pending.extend(reversed(inner))


def bound_names(node):
    """The names that a statement binds, without those that its inner statements bind."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [it.asname or it.name.split(".")[0] for it in node.names]
    if isinstance(node, ast.AnnAssign) and node.value is None:
        return []
    targets = [*getattr(node, "targets", ()), getattr(node, "target", None), *(it.optional_vars for it in getattr(node, "items", ()))]
    names = [it for target in targets if target for it in ast.walk(target) if isinstance(it, ast.Name)]
    return [it.id for it in names if not isinstance(it.ctx, ast.Load)]


def imported_modules(tree):
    """The first names of the modules that a file imports, wherever it does."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(it.name for it in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.update([node.module] if node.module else [it.name for it in node.names])
    return sorted({it.split(".")[0] for it in names})[:MOST_MODULES]


class File:
    """The names of a file, each with what it stands for."""

    def __init__(self, tree):
        self.imports, self.classes, self.values = {}, {}, {}
        self.steps = 0
        at_top = set(map(id, tree.body))
        for node in module_statements(tree):
            if isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                self.imports.update((it.asname or it.name, f"{module}.{it.name}") for it in node.names)
            elif isinstance(node, ast.Import):
                for it in node.names:
                    self.imports[it.asname or it.name.split(".")[0]] = it.name if it.asname else it.name.split(".")[0]
            if id(node) not in at_top:
                continue
            if isinstance(node, ast.ClassDef):
                self.imports.pop(node.name, None)
                self.classes[node.name] = node
            elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                self.values[node.targets[0].id] = node.value
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                self.values[node.target.id] = node.value
            elif type(node).__name__ == "TypeAlias" and isinstance(node.name, ast.Name):
                self.values[node.name.id] = node.value

    def step(self, node):
        """Bounds the work, because aliases of aliases can mean exponentially much."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Problem(node, "the file's types and literals are too large")

    def name(self, node):
        """The full name that an expression stands for, such as `enum.Enum`; None if it is not a name. Without the module for types of
        `typing` and built-in ones."""
        attributes = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        full = ".".join([self.imports.get(node.id, node.id), *reversed(attributes)])
        prefix = next((it for it in TYPING if full.startswith(it)), "")
        return full[len(prefix):]

    def call(self, node, names):
        """Whether an expression is a call of one of these."""
        return isinstance(node, ast.Call) and self.name(node.func) in names

    def value(self, node, depth=0):
        """The JSON value of an expression. Raises NotLiteral."""
        self.step(node)
        if depth > 50:
            raise NotLiteral
        if isinstance(node, ast.Constant):
            return json_constant(node.value)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            value = self.value(node.operand, depth + 1)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise NotLiteral
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return [self.value(it, depth + 1) for it in node.elts]
        if isinstance(node, ast.Dict):
            pairs = [(key and self.value(key, depth + 1), self.value(value, depth + 1)) for key, value in zip(node.keys, node.values)]
            if not all(isinstance(key, str) for key, _ in pairs):
                raise NotLiteral
            return dict(pairs)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            both = self.value(node.left, depth + 1), self.value(node.right, depth + 1)
            if all(type(it) is int and abs(it) < 1 << 31 for it in both):
                return both[0] * both[1]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            both = self.value(node.left, depth + 1), self.value(node.right, depth + 1)
            if all(isinstance(it, str) for it in both):
                return both[0] + both[1]
        if isinstance(node, ast.Name) and node.id in self.values:
            return self.value(self.values[node.id], depth + 1)
        if isinstance(node, ast.Attribute):
            if node.attr == "value" and isinstance(node.value, ast.Attribute):
                return self.value(node.value, depth + 1)
            owner = self.classes.get(node.value.id) if isinstance(node.value, ast.Name) else None
            for name, member in self.members(owner) if owner else ():
                if name == node.attr:
                    return self.value(member, depth + 1)
        raise NotLiteral

    def members(self, owner):
        """The members of an enumeration, in order: their names and expressions."""
        if not any(self.name(base) in ENUMS for base in owner.bases):
            return
        for node in owner.body:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                if not node.targets[0].id.startswith("_"):
                    yield node.targets[0].id, node.value


def json_constant(value):
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise NotLiteral from None
        return value
    if value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) < 1 << 63):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise NotLiteral


class Schemas:
    """Converts types to JSON Schema. `definitions`: the classes that were converted, for `$defs`. `is_result`: whether the schema
    is that of a result, whose objects have all fields, with the names of the fields."""

    def __init__(self, file, is_result=False):
        self.file = file
        self.is_result = is_result
        self.definitions = {}
        self.aliases = []

    def convert(self, node, what):
        """The schema of a type. `what`: what has the type, for problems."""
        self.file.step(node)
        if isinstance(node, ast.Constant):
            if node.value is None:
                return {"type": "null"}
            if isinstance(node.value, str):
                return self.convert(parsed(node, what), what)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self.union([node.left, node.right], what)
        if isinstance(node, ast.Subscript):
            return self.generic(node, what)
        name = self.file.name(node)
        if name is None:
            raise Problem(node, f"the type of {what}, {quoted(node)}, is not a type that can be read")
        if name in self.file.classes:
            return self.class_of(name, node, what)
        if name in self.file.values:
            return self.alias(name, node, what)
        if name in SIMPLE:
            return dict(SIMPLE[name])
        if name in LISTS or name in ("tuple", "Tuple"):
            return {"type": "array"}
        if name in SETS:
            return {"type": "array", "uniqueItems": True}
        if name in DICTS:
            return {"type": "object"}
        raise Problem(node, self.unknown(node, name, what))

    def unknown(self, node, name, what):
        if isinstance(node, ast.Name) and node.id in self.file.imports or "." in name:
            module = name.rpartition(".")[0]
            hint = "define it in this file, or give the schema with @skill(input_schema={...})"
            return f"the type of {what}, {quoted(node)}, comes from '{module}', which is not read: {hint}"
        return f"the type of {what}, {quoted(node)}, is not known: use a built-in type, or a class of this file"

    def alias(self, name, node, what):
        if name in self.aliases:
            raise Problem(node, f"the type of {what}, {name}, refers to itself")
        value = self.file.values[name]
        if self.file.call(value, ("NewType",)) and len(value.args) == 2:
            value = value.args[1]
        self.aliases.append(name)
        try:
            return self.convert(value, what)
        finally:
            self.aliases.pop()

    def union(self, nodes, what):
        """One of several types. `T | None` is a `T` that may be null."""
        arms = []
        for node in nodes:
            schema = self.convert(node, what)
            for arm in schema["anyOf"] if list(schema) == ["anyOf"] else [schema]:
                if arm not in arms:
                    arms.append(arm)
        if {} in arms:
            return {}
        null = {"type": "null"}
        rest = [arm for arm in arms if arm != null]
        if len(rest) == 1 and null in arms and isinstance(rest[0].get("type"), str):
            values = {"enum": [*rest[0]["enum"], None]} if "enum" in rest[0] else {}
            return {**rest[0], "type": [rest[0]["type"], "null"], **values}
        return arms[0] if len(arms) == 1 else {"anyOf": arms}

    def generic(self, node, what):
        name = self.file.name(node.value)
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name == "Annotated":
            return self.annotated(inner, what)
        if name == "Literal":
            return self.literal(node, inner, what)
        if name == "Union":
            return self.union(inner, what)
        if name == "Optional" and len(inner) == 1:
            return self.union([inner[0], ast.Constant(None)], what)
        if name in ("Required", "NotRequired", "ReadOnly", "Final") and len(inner) == 1:
            return self.convert(inner[0], what)
        if name in LISTS and len(inner) == 1:
            return {"type": "array", **items(self.convert(inner[0], what))}
        if name in SETS and len(inner) == 1:
            return {"type": "array", **items(self.convert(inner[0], what)), "uniqueItems": True}
        if name in ("tuple", "Tuple"):
            if len(inner) == 2 and isinstance(inner[1], ast.Constant) and inner[1].value is Ellipsis:
                return {"type": "array", **items(self.convert(inner[0], what))}
            schemas = [self.convert(it, what) for it in inner]
            return {"type": "array", "prefixItems": schemas, "minItems": len(schemas), "maxItems": len(schemas)}
        if name in DICTS and len(inner) == 2:
            if self.convert(inner[0], what).get("type", "string") != "string":
                raise Problem(node, f"the keys of {what}, {quoted(node)}, must be str, as in JSON")
            schema = self.convert(inner[1], what)
            return {"type": "object", **({"additionalProperties": schema} if schema else {})}
        raise Problem(node, f"the type of {what}, {quoted(node)}, is not a type that can be read")

    def literal(self, node, inner, what):
        try:
            values = [self.file.value(it) for it in inner]
        except NotLiteral:
            raise Problem(node, f"the values of {what}, {quoted(node)}, must be literals") from None
        return enumeration(values)

    def annotated(self, inner, what):
        """A type with descriptions: texts, objects with keywords of JSON Schema, and Pydantic's `Field`."""
        schema = self.convert(inner[0], what)
        for note in inner[1:]:
            schema.update(self.keywords(note, schema, what))
        return schema

    def keywords(self, note, schema, what):
        """What a note of `Annotated` says."""
        if isinstance(note, ast.Call) and (self.file.name(note.func) or "").rpartition(".")[2] in ("Doc", "Field"):
            return self.constraints(note, schema)
        try:
            value = self.file.value(note)
        except NotLiteral:
            return {}  # for others than us
        if isinstance(value, str):
            return {"description": value}
        return value if isinstance(value, dict) else {}

    def constraints(self, call, schema):
        """The keywords of a `Field(...)`, or of a `Doc("...")`."""
        found = {}
        if self.file.name(call.func).endswith("Doc") and call.args:
            found.update(self.keyword("description", call.args[0]))
        for given in call.keywords:
            if given.arg in CONSTRAINTS:
                found.update(self.keyword(CONSTRAINTS[given.arg], given.value))
            elif given.arg in LENGTHS:
                found.update(self.keyword(LENGTHS[given.arg][schema.get("type") == "array"], given.value))
            elif given.arg == "json_schema_extra" and isinstance(given.value, ast.Dict):
                found.update(self.keyword(None, given.value))
        return found

    def keyword(self, name, node):
        try:
            value = self.file.value(node)
        except NotLiteral:
            return {}
        return value if name is None else {name: value}

    def default(self, node, schema):
        """A default, if it is known without running it. None does not have to be a value of the type."""
        found = self.keyword("default", node)
        arms = schema.get("anyOf", [schema])
        takes_null = not {"type", "enum", "$ref", "anyOf"} & set(schema) or any("null" in as_list(arm.get("type")) for arm in arms)
        return found if takes_null or found.get("default") is not None else {}

    def class_of(self, name, node, what):
        """A reference to a class, which becomes a definition."""
        if name not in self.definitions:
            self.definitions[name] = {}  # it may contain itself
            self.definitions[name] = self.definition(self.file.classes[name], node, what)
        return {"$ref": f"#/$defs/{name}"}

    def definition(self, owner, node, what):
        described = {"description": docstring(owner)[0]} if docstring(owner)[0] else {}
        if any(self.file.name(base) in ENUMS for base in owner.bases):
            return {**self.enum(owner), **described}
        kind = self.kind(owner)
        if kind is None:
            kinds = "a dataclass, a TypedDict, an Enum or a Pydantic model"
            raise Problem(node, f"the type of {what}, {owner.name}, is a class that is not {kinds}")
        properties, required = {}, []
        for field in self.fields(owner):
            self.add_field(field, kind, properties, required)
        closed = {"additionalProperties": False} if kind == "dataclass" else {}
        return {"type": "object", **described, "properties": properties, "required": required, **closed}

    def enum(self, owner):
        values = []
        for name, member in self.file.members(owner):
            try:
                values.append(self.file.value(member))
            except NotLiteral:
                raise Problem(member, f"the value of {owner.name}.{name} must be a literal") from None
        if not values:
            raise Problem(owner, f"the enumeration {owner.name} has no members")
        return enumeration(values)

    def kind(self, owner, depth=0):
        """Which kind of class with fields it is, or one of its bases in this file. None if none."""
        self.file.step(owner)
        if any(self.file.name(it.func if isinstance(it, ast.Call) else it) in DATACLASSES for it in owner.decorator_list):
            return "dataclass"
        for base in owner.bases:
            name = self.file.name(base)
            if name == "TypedDict":
                return "typeddict"
            if name in ("pydantic.BaseModel", "pydantic.main.BaseModel"):
                return "model"
            kind = self.kind(self.file.classes[name], depth + 1) if name in self.file.classes and depth < 20 else None
            if kind:
                return kind
        return None

    def fields(self, owner, depth=0):
        """The annotated names of a class and of its bases in this file, by which class has them."""
        self.file.step(owner)
        found = {}
        for base in owner.bases:
            name = self.file.name(base)
            if name in self.file.classes and depth < 20:
                found.update((it.node.target.id, it) for it in self.fields(self.file.classes[name], depth + 1))
        total = not any(it.arg == "total" and getattr(it.value, "value", True) is False for it in owner.keywords)
        notes = docstring(owner)[1]
        for node in owner.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                outer = node.annotation.value if isinstance(node.annotation, ast.Subscript) else node.annotation
                name = self.file.name(outer)
                if name == "dataclasses.InitVar" and node.value is None and not self.is_result:
                    reason = "is an InitVar, which is not a field of an argument: give it a default"
                    raise Problem(node, f"'{node.target.id}' of {owner.name} {reason}")
                if name not in ("ClassVar", "dataclasses.KW_ONLY", "dataclasses.InitVar"):
                    found[node.target.id] = Field(owner, node, total, notes.get(node.target.id))
        return list(found.values())

    def add_field(self, field, kind, properties, required):
        node, name = field.node, field.node.target.id
        if kind == "model" and name.startswith("_"):
            return
        what = f"the field '{name}' of {field.owner.name}"
        schema = self.convert(node.annotation, what)
        if field.note:
            schema.setdefault("description", field.note)
        default = node.value
        is_required = default is None
        if kind == "typeddict":
            outer = self.file.name(node.annotation.value) if isinstance(node.annotation, ast.Subscript) else None
            is_required = outer == "Required" or (field.total and outer != "NotRequired")
        elif self.file.call(default, FIELDS):
            given = {it.arg: it.value for it in default.keywords}
            says = {key: it.value for key, it in given.items() if isinstance(it, ast.Constant)}
            is_input = says.get("init") is not False
            if says.get("exclude") is True if self.is_result else not is_input:
                return
            schema.update(self.constraints(default, schema))
            is_model_field = not self.file.name(default.func).endswith("field")
            first = default.args[0] if is_model_field and default.args else None
            default = given.get("default", first)
            if isinstance(default, ast.Constant) and default.value is Ellipsis:
                default = None
            is_required = is_input and default is None and "default_factory" not in given
            alias = says.get("validation_alias", says.get("alias"))
            if isinstance(alias, str) and not self.is_result:
                name = alias
        if kind != "typeddict" and default is not None:
            schema.update(self.default(default, schema))
        properties[name] = schema
        if is_required:
            required.append(name)


class Field:
    """An annotated name in the body of a class."""

    def __init__(self, owner, node, total, note):
        self.owner, self.node, self.total, self.note = owner, node, total, note


def parsed(node, what):
    """A type that is written as a string."""
    try:
        inner = ast.parse(node.value.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise Problem(node, f"the type of {what}, {quoted(node)}, is not a type that can be read") from None
    for it in ast.walk(inner):
        if hasattr(it, "lineno"):
            it.lineno = node.lineno
    return inner


def as_list(value):
    return value if isinstance(value, list) else [value]


def items(schema):
    return {"items": schema} if schema else {}


def enumeration(values):
    kinds = {type(it) for it in values}
    types = {str: "string", int: "integer", bool: "boolean"}
    kind = {"type": types[kinds.pop()]} if len(kinds) == 1 and kinds <= set(types) else {}
    return {**kind, "enum": list({json.dumps(it): it for it in values}.values())}


def docstring(node):
    """The docstring without its sections of arguments, and the descriptions in them, by name."""
    text, notes, kept, within, column = ast.get_docstring(node) or "", {}, [], False, 0
    name = None
    for line in text.split("\n"):
        if SECTION.match(line):
            within, column, name = True, 0, None
            continue
        if within and line.strip() and not line[0].isspace():
            within = False
        if not within:
            kept.append(line)
            continue
        entry = ENTRY.match(line)
        if entry and (not column or len(entry[1]) <= column):
            column, name = len(entry[1]), entry[2]
            notes[name] = [entry[3].strip()]
        elif name and line.strip():
            notes[name].append(line.strip())
    shown = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    joined = {name: " ".join(lines).strip() for name, lines in notes.items()}
    return shown, {name: note for name, note in joined.items() if note}


def decorator_name(decorator):
    """The expression that names a decorator, without the call."""
    return decorator.func if isinstance(decorator, ast.Call) else decorator


class Reader:
    def __init__(self, name, tree, requirements):
        self.name = name
        self.file = File(tree)
        self.tree = tree
        self.requirements = requirements
        self.bound = {name for it in module_statements(tree) for name in bound_names(it)}

    def decorator(self, node):
        """The decorator that makes a function a skill, or would if it were imported, or None."""
        for it in node.decorator_list:
            if self.file.name(decorator_name(it)) in (f"{SDK}.skill", f"{SDK}.decorator.skill") or self.lacks_import(it):
                return it
        return None

    def lacks_import(self, decorator):
        """Whether this has the name of the decorator, which nothing in the file binds."""
        name = decorator_name(decorator)
        return isinstance(name, ast.Name) and name.id == "skill" and not self.bound & {"skill", "*"}

    def read(self):
        skills, problems, at_top = [], [], set(map(id, self.tree.body))
        functions = [it for it in ast.walk(self.tree) if isinstance(it, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))]
        decorated = sorted((it for it in functions if self.decorator(it)), key=lambda it: it.lineno)
        unused = None if decorated else self.unused_import()
        if unused:
            raise Problem(unused, "`skill` is imported, but decorates no function: write @skill above each function that is a skill")
        stem = os.path.splitext(self.name)[0]
        if decorated and (stem == SDK or stem in getattr(sys, "stdlib_module_names", ())):
            raise Problem(decorated[0], f"a file with functions can't have the name of the module '{stem}', which it would hide: rename it")
        last_bound = {name: it for it in self.tree.body for name in bound_names(it)}
        for node in decorated[:MOST_FUNCTIONS]:
            try:
                decorator = self.decorator(node)
                if self.lacks_import(decorator):
                    raise Problem(node, f"{node.name}: @skill is not imported: add `from {SDK} import skill`")
                if isinstance(node, ast.ClassDef) or id(node) not in at_top:
                    raise Problem(node, f"{node.name}: only a function at the top level of a file can be a skill")
                if last_bound[node.name] is not node:
                    raise Problem(last_bound[node.name], f"{node.name} is bound again here: give each function a name of its own")
                skills.append(self.skill(node, decorator))
            except Problem as problem:
                problems.append({"function": node.name, "line": problem.line, "reason": str(problem)})
        if len(decorated) > MOST_FUNCTIONS:
            reason = f"a file has at most {MOST_FUNCTIONS} skills"
            problems.append({"function": "", "line": decorated[MOST_FUNCTIONS].lineno, "reason": reason})
        return {"skills": skills, "problems": problems}

    def unused_import(self):
        """The import of the decorator, if nothing uses it."""
        if any(isinstance(it, ast.Name) and it.id == "skill" for it in ast.walk(self.tree)):
            return None
        imports = (it for it in self.tree.body if isinstance(it, ast.ImportFrom) and it.module == SDK)
        return next((it for it in imports if any(name.name == "skill" and not name.asname for name in it.names)), None)

    def skill(self, node, decorator):
        """The keys of its manifest, in order, each with its line."""
        settings = self.settings(decorator)
        description, notes = docstring(node)
        python, line = self.python(settings, node)
        keys = {"id": (node.name, node.lineno), "description": (description, node.lineno)}
        keys.update({"type": ("cli", node.lineno), "runtime": ("python", node.lineno), "entry": (self.name, node.lineno)})
        keys["python"] = (python, line)
        keys.update(settings)
        if "input_schema" not in keys and "parameters" not in keys:
            keys["input_schema"] = (self.arguments(node, notes), node.lineno)
        if "output_schema" not in keys:
            output = self.output(node)
            keys.update({} if output is None else {"output_schema": (output, node.lineno)})
        shown = [{"key": key, "value": value, "line": line} for key, (value, line) in keys.items()]
        return {"function": node.name, "line": node.lineno, "keys": shown}

    def settings(self, decorator):
        """What the decorator says: the manifest's keys."""
        found = {}
        if not isinstance(decorator, ast.Call):
            return found
        if decorator.args:
            raise Problem(decorator, "@skill takes settings by name, such as @skill(read_only=True)")
        for given in decorator.keywords:
            line = given.value.lineno
            if given.arg is None:
                raise Problem(line, "@skill takes settings by name, not as **settings")
            if given.arg in FIXED:
                raise Problem(line, f"{given.arg} of a Python function can't be set")
            try:
                value = self.file.value(given.value)
            except NotLiteral:
                raise Problem(line, f"{given.arg} of @skill must be a literal: the file is read without running it") from None
            if given.arg == "timeout":
                if isinstance(value, bool) or not isinstance(value, (int, float)):
                    raise Problem(line, "timeout of @skill must be a number of seconds")
                found["timeout_ms"] = (round(value * 1000), line)
            else:
                found[given.arg] = (value, line)
        return found

    def python(self, settings, node):
        """The manifest's `python` block."""
        given, line = settings.pop("python", ({}, node.lineno))
        if not isinstance(given, dict):
            raise Problem(line, "python of @skill must be an object, as in a manifest")
        if "function" in given:
            raise Problem(line, "python.function of @skill can't be set: it is the function below")
        block = {"function": node.name, **given}
        if "requirements" in settings:
            block["requirements"], line = settings.pop("requirements")
        elif self.requirements and not {"requirements", "venv"} & set(given):
            block["requirements"], line = self.requirements
        return block, line

    def arguments(self, node, notes):
        """The schema of the arguments."""
        schemas, given = Schemas(self.file), node.args
        for star in (given.vararg, given.kwarg):
            if star is not None:
                raise Problem(star, f"{node.name}: *{star.arg} can't be described by a schema: name each parameter")
        positional = [*given.posonlyargs, *given.args]
        defaults = [None] * (len(positional) - len(given.defaults)) + given.defaults
        properties, required = {}, []
        for parameter, default in [*zip(positional, defaults), *zip(given.kwonlyargs, given.kw_defaults)]:
            if self.is_context(parameter):
                continue
            what = f"'{parameter.arg}'"
            if self.file.call(default, FIELDS):
                raise Problem(default, f"the default of {what} must be a value: write Annotated[..., Field(...)] instead")
            schema = schemas.convert(parameter.annotation, what) if parameter.annotation else {}
            if parameter.arg in notes:
                schema.setdefault("description", notes[parameter.arg])
            if default is None:
                required.append(parameter.arg)
            else:
                schema.update(schemas.default(default, schema))
            properties[parameter.arg] = schema
        schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        return {**schema, **definitions(schemas)}

    def is_context(self, parameter):
        """Whether it gets the call's context, and not an argument: by its type, or by its name if it has none."""
        if parameter.annotation is None:
            return parameter.arg == "context"
        node = parameter.annotation
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = parsed(node, f"'{parameter.arg}'")
        while isinstance(node, ast.BinOp) or isinstance(node, ast.Subscript) and self.file.name(node.value) == "Optional":
            node = node.left if isinstance(node, ast.BinOp) else node.slice
        return self.file.name(node) in (f"{SDK}.Context", f"{SDK}.context.Context")

    def output(self, node):
        """The schema of the result; None if the function does not say it, or in a type that can't be read."""
        if node.returns is None:
            return None
        schemas = Schemas(self.file, is_result=True)
        try:
            schema = schemas.convert(node.returns, "the result")
        except Problem:
            return None
        if list(schema) == ["$ref"]:
            # Clients of MCP want to see that it is an object.
            schema = schemas.definitions[schema["$ref"].rpartition("/")[2]]
        return {**schema, **definitions(schemas)} if schema else None


def definitions(schemas):
    return {"$defs": schemas.definitions} if schemas.definitions else {}


def script_requirements(text):
    """The dependencies in the metadata of a script (PEP 723), with their line. None if there are none."""
    lines = [it.rstrip("\r") for it in text.split("\n")]
    if "# /// script" not in lines:
        return None
    line = lines.index("# /// script") + 1
    comments = list(itertools.takewhile(lambda it: it == "#" or it.startswith("# "), lines[line:]))
    if "# ///" not in comments:
        return None
    # The last such line ends it.
    content = "\n".join(it[2:] for it in comments[:-1 - comments[::-1].index("# ///")])
    try:
        import tomllib

        found = tomllib.loads(content).get("dependencies")
    except ImportError:  # before Python 3.11: a list of strings is the same in Python
        listed = DEPENDENCIES.search(content)
        try:
            found = ast.literal_eval(listed[1]) if listed else None
        except (ValueError, SyntaxError) as error:
            raise Problem(line, f"the metadata of the script is not valid: {error}") from None
    except ValueError as error:
        raise Problem(line, f"the metadata of the script is not valid: {error}") from None
    return (found, line) if found else None


def read(name, source):
    """What the worker is told about a file, as JSON."""
    modules = []
    try:
        text = source.decode("utf-8-sig")
        tree = ast.parse(text)
        modules = imported_modules(tree)
        return json.dumps({**Reader(name, tree, script_requirements(text)).read(), "modules": modules})
    except SyntaxError as error:
        line, reason = error.lineno or 1, f"it is not Python: {error.msg}"
    except Problem as problem:
        line, reason = problem.line, str(problem)
    except (ValueError, RecursionError, MemoryError) as error:
        line, reason = 1, f"it can't be parsed: {type(error).__name__}"
    return json.dumps({"skills": [], "problems": [{"function": "", "line": line, "reason": reason}], "modules": modules})


def main():
    # At the lower one, a signal names the reason.
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.write(1, read(sys.argv[1], sys.stdin.buffer.read()).encode("ascii"))


if __name__ == "__main__":
    main()
