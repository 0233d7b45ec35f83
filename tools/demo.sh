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

printf '\n# VMs declared in the inventory are kept as declared; every night, if you like\n'
mkdir -p "$VGPUMGR_INVENTORY/host_vars"
cat >"$VGPUMGR_INVENTORY/host_vars/kvm01.yml" <<'EOF'
vgpumgr_vms:
  vm01: {vgpu0: {profile: 4Q}}
  vm02: {vgpu0: {profile: 4Q}}
  vm03: {vgpu0: {profile: 4Q}}
EOF
printf '$ cat inventory/host_vars/kvm01.yml\n' && cat "$VGPUMGR_INVENTORY/host_vars/kvm01.yml"
show vgpumgr reconcile
show vgpumgr list

printf '\n# What every VM really uses. vm01 and vm02 run, with known loads; vm03 is off\n'
for vm in vm01 vm02; do vgpumgr lab hold "$vm" 2>/dev/null; done
show vgpumgr lab load vm01 --sm 60 --fb 2G
show vgpumgr lab load vm02 --sm 15 --fb 3.5G
show vgpumgr collect
show vgpumgr usage
vgpumgr export textfile - >"$lab/page"
printf '\n$ vgpumgr export textfile - | grep sm_utilization_ratio\n'
grep -v '^#' "$lab/page" | grep vgpu_sm_utilization_ratio
printf '\nThe simulated hosts are shut down now. To try it yourself: "A quick tour" in README.md\n'
