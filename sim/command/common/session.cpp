#include "sim/command/common/session.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <new>
#include <system_error>

#include "sim/answer/evaluate.h"
#include "sim/base/cores.h"
#include "sim/base/interruption.h"
#include "sim/base/machine_error.h"
#include "sim/cluster/network/network.h"
#include "sim/command/common/detail.h"
#include "sim/command/common/grid_points.h"
#include "sim/input/profile/residuals.h"
#include "sim/study/sweep/pool.h"
#include "sim/study/sweep/sweep.h"

namespace sim::command {

namespace {

int code_of(const std::function<int()>& function) {
  try {
    return function();
  } catch (const Stop& stop) {
    return report_stop(stop, true);
  } catch (const Interrupted&) {
    return exit_interrupted;
  } catch (const std::exception& error) {
    return report_stop(stop_of(error), true);
  }
}

// A path that leads to no file is a missing input; other failures are those of the disk.
Stop of_file(const std::filesystem::filesystem_error& error) {
  constexpr std::array no_such_file{std::errc::no_such_file_or_directory,
                                    std::errc::not_a_directory,
                                    std::errc::too_many_symbolic_link_levels,
                                    std::errc::filename_too_long, std::errc::permission_denied};
  const bool missing = std::ranges::any_of(
      no_such_file, [&](std::errc one) { return error.code() == std::make_error_condition(one); });
  return {missing ? exit_missing : exit_io, error.path1().string() + ": " + error.code().message()};
}

// Other errors of the machine are about memory, processes or descriptors.
bool of_disk(const std::error_code& code) {
  constexpr std::array disk{std::errc::io_error, std::errc::no_space_on_device,
                            std::errc::read_only_file_system, std::errc::timed_out};
  return std::ranges::any_of(disk, [&](std::errc one) { return code == one; });
}

}  // namespace

Stop stop_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return {exit_system,
            "out of memory, of the host or of its limit (`ulimit -v`); a smaller plan or grid, "
            "fewer --jobs, or --memory none where a command has it need less"};
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return of_file(*file);
  if (dynamic_cast<const study::NoWorker*>(&error) != nullptr ||
      dynamic_cast<const network::SolverFailed*>(&error) != nullptr)
    return {exit_system, error.what()};
  if (const auto* system = dynamic_cast<const std::system_error*>(&error);
      system != nullptr && is_machine_error(system->code().value()))
    return {of_disk(system->code()) ? exit_io : exit_system, error.what()};
  return {exit_bug, std::string("a bug of ours: ") + error.what()};
}

void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int mebibyte = 1 << 20;
  ::mallopt(M_TRIM_THRESHOLD, 256 * mebibyte);
  ::mallopt(M_MMAP_THRESHOLD, 32 * mebibyte);  // the largest value that glibc accepts
#endif
}

Reply listen(const std::function<int()>& function) {
  Reply reply;
  capture(&reply.said);
  reply.code = code_of(function);
  capture(nullptr);
  return reply;
}

Reply ask(const std::string& name, const Arguments& arguments) {
  return listen([&] {
    constexpr Globals globals{.json = true, .quiet = true};
    for (const Command& command : commands())
      if (name == command.name) return start(command, arguments, globals);
    throw Stop{exit_usage, "there is no command '" + name + "'"};
  });
}

answer::Sites& kept_sites() {
  // Never destroyed, since the end of the process frees it faster.
  static answer::Sites& sites = *new answer::Sites;
  return sites;
}

const input::RunResiduals& kept_residuals() {
  static const input::RunResiduals residuals = need(input::find_residuals());
  return residuals;
}

struct SweepWalk::State {
  input::Grid grid;
  study::Points points;
  study::SweepCalls calls;
  std::size_t jobs = 1;
  std::size_t at = 0;              // index of the next point
  std::vector<std::string> lines;  // records of the points from `first` on
  std::size_t first = 0;
  std::size_t batch = 0;  // points evaluated together
};

SweepWalk::SweepWalk(const std::string& grid, const std::vector<std::string>& settings,
                     const std::string& memory, bool peaks, std::optional<std::int64_t> jobs)
    : state_(std::make_unique<State>()) {
  if (jobs && (*jobs < 1 || *jobs > most_jobs))
    throw Stop{exit_usage,
               fmt::format("jobs takes a whole number from 1 to {}, not '{}'", most_jobs, *jobs)};
  state_->grid = need(input::load_grid(workload_path(grid), settings));
  for (const auto& machine : state_->grid.machines()) need(kept_sites().of(*machine));
  const SweepMemory how{detail_named(memory), peaks};
  state_->points = grid_points(state_->grid, kept_sites(), how);
  state_->calls.evaluate = evaluation(how);
  state_->jobs = static_cast<std::size_t>(jobs.value_or(cores()));
}

SweepWalk::~SweepWalk() = default;

std::size_t SweepWalk::size() const {
  return state_->points.count;
}

std::optional<std::string> SweepWalk::next(const std::function<bool()>& go_on) {
  State& now = *state_;
  if (now.at == now.points.count || !go_on()) return std::nullopt;
  if (now.at == now.first + now.lines.size()) {
    // Small first batches give early results; later ones grow to amortise new processes.
    constexpr std::size_t least = 16, most = 1024;
    now.batch = now.jobs == 1 ? 1 : std::clamp(2 * now.batch, least * now.jobs, most * now.jobs);
    now.first = now.at;
    const std::size_t count = std::min(now.batch, now.points.count - now.at);
    now.calls.go_on = [&](const study::SweepCounts&) { return go_on(); };
    now.lines =
        study::records_of(now.points, now.first, count, static_cast<int>(now.jobs), now.calls);
    if (now.lines.empty()) return std::nullopt;
  }
  return now.lines[now.at++ - now.first];
}

}  // namespace sim::command
