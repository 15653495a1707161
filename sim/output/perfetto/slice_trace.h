// slice_trace.h — writes named slices on named tracks as a Perfetto trace, for data other than a
// replay. ui.perfetto.dev opens it. Times are nanoseconds. REQUIRES: slices of one track come in
// order and do not overlap.
//
// Format: perfetto.proto in this folder.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "sim/output/output.h"

namespace sim::output {

class SliceTrace {
 public:
  std::string open(const std::string& path, const std::string& process);  // returns "" or the error
  std::string close();

  int track(const std::string& name);
  void slice(int track, const std::string& name, std::int64_t from_ns, std::int64_t to_ns);

 private:
  Stream file_;
  int tracks_ = 0;
  std::map<std::string, std::uint64_t, std::less<>> names_;
};

}  // namespace sim::output
