// `kvlab tokenize`: ids and pieces of a text, or the states of the merging, from any file with a known vocabulary.
#include <fmt/format.h>

#include <iostream>
#include <iterator>

#include "harness/commands/commands.h"
#include "harness/output_file.h"
#include "kernels/error.h"
#include "model/checkpoint.h"

namespace kvlab {

namespace {

std::string requested_text(const std::string& text) {
  if (text != "-") return text;
  std::string bytes(std::istreambuf_iterator<char>(std::cin), {});
  if (std::cin.bad()) throw InputError("tokenize: standard input cannot be read");
  return bytes;
}

}  // namespace

int run_tokenize(const TokenizeRequest& request) {
  if (request.explain && request.json) throw InputError("tokenize: give either --explain or --json");
  const Checkpoint checkpoint = open_checkpoint(request.model, Need::tokenizer);
  if (!checkpoint.tokenizer) throw InputError(fmt::format("tokenize: {} has no tokenizer", request.model));
  const Tokenizer& tokenizer = *checkpoint.tokenizer;
  const std::string text = requested_text(request.text);
  if (request.explain) {
    for (const std::string& state : tokenizer.explain(text)) write_standard_output(state + "\n");
    return 0;
  }
  std::vector<std::int32_t> ids = tokenizer.encode(text, request.parse_special);
  if (request.bos) {
    if (!tokenizer.bos_id()) throw InputError(fmt::format("--bos: {} has no BOS id", request.model));
    ids.insert(ids.begin(), *tokenizer.bos_id());
  }
  std::vector<std::string> pieces;
  for (const std::int32_t id : ids) pieces.push_back(tokenizer.piece(id));
  if (request.json) {
    nlohmann::ordered_json result;
    result["ids"] = ids;
    result["pieces"] = pieces;
    OutputFile("--json", "-").write_json(result);
    return 0;
  }
  for (std::size_t i = 0; i < ids.size(); ++i) write_standard_output(fmt::format("{:>7}  {}\n", ids[i], pieces[i]));
  return 0;
}

}  // namespace kvlab
