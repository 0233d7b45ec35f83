# Run inside a host VM's root file system while its disk is made: builds the driver module, turns services on and off, and
# takes out what only the build needed.
version=$(basename /lib/modules/*)
make -s -C "/lib/modules/$version/build" M=/usr/src/host-vm/module modules
install -D -m 644 /usr/src/host-vm/module/nvidia.ko "/lib/modules/$version/updates/nvidia.ko"
depmod "$version"

here=/usr/src/host-vm
mkdir -p "$here/initrd/bin" "$here/initrd/modules"
cp /bin/busybox "$here/initrd/bin/busybox"
cp "$here/initramfs-init" "$here/initrd/init"
for name in virtio_pci virtio_blk ext4; do modprobe --set-version "$version" --show-depends "$name"; done |
  sed -n 's/^insmod //p' | awk '!seen[$1]++ { print $1 }' | while read -r file; do
    name=$(basename "$file" .xz)
    case $file in
      *.xz) busybox unxz -c "$file" >"$here/initrd/modules/$name" ;;
      *) cp "$file" "$here/initrd/modules/$name" ;;
    esac
    echo "$name" >>"$here/initrd/modules/order"
  done
(cd "$here/initrd" && find . | busybox cpio -o -H newc 2>/dev/null) >/boot/initrd.img-host-vm

systemctl --quiet enable ssh.service host-vm-identity.service nvidia-vgpud.service host-vm-ready.service
# An emulated processor takes seconds for each of these, and no test looks at what they do.
systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
  fstrim.timer man-db.timer logrotate.timer getty@tty1.service serial-getty@ttyS0.service ldconfig.service \
  systemd-binfmt.service proc-sys-fs-binfmt_misc.automount systemd-journal-catalog-update.service systemd-update-utmp.service \
  modprobe@drm.service modprobe@efi_pstore.service modprobe@configfs.service modprobe@fuse.service modprobe@loop.service \
  sshd-keygen.service libvirt-guests.service systemd-logind.service systemd-user-sessions.service systemd-networkd.service \
  systemd-random-seed.service systemd-pcrmachine.service systemd-tpm2-setup-early.service systemd-tpm2-setup.service \
  systemd-udev-load-credentials.service systemd-hibernate-clear.service systemd-firstboot.service systemd-timesyncd.service \
  dev-hugepages.mount dev-mqueue.mount sys-kernel-tracing.mount sys-kernel-config.mount sys-fs-fuse-connections.mount tmp.mount \
  systemd-journal-flush.service keyboard-setup.service console-setup.service apparmor.service
mkdir -p /etc/systemd/system-generators
for generator in /usr/lib/systemd/system-generators/*; do
  [[ $generator == */systemd-fstab-generator ]] || ln -s /dev/null "/etc/systemd/system-generators/${generator##*/}"
done
systemctl --quiet set-default multi-user.target
rm -f /etc/libvirt/qemu/networks/autostart/* /etc/ssh/ssh_host_*
echo kvm01 >/etc/hostname
echo '127.0.0.1 localhost kvm01' >/etc/hosts
echo '/dev/vda / ext4 errors=remount-ro 0 1' >/etc/fstab
# Empty and not `uninitialized`: a first boot would turn every service on that has a preset.
: >/etc/machine-id
touch /etc/.updated /var/.updated

rm -rf /usr/src/* /usr/lib/gcc /usr/libexec/gcc /var/lib/apt/lists /var/cache/apt /usr/share/doc /usr/share/locale /usr/share/man
