//! Defines the nodes of each grammar that are definitions, or scopes that qualify the names of definitions.

use openskill_readers_protocol::definitions::language::Language;
use openskill_readers_protocol::definitions::protocol::Kind;

use super::names::Name;

/// Marks a type of node as a definition, or as a scope that qualifies the names in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    /// The type of the node in the grammar.
    node: &'static str,
    /// The kind of the definition. `None` for a node that only qualifies the names in it, like `impl`.
    pub(super) kind: Option<Kind>,
    pub(super) name: Name,
    /// The condition under which such a node is a definition.
    pub(super) condition: Condition,
}

/// The condition under which a node is a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    /// No condition.
    Any,
    /// The node is outside functions: a local variable is not a definition.
    NotInFunction,
    /// The node has a body. Without one, it only refers to a definition elsewhere.
    WithBody,
    /// The node is a member of a class.
    InClass,
}

/// The rules of one language, indexed by the number of the node type.
pub(super) struct Rules {
    by_number: Vec<Option<Rule>>,
    /// The separator between the parts of a qualified name.
    pub(super) separator: &'static str,
}

impl Rules {
    pub(super) fn for_language(language: Language, grammar: &tree_sitter::Language) -> Self {
        let written = rules(language);
        let by_number = (0..grammar.node_kind_count()).map(|number| {
            let number = u16::try_from(number).ok()?;
            let node = grammar.node_kind_for_id(number).filter(|_| grammar.node_kind_is_named(number))?;
            written.iter().flat_map(|rules| rules.iter()).find(|rule| rule.node == node).copied()
        });
        let separator = match language {
            Language::Cpp | Language::Rust | Language::C | Language::Php => "::",
            _ => ".",
        };
        Self { by_number: by_number.collect(), separator }
    }

    /// Returns the rule for a node type.
    pub(super) fn get(&self, number: u16) -> Option<&Rule> {
        self.by_number.get(usize::from(number))?.as_ref()
    }
}

const fn def(node: &'static str, kind: Kind) -> Rule {
    Rule { node, kind: Some(kind), name: Name::Field("name"), condition: Condition::Any }
}

impl Rule {
    const fn with_name(self, name: Name) -> Self {
        Self { name, ..self }
    }

    const fn only_if(self, condition: Condition) -> Self {
        Self { condition, ..self }
    }
}

fn rules(language: Language) -> &'static [&'static [Rule]] {
    match language {
        Language::Bash => &[BASH],
        Language::C => &[C],
        Language::Cpp => &[C, CPP],
        Language::CSharp => &[C_SHARP],
        Language::Go => &[GO],
        Language::Java => &[JAVA],
        Language::JavaScript => &[JAVASCRIPT],
        Language::Kotlin => &[KOTLIN],
        Language::Lua => &[LUA],
        Language::Php => &[PHP],
        Language::Python => &[PYTHON],
        Language::Ruby => &[RUBY],
        Language::Rust => &[RUST],
        Language::Scala => &[SCALA],
        Language::Tsx | Language::TypeScript => &[JAVASCRIPT, TYPESCRIPT],
    }
}

const BASH: &[Rule] = &[def("function_definition", Kind::Function)];

const C: &[Rule] = &[
    def("function_definition", Kind::Function).with_name(Name::Declarator),
    def("struct_specifier", Kind::Struct).only_if(Condition::WithBody),
    def("union_specifier", Kind::Union).only_if(Condition::WithBody),
    def("enum_specifier", Kind::Enum).only_if(Condition::WithBody),
    def("type_definition", Kind::Type).with_name(Name::Declarator),
    def("preproc_def", Kind::Macro),
    def("preproc_function_def", Kind::Macro),
];

const CPP: &[Rule] = &[
    def("class_specifier", Kind::Class).only_if(Condition::WithBody),
    def("namespace_definition", Kind::Namespace),
    def("alias_declaration", Kind::Type),
    def("concept_definition", Kind::Type),
    // A method defined elsewhere: readers of the class still want to find it.
    def("field_declaration", Kind::Method).with_name(Name::FunctionDeclarator),
    // Constructors, destructors, conversions and templates.
    def("declaration", Kind::Method).with_name(Name::FunctionDeclarator).only_if(Condition::InClass),
];

const C_SHARP: &[Rule] = &[
    def("class_declaration", Kind::Class),
    def("struct_declaration", Kind::Struct),
    def("record_declaration", Kind::Class),
    def("interface_declaration", Kind::Interface),
    def("enum_declaration", Kind::Enum),
    def("delegate_declaration", Kind::Type),
    def("method_declaration", Kind::Method),
    def("constructor_declaration", Kind::Method),
    def("destructor_declaration", Kind::Method),
    def("property_declaration", Kind::Property),
    def("event_declaration", Kind::Property),
    def("local_function_statement", Kind::Function),
    def("namespace_declaration", Kind::Namespace),
    def("file_scoped_namespace_declaration", Kind::Namespace),
];

const GO: &[Rule] = &[
    def("function_declaration", Kind::Function),
    def("method_declaration", Kind::Method).with_name(Name::GoMethod),
    def("method_elem", Kind::Method),
    def("type_spec", Kind::Type),
    def("type_alias", Kind::Type),
    def("const_spec", Kind::Constant).only_if(Condition::NotInFunction),
];

const JAVA: &[Rule] = &[
    def("class_declaration", Kind::Class),
    def("record_declaration", Kind::Class),
    def("interface_declaration", Kind::Interface),
    def("annotation_type_declaration", Kind::Interface),
    def("enum_declaration", Kind::Enum),
    def("method_declaration", Kind::Method),
    def("constructor_declaration", Kind::Method),
    def("compact_constructor_declaration", Kind::Method),
    def("annotation_type_element_declaration", Kind::Method),
];

const JAVASCRIPT: &[Rule] = &[
    def("function_declaration", Kind::Function),
    def("generator_function_declaration", Kind::Function),
    def("class_declaration", Kind::Class),
    def("method_definition", Kind::Method),
    def("variable_declarator", Kind::Function).with_name(Name::OfFunction("name")),
    def("assignment_expression", Kind::Function).with_name(Name::OfFunction("left")),
    def("pair", Kind::Method).with_name(Name::OfFunction("key")),
    def("field_definition", Kind::Method).with_name(Name::OfFunction("property")),
];

const TYPESCRIPT: &[Rule] = &[
    def("abstract_class_declaration", Kind::Class),
    def("interface_declaration", Kind::Interface),
    def("enum_declaration", Kind::Enum),
    def("type_alias_declaration", Kind::Type),
    def("function_signature", Kind::Function),
    def("method_signature", Kind::Method),
    def("abstract_method_signature", Kind::Method),
    def("public_field_definition", Kind::Method).with_name(Name::OfFunction("name")),
    def("internal_module", Kind::Namespace),
    def("module", Kind::Namespace),
];

const KOTLIN: &[Rule] = &[
    def("class_declaration", Kind::Class),
    def("object_declaration", Kind::Object),
    def("companion_object", Kind::Object).with_name(Name::FieldOr("name", "Companion")),
    def("function_declaration", Kind::Function),
    def("type_alias", Kind::Type).with_name(Name::Field("type")),
];

const LUA: &[Rule] = &[
    def("function_declaration", Kind::Function),
    def("assignment_statement", Kind::Function).with_name(Name::LuaAssigned),
    def("field", Kind::Function).with_name(Name::OfFunction("name")),
];

const PHP: &[Rule] = &[
    def("function_definition", Kind::Function),
    def("class_declaration", Kind::Class),
    def("interface_declaration", Kind::Interface),
    def("trait_declaration", Kind::Trait),
    def("enum_declaration", Kind::Enum),
    def("method_declaration", Kind::Method),
    def("namespace_definition", Kind::Namespace),
];

const PYTHON: &[Rule] = &[def("function_definition", Kind::Function), def("class_definition", Kind::Class)];

const RUBY: &[Rule] = &[
    def("class", Kind::Class),
    def("module", Kind::Module),
    def("method", Kind::Method),
    def("singleton_method", Kind::Method),
];

const RUST: &[Rule] = &[
    def("function_item", Kind::Function),
    def("function_signature_item", Kind::Function),
    def("struct_item", Kind::Struct),
    def("enum_item", Kind::Enum),
    def("union_item", Kind::Union),
    def("trait_item", Kind::Trait),
    def("type_item", Kind::Type),
    def("mod_item", Kind::Module),
    def("macro_definition", Kind::Macro),
    def("const_item", Kind::Constant).only_if(Condition::NotInFunction),
    def("static_item", Kind::Constant).only_if(Condition::NotInFunction),
    Rule { node: "impl_item", kind: None, name: Name::Field("type"), condition: Condition::Any },
];

const SCALA: &[Rule] = &[
    def("class_definition", Kind::Class),
    def("object_definition", Kind::Object),
    def("package_object", Kind::Object),
    def("trait_definition", Kind::Trait),
    def("enum_definition", Kind::Enum),
    def("function_definition", Kind::Function),
    def("function_declaration", Kind::Function),
    def("given_definition", Kind::Object),
    def("type_definition", Kind::Type),
];
