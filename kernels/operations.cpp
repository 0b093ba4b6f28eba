// Recording is optional: a backend without it says so.
#include "kernels/operations.h"

#include "kernels/error.h"

namespace kvlab {

void Operations::begin_recording() { throw InputError("execution 'graph': this backend runs operations eagerly only"); }

void Operations::name_recorded(std::string_view /*name*/, std::int64_t /*layer*/) {}

std::unique_ptr<RecordedGraph> Operations::end_recording() { return nullptr; }

}  // namespace kvlab
