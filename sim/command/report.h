// report.h — HTML pages (output/page.h) that commands write in addition to their text.
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

// Declares --report.
void declare_report(Options& options);

// Stops if the page would replace a file that a sweep writes to the folder.
void keep_results(const std::string& folder, const std::string& page, const char* option);

// Writes a page; stops if it cannot be written.
void write_page(const std::string& path, const output::Document& document);

// Observes a run and writes its page.
class RunPage {
 public:
  explicit RunPage(std::string path) : path_(std::move(path)) {}

  std::vector<engine::Observer*> observers() { return {&passes_, &memory_}; }
  output::Document document(const input::PlanFile& file, const answer::CheckedPlan& plan,
                            const answer::Answer& answer, const std::string& intervals) const;
  void finish(const input::PlanFile& file, const answer::CheckedPlan& plan,
              const answer::Answer& answer, const std::string& intervals) const;

 private:
  std::string path_;
  output::PassTimeline passes_;
  output::MemoryTimeline memory_;
};

}  // namespace sim::command
