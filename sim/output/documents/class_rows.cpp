#include "sim/output/documents/class_rows.h"

#include <algorithm>
#include <cassert>

#include "sim/output/documents/run_text.h"
#include "sim/output/json.h"

namespace sim::output {

namespace {

using engine::ClassReport;

Json split_json(const engine::Split& split) {
  Json json = Json::object();
  for (int c = 0; c < program::category_count; ++c) {
    json[key_of(program::name(static_cast<program::Category>(c)))] =
        split[static_cast<std::size_t>(c)];
  }
  return json;
}

Json event_json(const engine::OutOfMemory& event) {
  return {{"stage", event.stage},
          {"cp_rank", event.cp_rank},
          {"time_ps", event.when.ps},
          {"place", output::to_json(event.place)},
          {"requested_bytes", event.requested.n},
          {"segment_bytes", event.segment.n},
          {"device_free_bytes", event.device_free.n},
          {"allocated_bytes", event.allocated.n},
          {"reserved_bytes", event.reserved.n},
          {"free_cached_bytes", event.cached.n},
          {"largest_free_block_bytes", event.largest_free_block.n},
          {"free_cached_elsewhere_bytes", event.cached_elsewhere.n},
          {"pending_bytes", event.pending.n},
          {"held_bytes", split_json(event.split)},
          {"retries", event.retries},
          {"request_fits_contiguous", event.request_fits_contiguous},
          {"fragmentation_alone", event.fragmentation_alone}};
}

Json accounts_json(const ClassReport& who) {
  Json accounts = Json::object();
  for (int a = 0; a < engine::account_count; ++a) {
    const auto account = static_cast<engine::Account>(a);
    accounts[key_of(engine::name(account)) + "_ps"] = who.accounts[static_cast<std::size_t>(a)].ps;
  }
  return accounts;
}

Json outside_json(const ClassReport& who) {
  Json outside = Json::array();
  for (const engine::Outside& part : who.outside)
    outside.push_back({{"what", part.what}, {"bytes", part.bytes.n}});
  return outside;
}

std::string used(const ClassReport& who) {
  return who.out_of_memory ? "OOM"
                           : percent(static_cast<double>(who.peak_reserved.n) /
                                     static_cast<double>(who.capacity.n));
}

// Index of the first column about memory; earlier columns are about time.
constexpr std::size_t first_of_memory = 10;

// Moves values, which an initializer list would copy.
template <typename... Values>
std::vector<Json> row_of(Values&&... values) {
  std::vector<Json> row;
  row.reserve(sizeof...(values) + 1);
  (row.emplace_back(std::forward<Values>(values)), ...);
  return row;
}

std::vector<Json> cells(const ClassReport& who) {
  return row_of(who.stage, who.cp_rank, who.ranks, who.layers, who.parameters, accounts_json(who),
                who.busy.ps, who.bubble, who.capacity.n, outside_json(who), who.static_bytes.n,
                who.peak_allocated.n - who.static_bytes.n, who.peak_allocated.n,
                who.peak_reserved.n, who.peak_active.n, who.needed.n, to_json(who.peak_place),
                split_json(who.peak_split), who.reserved_at_peak.n, who.largest_free_at_peak.n,
                used(who), who.alloc_retries,
                who.out_of_memory ? event_json(*who.out_of_memory) : Json(nullptr));
}

Column in_gib(const char* key, const char* heading) {
  return {key, heading, "", 2, false, "", 1.0 / (1 << 30)};
}

}  // namespace

Rows class_rows(const engine::RunReport& run) {
  Rows rows{"rank_classes",
            "",
            {{"stage", "stage"},
             {"cp_rank", "cp rank"},
             {"ranks", "ranks"},
             {"layers", "layers"},
             {"parameters", "parameters"},
             {"accounts"},
             {"busy_ps", "busy", "s", 4, false, "", 1e-12},
             {"bubble", "bubble", "", 1, false, " %", 100},
             in_gib("capacity_bytes", "capacity"),
             {"outside_allocator"},
             in_gib("static_bytes", "static"),
             in_gib("", "the rest"),
             in_gib("peak_allocated_bytes", "allocated"),
             in_gib("peak_reserved_bytes", "reserved"),
             in_gib("peak_active_bytes", "active"),
             in_gib("needed_bytes", "needed"),
             {"peak_place"},
             {"peak_held_bytes"},
             in_gib("reserved_at_peak_bytes", "reserved then"),
             in_gib("largest_free_block_at_peak_bytes", "largest free"),
             {"", "used"},
             {"allocation_retries", "retries in all"},
             {"out_of_memory"}},
            {},
            true};
  if (run.bounded) rows.columns.push_back(in_gib("peak_reserved_most_bytes", "reserved at most"));
  for (const ClassReport& who : run.classes) {
    std::vector<Json>& own = rows.cells.emplace_back(cells(who));
    if (!engine::places_tensors(run.memory))
      std::fill(own.begin() + first_of_memory, own.end(), nullptr);
    if (run.bounded) own.push_back(who.reserved_most.n);
  }
  return rows;
}

Rows picked(const Rows& all, const std::vector<std::size_t>& rows,
            const std::vector<std::string>& columns, std::string title) {
  Rows some{"", std::move(title), {}, std::vector<std::vector<Json>>(rows.size())};
  for (const std::string& name : columns) {
    const auto found = std::ranges::find_if(all.columns, [&](const Column& column) {
      return column.key == name || (column.key.empty() && column.heading == name);
    });
    assert(found != all.columns.end());
    some.columns.push_back(*found);
    const auto i = static_cast<std::size_t>(found - all.columns.begin());
    for (std::size_t k = 0; k < rows.size(); ++k) some.cells[k].push_back(all.cells[rows[k]][i]);
  }
  return some;
}

}  // namespace sim::output
