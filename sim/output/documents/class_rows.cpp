#include "sim/output/documents/class_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <functional>
#include <map>

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

std::string ranges_text(const std::vector<int>& numbers, std::size_t most) {
  std::vector<std::string> ranges;
  for (std::size_t first = 0; first < numbers.size();) {
    std::size_t end = first + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    ranges.push_back(end == first + 1 ? fmt::format("{}", numbers[first])
                                      : fmt::format("{}-{}", numbers[first], numbers[end - 1]));
    first = end;
  }
  if (most == 0 || ranges.size() <= most) return fmt::format("{}", fmt::join(ranges, ","));
  return fmt::format("{},... ({} ranges)",
                     fmt::join(ranges.begin(), ranges.begin() + static_cast<int>(most), ","),
                     ranges.size());
}

Rows class_rows(const answer::Answer& answer) {
  const engine::RunReport& run = answer.run;
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
  const bool numbered = answer.ranks.size() == run.classes.size();
  if (numbered) rows.columns.push_back({"rank_numbers"});
  for (const ClassReport& who : run.classes) {
    std::vector<Json>& own = rows.cells.emplace_back(cells(who));
    if (!engine::places_tensors(run.memory))
      std::fill(own.begin() + first_of_memory, own.end(), nullptr);
    if (run.bounded) own.push_back(who.reserved_most.n);
    if (numbered) own.push_back(ranges_text(answer.ranks[rows.cells.size() - 1]));
  }
  return rows;
}

namespace {

// Cells of a class in the table of ranks, after the ranks themselves and without their number.
std::vector<Json> times_and_peaks(const ClassReport& who, bool placed) {
  using engine::Account;
  const auto sum = [&](std::initializer_list<Account> accounts) {
    Duration all{};
    for (const Account one : accounts) all += who.accounts[static_cast<std::size_t>(one)];
    return seconds(all);
  };
  std::vector<Json> cells = {
      who.stage,
      who.cp_rank,
      seconds(who.busy),
      sum({Account::tp_exposed, Account::cp_exposed, Account::ep_exposed, Account::dp_exposed}),
      sum({Account::pp_fill_drain, Account::pp_imbalance, Account::pp_transfer}),
      sum({Account::host})};
  if (placed) cells.insert(cells.end(), {who.peak_allocated.n, who.peak_reserved.n, used(who)});
  return cells;
}

// Keeps the lines of the busiest ranks of a long table.
void shorten(Rows& rows, std::size_t busy) {
  constexpr std::size_t lines_most = 64;
  const std::size_t lines = rows.cells.size();
  if (lines <= lines_most) return;
  std::ranges::stable_sort(rows.cells, std::greater{}, [busy](const std::vector<Json>& cells) {
    return cells[busy].get<double>();
  });
  rows.footnote = fmt::format("  the {} busiest of {} lines; --json has all\n", lines_most, lines);
  rows.cells.resize(lines_most);
}

}  // namespace

Rows rank_rows(const answer::Answer& answer) {
  constexpr std::size_t ranges_most = 6;
  Rows rows{"",
            "ranks (a line for ranks with equal times and peaks; seconds, GiB; exposed: "
            "communication that no kernel hides)",
            {{"", "ranks", "", 0, true},
             {"", "count"},
             {"", "stage"},
             {"", "cp"},
             {"", "busy", "", 4},
             {"", "exposed", "", 4},
             {"", "PP wait", "", 4},
             {"", "host", "", 4}},
            {}};
  const bool placed = engine::places_tensors(answer.run.memory);
  if (placed)
    rows.columns.insert(rows.columns.end(),
                        {in_gib("", "allocated"), in_gib("", "reserved"), Column{"", "used"}});
  std::map<std::vector<Json>, std::size_t> line_of;
  std::vector<std::vector<int>> ranks;
  for (std::size_t c = 0; c < answer.run.classes.size(); ++c) {
    std::vector<Json> cells = times_and_peaks(answer.run.classes[c], placed);
    const auto [line, added] = line_of.try_emplace(cells, ranks.size());
    if (added) {
      ranks.emplace_back();
      cells.insert(cells.begin(), {Json(), Json()});
      rows.cells.push_back(std::move(cells));
    }
    std::vector<int>& own = ranks[line->second];
    own.insert(own.end(), answer.ranks[c].begin(), answer.ranks[c].end());
  }
  for (std::size_t line = 0; line < ranks.size(); ++line) {
    std::ranges::sort(ranks[line]);
    rows.cells[line][0] = ranges_text(ranks[line], ranges_most);
    rows.cells[line][1] = ranks[line].size();
  }
  shorten(rows, 4);
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
