#!/bin/bash
# enable.sh DEST: what makes systemd offer virtqemud's sockets at boot and never start libvirtd, and virsh find them.
set -euo pipefail

units=$1/etc/systemd/system
mkdir -p "$units/sockets.target.wants"
# As `systemctl enable virtqemud.socket` does, but not virtqemud.service: the first client starts it, and it ends again after
# 120 s without clients and guests (VIRTQEMUD_ARGS in the service), which is how RHEL's hosts come.
for name in virtqemud virtqemud-ro virtqemud-admin; do
  ln -sfn "/usr/lib/systemd/system/$name.socket" "$units/sockets.target.wants/$name.socket"
done
# Debian's packages enable libvirtd and its sockets; a mask wins over that.
for name in libvirtd.service libvirtd.socket libvirtd-ro.socket libvirtd-admin.socket libvirtd-tcp.socket libvirtd-tls.socket; do
  ln -sfn /dev/null "$units/$name"
done

# Debian's libvirt.so is built for libvirtd (remote_default_mode=legacy): without a URI it knows libvirtd's socket only. RHEL's is
# not. For `virsh` on the host alone: virt-ssh-helper is always given a URI, and then looks for virtqemud's socket itself.
install -d "$1/etc/libvirt"
printf 'uri_default = "qemu:///system"\n' > "$1/etc/libvirt/libvirt.conf"
