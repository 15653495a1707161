#include "sim/calibrate/trace/calls.h"

#include <map>

#include "sim/base/ascii.h"

namespace sim::calibrate {

namespace {

using enum KernelFamily;

bool has(const MeasuredKernel& kernel, std::string_view word) {
  return contains(kernel.name, word);
}

// Longer memsets clear gradients instead of counters.
constexpr std::int64_t longest_clear_ns = 5'000;

bool clears_counters(const MeasuredKernel& kernel) {
  return kernel.duration_ns < longest_clear_ns && has(kernel, "memset");
}
bool sends_to_device(const MeasuredKernel& kernel) {
  return has(kernel, "HtoD") || has(kernel, "Host-to-Device");
}

bool wants_counters(const MeasuredKernel& kernel) {
  return kernel.family == gemm || kernel.family == gemm_part ||
         kernel.family == attention_forward || kernel.family == attention_backward ||
         has(kernel, "reduce_kernel") || has(kernel, "cub::");
}
bool wants_pointers(const MeasuredKernel& kernel) {
  return has(kernel, "chunk_cat") || has(kernel, "split_with_sizes_copy");
}

bool in_front_of(const MeasuredKernel& first, const MeasuredKernel& kernel) {
  return (clears_counters(first) && wants_counters(kernel)) ||
         (sends_to_device(first) && wants_pointers(kernel));
}

bool over_tensors(const MeasuredKernel& kernel) {
  return has(kernel, "multi_tensor");
}
bool of_a_sort(const MeasuredKernel& kernel) {
  return kernel.family == routing && has(kernel, "cub::");
}

// Whether a kernel continues the call of the last kernel on its stream.
bool goes_on(const MeasuredKernel& last, const MeasuredKernel& kernel) {
  if (kernel.family == optimizer && last.family == optimizer)
    return kernel.name == last.name || (over_tensors(kernel) && over_tensors(last));
  if (kernel.name == last.name) return over_tensors(kernel);
  if (kernel.family == reduction && last.family == reduction && over_tensors(last))
    return has(kernel, "cleanup");
  const bool before = of_a_sort(last) || last.family == embedding;
  return before && (of_a_sort(kernel) || (kernel.family == embedding && has(kernel, "segment")));
}

// State of the grouping on one stream.
struct Stream {
  std::vector<std::size_t> waiting;  // small kernels that may belong to the next one
  const MeasuredKernel* last = nullptr;
  std::uint32_t call = 0;  // of the last kernel
  int copies = 0;          // number of copies of the current stand-in
};

class Gatherer {
 public:
  Gatherer(const MeasuredTrace& trace, const MeasuredStep& step) : trace_(trace), step_(step) {
    out_.of_kernel.resize(step.kernels.size());
  }

  Calls gather() {
    for (std::size_t k = 0; k < step_.kernels.size(); ++k) add(k, streams_[kernel(k).stream]);
    for (auto& [number, stream] : streams_) leave(stream);
    return std::move(out_);
  }

 private:
  const MeasuredKernel& kernel(std::size_t k) const { return trace_.kernels[step_.kernels[k]]; }

  void add(std::size_t k, Stream& stream) {
    const MeasuredKernel& now = kernel(k);
    if (clears_counters(now) || (sends_to_device(now) && !now.stand_in())) {
      stream.waiting.push_back(k);
      return;
    }
    std::vector<std::size_t> front;
    while (!stream.waiting.empty() && in_front_of(kernel(stream.waiting.back()), now)) {
      front.push_back(stream.waiting.back());
      stream.waiting.pop_back();
    }
    const bool alone = stream.waiting.empty();
    leave(stream);
    const bool more = now.stand_in()
                          ? stream.copies > 0 && stream.copies < now.copies
                          : stream.last != nullptr && alone && goes_on(*stream.last, now);
    if (!more) stream.call = open(now);
    stream.copies = now.stand_in() && more ? stream.copies + 1 : 1;
    stream.last = &now;
    for (const std::size_t f : front) join(f, stream.call);
    join(k, stream.call);
  }

  // Waiting kernels that the next kernel does not need become calls of their own.
  void leave(Stream& stream) {
    for (const std::size_t k : stream.waiting) {
      join(k, open(kernel(k)));
      stream.last = nullptr;
    }
    stream.waiting.clear();
  }

  std::uint32_t open(const MeasuredKernel& main) {
    out_.all.push_back({{main.family, 0, purposes_of_kernel(main.name)}, main.stream});
    return static_cast<std::uint32_t>(out_.all.size() - 1);
  }
  void join(std::size_t k, std::uint32_t call) {
    out_.of_kernel[k] = call;
    out_.all[call].item.nanoseconds += kernel(k).duration_ns;
  }

  const MeasuredTrace& trace_;
  const MeasuredStep& step_;
  Calls out_;
  std::map<int, Stream> streams_;
};

}  // namespace

Calls calls_of(const MeasuredTrace& trace, const MeasuredStep& step) {
  return Gatherer(trace, step).gather();
}

}  // namespace sim::calibrate
