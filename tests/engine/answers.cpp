// answers.cpp — the results of the replay for many plans, with ample memory and with too little:
// times, accounts, peaks, retries, out-of-memory events. Laws find impossible results, and
// comparing two engines finds differences between them. This test finds every other change of a
// number.
//
// Each plan has a line in a file; REHEARSE_UPDATE=1 writes the file again.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <string>

#include "tests/engine/sample.h"
#include "tests/picture.h"
#include "tests/program/draw.h"
#include "tests/program/mixtures.h"

using namespace sim;

namespace {

std::string told(const engine::ClassReport& who) {
  std::int64_t accounts = 0, weight = 0;
  for (const Duration d : who.accounts) accounts += ++weight * (d.ps % 1'000'003);
  std::int64_t split = 0;
  weight = 0;
  for (const std::int64_t bytes : who.peak_split) split += ++weight * (bytes % 1'000'003);
  std::string text =
      fmt::format("{}.{} x{} {} {} {} {} {} {} {} {} {}", who.stage, who.cp_rank, who.ranks,
                  who.parameters, who.static_bytes.n, who.peak_allocated.n, who.peak_reserved.n,
                  who.reserved_at_peak.n, who.largest_free_at_peak.n, who.busy.ps, accounts, split);
  text += fmt::format(" {} {} {}", who.needed.n, who.reserved_most.n, who.alloc_retries);
  if (who.out_of_memory) {
    const engine::OutOfMemory& o = *who.out_of_memory;
    text += fmt::format(" out {} {} {} {} {} {} {}", o.when.ps, o.requested.n, o.allocated.n,
                        o.reserved.n, o.cached.n, o.pending.n, o.device_free.n);
  }
  return text;
}

// FNV-1a. A line contains the step, the fullest class, and a hash of everything else.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

struct Told {
  std::string text;
  Bytes most{};
};

Told told(const program::Plan& plan, double launch_us, Bytes memory, engine::MemoryDetail detail) {
  const program::Job job = sample::job(plan);
  engine::Options options;
  options.memory = detail;
  const engine::RunReport run =
      engine::run(job, sample::times(job, launch_us), sample::memory(job, memory), options);
  std::string all = fmt::format("{} {} {:.9f} {:.6e}\n", run.events, run.warm_up_time.ps,
                                run.bubble, run.executed_flops);
  Told out;
  for (const engine::ClassReport& who : run.classes) {
    all += told(who) + "\n";
    out.most = std::max(out.most, who.peak_reserved);
  }
  for (const std::size_t c : run.out_of_memory) all += fmt::format("{} ", c);
  out.text = fmt::format("{} ps {} B {:016x}", run.step_time.ps, out.most.n, hash_of(all));
  return out;
}

std::string line(const std::string& name, const program::Plan& plan, double launch_us) {
  const Told plenty =
      told(plan, launch_us, Bytes{std::int64_t{64} << 30}, engine::MemoryDetail::exact);
  const Bytes tight{plenty.most.n * 19 / 20};
  return fmt::format("{} {}: {}; tight {}; bounded {}\n", name, short_name(plan), plenty.text,
                     told(plan, launch_us, tight, engine::MemoryDetail::exact).text,
                     told(plan, launch_us, tight, engine::MemoryDetail::bounded).text);
}

}  // namespace

TEST_CASE("engine: plans drawn at random are answered as they were") {
  std::string all = "# step, reserved and a hash of all else: of 64 GiB, of 95 % of the peak\n";
  for (std::uint64_t number = 500; number < 600; ++number)
    all +=
        line(fmt::format("draw {}", number), sample::draw_legal(number), number % 7 == 0 ? 300 : 4);
  picture::same("engine/pictures/drawn.txt", all);
}

TEST_CASE("engine: mixtures are answered as they were") {
  std::string all = "# step, reserved and a hash of all else: of 64 GiB, of 95 % of the peak\n";
  for (const auto& [name, plan] : sample::mixtures()) all += line(name, plan, 4);
  picture::same("engine/pictures/mixtures.txt", all);
}
