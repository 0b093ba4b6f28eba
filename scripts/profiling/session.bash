# What scripts/profile_nsys.sh and scripts/profile_ncu.sh share: their arguments, and finding the tool. Sourced; $name is
# the script's, $root the repository.

usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; }

refuse() {
  echo "$name: $*" >&2
  exit 2
}

kvlab=$root/build/release/kvlab
out=
case_options=()  # of `kvlab run`

# take_common_option "$@": one of the options that both scripts have. Sets `taken` to the words used, 0 for none.
take_common_option() {
  taken=2
  case "$1" in
    -h | --help) usage; exit 0 ;;
    --out | --kvlab) [ $# -ge 2 ] || refuse "$1 needs a value" ;;&
    --out) out=$2 ;;
    --kvlab) kvlab=$2 ;;
    --) taken=$#; case_options=("${@:2}") ;;
    *) taken=0 ;;
  esac
}

# The value of an option of `kvlab run`, given as `--name value` or `--name=value`; "" without it.
case_option() {
  local i
  for ((i = 0; i < ${#case_options[@]}; ++i)); do
    case "${case_options[i]}" in
      "$1") printf '%s' "${case_options[i + 1]:-}" ;;
      "$1"=*) printf '%s' "${case_options[i]#*=}" ;;
    esac
  done
}

# Ends the script unless there is a case, a program to run it, and no report asked for.
check_case() {
  [ ${#case_options[@]} -gt 0 ] || refuse "after -- come the options of kvlab run (--help shows an example)"
  [ -x "$kvlab" ] || refuse "there is no program $kvlab; build it, or name it with --kvlab"
  [ -z "$(case_option --json)" ] || refuse "times under a profiler are no measurement; leave out --json"
}

# need_tool TOOL PACKAGE FOLDER...: sets `tool` to its path, from PATH or from the folders, or says how to get it.
need_tool() {
  local folder
  tool=$(command -v "$1" || true)
  for folder in "${@:3}"; do
    if [ -z "$tool" ] && [ -x "$folder/$1" ]; then tool=$folder/$1; fi
  done
  if [ -z "$tool" ]; then
    refuse "$1 is missing. It comes with the CUDA toolkit, and alone as $2 (Debian and Ubuntu packages of
NVIDIA's repository, or the installers at developer.nvidia.com). Where neither can be had: kvlab run --kernel-times."
  fi
}
