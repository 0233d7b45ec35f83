#!/usr/bin/env bash
# A disk of a host VM: a root file system that stays as it is, what the tests put on top of it, and the kernel module built
# for its kernel. To be run in a mount namespace of its own.
# Usage: unshare --mount --propagation private stage.sh ROOT TOP DISK KERNEL INITRD
set -euo pipefail
root=$1 top=$2 disk=$3 kernel=$4 initrd=$5

work=$(mktemp -d)
trap 'rmdir "$work" 2>/dev/null || true' EXIT
mount -t tmpfs -o size=3G,mode=755 host-vm "$work"
mkdir "$work"/{upper,work,all}
# Relative, because a comma or a colon in a path would end an overlay option.
ln -s "$root" "$work/root"
cd "$work"
mount -t overlay -o lowerdir=root,upperdir=upper,workdir=work host-vm all
cp -a "$top"/. all/
chown -R 0:0 all/usr/src/host-vm
mount -t proc proc all/proc
chroot all /bin/bash -euo pipefail /usr/src/host-vm/install.sh
umount all/proc
cp all/boot/vmlinuz-* "$kernel"
cp all/boot/initrd.img-* "$initrd"
rm -f all/boot/vmlinuz-* all/boot/initrd.img-*
truncate -s 4G "$disk"
mke2fs -q -t ext4 -L root -m 0 -E lazy_itable_init=1,lazy_journal_init=1 -d all "$disk"
cd /
umount "$work/all" "$work"
