#include "sim/report/explain_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/core/text.h"
#include "sim/report/run_text.h"
#include "sim/report/table.h"

namespace sim::report {

namespace {

using replay::ClassReport;

constexpr std::size_t tensors_shown = 12;

std::string gib_text(Bytes bytes) {
  return fmt::format("{:.2f}", gib(bytes));
}

// The class of each stage that is nearest to its capacity, or that ran out first.
std::vector<std::size_t> of_each_stage(const replay::RunReport& run) {
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

std::size_t index_of(const replay::RunReport& run, const ClassReport& who) {
  return static_cast<std::size_t>(&who - run.classes.data());
}

std::string peaks_text(const replay::RunReport& run) {
  Table table({"stage", "cp rank", "allocated", "reserved then", "largest free", "<where"});
  for (const std::size_t c : of_each_stage(run)) {
    const ClassReport& who = run.classes[c];
    std::string where = words(who.peak_place);
    if (!who.peak_place.label.empty()) where += ": " + who.peak_place.label;
    table.row({fmt::format("{}", who.stage), fmt::format("{}", who.cp_rank),
               gib_text(who.peak_allocated), gib_text(who.reserved_at_peak),
               gib_text(who.largest_free_at_peak), where});
  }
  return fmt::format("\nwhere the peak is (GiB; of each stage the rank nearest to its limit{})\n",
                     run.fits() ? "" : ", had it had the memory") +
         table.text();
}

// Every byte of the GPU, at the peak or when the request failed.
struct Where {
  replay::Split split{};
  Bytes allocated{}, reserved{};
};
Where where_of(const ClassReport& who) {
  if (who.out_of_memory)
    return {who.out_of_memory->split, who.out_of_memory->allocated, who.out_of_memory->reserved};
  return {who.peak_split, who.peak_allocated, who.reserved_at_peak};
}

std::string bytes_text(const Answer& answer, const ClassReport& who) {
  const Where at = where_of(who);
  Table table({"<on the GPU", "GiB", "share"});
  const double total = gib(answer.machine.memory);
  const auto row = [&](const std::string& what, Bytes bytes) {
    if (bytes.n == 0) return;
    table.row({what, gib_text(bytes), percent(gib(bytes) / total)});
  };
  for (const replay::Outside& part : who.outside) row("outside PyTorch: " + part.what, part.bytes);
  for (int c = 0; c < workload::category_count; ++c) {
    row(std::string(workload::name(static_cast<workload::Category>(c))),
        {at.split[static_cast<std::size_t>(c)]});
  }
  if (who.out_of_memory) {
    const replay::OutOfMemory& event = *who.out_of_memory;
    row("reserved and free: for such requests", event.cached);
    row("reserved and free: other pool or stream", event.cached_elsewhere);
    row("freed, but another stream still uses it", event.pending);
    row("free on the device", event.device_free);
  } else {
    row("reserved, not allocated", at.reserved - at.allocated);
    row("free on the device", who.capacity - at.reserved);
  }
  table.row({"GPU", gib_text(answer.machine.memory), percent(1)});
  return fmt::format("\nwhere the memory of stage {} is, {}\n", who.stage,
                     who.out_of_memory ? "when the request fails" : "at its peak") +
         table.text();
}

std::string tensors_text(const std::vector<HeldTensors>& tensors, const ClassReport& who) {
  const double total = gib(where_of(who).allocated);
  Table table({"<tensors", "<category", "number", "GiB", "of allocated"});
  double shown = 0;
  for (std::size_t i = 0; i < tensors.size() && i < tensors_shown; ++i) {
    const HeldTensors& held = tensors[i];
    table.row({held.label, std::string(workload::name(held.category)),
               fmt::format("{}", held.count), gib_text(held.bytes),
               percent(gib(held.bytes) / total)});
    shown += gib(held.bytes);
  }
  if (tensors.size() > tensors_shown) {
    table.row({fmt::format("{} others", tensors.size() - tensors_shown), "", "",
               fmt::format("{:.2f}", total - shown), percent((total - shown) / total)});
  }
  return fmt::format("\nwhat holds it\n") + table.text();
}

std::string fragmentation_text(const ClassReport& who) {
  const replay::OutOfMemory& event = *who.out_of_memory;
  std::string text = fmt::format(
      "\nfragmentation: asked for {}; free for it are {} in the allocator's cache (largest block "
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

std::string headroom_text(const Answer& answer) {
  const ClassReport& who = fullest(answer.run);
  std::string text = fmt::format(
      "\nheadroom: stage {} bounds it, {} of {} stay unreserved; {} of its {} reserved are not "
      "allocated at the peak\n",
      who.stage, human(who.capacity - who.peak_reserved), human(who.capacity),
      human(who.peak_reserved - who.peak_allocated), human(who.peak_reserved));
  if (who.alloc_retries > 0) {
    text += fmt::format(
        "  {} times the cache was given back and asked for again (retries): the device is full, "
        "and every retry waits for the GPU\n",
        who.alloc_retries);
  }
  return text;
}

}  // namespace

std::string explain_text(const Answer& answer, const PeakTensors& tensors) {
  const replay::RunReport& run = answer.run;
  const ClassReport& who = fullest(run);
  std::string text =
      headline(answer) + "\n" + verdict_text(answer) + limit(answer) + "\n\n" + plan_line(answer);
  if (!run.fits()) text += oom_text(answer);
  text += bytes_text(answer, who) + tensors_text(tensors.of(index_of(run, who)), who);
  text += run.fits() ? headroom_text(answer) : fragmentation_text(who);
  return text + peaks_text(run) + estimate_text(answer);
}

Json explain_json(const Answer& answer, const PeakTensors& tensors) {
  Json json = to_json(answer);
  json["nearest_to_its_limit"] = index_of(answer.run, fullest(answer.run));
  for (std::size_t c = 0; c < answer.run.classes.size(); ++c) {
    Json all = Json::array();
    for (const HeldTensors& held : tensors.of(c)) {
      all.push_back({{"tensor", held.label},
                     {"category", std::string(workload::name(held.category))},
                     {"count", held.count},
                     {"bytes", held.bytes.n}});
    }
    json["rank_classes"][c]["tensors_held"] = std::move(all);
  }
  return json;
}

}  // namespace sim::report
