# Run inside a host VM's root file system while its disk is made: builds the driver module, turns services on and off, and
# takes out what only the build needed.
version=$(basename /lib/modules/*)
make -s -C "/lib/modules/$version/build" M=/usr/src/host-vm/module modules
install -D -m 644 /usr/src/host-vm/module/nvidia.ko "/lib/modules/$version/updates/nvidia.ko"
depmod "$version"

systemctl --quiet enable systemd-networkd.service ssh.service host-vm-identity.service nvidia-vgpu.service host-vm-ready.service
# An emulated processor takes seconds for each of these, and no test looks at what they do.
systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
  fstrim.timer man-db.timer logrotate.timer getty@tty1.service serial-getty@ttyS0.service \
  systemd-networkd-wait-online.service ldconfig.service systemd-binfmt.service proc-sys-fs-binfmt_misc.automount \
  systemd-journal-catalog-update.service systemd-update-utmp.service modprobe@drm.service modprobe@efi_pstore.service \
  sshd-keygen.service
systemctl --quiet set-default multi-user.target
rm -f /etc/libvirt/qemu/networks/autostart/* /etc/ssh/ssh_host_*
echo kvm01 >/etc/hostname
echo '127.0.0.1 localhost kvm01' >/etc/hosts
echo '/dev/vda / ext4 errors=remount-ro 0 1' >/etc/fstab
# Empty and not `uninitialized`: a first boot would turn every service on that has a preset.
: >/etc/machine-id
touch /etc/.updated /var/.updated

rm -rf /usr/src/* /usr/lib/gcc /usr/libexec/gcc /var/lib/apt/lists /var/cache/apt /usr/share/doc /usr/share/locale /usr/share/man
