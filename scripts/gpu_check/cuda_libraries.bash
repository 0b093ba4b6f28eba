# Finds CUDA's libraries on the machine that gpu_check runs on. Sourced by run.sh, which sets bundle.

no_cupti=""  # why kernels cannot be timed by CUPTI; nothing: they can

# Folders where they may lie: the loader's, the toolkit's, Python's packages.
library_folders() {
  tr ':' '\n' <<<"${LD_LIBRARY_PATH:-}"
  ldconfig -p 2>/dev/null | sed -n 's/.* => \(.*\)\/[^/]*$/\1/p' | sort -u
  ls -d /usr/local/cuda*/lib64 /usr/local/cuda*/targets/x86_64-linux/lib /usr/local/cuda*/extras/CUPTI/lib64 2>/dev/null || true
  if command -v python3 >/dev/null; then
    python3 -c 'import glob, site, sys
for base in site.getsitepackages() + [site.getusersitepackages()] + sys.path:
    for path in glob.glob(base + "/nvidia/*/lib"): print(path)' 2>/dev/null || true
  fi
}

# Sets library_path: our libraries, then every folder that has one of cuda_libraries.txt, then the machine's own path.
# Refuses when one is nowhere; CUPTI alone may be.
find_cuda() {
  local folders path="" name folder found
  mapfile -t folders < <(library_folders | grep -v '^$' | awk '!seen[$0]++')
  while read -r name; do
    found=""
    for folder in "${folders[@]}"; do
      if [ -e "$folder/$name" ]; then found=$folder; break; fi
    done
    if [ -z "$found" ] && [[ $name == libcupti* ]]; then no_cupti="$name is in none of ${#folders[@]} folders"; continue; fi
    [ -n "$found" ] || refuse "$name is in none of ${#folders[@]} folders (the loader's, /usr/local/cuda*, Python's nvidia packages); add its folder to LD_LIBRARY_PATH"
    case ":$path:" in *":$found:"*) ;; *) path=$path:$found ;; esac
  done <"$bundle/cuda_libraries.txt"
  library_path="$bundle/lib$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}
