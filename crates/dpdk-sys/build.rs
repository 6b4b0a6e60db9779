//! Finds DPDK, compiles the shim, generates the bindings. Does nothing without the feature `bindings`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "bindings")]
    if let Err(error) = bindings::build() {
        // A panic's message comes with a backtrace that nobody needs.
        eprintln!("\n{error}\n");
        std::process::exit(1);
    }
}

#[cfg(feature = "bindings")]
mod bindings {
    use std::{env, fs, path::PathBuf, process::Command};

    /// The oldest release whose names these are.
    const OLDEST: &str = "22.11";
    const INSTALL: &str = "hikyaku-dpdk-sys: DPDK's headers were not found. It needs DPDK 22.11 or newer with its \
        libdpdk.pc, a C compiler and libclang:\n  Debian, Ubuntu:  apt-get install dpdk-dev pkg-config gcc clang\n  \
        Fedora:          dnf install dpdk-devel pkgconf gcc clang-devel\nA DPDK that you have built yourself is found \
        by PKG_CONFIG_PATH=/prefix/lib/pkgconfig. Without the feature `dpdk` (here: `bindings`) none of it is needed.";

    /// The libraries whose functions are called. EAL loads the drivers from the plugin folder itself.
    const SHARED: [&str; 6] = [
        "rte_eal",
        "rte_ethdev",
        "rte_mbuf",
        "rte_mempool",
        "rte_ring",
        "rte_bus_vdev",
    ];
    /// The same in the program, as (library, all of it): drivers register themselves, and nothing refers to them.
    const STATIC: [(&str, bool); 16] = [
        ("rte_net_memif", true),
        ("rte_net_af_packet", true),
        ("rte_net_ring", true),
        ("rte_net_null", true),
        ("rte_bus_vdev", true),
        ("rte_mempool_ring", true),
        ("rte_ethdev", false),
        ("rte_hash", false),
        ("rte_rcu", false),
        ("rte_net", false),
        ("rte_mbuf", false),
        ("rte_mempool", false),
        ("rte_ring", false),
        ("rte_meter", false),
        ("rte_eal", false),
        ("rte_telemetry", false),
    ];
    const STATIC_LAST: [&str; 1] = ["rte_kvargs"];
    /// The system libraries that those need.
    const STATIC_SYSTEM: [&str; 5] = ["numa", "dl", "m", "pthread", "bsd"];

    const FUNCTIONS: [&str; 42] = [
        "rte_eal_alarm_set",
        "rte_eal_init",
        "rte_eal_cleanup",
        "rte_eal_hotplug_add",
        "rte_eal_hotplug_remove",
        "rte_eth_allmulticast_enable",
        "rte_eth_dev_adjust_nb_rx_tx_desc",
        "rte_eth_dev_close",
        "rte_eth_dev_configure",
        "rte_eth_dev_count_avail",
        "rte_eth_dev_get_mtu",
        "rte_eth_dev_get_name_by_port",
        "rte_eth_dev_get_port_by_name",
        "rte_eth_dev_info_get",
        "rte_eth_dev_is_valid_port",
        "rte_eth_dev_set_mtu",
        "rte_eth_dev_socket_id",
        "rte_eth_dev_start",
        "rte_eth_dev_stop",
        "rte_eth_link_get_nowait",
        "rte_eth_macaddr_get",
        "rte_eth_promiscuous_enable",
        "rte_eth_rx_queue_setup",
        "rte_eth_stats_get",
        "rte_eth_tx_queue_setup",
        "rte_extmem_register",
        "rte_extmem_unregister",
        "rte_log_set_global_level",
        "rte_mempool_avail_count",
        "rte_mempool_free",
        "rte_mempool_in_use_count",
        "rte_mempool_lookup",
        "rte_pktmbuf_free_bulk",
        "rte_pktmbuf_pool_create",
        "rte_pktmbuf_pool_create_extbuf",
        "rte_strerror",
        "rte_thread_register",
        "rte_thread_unregister",
        "rte_version",
        "rte_vdev_init",
        "rte_vdev_uninit",
        "dpdk_.*",
    ];
    const TYPES: [&str; 7] = [
        "rte_eth_conf",
        "rte_eth_dev_info",
        "rte_eth_link",
        "rte_eth_stats",
        "rte_ether_addr",
        "rte_mbuf_ext_shared_info",
        "rte_pktmbuf_extmem",
    ];
    const CONSTANTS: [&str; 3] = ["DPDK_.*", "RTE_PKTMBUF_HEADROOM", "RTE_ETHER_.*_LEN"];
    /// Only ever seen behind a pointer; the shim knows their insides, which differ between releases.
    const OPAQUE: [&str; 5] = [
        "rte_flow",
        "rte_mbuf",
        "rte_mempool",
        "rte_device",
        "rte_eth_dev_portconf",
    ];

    /// The bindings for a host without DPDK that builds documentation: those for x86-64, as of Debian 12.
    const DOCUMENTED: &str = "bindings/22.11-x86_64.rs";

    pub(super) fn build() -> Result<(), String> {
        for file in ["shim.h", "shim.c", DOCUMENTED] {
            println!("cargo::rerun-if-changed={file}");
        }
        println!("cargo::rerun-if-env-changed=DOCS_RS");
        let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
        let bindings = out.join("bindings.rs");
        // docs.rs says so, and links nothing.
        if env::var_os("DOCS_RS").is_some() {
            let copied = fs::copy(DOCUMENTED, bindings);
            return copied.map(drop).map_err(|error| format!("{DOCUMENTED}: {error}"));
        }
        let dpdk = pkg_config::Config::new()
            .atleast_version(OLDEST)
            .cargo_metadata(false)
            .probe("libdpdk")
            .map_err(|error| format!("{INSTALL}\n\n{error}"))?;
        // `-include rte_config.h` and the CPU for which the inline functions are written.
        let flags = other_flags();

        let mut shim = cc::Build::new();
        shim.file("shim.c")
            .includes(&dpdk.include_paths)
            .opt_level(3)
            // A register more for functions that are called for each packet; they have tables for unwinding.
            .force_frame_pointer(false)
            .warnings(false);
        flags.iter().for_each(|flag| {
            shim.flag(flag);
        });
        shim.try_compile("dpdk_shim")
            .map_err(|error| format!("{INSTALL}\n\nThe shim does not compile: {error}"))?;

        let mut builder = bindgen::builder()
            .header("shim.h")
            .clang_args(&flags)
            .clang_args(dpdk.include_paths.iter().map(|path| format!("-I{}", path.display())))
            .default_enum_style(bindgen::EnumVariation::Consts)
            .derive_default(true)
            .generate_comments(false)
            .prepend_enum_name(false)
            .use_core();
        builder = FUNCTIONS
            .iter()
            .fold(builder, |builder, name| builder.allowlist_function(name));
        builder = TYPES.iter().fold(builder, |builder, name| builder.allowlist_type(name));
        builder = CONSTANTS
            .iter()
            .fold(builder, |builder, name| builder.allowlist_var(name));
        builder = OPAQUE.iter().fold(builder, |builder, name| builder.opaque_type(name));
        builder
            .generate()
            .map_err(|error| format!("{INSTALL}\n\nThe headers cannot be read: {error}"))?
            .write_to_file(bindings)
            .map_err(|error| format!("writing the bindings: {error}"))?;

        link(&dpdk);
        Ok(())
    }

    /// Words of the C flags that are no include folders.
    fn other_flags() -> Vec<String> {
        let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_owned());
        let output = Command::new(program).args(["--cflags-only-other", "libdpdk"]).output();
        let text = output.map_or_else(
            |_| String::new(),
            |output| String::from_utf8_lossy(&output.stdout).into_owned(),
        );
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn link(dpdk: &pkg_config::Library) {
        for path in &dpdk.link_paths {
            println!("cargo::rustc-link-search=native={}", path.display());
        }
        if cfg!(feature = "static") {
            // Debian's compiler finds them by itself; rustc, which opens archives, must be told.
            if dpdk.link_paths.is_empty() {
                let dir = pkg_config::get_variable("libdpdk", "libdir").unwrap_or_default();
                println!("cargo::rustc-link-search=native={dir}");
            }
            for (library, whole) in STATIC {
                let how = if whole {
                    "static:+whole-archive,-bundle"
                } else {
                    "static:-bundle"
                };
                println!("cargo::rustc-link-lib={how}={library}");
            }
            for library in STATIC_LAST {
                println!("cargo::rustc-link-lib=static:-bundle={library}");
            }
            for library in STATIC_SYSTEM {
                println!("cargo::rustc-link-lib={library}");
            }
        } else {
            for library in SHARED {
                println!("cargo::rustc-link-lib={library}");
            }
        }
    }
}
