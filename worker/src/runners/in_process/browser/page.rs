//! The script that runs in an isolated world of each frame. Its files form one expression, in this order; the value of
//! that expression is the object on which the worker calls.

/// The isolated world.
pub(super) const WORLD: &str = "openskill";

/// The expression to evaluate once per document.
pub(super) const SCRIPT: &str = concat!(
    include_str!("page/00_start.js"),
    include_str!("page/10_text.js"),
    include_str!("page/15_budget.js"),
    include_str!("page/20_tree.js"),
    include_str!("page/25_roles.js"),
    include_str!("page/30_names.js"),
    include_str!("page/35_state.js"),
    include_str!("page/40_look.js"),
    include_str!("page/45_numbers.js"),
    include_str!("page/50_place.js"),
    include_str!("page/55_walk.js"),
    include_str!("page/60_lines.js"),
    include_str!("page/65_locate.js"),
    include_str!("page/66_frames.js"),
    include_str!("page/67_press.js"),
    include_str!("page/70_changes.js"),
    include_str!("page/75_typing.js"),
    include_str!("page/78_options.js"),
    include_str!("page/80_find.js"),
    include_str!("page/84_table.js"),
    include_str!("page/85_markdown.js"),
    include_str!("page/87_extract.js"),
    include_str!("page/99_end.js"),
);

/// What runs in each new page, in the same world, from its beginning on.
pub(super) const WATCH: &str = include_str!("watch.js");
