#!/usr/bin/env bash
# The --prepare half of scripts/gpu_check.sh: builds and packs. usage: prepare.sh FILE, from the source root.

set -euo pipefail
bundle=$1
build=build/gpu-check
max_bytes=$((40 * 1000 * 1000))
targets=(kvlab kvlab-kernels kvlab_cuda_module kvlab_cupti kernels_backend_test kernels_cuda_device_conformance_test
  kvlab_emulated_primitives)
files=(kvlab kvlab-kernels libkvlab_cuda.so libkvlab_cupti.so kernels_backend_test kernels_cuda_device_conformance_test
  libkvlab_emulated_primitives.so)

refuse() { echo "gpu_check: $1" >&2; exit 2; }

command -v nvcc >/dev/null || [ -x "${CUDA_PATH:-/usr/local/cuda}/bin/nvcc" ] ||
  refuse "no nvcc found: install the CUDA toolkit 12 or later, or run --prepare where it is"

echo "gpu_check: building for sm_80 and sm_90 in $build (minutes)"
launcher=()
if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache); fi
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DKVLAB_CUDA=ON -DKVLAB_TESTS=ON "${launcher[@]}" \
  -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON "-DCMAKE_INSTALL_RPATH=\$ORIGIN;\$ORIGIN/../lib" >/dev/null
cmake --build "$build" --target "${targets[@]}" -j "${JOBS:-$(nproc)}" >"$build/build.log" ||
  { tail -40 "$build/build.log" >&2; exit 1; }

staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT
root=$staging/kvlab-gpu-check
mkdir -p "$root/bin" "$root/lib"

for name in "${files[@]}"; do
  file=$(find "$build" -type f -name "$name" ! -path '*/CMakeFiles/*' -print -quit)
  [ -n "$file" ] || { echo "gpu_check: the build made no $name" >&2; exit 1; }
  cp "$file" "$root/bin/"
done
strip "$root"/bin/*

# CUDA's libraries, by name, for --run to look for; ours go along. The C library belongs to the machine.
needed() { for file in "$root"/bin/*; do readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; done | sort -u; }
cuda_pattern='^lib(cudart|cublas|cublasLt|cupti|nvrtc|nvJitLink)\.so'
needed | grep -E "$cuda_pattern" >"$root/cuda_libraries.txt" || true
for file in "$root"/bin/*; do ldd "$file"; done | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u |
  while read -r name path; do
    if [[ $name =~ ^(libc|libm|libdl|libpthread|librt|ld-linux[^.]*)\.so || $name =~ $cuda_pattern ]]; then continue; fi
    cp -L "$path" "$root/lib/$name"
  done

cp scripts/gpu_check.sh "$root/"
mkdir "$root/gpu_check"
cp scripts/gpu_check/run.sh scripts/gpu_check/*.bash scripts/gpu_check/*.py "$root/gpu_check/"
cp -r configs "$root/"
{
  echo "git $(git rev-parse HEAD 2>/dev/null || echo unknown)$(git diff --quiet HEAD 2>/dev/null || echo ' with changes')"
  nvcc --version 2>/dev/null | tail -1 || true
} >"$root/VERSION"

mkdir -p "$(dirname "$bundle")"
tar -C "$staging" -czf "$bundle" kvlab-gpu-check
bytes=$(stat -c %s "$bundle")
if [ "$bytes" -gt "$max_bytes" ]; then
  rm "$bundle"
  echo "gpu_check: the bundle is $bytes bytes; $max_bytes are allowed" >&2
  exit 1
fi
echo "gpu_check: $bundle, $((bytes / 1000000)) MB; on the GPU machine: tar xzf it, then kvlab-gpu-check/gpu_check.sh --run"
