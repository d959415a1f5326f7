//! Finds the definitions of one source file in one pass over its tree. It does not recurse, because the tree may be deep.

use tree_sitter::{Node, Tree};

use super::names::{name_of, value_of};
use super::rules::{Condition, Rule, Rules};
use openskill_readers_protocol::definitions::protocol::{Definition, Kind, MAX_DEFINITIONS, MAX_TEXT_BYTES, Reply};

/// The maximum number of names in a qualified name.
const MOST_SCOPES: usize = 16;

/// An enclosing node whose name qualifies the definitions in it.
struct Scope {
    depth: usize,
    names: Vec<String>,
    kind: Option<Kind>,
}

/// Walks a syntax tree and collects its definitions.
pub(super) fn find(tree: &Tree, source: &[u8], rules: &Rules) -> Reply {
    let root = tree.root_node();
    let mut reply = Reply { syntax_errors: root.has_error(), ..Reply::default() };
    let (mut cursor, mut depth, mut scopes) = (tree.walk(), 0, Vec::<Scope>::new());
    loop {
        let node = cursor.node();
        if let Some(rule) = rules.get(node.kind_id())
            && let Some(scope) = add_definition(node, source, rules, rule, &scopes, &mut reply)
        {
            scopes.push(Scope { depth, ..scope });
        }
        if cursor.goto_first_child() {
            depth += 1;
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return reply;
            }
            depth -= 1;
        }
        scopes.truncate(scopes.partition_point(|it| it.depth < depth));
    }
}

/// Adds a node to the definitions if it is one. Returns the scope that a named node opens.
fn add_definition(
    node: Node<'_>,
    source: &[u8],
    rules: &Rules,
    rule: &Rule,
    scopes: &[Scope],
    reply: &mut Reply,
) -> Option<Scope> {
    let is_in_function = scopes.iter().any(|it| matches!(it.kind, Some(Kind::Function | Kind::Method)));
    let counts = match rule.condition {
        Condition::Any => true,
        Condition::NotInFunction => !is_in_function,
        Condition::WithBody => node.child_by_field_name("body").is_some(),
        Condition::InClass => {
            let is_friend = source[..node.start_byte()].trim_ascii_end().ends_with(b"friend");
            let scope = scopes.last().and_then(|it| it.kind);
            !is_friend && matches!(scope, Some(Kind::Class | Kind::Struct | Kind::Union))
        }
    };
    let (owners, own) = counts.then(|| name_of(node, source, rule.name)).flatten()?;
    let mut names: Vec<String> = owners.into_iter().map(bounded_string).collect();
    let name = bounded_string(own);
    names.push(name.clone());
    let kind = rule.kind.map(|kind| refine_kind(kind, node, names.len() > 1, scopes));
    if let Some(kind) = kind {
        if reply.definitions.len() >= MAX_DEFINITIONS {
            reply.truncated = true;
        } else {
            let (start, end) = (node.start_position(), node.end_position());
            // If a node includes the line break of its last line, it ends at column 0 of the next line.
            let last = if end.column == 0 && end.row > start.row { end.row } else { end.row + 1 };
            reply.definitions.push(Definition {
                kind,
                qualified_name: qualify(scopes, &names, rules.separator),
                name,
                signature: signature(node, source),
                start_line: line(start.row + 1),
                end_line: line(last),
            });
        }
    }
    Some(Scope { depth: 0, names, kind })
}

/// Refines a kind: a function in a class is a method, and a Go type declared as a struct or an interface is one.
fn refine_kind(kind: Kind, node: Node<'_>, has_owner: bool, scopes: &[Scope]) -> Kind {
    match (kind, node.kind()) {
        (
            Kind::Function,
            "function_definition" | "function_declaration" | "function_item" | "function_signature_item",
        ) => {
            let is_member = scopes.last().is_some_and(|it| {
                let of =
                    [Kind::Class, Kind::Struct, Kind::Union, Kind::Interface, Kind::Trait, Kind::Enum, Kind::Object];
                it.kind.is_none_or(|kind| of.contains(&kind))
            });
            if is_member || has_owner { Kind::Method } else { Kind::Function }
        }
        (Kind::Type, "type_spec") => match node.child_by_field_name("type").map(|it| it.kind()) {
            Some("struct_type") => Kind::Struct,
            Some("interface_type") => Kind::Interface,
            _ => Kind::Type,
        },
        // The Kotlin grammar uses the same node for classes and interfaces.
        (Kind::Class, "class_declaration") => {
            let mut cursor = node.walk();
            let words: Vec<_> = node.children(&mut cursor).take(8).map(|it| it.kind()).collect();
            if words.contains(&"interface") { Kind::Interface } else { Kind::Class }
        }
        (kind, _) => kind,
    }
}

/// Joins the names of the scopes and the name of the definition.
fn qualify(scopes: &[Scope], names: &[String], separator: &str) -> String {
    let all: Vec<&str> =
        scopes.iter().flat_map(|it| &it.names).chain(names).filter(|it| !it.is_empty()).map(String::as_str).collect();
    let kept = &all[all.len().saturating_sub(MOST_SCOPES)..];
    cut(&kept.join(separator)).to_owned()
}

/// Returns the text before the body, on one line.
fn signature(node: Node<'_>, source: &[u8]) -> String {
    let body = node.child_by_field_name("body").or_else(|| value_of(node, source, true)?.child_by_field_name("body"));
    let begin = node.start_byte();
    let end = body.map_or(node.end_byte(), |it| it.start_byte()).max(begin);
    // Take enough text to reach the limit, even with much white space in it.
    let text = source.get(begin..end.min(begin + 8 * MAX_TEXT_BYTES)).unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    // Without a body in the tree, the signature ends where a body would begin.
    let text = if body.is_some() { &text } else { text.split('{').next().unwrap_or_default() };
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    cut(line.trim_end_matches([':', '{', '=', ';']).trim_end()).to_owned()
}

fn bounded_string(text: &[u8]) -> String {
    let text = text.get(..4 * MAX_TEXT_BYTES).unwrap_or(text);
    cut(String::from_utf8_lossy(text).trim()).to_owned()
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT_BYTES)]
}

fn line(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
