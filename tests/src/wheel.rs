//! Tiny wheels, so that no test needs a package index.

use std::path::Path;
use std::process::Command;

/// Writes a wheel with one module into a folder. `requires` are its own requirements.
pub fn write(folder: &Path, name: &str, version: &str, module: &str, requires: &[&str]) {
    let program = r#"
import sys, zipfile
folder, name, version, module, *requires = sys.argv[1:]
info = f"{name}-{version}.dist-info"
metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(f"Requires-Dist: {it}\n" for it in requires)
files = {
    f"{name}.py": module,
    f"{info}/METADATA": metadata,
    f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    f"{info}/entry_points.txt": f"[console_scripts]\n{name}={name}:main\n",
}
record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
with zipfile.ZipFile(f"{folder}/{name}-{version}-py3-none-any.whl", "w") as wheel:
    for path, text in {**files, f"{info}/RECORD": record}.items():
        wheel.writestr(path, text)
"#;
    std::fs::create_dir_all(folder).unwrap();
    let mut python = Command::new("python3");
    python.args(["-I", "-c", program]).arg(folder).args([name, version, module]).args(requires);
    let output = python.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Writes a wheel of a module whose file list has hashes, or another one: `more` is Python, which may change `files` (texts by
/// path) and `hashes` (which are made of `files` unless they are there), and has the open `wheel` in `extra(wheel)`.
pub fn craft(folder: &Path, name: &str, module: &str, more: &str) {
    let program = r#"
import base64, hashlib, stat, sys, zipfile
folder, name, module, more = sys.argv[1:]
info = f"{name}-1.0.dist-info"
files = {
    f"{name}.py": module,
    f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
    f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
hashes, extra = {}, lambda wheel: None
exec(more)
digest = lambda text: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
for path, text in files.items():
    hashes.setdefault(path, "sha256=" + digest(text))
record = "".join(f"{path},{it},\n" for path, it in hashes.items()) + f"{info}/RECORD,,\n"
with zipfile.ZipFile(f"{folder}/{name}-1.0-py3-none-any.whl", "a", zipfile.ZIP_DEFLATED, compresslevel=1) as wheel:
    for path, text in {**files, f"{info}/RECORD": record}.items():
        wheel.writestr(path, text)
    extra(wheel)
"#;
    std::fs::create_dir_all(folder).unwrap();
    let mut python = Command::new("python3");
    let output = python.args(["-I", "-c", program]).arg(folder).args([name, module, more]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
