//! Compiles what `bench … --vs memif` compares with, which is written in C; only with the feature `dpdk`.

fn main() {
    #[cfg(feature = "dpdk")]
    dpdk::build();
}

#[cfg(feature = "dpdk")]
mod dpdk {
    use std::process::Command;

    const SOURCE: &str = "src/transports/memif.c";

    pub(super) fn build() {
        println!("cargo::rerun-if-changed={SOURCE}");
        let dpdk = pkg_config::Config::new().cargo_metadata(false).probe("libdpdk");
        // The crate with the bindings, which is built before, has said what to install.
        let Ok(dpdk) = dpdk else { return };
        let mut build = cc::Build::new();
        build
            .file(SOURCE)
            .includes(&dpdk.include_paths)
            .opt_level(3)
            .warnings(false);
        let program = std::env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_owned());
        let flags = Command::new(program).args(["--cflags-only-other", "libdpdk"]).output();
        if let Ok(output) = flags {
            String::from_utf8_lossy(&output.stdout)
                .split_whitespace()
                .for_each(|flag| {
                    build.flag(flag);
                });
        }
        build.compile("hikyaku_bare_memif");
    }
}
