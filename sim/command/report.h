// report.h — pages (output/page.h) that commands write beside what they print.
#pragma once

#include <string>
#include <vector>

#include "sim/answer/answer.h"
#include "sim/answer/evaluate.h"
#include "sim/command/common/command.h"
#include "sim/input/plan/plan.h"
#include "sim/output/memory/memory_timeline.h"
#include "sim/output/perfetto/pass_timeline.h"

namespace sim::output {
struct Document;
}

namespace sim::command {

// --report; declares it.
void declare_report(Options& options);

// Stops when the page would be one of the files that a sweep keeps in the folder.
void keep_results(const std::string& folder, const std::string& page, const char* option);

// Stops when the file does not reach the disk.
void write_page(const std::string& path, const output::Document& document);

// Watches a run and draws it.
class RunPage {
 public:
  explicit RunPage(std::string path) : path_(std::move(path)) {}

  std::vector<engine::Observer*> observers() { return {&passes_, &memory_}; }
  void finish(const input::PlanFile& file, const answer::CheckedPlan& plan,
              const answer::Answer& answer,
              const std::string& intervals) const;

 private:
  std::string path_;
  output::PassTimeline passes_;
  output::MemoryTimeline memory_;
};

}  // namespace sim::command
