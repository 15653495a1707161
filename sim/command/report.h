// report.h — pages (report/page.h) that commands write beside what they print.
#pragma once

#include <string>
#include <vector>

#include "sim/command/command.h"
#include "sim/config/plan.h"
#include "sim/report/answer.h"
#include "sim/report/memory_timeline.h"
#include "sim/report/pass_timeline.h"
#include "sim/search/evaluate.h"

namespace sim::report {
struct Document;
}

namespace sim::command {

// --report; declares it.
void declare_report(Options& options);

// Stops when the page would be one of the files that a sweep keeps in the folder.
void keep_results(const std::string& folder, const std::string& page, const char* option);

// Stops when the file does not reach the disk.
void write_page(const std::string& path, const report::Document& document);

// Watches a run and draws it.
class RunPage {
 public:
  explicit RunPage(std::string path) : path_(std::move(path)) {}

  std::vector<replay::Observer*> observers() { return {&passes_, &memory_}; }
  void finish(const config::PlanFile& file, search::Site& site, const report::Answer& answer,
              const std::string& intervals) const;

 private:
  std::string path_;
  report::PassTimeline passes_;
  report::MemoryTimeline memory_;
};

}  // namespace sim::command
