// allocator.cpp — how many operations a second the caching allocator serves on one core.
//
// One operation is one allocate or one free. `steady_mixed` is a transformer's step: activations
// that live from forward to backward, temporaries that die inside their layer, small statistics
// beside large matrices. `hits` allocates and frees one size. `fragmented` keeps thousands of
// blocks of random sizes with random lifetimes. `replay_case` parses nothing: it runs a recorded
// trace without output.
#include "sim/allocator/allocator.h"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "sim/allocator/recorded/replay.h"

namespace {

using namespace sim;
using namespace sim::allocator;

constexpr std::int64_t mib = 1 << 20;

// Programs are prepared lists of steps: slot >= 0 allocates `size` into it, else frees ~slot.
struct Step {
  std::int64_t size;
  std::int32_t slot;
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return state_ >> 33;
  }
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(n));
  }

 private:
  std::uint64_t state_;
};

struct Program {
  std::vector<Step> steps;
  std::int32_t slots = 0;

  std::int32_t allocate(std::int64_t size) {
    const std::int32_t slot = spare.empty() ? slots++ : spare.back();
    if (!spare.empty()) spare.pop_back();
    steps.push_back({size, slot});
    return slot;
  }
  void free(std::int32_t slot) {
    steps.push_back({0, ~slot});
    spare.push_back(slot);
  }
  std::vector<std::int32_t> spare;
};

// One step of `layers` layers, `microbatches` of them in flight: per layer ten kept activations
// and eight temporaries; the head's logits reach half a gigabyte.
Program transformer_step(int layers, int microbatches) {
  Program program;
  const std::int64_t kept[] = {32 * mib, 48 * mib,  512 * 1024, 32 * mib,  32 * mib,
                               512,      112 * mib, 112 * mib,  112 * mib, 65536};
  const std::int64_t brief[] = {32 * mib, 4096, 96 * mib, 1024, 16 * mib, 224 * mib, 512, 2 * mib};
  for (int m = 0; m < microbatches; ++m) {
    std::vector<std::int32_t> saved;
    for (int layer = 0; layer < layers; ++layer) {
      std::int32_t last = -1;
      for (int i = 0; i < 10; ++i) {
        saved.push_back(program.allocate(kept[i]));
        const std::int32_t now = program.allocate(brief[i % 8]);
        if (last >= 0) program.free(last);
        last = now;
      }
      program.free(last);
    }
    const std::int32_t logits = program.allocate(500 * mib);
    const std::int32_t gradient = program.allocate(500 * mib);
    program.free(logits);
    program.free(gradient);
    for (int layer = layers - 1; layer >= 0; --layer) {
      for (int i = 9; i >= 0; --i) {
        const std::int32_t a = program.allocate(kept[i]);
        const std::int32_t b = program.allocate(brief[i % 8]);
        program.free(saved.back());
        saved.pop_back();
        program.free(b);
        program.free(a);
      }
    }
  }
  return program;
}

Program fragmented_program(int live, int operations) {
  Program program;
  Random random(7);
  std::vector<std::int32_t> held;
  for (int i = 0; i < operations; ++i) {
    if (static_cast<int>(held.size()) < live || random.below(2) == 0) {
      const int shift = static_cast<int>(random.below(16));
      held.push_back(program.allocate(512 + random.below(std::int64_t{1024} << shift)));
    } else {
      const auto at =
          static_cast<std::size_t>(random.below(static_cast<std::int64_t>(held.size())));
      program.free(held[at]);
      held[at] = held.back();
      held.pop_back();
    }
  }
  while (!held.empty()) {
    program.free(held.back());
    held.pop_back();
  }
  return program;
}

void play(Allocator& allocator, const Program& program, std::vector<BlockId>& slots) {
  for (const Step& step : program.steps) {
    if (step.slot >= 0) {
      slots[static_cast<std::size_t>(step.slot)] = allocator.allocate(step.size);
    } else {
      allocator.free(slots[static_cast<std::size_t>(~step.slot)]);
    }
  }
}

void run(benchmark::State& state, const Program& program, const Options& options) {
  BumpDriver driver({std::int64_t{1} << 40});
  Allocator allocator(driver, options);
  std::vector<BlockId> slots(static_cast<std::size_t>(program.slots), no_block);
  play(allocator, program, slots);  // the first step asks the driver, the others do not
  for (auto _ : state) play(allocator, program, slots);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(program.steps.size()));
  benchmark::DoNotOptimize(allocator.statistics().all.allocation.current);
}

void steady_mixed(benchmark::State& state) {
  run(state, transformer_step(32, 4), {});
}
BENCHMARK(steady_mixed);

void steady_mixed_expandable(benchmark::State& state) {
  Options options;
  options.expandable_segments = true;
  run(state, transformer_step(32, 4), options);
}
BENCHMARK(steady_mixed_expandable);

void hits(benchmark::State& state) {
  Program program;
  for (int i = 0; i < 1000; ++i) program.free(program.allocate(32 * mib));
  run(state, program, {});
}
BENCHMARK(hits);

void fragmented(benchmark::State& state) {
  run(state, fragmented_program(static_cast<int>(state.range(0)), 100'000), {});
}
BENCHMARK(fragmented)->Arg(300)->Arg(10'000);

void save_state(benchmark::State& state) {
  BumpDriver driver({std::int64_t{1} << 40});
  Allocator allocator(driver);
  Program program = transformer_step(32, 1);
  program.steps.resize(program.steps.size() / 2);  // the middle of the step: all are alive
  std::vector<BlockId> slots(static_cast<std::size_t>(program.slots), no_block);
  play(allocator, program, slots);
  std::vector<std::int64_t> words;
  for (auto _ : state) {
    words.clear();
    allocator.save_state(words);
    benchmark::DoNotOptimize(words.data());
  }
  state.SetItemsProcessed(state.iterations() * allocator.statistics().all.active.current);
}
BENCHMARK(save_state);

void replay_case(benchmark::State& state) {
  std::ifstream file(std::string(REHEARSE_SOURCE_DIR) +
                     "/tests/allocator/cases/llm_dense_fwd_bwd.trace");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto trace = parse_trace(text, "llm_dense_fwd_bwd", Rules::newer);
  if (!trace) return state.SkipWithError("the trace does not parse");
  for (auto _ : state) benchmark::DoNotOptimize(replay_trace(*trace, Rules::newer, {}));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(trace->commands.size()));
}
BENCHMARK(replay_case);

}  // namespace

BENCHMARK_MAIN();
