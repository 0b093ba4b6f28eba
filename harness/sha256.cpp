// Fingerprints of token ids.
#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <memory>
#include <stdexcept>

#include "harness/report.h"

namespace kvlab {
namespace {

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

void check(int rc) {
  if (rc != 1) throw std::runtime_error("SHA-256 failed in libcrypto");
}

void update(EVP_MD_CTX* context, std::int32_t id) {
  const auto bits = static_cast<std::uint32_t>(id);
  std::array<unsigned char, 4> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>((bits >> (8 * i)) & 0xffU);
  check(EVP_DigestUpdate(context, bytes.data(), bytes.size()));
}

}  // namespace

std::string ids_sha256(const std::vector<std::vector<std::int32_t>>& sequences) {
  const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  if (!context) throw std::bad_alloc();
  check(EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr));
  for (const auto& sequence : sequences) {
    for (const std::int32_t id : sequence) update(context.get(), id);
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  check(EVP_DigestFinal_ex(context.get(), digest.data(), &length));
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

}  // namespace kvlab
