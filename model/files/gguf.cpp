// Opens GGUF files of versions 2 and 3: header, metadata, tensor descriptions, data. Every count, length and offset is
// checked before it is used.
#include "model/files/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "kernels/error.h"
#include "model/files/byte_reader.h"
#include "model/files/element_types.h"
#include "model/files/gguf_metadata.h"
#include "model/files/mapped_file.h"
#include "model/files/tensor_values.h"

namespace kvlab {
namespace {

constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr std::uint32_t kMostDimensions = 4;
constexpr std::uint64_t kUsualAlignment = 32;

/// A tensor description as it stands in the file, before its data can be found.
struct TensorEntry {
  TensorInfo info;
  std::uint64_t place;    // byte of the description, for messages
  std::uint64_t offset;   // of the data, from the start of the data section
  std::uint64_t n_bytes;  // of the data
};

/// Dimensions in the file's order, innermost first, become a row-major shape.
std::vector<std::int64_t> read_shape(ByteReader& reader, std::string_view name, const ElementType*& type,
                                     std::int64_t& n_elements) {
  const std::uint64_t place = reader.offset();
  const std::uint32_t n_dims = reader.u32("the number of dimensions");
  if (n_dims < 1 || n_dims > kMostDimensions) {
    reader.refuse_at(place, fmt::format("tensor {} has {} dimensions, but 1 ... {} are possible", in_quotes(name),
                                        n_dims, kMostDimensions));
  }
  std::vector<std::int64_t> shape;
  n_elements = 1;
  for (std::uint32_t i = 0; i < n_dims; ++i) {
    const std::uint64_t length = reader.u64("a dimension");
    if (length == 0) reader.refuse_at(place, fmt::format("tensor {} has a dimension of zero", in_quotes(name)));
    if (__builtin_mul_overflow(n_elements, length, &n_elements)) {
      reader.refuse_at(place, fmt::format("tensor {}: the number of elements does not fit 64 bits", in_quotes(name)));
    }
    shape.push_back(static_cast<std::int64_t>(length));
  }
  const std::uint64_t type_place = reader.offset();
  const std::uint32_t number = reader.u32("a tensor type");
  type = find_gguf_type(number);
  if (type == nullptr) {
    reader.refuse_at(type_place, fmt::format("tensor {} has the unknown type {}", in_quotes(name), number));
  }
  if (shape[0] % type->block_elements != 0) {
    reader.refuse_at(place, fmt::format("tensor {}: rows of {} elements are no whole number of {} blocks of {}",
                                        in_quotes(name), shape[0], type->name, type->block_elements));
  }
  std::reverse(shape.begin(), shape.end());
  return shape;
}

TensorEntry read_tensor_entry(ByteReader& reader) {
  TensorEntry entry{};
  entry.place = reader.offset();
  const std::string_view name = reader.string("a tensor name");
  if (name.empty()) reader.refuse_at(entry.place, "a tensor has an empty name");
  entry.info.name = name;
  const ElementType* type = nullptr;
  std::int64_t n_elements = 0;
  entry.info.shape = read_shape(reader, name, type, n_elements);
  entry.info.type = type->name;
  const auto n_bytes = tensor_bytes(type->name, n_elements);
  if (!n_bytes) {
    reader.refuse_at(entry.place, fmt::format("tensor {}: its size does not fit 64 bits", in_quotes(name)));
  }
  entry.n_bytes = static_cast<std::uint64_t>(*n_bytes);
  entry.offset = reader.u64("a tensor offset");
  return entry;
}

void read_header(ByteReader& reader, std::uint64_t& n_tensors, std::uint64_t& n_keys) {
  if (reader.u32("the GGUF magic") != kMagic) reader.refuse_at(0, "this is no GGUF file: it does not begin with GGUF");
  const std::uint32_t version = reader.u32("the GGUF version");
  if (version != 0 && (version & 0xffffU) == 0) reader.refuse_at(4, "big-endian GGUF files are not supported");
  if (version != 2 && version != 3) {
    reader.refuse_at(4, fmt::format("GGUF version {} is not supported; supported: 2, 3", version));
  }
  n_tensors = reader.u64("the number of tensors");
  n_keys = reader.u64("the number of metadata keys");
}

void check_overlap(const ByteReader& reader, std::vector<TensorEntry*> entries) {
  std::sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
  for (std::size_t i = 1; i < entries.size(); ++i) {
    if (entries[i]->offset < entries[i - 1]->offset + entries[i - 1]->n_bytes) {
      reader.refuse_at(entries[i]->place, fmt::format("tensors {} and {} overlap", in_quotes(entries[i - 1]->info.name),
                                                      in_quotes(entries[i]->info.name)));
    }
  }
}

}  // namespace

struct GgufFile::State {
  explicit State(const std::string& path) : file(path) {}

  MappedFile file;
  std::map<std::string_view, GgufValue> metadata;
  std::vector<TensorInfo> tensors;
  std::unordered_map<std::string_view, std::size_t> by_name;

  void read() {
    ByteReader reader(file.path(), file.bytes());
    std::uint64_t n_tensors = 0;
    std::uint64_t n_keys = 0;
    read_header(reader, n_tensors, n_keys);
    for (std::uint64_t i = 0; i < n_keys; ++i) read_key(reader);
    std::vector<TensorEntry> entries;
    for (std::uint64_t i = 0; i < n_tensors; ++i) entries.push_back(read_tensor_entry(reader));
    find_data(reader, entries);
  }

  void read_key(ByteReader& reader) {
    const std::uint64_t place = reader.offset();
    const std::string_view key = reader.string("a metadata key");
    if (key.empty()) reader.refuse_at(place, "a metadata key is empty");
    const GgufValue value = read_gguf_value(reader, key);
    if (!metadata.emplace(key, value).second) {
      reader.refuse_at(place, fmt::format("duplicate metadata key {}", in_quotes(key)));
    }
  }

  std::uint64_t alignment() const {
    const auto found = metadata.find("general.alignment");
    if (found == metadata.end()) return kUsualAlignment;
    const auto values = gguf_integers(found->second);
    const std::int64_t alignment = !values || found->second.is_list ? 0 : values->front();
    if (alignment < 1 || (alignment & (alignment - 1)) != 0) {
      throw InputError(fmt::format("{}: general.alignment: must be a power of two", file.path()));
    }
    return static_cast<std::uint64_t>(alignment);
  }

  void find_data(const ByteReader& reader, std::vector<TensorEntry>& entries) {
    if (entries.empty()) return;
    const std::uint64_t align = alignment();
    const std::uint64_t padding = (align - reader.offset() % align) % align;
    if (padding > reader.remaining()) reader.refuse("the file ends before its tensor data; it is cut short");
    const auto data = file.bytes().subspan(reader.offset() + padding);
    std::vector<TensorEntry*> order;
    for (TensorEntry& entry : entries) {
      const std::string name = in_quotes(entry.info.name);
      if (entry.offset % align != 0) {
        reader.refuse_at(entry.place, fmt::format("tensor {} is not aligned to {} bytes", name, align));
      }
      if (entry.offset > data.size() || entry.n_bytes > data.size() - entry.offset) {
        reader.refuse_at(entry.place,
                         fmt::format("tensor {} takes {} bytes from data byte {} on, but there are {}; the file "
                                     "is damaged or cut short",
                                     name, entry.n_bytes, entry.offset, data.size()));
      }
      entry.info.data = data.subspan(entry.offset, entry.n_bytes);
      order.push_back(&entry);
    }
    check_overlap(reader, std::move(order));
    for (TensorEntry& entry : entries) tensors.push_back(std::move(entry.info));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (!by_name.emplace(tensors[i].name, i).second) {
        throw InputError(fmt::format("{}: two tensors are named {}", file.path(), in_quotes(tensors[i].name)));
      }
    }
  }

  const GgufValue& at(std::string_view key) const {
    const auto found = metadata.find(key);
    if (found == metadata.end()) throw InputError(fmt::format("{}: metadata key {} is missing", file.path(), key));
    return found->second;
  }

  [[noreturn]] void refuse_type(std::string_view key, std::string_view wanted) const {
    throw InputError(
        fmt::format("{}: metadata key {} must be {}, but is {}", file.path(), key, wanted, gguf_type_name(at(key))));
  }
};

GgufFile::GgufFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
GgufFile::~GgufFile() = default;

std::unique_ptr<GgufFile> GgufFile::open(const std::string& path) {
  auto state = std::make_unique<State>(path);
  state->read();
  return std::unique_ptr<GgufFile>(new GgufFile(std::move(state)));
}

const std::string& GgufFile::path() const { return state_->file.path(); }

bool GgufFile::has(std::string_view key) const { return state_->metadata.contains(key); }

std::int64_t GgufFile::integer(std::string_view key) const {
  const GgufValue& value = state_->at(key);
  const auto values = gguf_integers(value);
  if (!values || value.is_list) state_->refuse_type(key, "an integer");
  return values->front();
}

double GgufFile::number(std::string_view key) const {
  const GgufValue& value = state_->at(key);
  if (value.is_list) state_->refuse_type(key, "a number");
  if (const auto floats = gguf_floats(value)) return floats->front();
  const auto integers = gguf_integers(value);
  if (!integers) state_->refuse_type(key, "a number");
  return static_cast<double>(integers->front());
}

bool GgufFile::boolean(std::string_view key) const {
  const auto value = gguf_boolean(state_->at(key));
  if (!value) state_->refuse_type(key, "a bool");
  return *value;
}

std::string_view GgufFile::string(std::string_view key) const {
  const GgufValue& value = state_->at(key);
  const auto values = gguf_strings(value);
  if (!values || value.is_list) state_->refuse_type(key, "a string");
  return values->front();
}

std::vector<std::string_view> GgufFile::strings(std::string_view key) const {
  const GgufValue& value = state_->at(key);
  auto values = gguf_strings(value);
  if (!values || !value.is_list) state_->refuse_type(key, "a list of strings");
  return *std::move(values);
}

std::vector<std::int64_t> GgufFile::integers(std::string_view key) const {
  const GgufValue& value = state_->at(key);
  auto values = gguf_integers(value);
  if (!values || !value.is_list) state_->refuse_type(key, "a list of integers");
  return *std::move(values);
}

std::vector<float> GgufFile::numbers(std::string_view key) const {
  const GgufValue& value = state_->at(key);
  const auto values = gguf_floats(value);
  if (!values || !value.is_list) state_->refuse_type(key, "a list of floats");
  std::vector<float> out;
  out.reserve(values->size());
  for (const double number : *values) out.push_back(static_cast<float>(number));
  return out;
}

const std::vector<TensorInfo>& GgufFile::tensors() const { return state_->tensors; }

const TensorInfo* GgufFile::find_tensor(std::string_view name) const {
  const auto found = state_->by_name.find(name);
  return found == state_->by_name.end() ? nullptr : &state_->tensors[found->second];
}

}  // namespace kvlab
