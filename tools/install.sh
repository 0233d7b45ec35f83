#!/usr/bin/env bash
# Debian packages and the virtual environment, from the lock files; may be run again and again.
# Usage: tools/install.sh VENV [PACKAGE…]: Debian packages that an optional suite wants besides.
set -euo pipefail
venv=$1

# python3-venv, python3-dev: for Debian's own Python. The rest: libvirt's client library to build libvirt-python against,
# what a simulated host is made of (docs/lab.md), qemu-utils, without which libvirt reverts no
# snapshot, what makes the disks of host VMs (make test-kernel), and jq for the recipes in docs.
packages=(
  gcc libc6-dev libvirt-dev pkg-config python3 python3-dev python3-venv
  e2fsprogs fuse3 iproute2 jq libvirt-clients libvirt-daemon libvirt-daemon-system mdevctl mmdebstrap openssh-client openssh-server prometheus
  qemu-system-x86 qemu-utils sudo util-linux
  "${@:2}"
)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || missing+=("$package")
done
if ((${#missing[@]})); then
  if ((EUID != 0)); then
    echo "make install: missing Debian packages: ${missing[*]}" >&2
    echo "  as root: apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  echo "installing Debian packages: ${missing[*]}"
  # The sshd and libvirtd of this machine are not to be started: simulated hosts bring their own, on loopback.
  policy=/usr/sbin/policy-rc.d
  made_policy=
  if [[ ! -e $policy ]]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    made_policy=1
  fi
  trap '[[ -z $made_policy ]] || rm -f "$policy"' EXIT
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

python=$(command -v python3)
[[ -x $venv/bin/python ]] || "$python" -m venv "$venv"
pip=("$venv/bin/pip" --quiet --disable-pip-version-check)
# The lock files name every package, so pip has nothing to resolve. It must not try: pip 23 looks for the newest release of
# `coverage[toml]`, which pytest-cov requires, although `coverage` is pinned, and fails as soon as there is a newer one.
# Python compiles what is imported when it is: a fifth of all that is installed.
pinned=(install --no-deps --require-hashes --no-compile)
"${pip[@]}" "${pinned[@]}" -r requirements-build.lock
"${pip[@]}" "${pinned[@]}" --no-build-isolation -r requirements.lock
"${pip[@]}" install --no-deps --no-build-isolation --editable .
"$venv/bin/pip" --disable-pip-version-check check # names what a lock file lacks, before an import fails
