// A whole file, mapped read-only. Pages are read when touched, so opening costs nothing whatever the size.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace kvlab {

class MappedFile {
 public:
  /// Throws InputError naming the path when there is no such file, it is no regular file or it cannot be read.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(address_), size_}; }
  std::string_view text() const { return {static_cast<const char*>(address_), size_}; }

 private:
  std::string path_;
  void* address_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace kvlab
