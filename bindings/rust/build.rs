//! Finds the installed C library and prints the flags that link it.
//!
//! `GNOMON_PREFIX`: the prefix of the installation; without it, pkg-config searches its usual
//! folders. pkg-config is required in both cases, because its file of the library knows whether
//! the library is static, and whether it uses OpenMP.
use std::env;
use std::path::{Path, PathBuf};
use std::process::{exit, Command};

fn fail(message: &str) -> ! {
    eprintln!("gnomon: {}", message);
    exit(1)
}

/// The folders below a prefix in which CMake installs files of pkg-config.
fn pkg_config_folders(prefix: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for lib in ["lib", "lib64"] {
        let folder = prefix.join(lib);
        found.push(folder.join("pkgconfig"));
        if let Ok(entries) = folder.read_dir() {
            let inner = entries.filter_map(|entry| Some(entry.ok()?.path().join("pkgconfig")));
            found.extend(inner); // lib/x86_64-linux-gnu of Debian
        }
    }
    found.retain(|folder| folder.join("gnomon-core.pc").is_file());
    found
}

fn pkg_config(package: &str, option: &str) -> String {
    let mut command =
        Command::new(env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into()));
    if let Ok(prefix) = env::var("GNOMON_PREFIX") {
        let folders = pkg_config_folders(Path::new(&prefix));
        if folders.is_empty() {
            fail(&format!("GNOMON_PREFIX={} has no gnomon-core.pc below lib", prefix));
        }
        let old = env::var_os("PKG_CONFIG_PATH").unwrap_or_default();
        let all = folders.into_iter().chain(env::split_paths(&old));
        command.env("PKG_CONFIG_PATH", env::join_paths(all).unwrap());
    }
    match command.args([option, package]).output() {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout).unwrap(),
        Ok(output) => fail(&format!(
            "pkg-config does not find {}; set GNOMON_PREFIX to the prefix of its installation\n{}",
            package,
            String::from_utf8_lossy(&output.stderr)
        )),
        Err(error) => fail(&format!("cannot run pkg-config: {}", error)),
    }
}

fn main() {
    for name in ["GNOMON_PREFIX", "PKG_CONFIG", "PKG_CONFIG_PATH"] {
        println!("cargo:rerun-if-env-changed={}", name);
    }
    println!("cargo:rerun-if-changed=build.rs");
    let has_model = env::var_os("CARGO_FEATURE_MODEL").is_some();
    let package = if has_model { "gnomon-model" } else { "gnomon-core" };

    let include = pkg_config("gnomon-core", "--variable=includedir");
    println!("cargo:rustc-env=GNOMON_INCLUDE={}", include.trim()); // for tests/declarations.rs
    let mut folders: Vec<PathBuf> = Vec::new();
    let mut is_static = false;
    for flag in pkg_config(package, "--libs").split_whitespace() {
        if let Some(folder) = flag.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={}", folder);
            folders.push(folder.into());
        } else if let Some(name) = flag.strip_prefix("-l") {
            let file = format!("lib{}.a", name);
            let archive =
                folders.iter().map(|folder| folder.join(&file)).find(|it| it.is_file());
            match archive {
                Some(path) if name.starts_with("gnomon") => {
                    is_static = true;
                    println!("cargo:rerun-if-changed={}", path.display());
                    println!("cargo:rustc-link-lib=static={}", name);
                }
                _ => println!("cargo:rustc-link-lib=dylib={}", name),
            }
        } else if flag == "-fopenmp" {
            println!("cargo:rustc-link-lib=dylib=gomp");
        }
    }
    if !is_static {
        // Programs of this package find the shared library; others set a path of their own.
        for folder in folders {
            println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.display());
        }
    }
}
