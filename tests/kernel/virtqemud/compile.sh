#!/bin/bash
# Runs in a chroot of Debian (build.sh makes it): libvirt's own virtqemud from Debian's source, into DEST, about 40 s on two cores.
#
# Debian ships no modular daemon, but all that one is made of: a daemon is six C files of src/remote and src/admin (and three
# generated ones), compiled once with libvirtd's and once with virtqemud's definitions; the work is done by libvirt.so.0 and
# connection-driver/libvirt_driver_qemu.so. So only these files are compiled, unchanged, by the source's own build system, and
# linked to Debian's own libraries. Those keep their private symbols under the node LIBVIRT_PRIVATE_<version>, so a virtqemud of
# another version would not even start; and the source is pinned to the very package version that is installed.
set -euo pipefail

DEST=$1
WORK=$(mktemp -d)
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

# gnutls, json-c, libxml2, glib, tirpc: the build system wants them for the QEMU driver. sasl, nl: with them every #if in the
# daemon's files is decided as in Debian's own build. gettext (for polkit), xsltproc: configuring fails without them.
BUILD_DEPENDENCIES=(
  gcc gettext libc6-dev meson ninja-build patch pkg-config xsltproc libxml2-utils xz-utils
  libglib2.0-dev libgnutls28-dev libjson-c-dev libnl-3-dev libnl-route-3-dev libsasl2-dev libtirpc-dev libxml2-dev
)

say() { echo "virtqemud: $*" >&2; }
die() { say "$*"; exit 1; }

# One-line sources, as mmdebstrap writes them: the same suites and the same keys, for sources.
sed -n 's/^deb /deb-src /p' /etc/apt/sources.list > /etc/apt/sources.list.d/virtqemud-source.list
apt-get -qq update
apt-get -qq -y install --no-install-recommends "${BUILD_DEPENDENCIES[@]}" > "$WORK/apt.log" 2>&1 || { cat "$WORK/apt.log" >&2; exit 1; }

version=$(dpkg-query -W -f '${source:Version}' libvirt0)
upstream=${version%-*}
cd "$WORK"
# Both archives' hashes stand in the signed index. The .dsc adds nothing to that, and not every mirror hands it out.
for part in --tar-only --diff-only; do
  apt-get -qq -o APT::Sandbox::User=root source "$part" "libvirt=$version" 2> "$WORK/apt.log" > /dev/null || {
    cat "$WORK/apt.log" >&2
    die "no source of libvirt $version; an image that is older than the mirror's packages is to be built anew"
  }
done
tar xf "libvirt_$upstream.orig.tar.xz"
cd "libvirt-$upstream"
tar xf "../libvirt_$version.debian.tar.xz"
while read -r name; do
  case $name in '' | '#'*) continue ;; esac
  patch --silent -p1 < "debian/patches/$name" || die "Debian's patch $name does not apply"
done < debian/patches/series

# Directories and options as in debian/rules; what does not touch the daemon is off.
meson setup "$WORK/build" --prefix=/usr --sysconfdir=/etc --localstatedir=/var --libexecdir=/usr/lib/libvirt \
  -Drunstatedir=/run -Dinitconfdir=/etc/default -Dunitdir=/usr/lib/systemd/system -Dinit_script=systemd \
  -Dno_git=true -Dauto_features=disabled -Dnls=disabled -Ddocs=disabled -Dtests=disabled \
  -Ddriver_remote=enabled -Ddriver_libvirtd=enabled -Dremote_default_mode=legacy \
  -Ddriver_qemu=enabled -Dqemu_user=libvirt-qemu -Dqemu_group=libvirt-qemu \
  -Djson_c=enabled -Dlibnl=enabled -Dpolkit=enabled -Dsasl=enabled > "$WORK/meson.log" 2>&1 || { tail -n 30 "$WORK/meson.log" >&2; exit 1; }

cd "$WORK/build"
# The objects only: the target src/virtqemud itself would build libvirt.so.0 first, which is 300 files more.
mapfile -t objects < <(ninja -t targets all | sed -n 's|^\(src/virtqemud\.p/[^:]*\.o\): .*|\1|p')
[ "${#objects[@]}" -gt 0 ] || die "libvirt $version names no objects of virtqemud"
ninja "${objects[@]}" src/admin/libvirt_admin_driver.a > "$WORK/ninja.log" 2>&1 || { tail -n 30 "$WORK/ninja.log" >&2; exit 1; }
libraries=/usr/lib/$(gcc -print-multiarch)
mapfile -t -d ' ' others < <(pkg-config --libs glib-2.0 gobject-2.0 gio-2.0 gnutls libsasl2 libtirpc | tr -d '\n')
gcc -pie -o virtqemud "${objects[@]}" src/admin/libvirt_admin_driver.a -Wl,--as-needed -Wl,-z,defs -Wl,-z,now \
  "$libraries/libvirt.so.0" "$libraries/libvirt-qemu.so.0" "$libraries/libvirt-lxc.so.0" "${others[@]}"
case $(./virtqemud --version) in *" $upstream") ;; *) die "virtqemud is not of version $upstream" ;; esac

install -D -m 755 virtqemud "$DEST/usr/sbin/virtqemud"
install -D -m 644 src/virtqemud.conf "$DEST/etc/libvirt/virtqemud.conf"
install -d "$DEST/usr/lib/systemd/system"
install -m 644 src/virtqemud{.service,.socket,-ro.socket,-admin.socket} "$DEST/usr/lib/systemd/system/"
say "libvirt $version"
