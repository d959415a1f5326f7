//! Finds the name of a definition.

use tree_sitter::Node;

/// The place of a node's name.
#[derive(Debug, Clone, Copy)]
pub(super) enum Name {
    /// The name is in this field.
    Field(&'static str),
    /// The name is in this field. Without the field, the name is this text.
    FieldOr(&'static str, &'static str),
    /// The name is in a C or C++ declarator: `*(*name)(int)`, `Type::name`.
    Declarator,
    /// Like [`Self::Declarator`], but only if it declares a function.
    FunctionDeclarator,
    /// The name is in this field, if the value is a function or a class: `const name = () => 1`, `const Name =
    /// memo(() => 1)`.
    OfFunction(&'static str),
    /// The name of `func (receiver *Type) name()`.
    GoMethod,
    /// The name of `name = function() end`.
    LuaAssigned,
}

/// The maximum number of nested declarators that are searched.
const MOST_DECLARATORS: usize = 32;

/// Nodes that make a variable a function or a class if they are its value.
const FUNCTIONS: [&str; 7] = [
    "arrow_function",
    "function_expression",
    "function",
    "generator_function",
    "function_definition",
    "class",
    "class_expression",
];

/// Returns the owners and the name of a node. The owners are part of the name itself, as in `Type::name`. `None`
/// if the node has no name, or is not a definition.
pub(super) fn name_of<'a>(node: Node<'_>, source: &'a [u8], name: Name) -> Option<(Vec<&'a [u8]>, &'a [u8])> {
    let field = |field: &str| text(without_parameters(node.child_by_field_name(field)?), source);
    match name {
        Name::Field(it) => split_qualified(field(it)?),
        Name::FieldOr(it, other) => split_qualified(field(it).unwrap_or(other.as_bytes())),
        Name::Declarator => declarator_name(node, source, false),
        Name::FunctionDeclarator => declarator_name(node, source, true),
        Name::OfFunction(it) => {
            let (owners, own) = split_qualified(field(it)?)?;
            // By convention, a call with a capitalized name returns a component. Any other call may return anything.
            let is_component = own.first().is_some_and(u8::is_ascii_uppercase);
            FUNCTIONS.contains(&value_of(node, source, is_component)?.kind()).then_some((owners, own))
        }
        Name::GoMethod => {
            let receiver = field("receiver")?;
            Some((vec![receiver_type(receiver)], field("name")?))
        }
        Name::LuaAssigned => {
            let [names, values] = [node.named_child(0)?, node.named_child(1)?];
            FUNCTIONS.contains(&values.named_child(0)?.kind()).then_some(())?;
            split_qualified(text(names.named_child(0)?, source)?)
        }
    }
}

/// Returns the value of a variable, a field or an assignment, without parentheses and types. With `through_calls`,
/// the value of `memo(() => 1)` and `React.memo(() => 1)` is the function, but that of `all.map(() => 1)` is not.
pub(super) fn value_of<'t>(node: Node<'t>, source: &[u8], through_calls: bool) -> Option<Node<'t>> {
    let mut value = node.child_by_field_name("value").or_else(|| node.child_by_field_name("right"))?;
    for _ in 0..MOST_DECLARATORS {
        let inner = match value.kind() {
            "parenthesized_expression" | "as_expression" | "satisfies_expression" => value.named_child(0),
            "call_expression" if through_calls => {
                let function = value.child_by_field_name("function")?;
                let owner = function.child_by_field_name("object").and_then(|it| text(it, source));
                let is_method = owner.and_then(<[u8]>::first).is_some_and(|it| !it.is_ascii_uppercase());
                value.child_by_field_name("arguments").filter(|_| !is_method).and_then(|it| it.named_child(0))
            }
            _ => None,
        };
        match inner {
            Some(inner) => value = inner,
            None => break,
        }
    }
    Some(value)
}

/// Returns `Name` of `Name<T>`: a specialization or an `impl` belongs to the generic type.
fn without_parameters(node: Node<'_>) -> Node<'_> {
    let inner = match node.kind() {
        "template_type" => node.child_by_field_name("name"),
        "generic_type" => node.child_by_field_name("type"),
        _ => None,
    };
    inner.unwrap_or(node)
}

fn text<'a>(node: Node<'_>, source: &'a [u8]) -> Option<&'a [u8]> {
    source.get(node.byte_range()).filter(|it| !it.is_empty())
}

/// Splits `a.b.c`, `a::b` and `a:b` into the owners and the name. Other names stay whole, including PHP's `A\B`.
fn split_qualified(text: &[u8]) -> Option<(Vec<&[u8]>, &[u8])> {
    let text = text.trim_ascii();
    let is_plain = |it: &u8| it.is_ascii_alphanumeric() || *it >= 0x80 || b"_$.:#\\".contains(it);
    if !text.iter().all(is_plain) {
        return Some((Vec::new(), unquote(text)));
    }
    let mut parts: Vec<&[u8]> = text.split(|it| b".:".contains(it)).filter(|it| !it.is_empty()).collect();
    let own = parts.pop()?;
    Some((parts, own))
}

fn unquote(text: &[u8]) -> &[u8] {
    let inner = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
    match (text.first(), text.last()) {
        (Some(b'"'), Some(b'"')) | (Some(b'\''), Some(b'\'')) if !inner.is_empty() => inner,
        _ => text,
    }
}

/// Returns the type of a Go receiver: `Type` of `(r *Type[T])`.
fn receiver_type(receiver: &[u8]) -> &[u8] {
    let inner = receiver.trim_ascii().strip_prefix(b"(").unwrap_or(receiver);
    let end = inner.iter().position(|it| b"[)".contains(it)).unwrap_or(inner.len());
    let inner = inner[..end].trim_ascii();
    let begin = inner.iter().rposition(|it| b" \t*".contains(it)).map_or(0, |at| at + 1);
    &inner[begin..]
}

/// Finds the owners and the name in a C or C++ declarator. With `must_be_function`, returns `None` for other
/// declarators.
fn declarator_name<'a>(node: Node<'_>, source: &'a [u8], must_be_function: bool) -> Option<(Vec<&'a [u8]>, &'a [u8])> {
    let mut at = node.child_by_field_name("declarator")?;
    let mut is_function = !must_be_function;
    let mut scopes = Vec::new();
    for _ in 0..MOST_DECLARATORS {
        match at.kind() {
            "function_declarator" => {
                // A pointer to a function is a variable.
                let inner = at.child_by_field_name("declarator")?;
                is_function |= inner.kind() != "parenthesized_declarator";
                at = inner;
            }
            "operator_cast" => return Some((scopes, operator(text(at, source)?))),
            "qualified_identifier" => {
                let scope = at.child_by_field_name("scope").map(without_parameters);
                scopes.extend(scope.and_then(|it| text(it, source)));
                at = at.child_by_field_name("name")?;
            }
            "template_function" | "template_method" => at = at.child_by_field_name("name")?,
            "parenthesized_declarator" | "reference_declarator" | "attributed_declarator" => at = at.named_child(0)?,
            _ => match at.child_by_field_name("declarator") {
                Some(inner) => at = inner,
                None => {
                    let own = text(at, source)?;
                    return is_function.then_some((scopes, own));
                }
            },
        }
    }
    None
}

/// Returns the name of a C++ operator: `operator bool` of `operator bool() const`.
fn operator(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|it| *it == b'(').unwrap_or(text.len());
    text[..end].trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dotted_name_is_split_and_any_other_stays_whole() {
        assert_eq!(split_qualified(b"a.b.c"), Some((vec![&b"a"[..], b"b"], &b"c"[..])));
        assert_eq!(split_qualified(b"A::B"), Some((vec![&b"A"[..]], &b"B"[..])));
        assert_eq!(split_qualified(b"'quoted name'"), Some((vec![], &b"quoted name"[..])));
        assert_eq!(split_qualified(b"[Symbol.iterator]"), Some((vec![], &b"[Symbol.iterator]"[..])));
        assert_eq!(split_qualified(b"==").unwrap().1, b"==");
        assert_eq!(split_qualified(b"..."), None);
    }

    #[test]
    fn a_receiver_has_a_type() {
        for (receiver, expected) in
            [("(s *Stack[T])", "Stack"), ("(Stack)", "Stack"), ("(s Stack)", "Stack"), ("()", "")]
        {
            assert_eq!(receiver_type(receiver.as_bytes()), expected.as_bytes(), "{receiver}");
        }
    }
}
