#!/usr/bin/env bash
# The main job on simulated hosts, from nothing to nothing: every command is shown as it is typed.
set -euo pipefail
lab=$(mktemp -d "${TMPDIR:-/tmp}/vgpumgr-demo.XXXXXX")
down() { vgpumgr lab down --dir "$lab/lab" >/dev/null 2>&1 || true; rm -rf "$lab"; }
trap down EXIT
trap 'exit 130' INT TERM

show() {
  printf '\n$ %s\n' "$*"
  "$@"
}

echo "bringing two simulated hosts up: real sshd, libvirtd and kernel-like /sys; only the GPUs are simulated (docs/lab.md)"
exports=$(vgpumgr lab up --dir "$lab/lab" --spec mdev-vf) # by itself, so that a lab that does not come up ends the demo
eval "$exports"

show vgpumgr discover
show vgpumgr attach vm01 --profile 4Q
printf '\n$ %s\n' "ssh kvm01 virsh dumpxml --inactive vm01     # only its hostdev"
vgpumgr lab ssh kvm01 -- virsh dumpxml --inactive vm01 | sed -n '/<hostdev/,/<\/hostdev>/p' | tee "$lab/hostdev"
grep -q "<alias name='ua-vgpu0'/>" "$lab/hostdev"
show vgpumgr list
show vgpumgr detach vm01 --yes
show vgpumgr list
