// The command line. The only file that includes CLI11, which is slow to compile.
#include "harness/command_line.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "harness/command_line_help.h"
#include "harness/commands/commands.h"
#include "harness/commands/setting_changes.h"
#include "harness/devices.h"
#include "harness/interrupt.h"
#include "harness/isolation/worker.h"
#include "harness/numbers.h"
#include "harness/threads.h"
#include "kernels/error.h"
#include "model/profiler_range.h"
#include "variants/registry.h"

namespace kvlab {

namespace {

constexpr const char* kVersion = "kvlab 0.1.0";
constexpr std::int64_t kMaxThreads = 1024;

/// What the arguments chose: the command to run and the threads it will use.
struct Chosen {
  std::function<int()> run;
  std::function<int()> threads = [] { return 1; };
  std::vector<std::string> argv;
};

CLI::App& add_command(CLI::App& app, const std::string& name) {
  const CommandHelp& help = command_help(name);
  CLI::App& command = *app.add_subcommand(name, std::string(help.purpose));
  command.footer("\n" + std::string(help.examples));
  return command;
}

CLI::Option* add_text(CLI::App& command, const std::string& name, std::string& target, const std::string& help) {
  return command.add_option(name, target, help)->type_name("TEXT");
}

template <typename Integer>
CLI::Option* add_integer(CLI::App& command, const std::string& name, Integer& target, std::int64_t low,
                         const std::string& help, std::int64_t high = kMaxCount) {
  const auto set = [name, &target, low, high](const std::string& text) {
    target = static_cast<Integer>(parse_integer(name, text, low, high));
  };
  return command.add_option_function<std::string>(name, set, help)->type_name("N");
}

CLI::Option* add_number(CLI::App& command, const std::string& name, double& target, double high,
                        const std::string& help) {
  const auto set = [name, &target, high](const std::string& text) { target = parse_number(name, text, 0, high); };
  return command.add_option_function<std::string>(name, set, help)->type_name("X");
}

/// A flag that may be given more than once, one value each time.
CLI::Option* add_repeated(CLI::App& command, const std::string& name,
                          const std::function<void(const std::string&)>& add, const std::string& help) {
  const auto add_all = [add](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) add(text);
  };
  return command.add_option_function<std::vector<std::string>>(name, add_all, help)
      ->type_name("TEXT")
      ->allow_extra_args(false);
}

void add_switch(CLI::App& command, const std::string& name, bool& target, const std::string& help) {
  command.add_flag(name, target, help)->multi_option_policy(CLI::MultiOptionPolicy::Throw);
}

void add_json(CLI::App& command, std::string& target) {
  add_text(command, "--json", target, "write JSON to this file; - is standard output, which then holds nothing else")
      ->type_name("FILE|-");
}

template <typename Ids>
CLI::Option* add_ids(CLI::App& command, const std::string& name, Ids& target, const std::string& help) {
  const auto set = [name, &target](const std::string& text) { target = parse_ids(name, text); };
  return command.add_option_function<std::string>(name, set, help)->type_name("1,2,3");
}

/// --model and --seed.
void add_model(CLI::App& command, ModelRequest& request) {
  add_text(command, "--model", request.model, "a GGUF file, a Hugging Face folder, or a name of `kvlab list models`")
      ->required()
      ->type_name("MODEL");
  add_integer(command, "--seed", request.seed, 0, "draws synthetic weights, seeded ids, samples and the order of pages",
              std::numeric_limits<std::int64_t>::max());
}

void add_quiet(CLI::App& command, bool& target) {
  add_switch(command, "--quiet", target, "no progress and no remarks on standard error");
}

void add_threads(CLI::App& command, int& threads) {
  add_integer(command, "--threads", threads, 1, "CPU threads; default: all cores", kMaxThreads);
}

void add_device(CLI::App& command, std::string& device) {
  add_text(command, "--device", device, "where to run: cpu, cuda, auto (the best there is)")->type_name("NAME");
}

/// Returns the option, for refuse_gemv_on_cpu.
const CLI::Option* add_gemv(CLI::App& command, GemvSetting& setting) {
  const auto set = [&setting](const std::string& text) { setting = parse_gemv_setting(text); };
  return command
      .add_option_function<std::string>(
          "--gemv", set, "on a GPU, what runs products of up to 8 rows: own, cublas, auto (the quicker one)")
      ->type_name("NAME");
}

/// Also refuses a device that is not there.
void refuse_gemv_on_cpu(const CLI::Option* gemv, const std::string& device) {
  if (resolve_device(device) != "cpu" || gemv->empty()) return;
  throw InputError("--gemv: the CPU has one code for its products; leave it out, or use --device cuda");
}

/// The variant flags: one per axis of the registry. Axes apply in the registry's order, so that --attention is the
/// default of the two phases wherever it stands.
void add_variant(CLI::App& command, ModelRequest& request) {
  add_device(command, request.device);
  const CLI::Option* gemv = add_gemv(command, request.gemv);
  add_threads(command, request.threads);
  const auto given = std::make_shared<std::map<std::string, std::string>>();
  for (const Axis& axis : axes()) {
    const auto set = [given, name = axis.name](const std::string& text) { (*given)[name] = text; };
    command.add_option_function<std::string>(axis_flag(axis), set, axis_help(axis))
        ->type_name(axis.integer ? "N" : "NAME")
        ->group("Variant");
  }
  command.parse_complete_callback([given, gemv, &request] {
    refuse_gemv_on_cpu(gemv, request.device);
    for (const Axis& axis : axes()) {
      const auto found = given->find(axis.name);
      if (found == given->end()) continue;
      try {
        axis.set(request.variant, found->second);
      } catch (const InputError& error) {
        throw InputError(fmt::format("{}: {}", axis_flag(axis), error.what()));
      }
    }
  });
}

/// Makes `run` the choice when this command was given.
template <typename Request>
void choose(CLI::App& command, Chosen& chosen, std::shared_ptr<Request> request, int (*run)(const Request&)) {
  command.callback([&chosen, request, run] { chosen.run = [request, run] { return run(*request); }; });
}

template <typename Request>
void use_model_threads(CLI::App& command, Chosen& chosen, std::shared_ptr<Request> request,
                       int (*run)(const Request&)) {
  command.callback([&chosen, request, run] {
    chosen.run = [request, run] { return run(*request); };
    chosen.threads = [request] { return resolve_threads(request->model.threads); };
  });
}

void add_generate(CLI::App& app, Chosen& chosen) {
  CLI::App& command = add_command(app, "generate");
  const auto request = std::make_shared<GenerateRequest>();
  GenerationSettings& settings = request->settings;
  add_model(command, request->model);
  const auto set_prompt = [request](const std::string& text) { request->prompt = text; };
  command
      .add_option_function<std::string>("--prompt", set_prompt, "text to continue; a BOS is added if the model says so")
      ->type_name("TEXT");
  add_ids(command, "--prompt-ids", request->prompt_ids, "ids to continue, taken as they are");
  add_integer(command, "--max-new-tokens", settings.max_new_tokens, 0, "stop after so many tokens; default 128");
  add_number(command, "--temperature", settings.sampling.temperature, 1e6,
             "0 (default): greedy, ties to the lowest id");
  add_integer(command, "--top-k", settings.sampling.top_k, 0, "keep the K likeliest ids; 0 (default): off");
  add_number(command, "--top-p", settings.sampling.top_p, 1,
             "keep the smallest set of ids whose probability reaches P; 1 (default): off");
  add_repeated(
      command, "--stop", [&settings](const std::string& text) { settings.stops.push_back(text); },
      "end where this text appears; may be repeated");
  add_repeated(
      command, "--at", [request](const std::string& text) { request->changes.push_back(parse_change(text)); },
      "STEP:key=value changes a setting before token STEP (0 is the first) without touching the cache;\n"
      "keys: temperature, top-k, top-p, max-new-tokens, stop (replaces the list; empty clears it), add-stop");
  add_switch(command, "--ignore-eos", settings.ignore_eos, "go on past the end-of-sequence id");
  add_switch(command, "--chat", request->chat, "wrap the prompt in the model's chat form");
  add_switch(command, "--parse-special", request->parse_special,
             "special tokens spelled out in the prompt become their ids");
  add_text(command, "--logits-out", request->logits_out, "write the logits of the prompt's last row, a JSON array")
      ->type_name("FILE");
  add_json(command, request->json);
  add_variant(command, request->model);
  use_model_threads(command, chosen, request, run_generate);
}

void add_score(CLI::App& app, Chosen& chosen) {
  CLI::App& command = add_command(app, "score");
  const auto request = std::make_shared<ScoreRequest>();
  add_model(command, request->model);
  add_text(command, "--text", request->text_file, "file with the text; a BOS is added if the model says so")
      ->type_name("FILE");
  add_ids(command, "--prompt-ids", request->prompt_ids, "ids to score, taken as they are");
  add_json(command, request->json);
  add_variant(command, request->model);
  use_model_threads(command, chosen, request, run_score);
}

void add_run(CLI::App& app, Chosen& chosen) {
  CLI::App& command = add_command(app, "run");
  const auto request = std::make_shared<RunRequest>();
  request->argv = chosen.argv;
  add_model(command, request->model);
  add_integer(command, "--batch", request->batch, 1, "sequences at once; default 1");
  add_integer(command, "--depth", request->depth, 0, "tokens in the cache before the measured prompt; default 0");
  add_text(command, "--kv-fill", request->kv_fill,
           "prefill: untimed passes make the depth's K and V; random: they are drawn, so that a large depth is quick; "
           "default prefill")
      ->type_name("FILL");
  add_integer(command, "--prompt-tokens", request->prompt_tokens, 1, "tokens of the measured prompt")->required();
  add_integer(command, "--gen-tokens", request->gen_tokens, 1, "tokens to generate; EOS is ignored")->required();
  add_integer(command, "--rounds", request->rounds, 1, "timed repetitions; default 3");
  add_text(command, "--prompt-file", request->prompt_file,
           "text whose first tokens are the prompt; default: seeded ids")
      ->type_name("FILE");
  const auto set_profile = [request](const std::string& text) { request->profile = parse_profile_window(text); };
  command
      .add_option_function<std::string>("--profile", set_profile,
                                        "what a profiler should record: prefill, or decode:A..B, the decode steps A to "
                                        "B; one round, no report (docs/profiling.md)")
      ->type_name("WINDOW");
  add_switch(command, "--kernel-times", request->kernel_times,
             "time by GPU kernel in one round, by CUPTI, instead of a report (docs/profiling.md)");
  add_json(command, request->json);
  add_quiet(command, request->quiet);
  add_variant(command, request->model);
  use_model_threads(command, chosen, request, run_run);
}

void add_sweep(CLI::App& app, Chosen& chosen) {
  CLI::App& command = add_command(app, "sweep");
  const auto request = std::make_shared<SweepRequest>();
  request->argv = chosen.argv;
  add_text(command, "CONFIG", request->config_file, "the sweep file")->required()->type_name("FILE");
  add_text(command, "--out", request->out, "folder for results.jsonl and report.json")->type_name("DIR");
  add_switch(command, "--resume", request->resume, "go on where --out stopped");
  add_repeated(
      command, "--filter", [request](const std::string& text) { request->filters.push_back(text); },
      "AXIS=VALUE keeps only such cases; repeated: any value of one axis, all axes");
  add_text(command, "--shard", request->shard, "only the I-th of N parts; `kvlab merge` puts them together")
      ->type_name("I/N");
  add_switch(command, "--dry-run", request->dry_run,
             "print the cases with their FLOPs, bytes, memory and estimated time, and run none");
  add_quiet(command, request->quiet);
  add_device(command, request->device);
  const CLI::Option* gemv = add_gemv(command, request->gemv);
  command.parse_complete_callback([gemv, request] { refuse_gemv_on_cpu(gemv, request->device); });
  add_threads(command, request->threads);
  add_repeated(
      command, "--inject-fault", [request](const std::string& text) { request->faults.push_back(text); },
      "for the tests of kvlab: KIND[@ROUND][:LABEL]")
      ->group("");
  choose(command, chosen, request, run_sweep);
}

void add_merge(CLI::App& app, Chosen& chosen) {
  CLI::App& command = add_command(app, "merge");
  const auto request = std::make_shared<MergeRequest>();
  command.add_option("DIR", request->folders, "folders that shards of one sweep wrote")->required()->type_name("DIR");
  add_text(command, "--out", request->out, "folder for the whole: results.jsonl and report.json")
      ->required()
      ->type_name("DIR");
  choose(command, chosen, request, run_merge);
}

/// Started by `sweep` only, so no help shows it.
void add_worker(CLI::App& app, Chosen& chosen) {
  CLI::App& command = *app.add_subcommand("worker", "runs cases for a sweep")->group("");
  const auto threads = std::make_shared<int>(1);
  add_threads(command, *threads);
  command.callback([&chosen, threads] {
    chosen.run = [] { return serve_requests(); };
    chosen.threads = [threads] { return *threads; };
  });
}

void add_verify(CLI::App& app, Chosen& chosen) {
  CLI::App& command = add_command(app, "verify");
  const auto request = std::make_shared<VerifyRequest>();
  add_model(command, request->model);
  add_integer(command, "--prompt-tokens", request->prompt_tokens, 1, "tokens of the prefill; default 24");
  add_integer(command, "--gen-tokens", request->gen_tokens, 0, "decode steps; default 8");
  add_integer(command, "--layer", request->layer, 0,
              "check the embedding, this one layer and the head, of a model too large for the reference");
  add_variant(command, request->model);
  use_model_threads(command, chosen, request, run_verify);
}

void add_trace(CLI::App& app, Chosen& chosen) {
  CLI::App& command = add_command(app, "trace");
  const auto request = std::make_shared<TraceRequest>();
  add_model(command, request->model);
  add_ids(command, "--prompt-ids", request->prompt_ids, "ids of the prompt")->required();
  add_text(command, "--format", request->format, "table (default), json, or dot: the recorded graph")
      ->type_name("NAME");
  add_variant(command, request->model);
  use_model_threads(command, chosen, request, run_trace);
}

void add_plan(CLI::App& app, Chosen& chosen) {
  CLI::App& command = add_command(app, "plan");
  const auto request = std::make_shared<PlanRequest>();
  add_model(command, request->model);
  add_integer(command, "--context", request->context, 1, "tokens a sequence")->required();
  add_integer(command, "--batch", request->batch, 1, "sequences; default 1");
  add_text(command, "--hardware", request->hardware,
           "what fits and how long it takes at best on this: a name in configs/hardware, or `this` (measured now)")
      ->type_name("NAME");
  add_integer(command, "--gpus", request->gpus, 1, "devices that share the model by tensor parallelism; default 1");
  add_json(command, request->json);
  add_variant(command, request->model);
  command.callback([&chosen, request] {
    chosen.run = [request] { return run_plan(*request); };
    chosen.threads = [request] {
      return request->hardware == kThisMachine ? resolve_threads(request->model.threads) : 1;
    };
  });
}

void add_tokenize(CLI::App& app, Chosen& chosen) {
  CLI::App& command = add_command(app, "tokenize");
  const auto request = std::make_shared<TokenizeRequest>();
  add_text(command, "--model", request->model, "a GGUF file or a folder with a tokenizer.json, of any architecture")
      ->required()
      ->type_name("MODEL");
  add_text(command, "TEXT", request->text, "the text; - reads standard input byte for byte")->required();
  add_switch(command, "--explain", request->explain, "print the successive states of the merging, one a line");
  add_switch(command, "--json", request->json, "print {\"ids\": [...], \"pieces\": [...]}");
  add_switch(command, "--parse-special", request->parse_special, "special tokens spelled out become their ids");
  add_switch(command, "--bos", request->bos, "put the BOS id in front");
  choose(command, chosen, request, run_tokenize);
}

void add_list(CLI::App& app, Chosen& chosen) {
  CLI::App& command = add_command(app, "list");
  const auto what = std::make_shared<std::string>();
  add_text(command, "WHAT", *what, "models, variants or devices")->required()->type_name("NAME");
  command.callback([&chosen, what] { chosen.run = [what] { return run_list(*what); }; });
}

void add_ceilings(CLI::App& app, Chosen& chosen) {
  CLI::App& command = add_command(app, "ceilings");
  const auto request = std::make_shared<CeilingsRequest>();
  request->argv = chosen.argv;
  add_device(command, request->device);
  add_threads(command, request->threads);
  add_json(command, request->json);
  command.callback([&chosen, request] {
    chosen.run = [request] { return run_ceilings(*request); };
    chosen.threads = [request] { return resolve_threads(request->threads); };
  });
}

void add_compare(CLI::App& app, Chosen& chosen) {
  CLI::App& command = add_command(app, "compare");
  const auto request = std::make_shared<CompareRequest>();
  add_text(command, "BASE", request->base, "report of the state before")->required()->type_name("FILE");
  add_text(command, "NEW", request->other, "report of the state after")->required()->type_name("FILE");
  add_number(command, "--fail-above", request->fail_above_percent, 1e6,
             "exit 1 when a metric is slower by more than so many per cent; default 0: by anything that is no noise")
      ->type_name("PERCENT");
  add_integer(command, "--percentile", request->percentile, 1,
              "compare times at this percentile; default 50, the median. 10 on a machine whose neighbours slow many "
              "rounds: it is what the work takes undisturbed, and needs 10 rounds",
              99)
      ->type_name("P");
  add_text(command, "--import-llama-bench", request->llama_bench,
           "what `llama-bench -o json` wrote: its rows stand beside those of NEW that do the same work")
      ->type_name("FILE");
  add_json(command, request->json);
  choose(command, chosen, request, run_compare);
}

int fail(int code, const std::string& message) {
  std::fflush(stdout);
  fmt::print(stderr, "kvlab: {}\n", message);
  return code;
}

/// CLI11 calls a misspelt command "a subcommand is required"; this names it and the commands there are.
void refuse_unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::string known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == argv[1]) return;
    if (command->get_group().empty()) continue;  // not for users
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  throw InputError(fmt::format("there is no command \"{}\"; commands are {}", argv[1], known));
}

int parse_and_run(CLI::App& app, Chosen& chosen, int argc, char** argv) {
  refuse_unknown_command(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return fail(2, fmt::format("{} (kvlab --help and kvlab COMMAND --help show what is allowed)", error.what()));
  }
  bind_threads(chosen.threads(), argv);
  watch_for_interrupt();
  return chosen.run();
}

}  // namespace

int run_command_line(int argc, char** argv) {
  CLI::App app(std::string(program_help()), "kvlab");
  app.footer("\n" + std::string(program_examples()));
  app.set_version_flag("--version", fmt::format("{}\nNVTX ranges for profilers: {}", kVersion, nvtx_version()));
  app.require_subcommand(1);
  Chosen chosen;
  chosen.argv.assign(argv, argv + argc);
  for (const auto add : {add_generate, add_score, add_run, add_sweep, add_merge, add_worker, add_verify, add_trace,
                         add_plan, add_tokenize, add_list, add_ceilings, add_compare}) {
    add(app, chosen);
  }
  try {
    return parse_and_run(app, chosen, argc, argv);
  } catch (const InputError& error) {
    return fail(2, error.what());
  } catch (const Interrupted&) {
    return fail(kInterruptedExitCode, "interrupted");
  } catch (const OutOfMemory& error) {
    return fail(1,
                fmt::format("out of memory: {}; a smaller batch, context or --kv-capacity, or bf16 storage takes less",
                            error.what()));
  } catch (const std::bad_alloc&) {
    return fail(1, "out of memory; a smaller batch, context or --kv-capacity, or bf16 storage takes less");
  } catch (const std::exception& error) {
    return fail(1, error.what());
  }
}

}  // namespace kvlab
