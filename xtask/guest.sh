#!/usr/bin/env bash
# Runs a command in a virtual machine with Debian's kernel, for what the kernel of this machine cannot do. The command
# sees this machine's files and cannot change them; /run is its own. Needs neither root nor KVM.
#
#   xtask/guest.sh FOLDER [COMMAND]    FOLDER: where the kernel is kept, once it has been downloaded (70 MB)
set -euo pipefail
folder=$1

# For files of this machine; for rules of TAP devices.
modules=(virtio_ring virtio_pci_modern_dev virtio_pci_legacy_dev virtio virtio_pci 9pnet 9pnet_virtio netfs fscache 9p
    tun sch_multiq sch_ingress cls_flower act_skbedit act_mirred cls_bpf act_bpf)

mkdir -p "$folder"
cd "$folder"

make_initramfs() {
    local kernel number=10
    kernel=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image-/ { print $2; exit }')
    rm -rf unpacked tree ./*.deb
    apt-get download -qq "$kernel" busybox-static
    for package in *.deb; do dpkg-deb -x "$package" unpacked; done
    mkdir -p tree/bin tree/modules tree/host tree/proc tree/sys tree/dev
    cp unpacked/bin/busybox tree/bin
    for module in "${modules[@]}"; do
        find unpacked/lib/modules -name "$module.ko" -exec cp {} "tree/modules/$number-$module.ko" \;
        number=$((number + 1))
    done
    cat >tree/init <<'INIT'
#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
for module in /modules/*; do insmod $module; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=262144,cache=loose host /host
mount -t tmpfs none /host/run
for folder in dev proc sys; do mount --bind /$folder /host/$folder; done
chroot /host /bin/sh "$(sed 's/.*command=//' /proc/cmdline)"
echo "guest: $?"
poweroff -f
INIT
    chmod +x tree/init
    (cd tree && find . | ../unpacked/bin/busybox cpio -o -H newc) | gzip >initramfs.new
    cp unpacked/boot/vmlinuz-* vmlinuz
    mv initramfs.new initramfs
    rm -rf unpacked tree ./*.deb
}

[ -f initramfs ] || make_initramfs
[ $# -gt 1 ] || exit 0
echo "$2" >command
timeout --kill-after=5 300 qemu-system-x86_64 -accel tcg -cpu max -m 1024 -smp 2 -nographic -no-reboot -net none \
    -kernel vmlinuz -initrd initramfs -append "console=ttyS0 quiet panic=-1 command=$PWD/command" \
    -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap </dev/null | tr -d '\r' | tee output
grep -q '^guest: 0$' output
