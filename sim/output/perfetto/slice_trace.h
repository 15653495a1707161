// slice_trace.h — named slices on named tracks as a Perfetto trace: for what is no replay of a
// step. ui.perfetto.dev opens it. Times are nanoseconds; slices of one track come in order and do
// not overlap.
//
// Format: perfetto.proto beside this file.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "sim/output/output.h"

namespace sim::output {

class SliceTrace {
 public:
  std::string open(const std::string& path, const std::string& process);  // "" or what went wrong
  std::string close();

  int track(const std::string& name);
  void slice(int track, const std::string& name, std::int64_t from_ns, std::int64_t to_ns);

 private:
  Stream file_;
  int tracks_ = 0;
  std::map<std::string, std::uint64_t, std::less<>> names_;
};

}  // namespace sim::output
