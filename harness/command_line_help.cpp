// Help texts. A newcomer reads them before the manual, so each teaches one command by example.
#include "harness/command_line_help.h"

#include <array>
#include <stdexcept>

#include "variants/registry.h"

namespace kvlab {

namespace {

constexpr std::array<CommandHelp, 12> kHelp = {{
    {"generate", "continue a text, token by token",
     R"(Examples:
  kvlab generate --model models/SmolLM2-135M-Instruct.Q4_1.gguf --prompt "Quantum mechanics is a fundamental theory in physics that"
  kvlab generate --model models/SmolLM2-135M-Instruct.Q4_1.gguf --chat --prompt "Why is the sky blue?" --temperature 0.7 --seed 3
  kvlab generate --model toy --prompt-ids 0,3,7,1,9 --max-new-tokens 4 --cache none --attention naive
  kvlab generate --model toy --prompt "How are you?" --at 10:temperature=0.8 --at 10:add-stop=you --json -
Standard output holds the text (ids when the model has no tokenizer); the reason why it stopped goes to standard error.
Exit code 130 and the JSON so far after Ctrl-C. A prompt that begins with a dash: --prompt=-text.)"},
    {"score", "mean negative log likelihood of a text over positions 2 to n, and its perplexity",
     R"(Examples:
  kvlab score --model models/SmolLM2-135M-Instruct.Q4_1.gguf --text configs/prompts/how-computers-remember.txt
  kvlab score --model toy --prompt-ids 0,3,7,1,9 --kv-dtype bf16 --json -)"},
    {"run", "measure one case and report it",
     R"(The output is checked against the reference variant first; a case that differs is not timed.
Examples:
  kvlab run --model toy --prompt-tokens 1 --gen-tokens 1000 --cache none
  kvlab run --model models/SmolLM2-135M-Instruct.Q4_1.gguf --prompt-tokens 128 --gen-tokens 64 --cache paged --page-size 32
  kvlab run --model smollm2-135m --prompt-tokens 32 --gen-tokens 16 --depth 512 --batch 4 --json run.json
  kvlab run --model smollm2-135m --depth 8000 --kv-fill random --prompt-tokens 1 --gen-tokens 16
  kvlab run --model smollm2-135m --prompt-tokens 128 --gen-tokens 32 --profile decode:10..20)"},
    {"sweep", "measure every case of a sweep file, interleaved, and write a report",
     R"(DIR/results.jsonl gets a line per finished round; DIR/report.json is written at the end, also after Ctrl-C. A worker
process runs the cases: one that crashes, hangs or takes too much memory costs its own row and no other.
Examples:
  kvlab sweep configs/sweeps/quickstart.json --dry-run
  kvlab sweep configs/sweeps/quickstart.json --out results/local/first
  kvlab sweep configs/sweeps/quickstart.json --out results/local/first --resume
  kvlab sweep configs/sweeps/quickstart.json --out results/local/paged --filter cache=paged --filter heads=model
  kvlab sweep configs/sweeps/quickstart.json --out results/local/part1 --shard 1/2)"},
    {"merge", "put the folders of a sweep's shards together",
     R"(The shards are of one sweep file and ran on one kind of machine, each case in one of them. The whole is a folder like
that of an undivided sweep: `kvlab sweep --resume` goes on in it.
Examples:
  kvlab merge results/local/part1 results/local/part2 --out results/local/whole)"},
    {"verify", "prove that every variant gives the float64 reference's output; exit 1 if one differs",
     R"(Every variant: {none, contiguous, paged, qkv} x four attention pairings x {model, mha}, then each other value of each
other axis alone. Variant flags set what the others start from.
Examples:
  kvlab verify --model toy
  kvlab verify --model models/SmolLM2-135M-Instruct.Q4_1.gguf --prompt-tokens 24 --gen-tokens 8
  kvlab verify --model llama-3.2-1b --layer 7)"},
    {"trace", "print every operation of the prefill and of one decode step, with shapes",
     R"(Examples:
  kvlab trace --model toy --prompt-ids 0,3,7,1,9
  kvlab trace --model toy --prompt-ids 0,3,7,1,9 --logits all --format json
  kvlab trace --model toy --prompt-ids 0,3,7,1,9 --format dot | dot -Tsvg > step.svg)"},
    {"plan", "footprint, FLOPs, bytes, memory, and what fits a device, by arithmetic alone; needs no weights",
     R"(Examples:
  kvlab plan --model llama-3.1-8b --context 4096 --batch 32 --weight-dtype bf16 --kv-dtype bf16
  kvlab plan --model llama-3.1-8b --context 32768 --prefill-chunk 512 --hardware h100-sxm --gpus 4
  kvlab plan --model models/SmolLM2-135M-Instruct.Q4_1.gguf --context 2048 --hardware this
  kvlab plan --model smollm2-135m --context 8192 --heads mha --json -)"},
    {"tokenize", "show the ids and pieces of a text, or how it is merged",
     R"(Examples:
  kvlab tokenize --model toy "How are you?"
  kvlab tokenize --model models/gemma-3-270m-q4_k_m.gguf --explain "Quantum mechanics is a fundamental"
  kvlab tokenize --model models/SmolLM2-135M-Instruct.Q4_1.gguf --json - < text.txt
TEXT - reads standard input byte for byte. A text that begins with a dash comes after --.)"},
    {"list", "list what there is: models, variants or devices",
     R"(Examples:
  kvlab list variants
  kvlab list models)"},
    {"ceilings",
     "measure what this machine can read, write, copy and multiply per second, and what barriers and the harness cost",
     R"(Examples:
  kvlab ceilings
  kvlab ceilings --threads 1 --json -)"},
    {"compare", "set two reports side by side; exit 1 when something became slower",
     R"(A case is compared with the same model, variant, workload, device, threads and seed. Times: ratio of medians with a 95 %
interval; faster or slower where that is more than noise, same where 10 % would have been seen, unclear otherwise. Memory:
byte for byte. A row of llama-bench has the same model file and threads, batch 1, and pp: prompt = P, depth = D; tg: depth =
D + P, tokens = G - 1 or G.
Examples:
  kvlab compare results/local/before/report.json results/local/after/report.json
  kvlab compare before.json after.json --fail-above 5 --json -
  llama-bench -m M.gguf -t 8 -p 128 -n 0 -o json > pp.json
  kvlab compare run.json run.json --import-llama-bench pp.json)"},
}};

}  // namespace

const CommandHelp& command_help(std::string_view name) {
  for (const CommandHelp& help : kHelp) {
    if (help.name == name) return help;
  }
  throw std::logic_error("no help for command " + std::string(name));
}

std::string_view program_help() {
  return "kvlab measures what each choice in an LLM decoder costs and gains: no cache, a contiguous or a paged KV "
         "cache; "
         "MHA, GQA, MQA; naive or fused attention. All variants run the same weights and are proved to agree.";
}

std::string_view program_examples() {
  return R"(Start here:
  kvlab list variants                                   the choices and what each costs
  kvlab verify --model toy                              every variant gives the same output
  kvlab generate --model toy --prompt "How are you?"    text
  kvlab sweep configs/sweeps/quickstart.json --out results/local/first
kvlab COMMAND --help explains a command. --model takes a GGUF file, a Hugging Face folder, or a name of `kvlab list models`.
Exit codes: 0 done, 1 a check or a case failed, 2 the request was wrong, 130 interrupted.)";
}

std::string axis_help(const Axis& axis) {
  std::string text = axis.sentence;
  for (const AxisValue& value : axis.values) text += "\n  " + value.name + ": " + value.sentence;
  return text;
}

}  // namespace kvlab
