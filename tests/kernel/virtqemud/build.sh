#!/bin/bash
# build.sh ROOT DEST: makes in DEST the files that turn the Debian system in ROOT into a host of modular daemons (README.md).
# ROOT stays as it is: the build runs in an overlay over it, in a mount namespace of its own, and both end with it. Needs root,
# ROOT's packages from a Debian mirror, and some 400 MB of memory for what the build writes. DEST is laid over an image: cp -a DEST/. IMAGE/
set -euo pipefail

[ $# -eq 2 ] || { echo "usage: build.sh ROOT DEST" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$1" && pwd)
mkdir -p "$2"
dest=$(cd "$2" && pwd)

if [ "${VIRTQEMUD_INSIDE:-}" != yes ]; then
  VIRTQEMUD_INSIDE=yes exec unshare --mount --pid --fork --kill-child=KILL "$here/build.sh" "$root" "$dest"
fi

mount --make-rprivate /
over=$(mktemp -d)
mount -t tmpfs -o mode=755 tmpfs "$over"
mkdir "$over"/{upper,work,merged}
# Relative, because a comma or a colon in a path would end an overlay option.
ln -s "$root" "$over/root"
cd "$over"
mount -t overlay -o lowerdir=root,upperdir=upper,workdir=work overlay merged
tree=$over/merged
mount -t proc proc "$tree/proc"
mount -t tmpfs tmpfs "$tree/tmp"
mkdir "$tree/tmp/dest" "$tree/tmp/scripts"
mount --bind "$dest" "$tree/tmp/dest"
mount --bind "$here" "$tree/tmp/scripts"
cp -L /etc/resolv.conf "$tree/etc/resolv.conf"
# No daemon is started by a package here (invoke-rc.d asks this file; 101: not allowed).
printf '#!/bin/sh\nexit 101\n' > "$tree/usr/sbin/policy-rc.d"
chmod 755 "$tree/usr/sbin/policy-rc.d"
chroot "$tree" /bin/bash /tmp/scripts/compile.sh /tmp/dest
"$here/enable.sh" "$dest"
