#!/usr/bin/env bash
# Installs what building and testing kvlab needs and is not there yet: Debian packages, and a Python environment in .venv
# for the scripts that draw. Safe to run twice; says what it does; quick when there is nothing to do.
#
# usage: scripts/setup.sh [--no-venv | --optional-venv] [--with-clang]
#   --no-venv        packages only: enough to build, test and measure
#   --optional-venv  .venv where the Python packages can be had; without them the scripts that draw, and their tests, are
#                    left out
#   --with-clang     also clang and clang-tidy, for scripts/check_clang.sh and scripts/tidy.sh

set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  cmake ninja-build g++ pkg-config git ca-certificates python3 python3-pip python3-venv clang-format
  libcli11-dev nlohmann-json3-dev libfmt-dev libgtest-dev libgmock-dev libboost-context-dev libbenchmark-dev libvalijson-dev
  libdnnl-dev ocl-icd-opencl-dev libhwy-dev libpcre2-dev libssl-dev
)
clang_packages=(clang clang-tidy clang-tools libomp-dev libclang-rt-14-dev)
venv=yes

usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; }

for argument in "$@"; do
  case "$argument" in
    --no-venv) venv=no ;;
    --optional-venv) venv=optional ;;
    --with-clang) packages+=("${clang_packages[@]}") ;;
    -h | --help) usage; exit 0 ;;
    *) echo "setup: unknown argument '$argument'" >&2; usage >&2; exit 2 ;;
  esac
done

# Prints the packages of the list that are not installed. dpkg-query fails when it has never heard of one.
missing_packages() {
  local installed
  installed=$({ dpkg-query --show --showformat '${Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true; } |
    sed -n 's/^install ok installed //p')
  printf '%s\n' "${packages[@]}" | grep -vxF -e "$installed" || true
}

install_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "setup: this is no Debian or Ubuntu; install what these packages hold by other means: ${packages[*]}"
    return
  fi
  local missing
  mapfile -t missing < <(missing_packages)
  if [ "${#missing[@]}" -eq 0 ]; then
    echo "setup: all ${#packages[@]} packages are installed"
    return
  fi
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "setup: no root and no sudo; ask for these packages: ${missing[*]}" >&2
      exit 1
    fi
    as_root=(sudo)
  fi
  echo "setup: installing with apt-get: ${missing[*]}"
  "${as_root[@]}" apt-get update -q </dev/null
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" \
    </dev/null
}

# make_venv [pip options]
make_venv() {
  local wanted mark=.venv/kvlab-requirements.txt
  wanted=$(cat scripts/requirements.txt)
  if [ -f "$mark" ] && [ "$(cat "$mark")" = "$wanted" ]; then
    echo "setup: .venv is up to date"
    return
  fi
  echo "setup: making .venv with what scripts/requirements.txt lists"
  python3 -m venv .venv &&
    .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@" --requirement scripts/requirements.txt \
      </dev/null &&
    cp scripts/requirements.txt "$mark"  # last, so that an interrupted installation is taken up again
}

install_packages
case "$venv" in
  yes) make_venv ;;
  optional)  # few retries: a machine that is offline should say so soon
    make_venv --retries 1 --timeout 10 ||
      echo "setup: .venv could not be made (see above); the scripts that draw will not run, their tests are skipped" ;;
esac
