// The only place that talks to the operating system about files of weights.
#include "model/files/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "kernels/error.h"

namespace kvlab {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int number) : number_(number) {}
  ~FileDescriptor() {
    if (number_ >= 0) ::close(number_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

[[noreturn]] void refuse(const std::string& path, const char* why) {
  throw InputError(fmt::format("{}: cannot be read: {}", path, why));
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  // O_NONBLOCK: opening a pipe that nobody writes to must not hang; regular files do not mind.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) refuse(path, std::strerror(errno));
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) refuse(path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) refuse(path, S_ISDIR(status.st_mode) ? "it is a folder" : "it is no regular file");
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;  // an empty file cannot be mapped, and its readers refuse it with a better message
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (address == MAP_FAILED) refuse(path, std::strerror(errno));
  address_ = address;
}

MappedFile::~MappedFile() {
  if (address_ != nullptr) ::munmap(address_, size_);
}

}  // namespace kvlab
