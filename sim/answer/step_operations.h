// step_operations.h — the operations of the last step of a replay: kernels, collectives and
// exchanges of each queue in order of issue, with their times.
//
// `run --kernels` makes tables of them, and `calibrate TRACE --plan` matches them with the kernels
// of a trace. A StepRecorder observes the replay; `operations` then joins its times with the
// instructions of the program, which have the shapes and sizes.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "sim/engine/observer.h"
#include "sim/program/ir/program.h"

namespace sim::answer {

struct StepOperation {
  program::Stream queue{};
  program::Op op = program::Op::kernel;  // kernel, collective or exchange
  std::uint32_t index = 0;  // index of the operation, transfer or exchange in the program
  bool overlapped = false;  // its time assumes concurrent work
  std::string label;        // "qkv"
  program::PassKind pass{};
  int microbatch = -1, layer = -1;
  Time start{}, met{}, end{};  // `met`: arrival of the last partner

  // Duration without waiting for partners.
  Duration own() const { return end - met; }
};

// Keeps the last step of some rank classes.
class StepRecorder final : public engine::Observer {
 public:
  explicit StepRecorder(const std::vector<int>& rank_classes);

  void operation(int rank_class, program::Stream stream, std::string_view name,
                 const engine::ProgramLocation& place, Time start, Time waited_until,
                 Time end) override;
  void memory(const engine::MemoryChange&) override {}

  // REQUIRES: the replay of a whole step was observed; `program` is that of the recorded class.
  std::vector<StepOperation> operations(int rank_class, const program::Program& program) const;

 private:
  struct Seen {
    Time start, met, end;
    program::PassKind pass;
    int microbatch, layer;
  };
  struct Recorded {
    int step = 0;
    std::array<std::vector<Seen>, program::stream_count> queues;
  };
  std::map<int, Recorded> classes_;
};

}  // namespace sim::answer
