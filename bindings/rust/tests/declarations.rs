//! `src/sys.rs` beside the headers of the installed library: the C compiler accepts the
//! declarations of both together, and structs and constants have the same layout and values.
use gnomon::sys::*;
use std::collections::BTreeMap;
use std::mem::{size_of, MaybeUninit};
use std::path::PathBuf;
use std::process::Command;
use std::ptr::addr_of;

const SYS: &str = include_str!("../src/sys.rs");

/// Offsets and sizes of the members of a struct.
macro_rules! layout {
    ($all:ident, $of:ident, $($member:ident),*) => {{
        let place = MaybeUninit::<$of>::uninit();
        let base = place.as_ptr();
        let members = vec![$({
            // SAFETY: addresses of parts of `place`, which are not read.
            let part = unsafe { addr_of!((*base).$member) };
            (stringify!($member), part as usize - base as usize)
        }),*];
        $all.insert(stringify!($of), (size_of::<$of>(), members));
    }};
}

type Layouts = BTreeMap<&'static str, (usize, Vec<(&'static str, usize)>)>;

fn layouts() -> Layouts {
    let mut all = Layouts::new();
    layout!(all, gnomon_device, device_type, device_id);
    layout!(all, gnomon_data_type, code, bits, lanes);
    layout!(all, gnomon_tensor, data, device, ndim, dtype, shape, strides, byte_offset);
    layout!(all, gnomon_rotary_spec, size, rotary_dim, pairing, base, head_offset);
    layout!(all, gnomon_attention_input, size, q, k, v, k_scales, v_scales, gates, terms);
    layout!(all, gnomon_attention_gradient, size, q, k, v, plan, dense, gates, sinks);
    layout!(
        all,
        gnomon_ragged_batch,
        size,
        query_starts,
        query_lengths,
        key_starts,
        key_lengths,
        offsets,
        block_table
    );
    layout!(
        all,
        gnomon_paged_cache,
        size,
        keys,
        values,
        slots,
        block_table,
        entries,
        sequences,
        key_scales,
        value_scales
    );
    layout!(
        all,
        gnomon_paged_kv_cache_spec,
        size,
        blocks,
        block_size,
        heads,
        head_dim,
        value_dim,
        axes,
        r#type,
        key_scales,
        value_scales
    );
    #[cfg(feature = "model")]
    layout!(
        all,
        gnomon_tokens,
        size,
        query_ids,
        query_sequences,
        key_ids,
        key_sequences,
        cached,
        length
    );
    all
}

/// The C type of a Rust type of `sys.rs`.
fn c_type(rust: &str) -> String {
    let rust = rust.trim();
    if let Some(inner) = rust.strip_prefix("*mut ") {
        return format!("{}*", c_type(inner));
    }
    if let Some(inner) = rust.strip_prefix("*const ") {
        return match inner.starts_with('*') {
            true => format!("{} const*", c_type(inner)),
            false => format!("const {}*", c_type(inner)),
        };
    }
    match rust {
        "i32" | "i64" | "u8" | "u16" | "u32" | "u64" => {
            let sign = if rust.starts_with('u') { "u" } else { "" };
            format!("{}int{}_t", sign, &rust[1..])
        }
        "f32" => "float".into(),
        "f64" => "double".into(),
        "usize" => "size_t".into(),
        "c_char" => "char".into(),
        "c_void" => "void".into(),
        name => name.into(),
    }
}

/// The C declarations of the functions of `sys.rs`: (name, declaration).
fn functions() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for part in SYS.split("pub fn ").skip(1) {
        let declaration = &part[..part.find(';').unwrap()];
        let (name, rest) = declaration.split_once('(').unwrap();
        let (arguments, result) = rest.rsplit_once(')').unwrap();
        let arguments: Vec<String> = arguments
            .split(',')
            .filter_map(|one| Some(c_type(one.split_once(':')?.1)))
            .collect();
        let arguments = if arguments.is_empty() { "void".into() } else { arguments.join(", ") };
        let result = result.trim().strip_prefix("-> ").map_or("void".into(), c_type);
        found.push((name.to_string(), format!("{} {}({});", result, name, arguments)));
    }
    found
}

/// The constants of `sys.rs`: (name, value).
fn constants() -> Vec<(String, String)> {
    let lines = SYS.lines().filter_map(|line| line.strip_prefix("pub const "));
    lines
        .map(|line| {
            let (name, rest) = line.split_once(':').unwrap();
            let value = rest.split_once("= ").unwrap().1;
            (name.to_string(), value.trim_end_matches(';').to_string())
        })
        .collect()
}

/// The members of the structs of `sys.rs` that are not opaque: {struct: names}.
fn members() -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for part in SYS.split("pub struct ").skip(1) {
        let (name, rest) = part.split_once(" {").unwrap();
        let body = &rest[..rest.find('}').unwrap()];
        let names = body.lines().filter_map(|line| line.trim().strip_prefix("pub "));
        let names = names.map(|line| line.split_once(':').unwrap().0.to_string());
        let names: Vec<String> = names.collect();
        if !names.is_empty() {
            found.insert(name.to_string(), names);
        }
    }
    found
}

fn static_assert(expression: &str, value: &str) -> String {
    format!("_Static_assert({} == {}, \"{}\");\n", expression, value, expression)
}

#[test]
fn the_list_of_layouts_is_complete() {
    let listed: BTreeMap<String, Vec<String>> = layouts()
        .into_iter()
        .map(|(name, (_, members))| {
            (name.to_string(), members.iter().map(|(member, _)| member.to_string()).collect())
        })
        .collect();
    let mut declared = members();
    if !cfg!(feature = "model") {
        declared.remove("gnomon_tokens");
    }
    assert_eq!(listed, declared);
}

#[test]
fn the_c_compiler_accepts_the_declarations_with_the_headers() {
    let mut source = String::from(
        "#include <gnomon.h>\n#include <gnomon_context.h>\n#include <gnomon_ragged.h>\n#include <gnomon_paged_cache.h>\n\
         #include <stddef.h>\n",
    );
    for (_, declaration) in functions() {
        source += &declaration;
        source += "\n";
    }
    for (name, value) in constants() {
        source += &static_assert(&name, &value);
    }
    for (name, (size, members)) in layouts() {
        source += &static_assert(&format!("sizeof({})", name), &size.to_string());
        for (member, offset) in members {
            let place = format!("offsetof({}, {})", name, member.trim_start_matches("r#"));
            source += &static_assert(&place, &offset.to_string());
        }
    }
    let file: PathBuf = [env!("CARGO_TARGET_TMPDIR"), "declarations.c"].iter().collect();
    std::fs::write(&file, source).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let output = Command::new(compiler)
        .args(["-std=c11", "-Werror", "-fsyntax-only", "-I", env!("GNOMON_INCLUDE")])
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_function_of_the_headers_is_declared() {
    let declared: Vec<String> = functions().into_iter().map(|(name, _)| name).collect();
    let mut count = 0;
    for header in ["gnomon.h", "gnomon_context.h", "gnomon_ragged.h", "gnomon_paged_cache.h"] {
        let path: PathBuf = [env!("GNOMON_INCLUDE"), header].iter().collect();
        let text = std::fs::read_to_string(path).unwrap();
        // A declaration begins at the start of a line, and a comment with a space or a star.
        for line in text.lines().filter(|line| line.starts_with(|c: char| c.is_alphabetic())) {
            let before = match line.split_once('(') {
                Some((before, _)) if !line.starts_with("typedef") => before,
                _ => continue,
            };
            let name = before.rsplit(|c| c == ' ' || c == '*').next().unwrap();
            assert!(declared.iter().any(|one| one == name), "{} of {}", name, header);
            count += 1;
        }
    }
    assert_eq!(count, declared.len());
    assert!(constants().len() > 15 && count > 80);
}
