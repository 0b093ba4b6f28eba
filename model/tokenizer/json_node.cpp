// Typed access that says where it failed.
#include "model/tokenizer/json_node.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "kernels/error.h"
#include "model/files/strict_json.h"

namespace kvlab {
namespace {

constexpr int kMaxDepth = 32;

}  // namespace

void JsonNode::fail(const std::string& fault) const { throw InputError(fmt::format("{}: {}", where_, fault)); }

std::optional<JsonNode> JsonNode::find(const std::string& key) const {
  if (!value_->is_object()) fail("must be an object");
  const auto member = value_->find(key);
  if (member == value_->end() || member->is_null()) return std::nullopt;
  return JsonNode(*member, fmt::format("{}: {}", where_, key));
}

JsonNode JsonNode::at(const std::string& key) const {
  auto member = find(key);
  if (!member) fail(fmt::format("'{}' is missing", key));
  return *std::move(member);
}

std::string JsonNode::string() const {
  if (!value_->is_string()) fail("must be a string");
  return value_->get<std::string>();
}

bool JsonNode::boolean() const {
  if (!value_->is_boolean()) fail("must be true or false");
  return value_->get<bool>();
}

std::vector<JsonNode> JsonNode::items() const {
  if (!value_->is_array()) fail("must be a list");
  std::vector<JsonNode> nodes;
  nodes.reserve(value_->size());
  for (std::size_t i = 0; i < value_->size(); ++i) nodes.emplace_back((*value_)[i], fmt::format("{}[{}]", where_, i));
  return nodes;
}

bool JsonNode::boolean_or(const std::string& key, bool fallback) const {
  const auto member = find(key);
  return member ? member->boolean() : fallback;
}

std::string read_text_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw InputError(fmt::format("{}: cannot be read", path));
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

nlohmann::json read_json_file(const std::string& path) {
  return parse_strict_json(read_text_file(path), path, kMaxDepth);
}

}  // namespace kvlab
