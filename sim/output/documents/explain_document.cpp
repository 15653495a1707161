#include "sim/output/documents/explain_document.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/text.h"
#include "sim/output/documents/class_rows.h"
#include "sim/output/documents/run_text.h"

namespace sim::output {

namespace {

using engine::ClassReport;

constexpr std::size_t tensors_shown = 12;

// For each stage the class with the least free memory, or the one that ran out first.
std::vector<std::size_t> of_each_stage(const engine::RunReport& run) {
  const auto worse = [&](std::size_t a, std::size_t b) {
    const ClassReport &x = run.classes[a], &y = run.classes[b];
    if (x.out_of_memory.has_value() != y.out_of_memory.has_value())
      return x.out_of_memory.has_value();
    if (x.out_of_memory) return x.out_of_memory->when < y.out_of_memory->when;
    return x.capacity - x.peak_reserved < y.capacity - y.peak_reserved;
  };
  std::vector<std::size_t> best;
  for (std::size_t c = 0; c < run.classes.size(); ++c) {
    const auto stage = static_cast<std::size_t>(run.classes[c].stage);
    if (best.size() <= stage) best.resize(stage + 1, c);
    if (worse(c, best[stage])) best[stage] = c;
  }
  return best;
}

// The rank classes, with the tensors that each one holds.
Rows classes(const answer::Answer& answer, const PeakTensors& tensors) {
  const engine::RunReport& run = answer.run;
  Rows rows = class_rows(answer);
  rows.columns.push_back({"tensors_held"});
  rows.columns.push_back({"", "where", "", 0, true});
  for (std::size_t c = 0; c < run.classes.size(); ++c) {
    const ClassReport& who = run.classes[c];
    Json all = Json::array();
    for (const HeldTensors& held : tensors.of(c)) {
      all.push_back({{"tensor", held.label},
                     {"category", std::string(program::name(held.category))},
                     {"count", held.count},
                     {"bytes", held.bytes.n}});
    }
    std::string where = answer::words(who.peak_place);
    if (!who.peak_place.label.empty()) where += ": " + who.peak_place.label;
    rows.cells[c].push_back(std::move(all));
    rows.cells[c].emplace_back(where);
  }
  return rows;
}

Rows peaks(const engine::RunReport& run, const Rows& classes) {
  return picked(
      classes, of_each_stage(run),
      {"stage", "cp_rank", "peak_allocated_bytes", "reserved_at_peak_bytes",
       "largest_free_block_at_peak_bytes", "where"},
      fmt::format("where the peak is (GiB; of each stage the rank nearest to its limit{})",
                  run.fits() ? "" : ", had it had the memory"));
}

// All bytes of the GPU, at the peak or at the failed request.
struct BytesOnGpu {
  engine::Split split{};
  Bytes allocated{}, reserved{};
};
BytesOnGpu where_of(const ClassReport& who) {
  if (who.out_of_memory)
    return {who.out_of_memory->split, who.out_of_memory->allocated, who.out_of_memory->reserved};
  return {who.peak_split, who.peak_allocated, who.reserved_at_peak};
}

Column in_gib(const char* key) {
  return {key, "GiB", "", 2, false, "", 1.0 / (1 << 30)};
}

Rows bytes_rows(const answer::Answer& answer, const ClassReport& who) {
  const BytesOnGpu at = where_of(who);
  Rows rows{"memory",
            fmt::format("where the memory of stage {} is, {}", who.stage,
                        who.out_of_memory ? "when the request fails" : "at its peak"),
            {{"what", "on the GPU", "", 0, true},
             in_gib("bytes"),
             {"share", "share", "", 1, false, " %", 100}},
            {}};
  const double total = gib(answer.machine.memory);
  const auto row = [&](const std::string& what, Bytes bytes) {
    if (bytes.n != 0) rows.cells.push_back({what, bytes.n, gib(bytes) / total});
  };
  for (const engine::Outside& part : who.outside) row("outside PyTorch: " + part.what, part.bytes);
  for (int c = 0; c < program::category_count; ++c) {
    row(std::string(program::name(static_cast<program::Category>(c))),
        {at.split[static_cast<std::size_t>(c)]});
  }
  if (who.out_of_memory) {
    const engine::OutOfMemory& event = *who.out_of_memory;
    row("reserved and free: for such requests", event.cached);
    row("reserved and free: other pool or stream", event.cached_elsewhere);
    row("freed, but another stream still uses it", event.pending);
    row("free on the device", event.device_free);
  } else {
    row("reserved, not allocated", at.reserved - at.allocated);
    row("free on the device", who.capacity - at.reserved);
  }
  row("GPU", answer.machine.memory);
  return rows;
}

// Tensors of the class with the least free memory; JSON has those of every class.
Rows tensor_rows(const std::vector<HeldTensors>& tensors, const ClassReport& who) {
  const double total = gib(where_of(who).allocated);
  Rows rows{"",
            "what holds it",
            {{"", "tensors", "", 0, true},
             {"", "category", "", 0, true},
             {"", "number"},
             {"", "GiB", "", 2},
             {"", "of allocated", "", 1, false, " %", 100}},
            {}};
  double shown = 0;
  for (std::size_t i = 0; i < tensors.size() && i < tensors_shown; ++i) {
    const HeldTensors& held = tensors[i];
    rows.cells.push_back({held.label, std::string(program::name(held.category)), held.count,
                          gib(held.bytes), gib(held.bytes) / total});
    shown += gib(held.bytes);
  }
  if (tensors.size() > tensors_shown) {
    rows.cells.push_back({fmt::format("{} others", tensors.size() - tensors_shown), "", nullptr,
                          total - shown, (total - shown) / total});
  }
  return rows;
}

std::string fragmentation_text(const ClassReport& who) {
  const engine::OutOfMemory& event = *who.out_of_memory;
  std::string text = fmt::format(
      "fragmentation: asked for {}; free for it are {} in the allocator's cache (largest block "
      "{}) and {} on the device\n",
      human(event.requested), human(event.cached), human(event.largest_free_block),
      human(event.device_free));
  if (!event.request_fits_contiguous) {
    return text + fmt::format("  in one piece they would not do either: {} are missing\n",
                              human(event.requested - event.cached - event.device_free));
  }
  text += "  in one piece they would have served this request";
  if (event.fragmentation_alone) {
    return text + fmt::format(
                      ", and the run never allocates more than {} of {}: fragmentation "
                      "alone is to blame\n",
                      human(who.needed), human(who.capacity));
  }
  return text + fmt::format(
                    ", but the run goes on to allocate {}, {} more than there is: "
                    "fragmentation is not the cause\n",
                    human(who.needed), human(who.needed - who.capacity));
}

std::string headroom_text(const answer::Answer& answer) {
  const ClassReport& who = answer::fullest(answer.run);
  std::string text = fmt::format(
      "headroom: stage {} bounds it, {} of {} stay unreserved; its reserved peak, {}, is {} above "
      "its allocated peak, {}\n",
      who.stage, human(who.capacity - who.peak_reserved), human(who.capacity),
      human(who.peak_reserved), human(who.peak_reserved - who.peak_allocated),
      human(who.peak_allocated));
  return text;
}

}  // namespace

Rows memory_rows(const answer::Answer& answer) {
  return bytes_rows(answer, answer::fullest(answer.run));
}

Document explain_document(const answer::Answer& answer, const PeakTensors& tensors) {
  const engine::RunReport& run = answer.run;
  const ClassReport& who = answer::fullest(run);
  const auto index = static_cast<std::size_t>(&who - run.classes.data());
  Document document;
  document.blocks = head_blocks(answer);
  document.blocks.emplace_back(Values{"", {value("nearest_to_its_limit", "", index)}});
  document.blocks.emplace_back(bytes_rows(answer, who));
  document.blocks.emplace_back(tensor_rows(tensors.of(index), who));
  document.blocks.emplace_back(
      Note{"", run.fits() ? headroom_text(answer) : fragmentation_text(who)});
  Rows all = classes(answer, tensors);
  document.blocks.emplace_back(peaks(run, all));
  document.blocks.emplace_back(std::move(all));
  for (Block& block : tail_blocks(answer)) document.blocks.push_back(std::move(block));
  return document;
}

}  // namespace sim::output
