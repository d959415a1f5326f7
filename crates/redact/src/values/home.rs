//! User names in paths of home directories.

/// Directories next to home directories that belong to no user.
const SHARED: [&[u8]; 7] = [b"Shared", b"Public", b"Default", b"All Users", b"Guest", b"linuxbrew", b"..."];

/// Finds the name in `/Users/<name>` and `/home/<name>` of a path that begins with the slash at `slash`.
pub(crate) fn unix(text: &[u8], slash: usize) -> Option<(usize, usize)> {
    let rest = &text[slash..];
    let name = if rest.starts_with(b"/home/") && is_root(text, slash) {
        slash + 6
    } else if rest.starts_with(b"/Users/") && (is_root(text, slash) || is_drive(text, slash)) {
        slash + 7
    } else {
        return None;
    };
    person(text, name)
}

/// Finds the name in `\Users\<name>`, with any number of backslashes. `slash` is the first one. Windows ignores
/// case.
pub(crate) fn windows(text: &[u8], slash: usize) -> Option<(usize, usize)> {
    let skip = |at: usize| text[at..].iter().take_while(|byte| **byte == b'\\').count().min(8);
    let folder = slash + skip(slash);
    let after =
        ["users", "documents and settings"].iter().find(|it| crate::classes::continues(text, folder, it.as_bytes()));
    let after = folder + after?.len();
    match skip(after.min(text.len())) {
        0 => None,
        count => person(text, after + count),
    }
}

/// Whether a path begins here, rather than the middle of a URL or another path.
fn is_root(text: &[u8], slash: usize) -> bool {
    let before = &text[..slash];
    let goes_on =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'~' | b'}' | b')' | b'*');
    !before.last().is_some_and(goes_on) || [&b"/mnt"[..], b"/export", b"/var"].iter().any(|it| before.ends_with(it))
}

/// Whether the text before ends with a drive, as in `C:/Users` and `/mnt/c/Users`.
fn is_drive(text: &[u8], slash: usize) -> bool {
    match &text[..slash] {
        [.., b'/', drive] => drive.is_ascii_alphabetic(),
        [.., b'/', b'h', b'o', b's', b't'] => true,
        _ => false,
    }
}

/// The maximum length of a name, in bytes.
const LONGEST: usize = 64;

fn person(text: &[u8], start: usize) -> Option<(usize, usize)> {
    let rest = &text[start.min(text.len())..text.len().min(start + LONGEST)];
    let ends = |byte: &u8| {
        byte.is_ascii_whitespace() || byte.is_ascii_control() || b"/\\\"'`:;,<>|&()]{}$*?%#=".contains(byte)
    };
    let mut length = rest.iter().position(ends).unwrap_or(rest.len());
    // A name may have two words if the path continues after them.
    if rest.get(length) == Some(&b' ') {
        let further = rest[length + 1..].iter().position(ends).map_or(rest.len(), |at| length + 1 + at);
        if matches!(rest.get(further), Some(b'/' | b'\\'))
            && rest[length + 1..further].iter().any(u8::is_ascii_alphabetic)
        {
            length = further;
        }
    }
    if length == LONGEST {
        // Hide a long name to its end. Otherwise its rest would count as another word.
        length = text[start..].iter().position(ends).unwrap_or(text.len() - start);
    }
    let name = &text[start..start + length];
    let name = &name[..name.len() - name.iter().rev().take_while(|byte| **byte == b'.').count()];
    let is_person =
        !name.is_empty() && !SHARED.contains(&name) && name.iter().any(|byte| *byte != b'*' && *byte != b'.');
    is_person.then_some((start, start + name.len()))
}
