// Both ends of the protocol's words, and the loop that answers.
#include "harness/isolation/worker.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <csignal>
#include <cstdio>
#include <optional>

#include "harness/ceilings_json.h"
#include "harness/isolation/child_process.h"
#include "harness/isolation/fault.h"
#include "harness/local_runner.h"
#include "harness/outcome_json.h"
#include "harness/progress.h"
#include "harness/report.h"

namespace kvlab {

namespace {

using Json = nlohmann::ordered_json;

WorkerSetup worker_setup_from_json(const Json& json) {
  WorkerSetup setup;
  json.at("model").get_to(setup.runner.model);
  json.at("device").get_to(setup.runner.device);
  json.at("threads").get_to(setup.runner.threads);
  json.at("seed").get_to(setup.runner.seed);
  json.at("prompt_file").get_to(setup.runner.prompt_file);
  setup.runner.gemv = parse_gemv_setting(json.at("gemv"));
  json.at("faults").get_to(setup.faults);
  json.at("quiet").get_to(setup.quiet);
  return setup;
}

Json answer(const Json& request, CaseRunner& runner) {
  const std::string what = request.at("do");
  if (what == "ceilings") return ceilings_json(runner.ceilings(request.at("budget_s")));
  const Case spec = case_from_json(request.at("case"));
  if (what == "check") return outcome_json(spec, std::nullopt, runner.check(spec));
  const std::int64_t number = request.at("round");
  return outcome_json(spec, number, runner.round(spec, number));
}

}  // namespace

Json worker_setup_json(const WorkerSetup& setup) {
  return {{"model", setup.runner.model},
          {"device", setup.runner.device},
          {"threads", setup.runner.threads},
          {"seed", setup.runner.seed},
          {"prompt_file", setup.runner.prompt_file},
          {"faults", setup.faults},
          {"gemv", setting_name(setup.runner.gemv)},
          {"quiet", setup.quiet}};
}

Json check_request(const Case& spec) { return {{"do", "check"}, {"case", case_json(spec)}}; }

Json round_request(const Case& spec, std::int64_t number) {
  return {{"do", "round"}, {"case", case_json(spec)}, {"round", number}};
}

Json ceilings_request(double budget_s) { return {{"do", "ceilings"}, {"budget_s", budget_s}}; }

int serve_requests() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // whoever kills the sweep kills its worker
  std::signal(SIGINT, SIG_IGN);      // the sweep decides what an interrupt means
  std::signal(SIGTERM, SIG_IGN);
  LineReader requests(kChildSocket);
  const std::optional<std::string> first = requests.next();
  if (!first) {
    fmt::print(stderr, "kvlab worker: is started by `kvlab sweep`, not by hand\n");
    return 2;
  }
  const WorkerSetup setup = worker_setup_from_json(Json::parse(*first));
  if (setup.quiet) Progress::silence();
  LocalRunner runner(setup.runner, FaultPlan(setup.faults));
  while (const std::optional<std::string> line = requests.next()) {
    const Json reply = answer(Json::parse(*line), runner);
    if (!send_line(kChildSocket, reply.dump(-1, ' ', false, Json::error_handler_t::replace))) break;
  }
  return 0;
}

}  // namespace kvlab
