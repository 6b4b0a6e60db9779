//! Tests in a virtual machine, of what the kernel of this machine need not be able to do.

use std::env::consts::ARCH;

use crate::{
    shell::{self, Cmd},
    steps::Steps,
};

const SCRIPT: &str = "xtask/guest.sh";

/// Rules of a port (`rte_flow`), which a TAP device has the kernel make.
pub(crate) fn rules(steps: &mut Steps) -> Result<(), String> {
    let step = "dpdk: rules of a port, in a guest";
    let folder = shell::target_dir().join("guest");
    let guest = Cmd::new(SCRIPT).args([folder.display().to_string()]);
    let obstacle = match shell::missing(&["qemu-system-x86_64", "apt-get", "dpkg-deb"]) {
        Some(missing) => Some(missing),
        None if ARCH != "x86_64" => Some(format!("the guest has another CPU than {ARCH}")),
        None => guest
            .run()
            .err()
            .map(|error| format!("no kernel for the guest: {error}")),
    };
    if let Some(why) = obstacle {
        steps.skip(step, &why);
        return Ok(());
    }
    let tests = shell::executable("cargo test -p hikyaku --features dpdk --lib --no-run")?;
    // It passes without rules as well.
    let command = format!(
        "{tests} backends::dpdk::tests::steering --nocapture >/run/said; status=$?; cat /run/said; \
         grep -q 'Port, Port' /run/said && exit $status"
    );
    steps.run(step, &guest.args([command]).limit_s(400))
}
