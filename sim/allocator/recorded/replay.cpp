#include "sim/allocator/recorded/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace sim::allocator {
namespace {

using CommandKind = TraceCommand::Kind;

constexpr std::string_view column_names =
    "#E n command result addr | allocated_bytes reserved_bytes active_bytes requested_bytes "
    "inactive_split_bytes | allocation segment active inactive_split | num_alloc_retries num_ooms "
    "num_device_alloc num_device_free num_sync_all_streams";

class Replayer {
 public:
  Replayer(const Trace& trace, Rules rules, const LineSink& sink)
      : trace_(trace),
        sink_(sink),
        driver_({trace.capacity}),
        allocator_(driver_, trace.options, rules),
        tensors_(static_cast<std::size_t>(trace.names), Tensor{}) {
    if (sink_) allocator_.set_trace(&actions_);
  }

  ReplaySummary run() {
    emit("{}", trace_.header);
    emit("{}", column_names);
    for (const TraceCommand& command : trace_.commands) {
      const Outcome outcome = execute(command);
      ++summary_.commands;
      if (!sink_) continue;
      print_actions();
      if (command.kind == CommandKind::dump) print_segments();
      print_result(command, outcome);
    }
    if (sink_) {
      print_peaks();
      print_segments();
    }
    summary_.statistics = allocator_.statistics();
    return summary_;
  }

 private:
  struct Tensor {
    BlockId block = no_block;
    bool null = false;  // zero bytes: a null pointer without a block
  };

  struct Outcome {
    const char* result = "ok";
    std::int64_t address = -1;
  };

  template <class... Args>
  void emit(fmt::format_string<Args...> format, Args&&... args) {
    if (!sink_) return;
    line_.clear();
    fmt::format_to(std::back_inserter(line_), format, std::forward<Args>(args)...);
    sink_(std::string_view(line_.data(), line_.size()));
  }

  Outcome execute(const TraceCommand& command) {
    switch (command.kind) {
      case CommandKind::allocate:
        return allocate(command);
      case CommandKind::free:
        return free(tensors_[static_cast<std::size_t>(command.name)]);
      case CommandKind::record_stream: {
        const Tensor& tensor = tensors_[static_cast<std::size_t>(command.name)];
        if (tensor.null) return {};
        if (tensor.block == no_block) return {"noop", -1};
        allocator_.record_stream(tensor.block, command.number);
        return {};
      }
      case CommandKind::complete_stream:
        return driver_.complete(command.number), Outcome{};
      case CommandKind::complete_all:
        return driver_.complete_all(), Outcome{};
      case CommandKind::empty_cache:
        return allocator_.empty_cache(), Outcome{};
      case CommandKind::memory_fraction:
        return allocator_.set_memory_fraction(command.fraction), Outcome{};
      case CommandKind::outside_use:
        return driver_.set_outside_use({command.bytes}), Outcome{};
      case CommandKind::change_options:
        allocator_.set_options(trace_.changes[static_cast<std::size_t>(command.options)]);
        return {};
      case CommandKind::begin_pool:
        return allocator_.begin_pool(command.number), Outcome{};
      case CommandKind::end_pool:
        return allocator_.end_pool(command.number), Outcome{};
      case CommandKind::release_pool:
        return allocator_.release_pool(command.number), Outcome{};
      case CommandKind::reset_peaks:
        return allocator_.reset_peaks(), Outcome{};
      case CommandKind::dump:
        return {};
    }
    return {};
  }

  Outcome allocate(const TraceCommand& command) {
    Tensor& tensor = tensors_[static_cast<std::size_t>(command.name)];
    tensor = {no_block, command.bytes == 0};
    if (tensor.null) return {};
    ++summary_.allocations;
    tensor.block = allocator_.allocate(command.bytes, command.number);
    if (tensor.block == no_block) {
      ++summary_.out_of_memory;
      return {"oom", -1};
    }
    summary_.at_peak.look(allocator_);
    return {"ok", allocator_.address(tensor.block)};
  }

  Outcome free(Tensor& tensor) {
    if (tensor.null) return {};
    if (tensor.block == no_block) return {"noop", -1};
    const std::int64_t address = allocator_.address(tensor.block);
    allocator_.free(tensor.block);
    tensor = {};
    return {"ok", address};
  }

  // Frees of several streams that complete at once have no order in PyTorch: print them sorted.
  void print_actions() {
    for (auto it = actions_.begin(); it != actions_.end();) {
      const auto end = std::find_if(it, actions_.end(), [](const TraceEntry& entry) {
        return entry.action != Action::free_completed;
      });
      std::sort(it, end, [](const TraceEntry& a, const TraceEntry& b) {
        return std::pair(a.stream, a.address) < std::pair(b.stream, b.address);
      });
      it = end == actions_.end() ? end : std::next(end);
    }
    for (const TraceEntry& entry : actions_) {
      if (entry.action == Action::oom) {
        emit("T oom device_free={} size={} stream={}", entry.address, entry.size, entry.stream);
      } else {
        emit("T {} {} {} {}", name(entry.action), entry.address, entry.size, entry.stream);
      }
    }
    actions_.clear();
  }

  void print_result(const TraceCommand& command, const Outcome& outcome) {
    const Statistics& s = allocator_.statistics();
    const PoolStatistics& all = s.all;
    emit("E {} [{}] {} {} | {} {} {} {} {} | {} {} {} {} | {} {} {} {} {}", summary_.commands,
         command.text, outcome.result, outcome.address, all.allocated_bytes.current,
         all.reserved_bytes.current, all.active_bytes.current, all.requested_bytes.current,
         all.inactive_split_bytes.current, all.allocation.current, all.segment.current,
         all.active.current, all.inactive_split.current, s.num_alloc_retries, s.num_ooms,
         s.num_device_alloc, s.num_device_free, s.num_sync_all_streams);
  }

  void print_segments() {
    for (const SegmentView& segment : allocator_.segments()) {
      std::string blocks;
      for (const BlockView& block : segment.blocks) {
        constexpr std::array<char, 3> letters = {'A', 'P', 'F'};
        if (!blocks.empty()) blocks += ',';
        fmt::format_to(std::back_inserter(blocks), "{}{}",
                       letters[static_cast<std::size_t>(block.state)], block.size);
      }
      emit("S addr={} total={} alloc={} active={} req={} stream={} {}{} pool={},0 blocks={}",
           segment.address, segment.total, segment.allocated, segment.active, segment.requested,
           segment.stream, segment.small ? "small" : "large",
           segment.expandable ? ",expandable" : "", segment.pool, blocks);
    }
  }

  void print_peaks() {
    const Statistics& s = allocator_.statistics();
    const auto pool = [&](const char* which, const PoolStatistics& p) {
      emit(
          "P {} peak: allocated {} reserved {} active {} requested {} inactive_split_bytes {} "
          "allocation {} segment {}",
          which, p.allocated_bytes.peak, p.reserved_bytes.peak, p.active_bytes.peak,
          p.requested_bytes.peak, p.inactive_split_bytes.peak, p.allocation.peak, p.segment.peak);
    };
    pool("all", s.all);
    pool("small_pool", s.small_pool);
    pool("large_pool", s.large_pool);
    emit(
        "P oversize_allocations current {} peak {}; oversize_segments current {} peak {}; "
        "physical_used {}",
        s.oversize_allocations.current, s.oversize_allocations.peak, s.oversize_segments.current,
        s.oversize_segments.peak, driver_.used().n);
  }

  const Trace& trace_;
  const LineSink& sink_;
  BumpDriver driver_;
  Allocator allocator_;
  std::vector<Tensor> tensors_;
  std::vector<TraceEntry> actions_;
  ReplaySummary summary_;
  fmt::memory_buffer line_;
};

}  // namespace

ReplaySummary replay_trace(const Trace& trace, Rules rules, const LineSink& sink) {
  return Replayer(trace, rules, sink).run();
}

}  // namespace sim::allocator
