// Reads the header of each safetensors file and checks it whole before any tensor can be asked for. Values stay in the
// mapped file.
#include "model/files/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "kernels/error.h"
#include "model/files/byte_reader.h"
#include "model/files/element_types.h"
#include "model/files/mapped_file.h"
#include "model/files/strict_json.h"
#include "model/files/tensor_values.h"

namespace kvlab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uint64_t kLongestHeader = 100'000'000;  // the format's own limit
constexpr int kHeaderDepth = 3;                        // the object, a tensor, its lists

bool exists(const std::string& path) {
  std::error_code ignored;  // what cannot be looked at is reported when it is opened
  return fs::exists(path, ignored);
}

struct Extent {
  std::uint64_t begin;
  std::uint64_t end;
  std::string name;
};

std::uint64_t whole_number(const json& value, const std::string& where) {
  if (!value.is_number_unsigned()) throw InputError(fmt::format("{} must hold whole numbers from 0 on", where));
  return value.get<std::uint64_t>();
}

const json& member(const json& description, const char* key, const std::string& where) {
  const auto found = description.find(key);
  if (found == description.end()) throw InputError(fmt::format("{} has no {}", where, key));
  return *found;
}

std::string element_type_name(const json& value, const std::string& where) {
  if (!value.is_string()) throw InputError(fmt::format("{}: dtype must be a string", where));
  const auto& name = value.get_ref<const std::string&>();
  const ElementType* type = find_element_type(name);
  if (type == nullptr || type->block_elements != 1) {
    throw InputError(fmt::format("{}: dtype {} is not known", where, in_quotes(name)));
  }
  return name;
}

std::vector<std::int64_t> read_shape(const json& value, const std::string& where) {
  if (!value.is_array()) throw InputError(fmt::format("{}: shape must be a list", where));
  std::vector<std::int64_t> shape;
  std::int64_t n_elements = 1;
  for (const json& item : value) {
    const std::uint64_t length = whole_number(item, where + ": shape");
    if (__builtin_mul_overflow(n_elements, length, &n_elements)) {
      throw InputError(fmt::format("{}: the number of elements does not fit 64 bits", where));
    }
    shape.push_back(static_cast<std::int64_t>(length));
  }
  return shape;
}

/// One tensor of the header; its bytes must be exactly shape x dtype.
TensorInfo read_tensor(const std::string& name, const json& description, const std::string& path,
                       std::span<const std::byte> data, std::vector<Extent>& extents) {
  const std::string where = fmt::format("{}: tensor {}", path, in_quotes(name));
  if (!description.is_object()) throw InputError(fmt::format("{} is not described by an object", where));
  TensorInfo tensor;
  tensor.name = name;
  tensor.type = element_type_name(member(description, "dtype", where), where);
  tensor.shape = read_shape(member(description, "shape", where), where);
  const json& offsets = member(description, "data_offsets", where);
  if (!offsets.is_array() || offsets.size() != 2) {
    throw InputError(fmt::format("{}: data_offsets must be [begin, end]", where));
  }
  const std::uint64_t begin = whole_number(offsets[0], where + ": data_offsets");
  const std::uint64_t end = whole_number(offsets[1], where + ": data_offsets");
  if (begin > end || end > data.size()) {
    throw InputError(
        fmt::format("{}: data_offsets [{}, {}] are not inside the {} bytes of data; the file is damaged or "
                    "cut short",
                    where, begin, end, data.size()));
  }
  std::int64_t n_elements = 1;
  for (const std::int64_t length : tensor.shape) n_elements *= length;
  const auto n_bytes = tensor_bytes(tensor.type, n_elements);
  if (!n_bytes || static_cast<std::uint64_t>(*n_bytes) != end - begin) {
    throw InputError(
        fmt::format("{}: {} elements of {} do not take {} bytes", where, n_elements, tensor.type, end - begin));
  }
  tensor.data = data.subspan(begin, end - begin);
  extents.push_back({begin, end, name});
  return tensor;
}

/// The tensors must tile the data: no byte in two of them, none in no one's.
void check_tiling(std::vector<Extent> extents, std::uint64_t data_bytes, const std::string& path) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  std::uint64_t covered = 0;
  for (const Extent& extent : extents) {
    if (extent.begin != covered) {
      throw InputError(fmt::format("{}: tensor {} begins at data byte {}, {} the one before it, which ends at {}", path,
                                   in_quotes(extent.name), extent.begin,
                                   extent.begin < covered ? "overlapping" : "leaving a gap after", covered));
    }
    covered = extent.end;
  }
  if (covered != data_bytes) {
    throw InputError(fmt::format("{}: {} bytes of data, of which the tensors cover {}; the file is damaged", path,
                                 data_bytes, covered));
  }
}

std::vector<TensorInfo> read_file(const MappedFile& file) {
  const std::string& path = file.path();
  ByteReader reader(path, file.bytes());
  const std::uint64_t header_bytes = reader.u64("the length of the safetensors header");
  if (header_bytes == 0 || header_bytes > kLongestHeader) {
    reader.refuse_at(0, fmt::format("the safetensors header is {} bytes long, but 1 ... {} are possible; is this a "
                                    "safetensors file?",
                                    header_bytes, kLongestHeader));
  }
  const auto header = reader.take(header_bytes, "the safetensors header");
  const std::string_view text(reinterpret_cast<const char*>(header.data()), header.size());
  const json object = parse_strict_json(text, path + ": header", kHeaderDepth);
  if (!object.is_object()) throw InputError(fmt::format("{}: the header must be a JSON object", path));
  const auto data = file.bytes().subspan(reader.offset());
  std::vector<TensorInfo> tensors;
  std::vector<Extent> extents;
  for (const auto& [name, description] : object.items()) {
    if (name == "__metadata__") continue;
    tensors.push_back(read_tensor(name, description, path, data, extents));
  }
  check_tiling(std::move(extents), data.size(), path);
  return tensors;
}

/// Tensor name to file name, from model.safetensors.index.json.
std::map<std::string, std::string> read_index(const std::string& path) {
  const MappedFile file(path);
  const json index = parse_strict_json(file.text(), path, 16);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    throw InputError(fmt::format("{}: weight_map: must be an object from tensor names to file names", path));
  }
  std::map<std::string, std::string> shard_of;
  for (const auto& [tensor, shard] : index["weight_map"].items()) {
    if (!shard.is_string())
      throw InputError(fmt::format("{}: weight_map: {} is no file name", path, in_quotes(tensor)));
    const auto& name = shard.get_ref<const std::string&>();
    if (name.empty() || name == "." || name == ".." ||
        name.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
      throw InputError(fmt::format("{}: weight_map: {}: {} is not the name of a file in this folder", path,
                                   in_quotes(tensor), in_quotes(name)));
    }
    shard_of[tensor] = name;
  }
  if (shard_of.empty()) throw InputError(fmt::format("{}: weight_map: is empty", path));
  return shard_of;
}

}  // namespace

struct SafetensorsFolder::State {
  std::vector<std::unique_ptr<MappedFile>> files;
  std::vector<TensorInfo> tensors;
  std::unordered_map<std::string, std::size_t> by_name;

  void add_file(const std::string& path) {
    files.push_back(std::make_unique<MappedFile>(path));
    for (TensorInfo& tensor : read_file(*files.back())) tensors.push_back(std::move(tensor));
  }

  /// Opens every shard that the index names. Other files in the folder are nobody's business.
  void add_shards(const std::string& folder, const std::string& index_path) {
    const std::map<std::string, std::string> shard_of = read_index(index_path);
    std::set<std::string> shards;
    for (const auto& [tensor, shard] : shard_of) shards.insert(shard);
    std::set<std::string> found;
    for (const std::string& shard : shards) {
      const std::string path = (fs::path(folder) / shard).string();
      if (!exists(path)) {
        throw InputError(
            fmt::format("{}: the shard {} that it names is missing; fetch it again", index_path, in_quotes(shard)));
      }
      const std::size_t first = tensors.size();
      add_file(path);
      for (std::size_t i = first; i < tensors.size(); ++i) {
        const auto entry = shard_of.find(tensors[i].name);
        if (entry == shard_of.end() || entry->second != shard) {
          throw InputError(
              fmt::format("{}: holds tensor {}, which {} does not place there; the files do not belong together", path,
                          in_quotes(tensors[i].name), index_path));
        }
        found.insert(tensors[i].name);
      }
    }
    for (const auto& [tensor, shard] : shard_of) {
      if (!found.contains(tensor)) {
        throw InputError(fmt::format("{}: places tensor {} in {}, which does not hold it", index_path,
                                     in_quotes(tensor), in_quotes(shard)));
      }
    }
  }
};

SafetensorsFolder::SafetensorsFolder(std::unique_ptr<State> state) : state_(std::move(state)) {}
SafetensorsFolder::~SafetensorsFolder() = default;

std::unique_ptr<SafetensorsFolder> SafetensorsFolder::open(const std::string& folder) {
  const std::string single = (fs::path(folder) / "model.safetensors").string();
  const std::string index = single + ".index.json";
  auto state = std::make_unique<State>();
  if (exists(single)) {
    state->add_file(single);
  } else if (exists(index)) {
    state->add_shards(folder, index);
  } else {
    throw InputError(fmt::format("{}: holds neither model.safetensors nor model.safetensors.index.json", folder));
  }
  for (std::size_t i = 0; i < state->tensors.size(); ++i) state->by_name.emplace(state->tensors[i].name, i);
  return std::unique_ptr<SafetensorsFolder>(new SafetensorsFolder(std::move(state)));
}

const std::vector<TensorInfo>& SafetensorsFolder::tensors() const { return state_->tensors; }

const TensorInfo* SafetensorsFolder::find_tensor(std::string_view name) const {
  const auto found = state_->by_name.find(std::string(name));
  return found == state_->by_name.end() ? nullptr : &state_->tensors[found->second];
}

}  // namespace kvlab
