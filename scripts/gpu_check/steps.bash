# What a step of gpu_check is: a command with an estimate, ended when it takes half as long again, its row in the table, and
# the limit on the files that all of them leave. Sourced by run.sh, which sets deadline, log, scratch and out.

table=()
failed=0
max_file_bytes=$((16 * 1024 * 1024))
table_bytes=$((64 * 1024))  # kept free in the log for what is printed last

row() { # NAME STATUS SECONDS ESTIMATE SAYING
  table+=("$(printf '%-20s %-9s %4s s of about %3s s  %s' "$@")")
  printf '%s\t%s\t%s\n' "$1" "$2" "$5" >>"$scratch/steps.tsv"
}

# step NAME ESTIMATE_S COMMAND...: runs the command, a program or a function, if it fits; its last line of output is what
# the table says. SIGTERM comes first when it is cut off, and ten seconds to write what there is.
step() {
  local name=$1 estimate=$2 left=$((deadline - SECONDS)) start=$SECONDS rc=0
  shift 2
  if [ "$left" -lt "$estimate" ]; then row "$name" "left out" 0 "$estimate" "only $left s were left"; return; fi
  local limit=$((estimate + estimate / 2))
  if [ "$limit" -gt "$left" ]; then limit=$left; fi
  echo "gpu_check: $name (about $estimate s; $left s are left)"
  printf '\n== %s: %s\n' "$name" "$*" >>"$log"
  # The trap makes this shell wait for the command, which hears the signal as well.
  timeout --kill-after=10 "$limit" bash -c 'trap : TERM; source "$bundle/gpu_check/measurements.bash"; "$@"' step "$@" \
    >"$scratch/output" 2>&1 </dev/null || rc=$?
  cat "$scratch/output" >>"$log"
  local said status=ok
  said=$(grep -v '^[[:space:]]*$' "$scratch/output" | tail -1 | tr '\t' ' ' | cut -c1-100 || true)
  case $rc in
    0) ;;
    124 | 130 | 137) status="cut off" ;;
    77) status="not here" ;;
    *) status="failed $rc"; failed=1 ;;
  esac
  row "$name" "$status" "$((SECONDS - start))" "$estimate" "$said"
}

# Keeps a text's beginning and end, with a note between.
shorten() { # FILE BYTES
  local half=$((($2 - 1024) / 2)) bytes
  bytes=$(stat -c %s "$1")
  { head -c "$half" "$1"; printf '\n... %s bytes left out ...\n' "$((bytes - 2 * half))"; tail -c "$half" "$1"; } >"$scratch/short"
  mv "$scratch/short" "$1"
}

# No file of $out beyond 16 MiB: texts are shortened, JSON is compressed, and left out where that is not enough.
limit_files() {
  local file
  for file in "$out"/*; do
    if [ "$file" = "$log" ] || [ "$(stat -c %s "$file")" -le "$max_file_bytes" ]; then continue; fi
    case $file in
      *.json)
        gzip -9 "$file"
        if [ "$(stat -c %s "$file.gz")" -gt "$max_file_bytes" ]; then
          rm "$file.gz"
          row "$(basename "$file")" "left out" 0 0 "larger than 16 MiB, compressed as well"
        fi ;;
      *) shorten "$file" "$max_file_bytes" ;;
    esac
  done
  if [ "$(stat -c %s "$log")" -gt $((max_file_bytes - table_bytes)) ]; then shorten "$log" $((max_file_bytes - table_bytes)); fi
}
