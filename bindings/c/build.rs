//! Names the shared library as onnxruntime's is named, so that programs linked against that one load this one. Its
//! symbols are unversioned: onnxruntime's carry a release (`VERS_1.30.0`), and an unversioned library satisfies all.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libonnxruntime.so.1");
        // Tests have a function that the library finds by name.
        println!("cargo:rustc-link-arg-tests=-rdynamic");
    }
}
