// The builders of test_files.h.
#include "tests/files/test_files.h"

#include <unistd.h>

#include <atomic>
#include <sstream>

namespace kvlab::test {

TemporaryFolder::TemporaryFolder() {
  static std::atomic<int> count{0};
  path_ = ::testing::TempDir() + "kvlab_files_" + std::to_string(::getpid()) + "_" + std::to_string(count++);
  std::filesystem::create_directories(path_);
}

std::string TemporaryFolder::write(const std::string& name, const std::string& bytes) const {
  const std::string path = path_ + "/" + name;
  std::filesystem::remove(path);  // a file that is truncated instead is flushed to the disk by some file systems
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) ADD_FAILURE() << "cannot write " << path;
  return path;
}

std::string read_bytes(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

std::string gguf_string(const std::string& text) { return bytes_of<std::uint64_t>(text.size()) + text; }

GgufImage& GgufImage::key(const std::string& name, std::uint32_t type, const std::string& value) {
  keys.push_back(gguf_string(name) + bytes_of(type) + value);
  return *this;
}

std::string GgufImage::bytes() const {
  constexpr std::size_t kAlignment = 32;
  const auto pad = [](std::string& text) {
    text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, '\0');
  };
  std::string out = "GGUF" + bytes_of(version);
  out += bytes_of(n_tensors.value_or(tensors.size())) + bytes_of(n_keys.value_or(keys.size()));
  for (const std::string& entry : keys) out += entry;
  std::string data;
  for (const Tensor& tensor : tensors) {
    out += gguf_string(tensor.name) + bytes_of(tensor.n_dims.value_or(static_cast<std::uint32_t>(tensor.dims.size())));
    for (const std::uint64_t dim : tensor.dims) out += bytes_of(dim);
    out += bytes_of(tensor.type) + bytes_of<std::uint64_t>(tensor.offset.value_or(data.size()));
    data += tensor.data;
    pad(data);
  }
  pad(out);
  return out + data;
}

std::string safetensors_image(const std::string& header, const std::string& data) {
  return bytes_of<std::uint64_t>(header.size()) + header + data;
}

}  // namespace kvlab::test
