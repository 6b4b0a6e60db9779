//! Collects packets that tests make, for the fuzzer to start from.
//!
//! With `HIKYAKU_FUZZ_CORPUS=<folder>` each goes to `<folder>/<target>/<hash>`, so `HIKYAKU_FUZZ_CORPUS=fuzz/corpus
//! cargo test` (as an absolute path) adds to the corpus; `cargo fuzz cmin` then keeps what is worth keeping.

use std::{fs, path::PathBuf, sync::LazyLock};

static FOLDER: LazyLock<Option<PathBuf>> = LazyLock::new(|| std::env::var_os("HIKYAKU_FUZZ_CORPUS").map(PathBuf::from));

/// Fuzz targets whose input is a datagram.
const TARGETS: [&str; 2] = ["header", "packet"];

/// Keeps a datagram for the fuzz corpus, if one is collected.
pub(crate) fn keep(bytes: &[u8]) {
    let Some(folder) = &*FOLDER else {
        return;
    };
    // FNV-1a.
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    for target in TARGETS {
        let folder = folder.join(target);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{hash:016x}")), bytes).unwrap();
    }
}
