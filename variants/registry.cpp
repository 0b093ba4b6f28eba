#include "variants/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "kernels/error.h"

namespace kvlab {
namespace {

template <typename Enum>
struct Choice {
  Enum value;
  std::string name;
  std::string sentence;
};

InputError refused(std::string_view axis, std::string_view value, const std::string& allowed) {
  return InputError(fmt::format("{} '{}': allowed are {}", axis, value, allowed));
}

/// An axis whose values are an enumeration held in one member of Variant.
template <typename Enum>
Axis choice_axis(const std::string& name, std::string sentence, Enum Variant::*member,
                 std::vector<Choice<Enum>> choices) {
  Axis axis;
  axis.name = name;
  axis.sentence = std::move(sentence);
  for (const Choice<Enum>& choice : choices) {
    axis.values.push_back({choice.name, choice.sentence});
    axis.proof_values.push_back(choice.name);
  }
  axis.set = [name, member, choices](Variant& variant, std::string_view text) {
    std::string allowed;
    for (const Choice<Enum>& choice : choices) {
      if (choice.name == text) {
        variant.*member = choice.value;
        return;
      }
      allowed += (allowed.empty() ? "" : ", ") + choice.name;
    }
    throw refused(name, text, allowed);
  };
  axis.get = [member, choices](const Variant& variant) {
    const auto found = std::find_if(choices.begin(), choices.end(),
                                    [&](const Choice<Enum>& choice) { return choice.value == variant.*member; });
    return found->name;
  };
  return axis;
}

struct Range {
  std::int64_t least;
  std::int64_t most;
};

constexpr std::int64_t kMostCount = std::numeric_limits<std::int32_t>::max();
/// A larger page than any context would only ask for memory that no token can use.
constexpr std::int64_t kLargestPage = std::int64_t{1} << 17;

std::int64_t parse_integer(std::string_view axis, std::string_view text, const Range& range) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < range.least || value > range.most) {
    throw refused(axis, text, fmt::format("whole numbers from {} to {}", range.least, range.most));
  }
  return value;
}

Axis integer_axis(const std::string& name, std::string sentence, std::int64_t Variant::*member, Range range,
                  AxisValue value, std::vector<std::string> proof_values) {
  Axis axis;
  axis.name = name;
  axis.sentence = std::move(sentence);
  axis.integer = true;
  axis.values = {std::move(value)};
  axis.proof_values = std::move(proof_values);
  axis.set = [name, member, range](Variant& variant, std::string_view text) {
    variant.*member = parse_integer(name, text, range);
  };
  axis.get = [member](const Variant& variant) { return std::to_string(variant.*member); };
  return axis;
}

const std::vector<Choice<AttentionKind>>& attention_choices() {
  static const std::vector<Choice<AttentionKind>> choices = {
      {AttentionKind::naive, "naive",
       "scores are written to memory, then a softmax over whole rows, then the weighted sum"},
      {AttentionKind::fused, "fused",
       "online softmax over blocks of keys, split over the keys in decode; no score reaches memory; on CUDA for a "
       "head_dim that is a multiple of 8 up to 256, others run as naive"},
  };
  return choices;
}

/// Sets both phases at once.
Axis attention_axis() {
  Axis both = choice_axis("attention", "how attention is computed, in both phases", &Variant::prefill_attention,
                          attention_choices());
  const auto set_prefill = both.set;
  both.set = [set_prefill](Variant& variant, std::string_view text) {
    set_prefill(variant, text);
    variant.decode_attention = variant.prefill_attention;
  };
  both.proof_values.clear();  // the pairings of the two phases are proved in full
  both.get = [](const Variant& variant) {
    const std::string prefill = find_axis("prefill_attention").get(variant);
    const std::string decode = find_axis("decode_attention").get(variant);
    return prefill == decode ? prefill : prefill + "+" + decode;
  };
  return both;
}

Axis heads_axis() {
  Axis axis;
  axis.name = "heads";
  axis.sentence = "how many KV heads the same checkpoint is given";
  axis.values = {
      {"model", "the checkpoint's own layout"},
      {"mha", "a KV head for each query head, by replication: identical outputs, the full cache"},
      {"mqa", "one KV head for all, by mean pooling: the smallest cache, other outputs (not output-preserving)"},
      {"gqa:G",
       "G KV heads; more than the checkpoint's by replication (identical), fewer by mean pooling (other outputs)"},
  };
  axis.set = [](Variant& variant, std::string_view text) {
    if (text == "model")
      variant.heads = HeadsKind::model;
    else if (text == "mha")
      variant.heads = HeadsKind::mha;
    else if (text == "mqa")
      variant.heads = HeadsKind::mqa;
    else if (text.starts_with("gqa:")) {
      variant.gqa_kv_heads = parse_integer("heads gqa:G", text.substr(4), {1, kMostCount});
      variant.heads = HeadsKind::gqa;
      return;
    } else {
      throw refused("heads", text, "model, mha, mqa, gqa:G");
    }
    variant.gqa_kv_heads = 0;
  };
  axis.get = [](const Variant& variant) -> std::string {
    switch (variant.heads) {
      case HeadsKind::model:
        return "model";
      case HeadsKind::mha:
        return "mha";
      case HeadsKind::mqa:
        return "mqa";
      case HeadsKind::gqa:
        break;
    }
    return fmt::format("gqa:{}", variant.gqa_kv_heads);
  };
  return axis;
}

std::vector<Axis> make_axes() {
  const std::vector<Choice<DType>> dtypes = {
      {DType::f32, "f32", "4 bytes an element"},
      {DType::bf16, "bf16", "2 bytes an element, 8 bits of mantissa; accumulation stays f32"},
  };
  return {
      choice_axis("cache", "what is kept of earlier tokens", &Variant::cache,
                  {{CacheKind::none, "none", "nothing: each step recomputes every token; 0 KV bytes, quadratic work"},
                   {CacheKind::contiguous, "contiguous", "K and V in one region a sequence, reserved up front"},
                   {CacheKind::paged, "paged", "K and V in pages from a shared pool, found through a page table"},
                   {CacheKind::qkv, "qkv", "contiguous with Q kept too: more bytes that nothing reads back"}}),
      attention_axis(),
      choice_axis("prefill_attention", "the attention of the prefill; default: --attention",
                  &Variant::prefill_attention, attention_choices()),
      choice_axis("decode_attention", "the attention of the decode steps; default: --attention",
                  &Variant::decode_attention, attention_choices()),
      heads_axis(),
      choice_axis(
          "execution", "how operations are issued", &Variant::execution,
          {{ExecutionKind::eager, "eager", "each operation is launched as it comes"},
           {ExecutionKind::graph, "graph",
            "a step is recorded once, prefill as well as decode, and replayed in one parallel region while the "
            "batch keeps its shape; with cache=none no shape comes twice and each step is recorded, and on CUDA naive "
            "attention is captured anew at every length"}}),
      choice_axis("logits", "which rows go through the LM head", &Variant::logits,
                  {{LogitsKind::last, "last", "the newest row of a sequence, all that the next token needs"},
                   {LogitsKind::all, "all", "every row of the pass"}}),
      choice_axis("prune", "what the last layer leaves out", &Variant::prune,
                  {{PruneKind::none, "none", "nothing"},
                   {PruneKind::last_layer, "last_layer",
                    "all but K and V for rows whose output nobody reads; with logits=all "
                    "every row is read and nothing is left out"}}),
      choice_axis("projection", "how Q, K and V are projected", &Variant::projection,
                  {{ProjectionKind::fused, "fused", "one product, n_heads + 2 n_kv_heads heads wide, split afterwards"},
                   {ProjectionKind::separate, "separate", "three products"}}),
      choice_axis(
          "sampling", "where the next token is chosen", &Variant::sampling,
          {{SamplingKind::host, "host", "the logits come back to the host, which chooses"},
           {SamplingKind::device, "device",
            "the device chooses and feeds its choice back; 4 bytes a sequence come back, none on the CPU, where "
            "both share their memory"}}),
      integer_axis(
          "page_size", "slots a page of cache=paged", &Variant::page_size, {1, kLargestPage},
          {"N", "any size from 1 to 131072; small pages waste less of the last page, large ones need fewer look-ups"},
          {"1", "7", "64"}),
      integer_axis("kv_capacity", "tokens that the cache reserves a sequence", &Variant::kv_capacity, {0, kMostCount},
                   {"N", "0: what the workload needs, for `generate` the context"}, {}),
      integer_axis("prefill_chunk", "rows a sequence that one prefill pass takes", &Variant::prefill_chunk,
                   {0, kMostCount}, {"N", "0: the whole prompt in one pass"}, {"1", "7"}),
      choice_axis("weight_dtype", "storage of the weight matrices", &Variant::weight_dtype, dtypes),
      choice_axis("kv_dtype", "storage of the KV cache; cache=none stores nothing and is not affected",
                  &Variant::kv_dtype, dtypes),
  };
}

bool fits(const Variant& variant, std::int64_t n_heads, std::int64_t model_kv_heads) {
  try {
    resolve_kv_heads(variant, n_heads, model_kv_heads);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace

const std::vector<Axis>& axes() {
  static const std::vector<Axis> list = make_axes();
  return list;
}

const Axis& find_axis(std::string_view name) {
  std::string known;
  for (const Axis& axis : axes()) {
    if (axis.name == name) return axis;
    known += (known.empty() ? "" : ", ") + axis.name;
  }
  throw InputError(fmt::format("unknown axis '{}': the axes are {}", name, known));
}

std::string axis_flag(const Axis& axis) {
  std::string flag = "--" + axis.name;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::string variant_label(const Variant& variant) {
  static const Variant defaults;
  std::string label;
  for (const Axis& axis : axes()) {
    if (axis.name == "prefill_attention" || axis.name == "decode_attention") continue;
    const std::string value = axis.get(variant);
    if (axis.name == "cache" || axis.name == "attention" || axis.name == "heads") {
      label += (label.empty() ? "" : " ") + value;
    } else if (value != axis.get(defaults)) {
      label += fmt::format(" {}={}", axis.name, value);
    }
  }
  return label;
}

std::vector<Variant> every_variant(const Variant& base, std::int64_t n_heads, std::int64_t model_kv_heads) {
  std::vector<Variant> variants;
  const auto add = [&](const Variant& variant) {
    if (std::find(variants.begin(), variants.end(), variant) == variants.end()) variants.push_back(variant);
  };
  for (const CacheKind cache : {CacheKind::none, CacheKind::contiguous, CacheKind::paged, CacheKind::qkv}) {
    for (const HeadsKind heads : {HeadsKind::model, HeadsKind::mha}) {
      for (const AttentionKind prefill : {AttentionKind::naive, AttentionKind::fused}) {
        for (const AttentionKind decode : {AttentionKind::naive, AttentionKind::fused}) {
          Variant variant = base;
          variant.cache = cache;
          variant.heads = heads;
          variant.gqa_kv_heads = 0;
          variant.prefill_attention = prefill;
          variant.decode_attention = decode;
          add(variant);
        }
      }
    }
  }
  for (const Axis& axis : axes()) {
    const bool in_product = axis.name == "cache" || axis.name.ends_with("attention") || axis.name == "heads";
    if (in_product) continue;
    for (const std::string& value : axis.proof_values) {
      Variant variant = base;
      if (axis.name == "page_size") variant.cache = CacheKind::paged;
      axis.set(variant, value);
      if (variant != base) add(variant);
    }
  }
  for (std::int64_t g = 1; g <= n_heads; ++g) {
    Variant variant = base;
    variant.heads = g == 1 ? HeadsKind::mqa : HeadsKind::gqa;
    variant.gqa_kv_heads = g == 1 ? 0 : g;
    if (g != model_kv_heads && g != n_heads && fits(variant, n_heads, model_kv_heads)) add(variant);
  }
  return variants;
}

}  // namespace kvlab
