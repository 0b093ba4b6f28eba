// The inside of a worker process: answers the requests of a WorkerRunner, line by line.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/case_runner.h"

namespace kvlab {

/// The first line to a worker. It is not answered.
struct WorkerSetup {
  RunnerSetup runner;
  std::vector<std::string> faults;  // of FaultPlan
  bool quiet = false;
};
nlohmann::ordered_json worker_setup_json(const WorkerSetup& setup);

/// The other lines, and what answers them.
nlohmann::ordered_json check_request(const Case& spec);                       // outcome_json
nlohmann::ordered_json round_request(const Case& spec, std::int64_t number);  // outcome_json
nlohmann::ordered_json ceilings_request(double budget_s);                     // ceilings_json

/// Answers on kChildSocket until the other side is gone. Returns the exit code.
int serve_requests();

}  // namespace kvlab
