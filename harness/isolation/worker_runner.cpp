// Sends requests, waits, and tells crash, timeout and out of memory apart.
#include "harness/isolation/worker_runner.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "harness/ceilings_json.h"
#include "harness/outcome_json.h"
#include "harness/threads.h"

namespace kvlab {

namespace {

/// How many processes the system has killed for memory since it started; 0 where it does not say.
std::int64_t system_oom_kills() {
  std::ifstream file("/proc/vmstat");
  std::string name;
  for (std::int64_t value = 0; file >> name >> value;) {
    if (name == "oom_kill") return value;
  }
  return 0;
}

CaseOutcome ended(Status status, std::string reason) {
  CaseOutcome outcome;
  outcome.status = status;
  outcome.reason = std::move(reason);
  return outcome;
}

}  // namespace

WorkerRunner::WorkerRunner(WorkerSetup setup, double timeout_s) : setup_(std::move(setup)), timeout_s_(timeout_s) {}

CaseOutcome WorkerRunner::check(const Case& spec) { return outcome_of(check_request(spec), "its output check"); }

CaseOutcome WorkerRunner::round(const Case& spec, std::int64_t number) {
  return outcome_of(round_request(spec, number), fmt::format("round {}", number + 1));
}

Ceilings WorkerRunner::ceilings(double budget_s) {
  constexpr double kSlack_s = 60;
  std::string line;
  const bool sent = worker().send_line(ceilings_request(budget_s).dump());
  if (!sent || worker_->receive_line(line, budget_s + kSlack_s) != ChildProcess::Reading::line) {
    throw std::runtime_error(end_of_worker("the measurement of the ceilings").reason);
  }
  return ceilings_from_json(nlohmann::json::parse(line));
}

CaseOutcome WorkerRunner::outcome_of(const nlohmann::ordered_json& request, const std::string& what) {
  if (!worker().send_line(request.dump())) return end_of_worker(what);
  std::string line;
  switch (worker_->receive_line(line, timeout_s_)) {
    case ChildProcess::Reading::line:
      return outcome_from_json(nlohmann::json::parse(line));
    case ChildProcess::Reading::closed:
      return end_of_worker(what);
    case ChildProcess::Reading::timeout:
      break;
  }
  worker_.reset();
  return ended(
      Status::timeout,
      fmt::format("{} took longer than {:g} s (rounds.timeout_s of the sweep file) and was ended", what, timeout_s_));
}

ChildProcess& WorkerRunner::worker() {
  if (worker_) return *worker_;
  oom_kills_ = system_oom_kills();
  allow_all_processors();
  worker_ = std::make_unique<ChildProcess>(
      std::vector<std::string>{"worker", "--threads", std::to_string(setup_.runner.threads)});
  worker_->send_line(worker_setup_json(setup_).dump());
  return *worker_;
}

CaseOutcome WorkerRunner::end_of_worker(const std::string& what) {
  const int status = worker_->end();
  worker_.reset();
  const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  if (killed && system_oom_kills() > oom_kills_) {
    return ended(Status::oom, fmt::format("the system ran out of memory and killed the worker during {}", what));
  }
  return ended(Status::crash, fmt::format("the worker ended with {} during {}", describe_end(status), what));
}

}  // namespace kvlab
