// The names of a workload's settings.
#include "harness/case.h"

#include <fmt/format.h>

#include "kernels/error.h"

namespace kvlab {

std::string_view kv_fill_name(KvFill fill) { return fill == KvFill::prefill ? "prefill" : "random"; }

KvFill parse_kv_fill(std::string_view where, std::string_view text) {
  for (const KvFill fill : {KvFill::prefill, KvFill::random}) {
    if (text == kv_fill_name(fill)) return fill;
  }
  throw InputError(fmt::format("{}: there is no \"{}\"; allowed are prefill, random", where, text));
}

}  // namespace kvlab
