// topo.cpp — `rehearse topo`: checks a cluster or a network, times its collectives, draws it, and
// imports descriptions of other tools.
#include "sim/command/topo/topo.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "sim/answer/cluster_notes.h"
#include "sim/answer/evaluate.h"
#include "sim/base/drawn_range.h"
#include "sim/base/quantity.h"
#include "sim/base/text.h"
#include "sim/cluster/topology/draw.h"
#include "sim/cluster/topology/draw_svg.h"
#include "sim/cluster/topology/inspect.h"
#include "sim/command/common/csv_option.h"
#include "sim/command/common/watch.h"
#include "sim/input/cluster/cluster.h"
#include "sim/input/cluster/import_cluster.h"
#include "sim/input/cluster/plausible.h"
#include "sim/input/plan/plan.h"
#include "sim/input/text/locate.h"
#include "sim/output/document.h"
#include "sim/study/tune/link_use.h"

namespace sim::command {

namespace {

using Given = Options::Named;

Given given(const Options& options) {
  Given from = options.named(1);
  if (from.name.empty()) throw Stop{exit_usage, "name a cluster, a plan or a file"};
  return from;
}

bool is_cluster(const std::string& name) {
  if (name.ends_with(".textproto") || name.ends_with(".json")) return true;
  return static_cast<bool>(input::locate(input::Kind::topology, name)) &&
         name.find('/') == std::string::npos && name.find('.') == std::string::npos;
}

// The plan of --plan: its name or its settings, then settings of the command line.
input::PlanFile plan_asked(const Options& options) {
  std::vector<std::string> all = split_settings(options.text("plan"));
  const bool named = all.front().find('=') == std::string::npos;
  const std::string path = named ? workload_path(all.front()) : "";
  if (named) all.erase(all.begin());
  const Given from = options.named(1);
  if (!from.name.empty())
    throw Stop{exit_usage,
               fmt::format("--plan has its own cluster: leave out '{0}', or write cluster={0}",
                           from.name)};
  all.insert(all.end(), from.settings.begin(), from.settings.end());
  return need(input::load_plan(path, all));
}

input::Machine machine_of(const Given& from) {
  return need(input::find_cluster(from.name, "", from.settings));
}

double share_of(const Options& options, const char* name) {
  if (!options.has(name)) return 0;
  const std::string text = options.text(name);
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size() || !(value > 0) || value > 1)
    throw Stop{exit_usage, fmt::format("--{}: '{}' is not a share in (0, 1]", name, text)};
  return value;
}

int show(const std::string& what, const std::vector<topology::Finding>& findings,
         const std::string& node, Globals globals) {
  const bool problem =
      std::ranges::any_of(findings, [](const auto& finding) { return finding.problem; });
  output::Rows rows{"findings", "", {{"problem", ""}, {"text", ""}}, {}, true};
  std::string lines = fmt::format("{}: {}\n", what, problem ? "problems" : "no problems");
  for (const topology::Finding& finding : findings) {
    rows.cells.push_back({finding.problem, finding.text});
    lines += fmt::format("  {}{}\n", finding.problem ? "problem: " : "", finding.text);
  }
  output::Document document;
  document.blocks.emplace_back(output::Values{"", {output::value("what", "", what)}});
  document.blocks.emplace_back(output::Note{"", lines});
  document.blocks.emplace_back(std::move(rows));
  document.blocks.emplace_back(output::Note{"", node, false, "node"});
  say(globals, "topo", document);
  return problem ? exit_no : exit_yes;
}

// The findings of an imported file, its notes first.
std::vector<topology::Finding> findings_of(const input::Imported& read, double claim = 0) {
  std::vector<topology::Finding> findings;
  for (const std::string& note : read.notes) findings.push_back({false, note});
  for (topology::Finding& finding :
       read.node ? topology::inspect(*read.node) : topology::inspect(*read.wiring, claim))
    findings.push_back(std::move(finding));
  return findings;
}

int check(const Options& options, Globals globals) {
  const Given from = given(options);
  const double claim = share_of(options, "claim");
  if (is_cluster(from.name)) {
    const input::Machine machine = machine_of(from);
    std::vector<topology::Finding> findings;
    for (const std::string& note : machine.notes) findings.push_back({false, note});
    for (topology::Finding& finding : topology::inspect(machine.cluster, claim))
      findings.push_back(std::move(finding));
    for (std::string& doubt : input::doubtful_numbers(machine))
      findings.push_back({true, std::move(doubt)});
    return show(machine.cluster.name, findings, "", globals);
  }
  const input::Imported read = need(input::import_topology(from.name));
  return show(fmt::format("{} ({})", from.name, read.format), findings_of(read, claim), "",
              globals);
}

// Writes the imported files and the cluster of --like as one description.
int write_cluster(const Options& options, const std::vector<input::ImportedFile>& files,
                  Globals globals) {
  if (!options.has("like"))
    throw Stop{exit_usage,
               "topo import -o: these files do not say which GPU it is; add --like CLUSTER, a name "
               "of `rehearse list clusters` or a file"};
  const std::string path = options.text("output");
  const std::string name = std::filesystem::path(path).stem().string();
  const std::string text = need(input::cluster_text(files, options.text("like"), name));
  save(path, text);
  output::Document document;
  document.blocks.emplace_back(output::Note{
      "", fmt::format("{}: written; next: rehearse topo check {}", path, path), false, "written"});
  say(globals, "topo-import", document);
  return exit_yes;
}

int import(const Options& options, Globals globals) {
  std::vector<input::ImportedFile> files;
  for (std::size_t i = 1; i < options.words().size(); ++i)
    files.push_back({options.words()[i], need(input::import_topology(options.words()[i]))});
  if (options.has("output")) return write_cluster(options, files, globals);
  if (files.size() > 1)
    throw Stop{exit_usage, "topo import: several files become one cluster; add -o FILE"};
  const auto& [path, read] = files.front();
  const std::string node = read.node ? input::node_text(*read.node, read.format) : "";
  return show(fmt::format("{} ({})", path, read.format), findings_of(read), node, globals);
}

// Reads GPUs of the cluster such as "0-7,16,24-31".
std::vector<int> ranks_of(const std::string& text, int gpus) {
  std::vector<int> ranks;
  std::vector<bool> seen(static_cast<std::size_t>(gpus), false);
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string one = text.substr(begin, end - begin);
    begin = end + 1;
    int from = -1, to = -1, read = 0;
    const bool range = std::sscanf(one.c_str(), "%9d-%9d%n", &from, &to, &read) == 2;
    if (!range) {
      to = -1;
      if (std::sscanf(one.c_str(), "%9d%n", &from, &read) == 1) to = from;
    }
    if (static_cast<std::size_t>(read) != one.size() || from < 0 || to < from || to >= gpus)
      throw Stop{exit_usage,
                 fmt::format("--ranks: '{}' is not a range of GPUs 0 to {}", one, gpus - 1)};
    for (int rank = from; rank <= to; ++rank) {
      if (seen[static_cast<std::size_t>(rank)])
        throw Stop{exit_usage, fmt::format("--ranks: GPU {} is there twice", rank)};
      seen[static_cast<std::size_t>(rank)] = true;
      ranks.push_back(rank);
    }
  }
  return ranks;
}

struct Timed {
  const char* name;
  collective::Kind kind;
};
constexpr Timed timed_collectives[] = {{"all_reduce", collective::Kind::all_reduce},
                                       {"all_gather", collective::Kind::all_gather},
                                       {"reduce_scatter", collective::Kind::reduce_scatter},
                                       {"broadcast", collective::Kind::broadcast},
                                       {"alltoall", collective::Kind::all_to_all},
                                       {"sendrecv", collective::Kind::ring_exchange}};

std::int64_t bytes_of(const Options& options, const char* name, const std::string& otherwise) {
  const auto parsed = parse_bytes(options.text(name, otherwise));
  if (const auto* problem = std::get_if<std::string>(&parsed))
    throw Stop{exit_usage, fmt::format("--{}: {}", name, *problem)};
  return std::max<std::int64_t>(1, std::get<Bytes>(parsed).n);
}

// Reads groups: "8" are groups of eight neighbours; "128x8" are groups of 128 with every eighth
// GPU.
std::vector<std::vector<int>> groups_of(const std::string& text, int gpus) {
  int size = 0, stride = 1, read = 0;
  if (std::sscanf(text.c_str(), "%9dx%9d%n", &size, &stride, &read) != 2) {
    stride = 1;
    if (std::sscanf(text.c_str(), "%9d%n", &size, &read) != 1) size = 0;
  }
  const std::int64_t block = std::int64_t{size} * stride;
  if (static_cast<std::size_t>(read) != text.size() || size < 2 || stride < 1 || block > gpus ||
      gpus % block != 0)
    throw Stop{exit_usage, fmt::format("--groups: '{}' does not cut {} GPUs into equal groups of "
                                       "two or more; 8, or 128x8 for every eighth",
                                       text, gpus)};
  std::vector<std::vector<int>> all;
  for (int start = 0; start < gpus; ++start) {
    if (start % block >= stride) continue;
    std::vector<int>& group = all.emplace_back();
    for (int i = 0; i < size; ++i) group.push_back(start + i * stride);
  }
  return all;
}

CollectiveAsked asked_of(const Options& options, const topology::Cluster& cluster, bool packets) {
  CollectiveAsked asked;
  std::vector<std::string> names;
  for (const Timed& timed : timed_collectives) names.emplace_back(timed.name);
  asked.name = options.choice("collective", "all_reduce", names);
  asked.kind = std::ranges::find(timed_collectives, asked.name, [](const Timed& t) {
                 return std::string(t.name);
               })->kind;
  const int nodes = std::min(2, cluster.nodes);
  if (options.has("groups")) {
    if (options.has("ranks")) throw Stop{exit_usage, "--groups takes all GPUs: leave out --ranks"};
    asked.groups = groups_of(options.text("groups"), cluster.gpus());
  } else {
    asked.groups = {ranks_of(
        options.text("ranks", fmt::format("0-{}", nodes * cluster.node.gpus - 1)), cluster.gpus())};
  }
  if (asked.groups.front().size() < 2)
    throw Stop{exit_usage, "--ranks: a collective takes two GPUs or more"};
  asked.least = bytes_of(options, "min", packets ? "16KiB" : "1MiB");
  asked.most = bytes_of(options, "max", packets ? "256KiB" : "1GiB");
  if (asked.least > asked.most) throw Stop{exit_usage, "--min is above --max"};
  constexpr std::int64_t largest = std::int64_t{1} << 44;
  if (asked.most > largest) throw Stop{exit_usage, "--max is above 16TiB, the most that is timed"};
  return asked;
}

// Times of one collective over draws of the flows' hash.
std::vector<double> drawn_times(const input::Machine& machine, int seeds, answer::Sites& sites,
                                const CollectiveAsked& asked, std::int64_t bytes) {
  std::vector<double> times;
  for (int draw = 0; draw < seeds; ++draw) {
    input::Machine drawn = machine;
    drawn.cluster.fabric.hash_seed += draw;
    network::Network& network = *(*need(sites.of(drawn))).network;
    times.push_back(seconds(
        need(network.answer(asked.kind, network::Groups{asked.groups}, Bytes{bytes})).duration));
  }
  return times;
}

std::vector<output::Column> time_columns(bool drawn) {
  using output::Show;
  std::vector<output::Column> columns = {{"bytes", "size", "", 0, false, "", 1, Show::bytes},
                                         {"seconds", "time", "us", 1, false, "", 1e6},
                                         {"algorithm_gb_per_second", "algbw", "GB/s", 2},
                                         {"bus_gb_per_second", "busbw", "GB/s", 2},
                                         {"algorithm", "algorithm", "", 0, true},
                                         {"protocol", "protocol", "", 0, true},
                                         {"busiest_link", "busiest link", "", 0, true},
                                         {"busy", "busy", "", 0, false, " %", 100}};
  if (drawn)
    columns.insert(columns.end(), {{"mean_s", "mean", "us", 1, false, "", 1e6},
                                   {"low_s", "90 % from", "us", 1, false, "", 1e6},
                                   {"high_s", "to", "us", 1, false, "", 1e6}});
  return columns;
}

int time(const Options& options, Globals globals) {
  const input::Machine machine =
      options.has("plan") ? plan_asked(options).machine : machine_of(given(options));
  const std::string csv = csv_file(options, globals);
  if (options.has("compare")) {
    options.only({"plan", "compare", "csv"});
    return topo_compare(machine, options, globals);
  }
  const bool packets = options.choice("network", "isolated", {"isolated", "ns-3"}) == "ns-3";
  const CollectiveAsked asked = asked_of(options, machine.cluster, packets);
  if (packets && !csv.empty()) throw Stop{exit_usage, "--network ns-3 has no --csv: use --json"};
  if (packets) return topo_packets(machine.cluster, asked, globals);
  const auto [name, kind, all_groups, least, most] = asked;
  const std::vector<int>& ranks = all_groups.front();
  answer::Sites sites;
  answer::Site& site = *need(sites.of(machine));
  network::Network& network = *site.network;
  const network::Groups groups{all_groups};
  const int seeds = static_cast<int>(options.number("seeds", 1, 1, 1000));
  output::Rows rows{
      "rows",
      fmt::format(
          "{} of {} GPUs on {}{}", name, ranks.size(), machine.cluster.name,
          all_groups.size() > 1 ? fmt::format(", {} groups at once", all_groups.size()) : ""),
      time_columns(seeds > 1),
      {}};
  for (std::int64_t bytes = least; bytes <= most; bytes *= 2) {
    const network::Answer answer = need(network.answer(kind, groups, Bytes{bytes}));
    const double took = seconds(answer.duration);
    const double rate = static_cast<double>(bytes) / took;
    const double bus = rate * collective::bus_factor(kind, static_cast<int>(ranks.size()));
    network::LinkLoad busiest;
    for (const network::LinkLoad& load : network.loads(kind, groups, Bytes{bytes})) {
      if (load.busy_seconds > busiest.busy_seconds * (1 + 1e-9)) busiest = load;
    }
    const topology::Routes& routes = network.cover(1);
    rows.cells.push_back(
        {bytes, took, rate / 1e9, bus / 1e9, answer.algorithm, answer.protocol,
         label(routes.source(busiest.link)) + " -> " + label(routes.target(busiest.link)),
         busiest.busy_seconds / took});
    if (seeds > 1) {
      const DrawnRange range = drawn_range(drawn_times(machine, seeds, sites, asked, bytes));
      for (const double cell : {range.mean, range.low, range.high})
        rows.cells.back().emplace_back(cell);
    }
    if (bytes > most / 2) break;
  }
  if (!csv.empty()) write_csv(csv, rows);
  output::Document document;
  document.blocks.emplace_back(output::Values{"", {output::value("collective", "", name)}});
  document.blocks.emplace_back(std::move(rows));
  const std::string slots = answer::slot_note(site);
  if (const bool leaves_node = machine.cluster.node.gpus <= std::ranges::max(ranks);
      leaves_node && !slots.empty())
    document.blocks.emplace_back(output::Note{"", slots, false, "note"});
  if (csv != "-") say(globals, "topo-time", document);
  return exit_yes;
}

// Use of the links, by number, over a step of a plan on its cluster.
std::vector<double> heat(const input::PlanFile& file, topology::Cluster& cluster) {
  answer::Sites sites;
  const answer::CheckedPlan checked_plan = checked(file, sites);
  answer::Site& site = checked_plan.site();
  const answer::Answer answer = answer::evaluate_once(checked_plan);
  const int nodes = topology::nodes_of(file.plan->world(), file.machine.cluster.node.gpus);
  cluster = topology::first_nodes(file.machine.cluster,
                                  topology::nodes_reached(file.machine.cluster, nodes));
  const topology::Routes& routes = site.network->cover(nodes);
  std::vector<double> busy(static_cast<std::size_t>(routes.link_count()), 0);
  for (const study::LinkUse& use : study::link_use(checked_plan, answer.run.step_time))
    busy[static_cast<std::size_t>(use.link)] = use.busy;
  return busy;
}

// Latency of a ring step with NCCL's protocol LL over each kind of path.
topology::WayLatencies ways_of(const input::Machine& machine) {
  answer::Sites sites;
  const network::NcclModel& nccl = need(sites.of(machine))->profile.communication.nccl;
  return {nccl.nvlink.ring.ll, nccl.pcie.ring.ll, nccl.network.ring.ll};
}

int export_drawing(const Options& options, Globals globals) {
  const std::string format = options.choice("format", "svg", {"svg", "dot", "simgrid"});
  topology::Cluster cluster;
  std::vector<double> busy;
  topology::WayLatencies ways;
  if (options.has("plan")) {
    busy = heat(plan_asked(options), cluster);
  } else {
    const input::Machine machine = machine_of(given(options));
    if (format == "simgrid") ways = ways_of(machine);
    cluster = machine.cluster;
    const int most = format == "simgrid" ? std::min(cluster.nodes, 8) : cluster.nodes;
    const int nodes = static_cast<int>(options.number("nodes", most, 1, cluster.nodes));
    cluster = topology::first_nodes(cluster, nodes);
  }
  const std::int64_t drawn = std::int64_t{cluster.nodes} * cluster.node.gpus;
  // Above this number, equal nodes are drawn once.
  const bool alike = drawn > 144;
  const std::int64_t limit = 65536;
  if (drawn > limit)
    throw Stop{exit_usage,
               fmt::format("{} GPUs are more than the {} that are drawn; --nodes N", drawn, limit)};
  const std::string text = format == "svg"   ? topology::svg(cluster, busy, alike)
                           : format == "dot" ? topology::graphviz(cluster, busy, alike)
                                             : topology::simgrid_xml(cluster, ways);
  if (options.has("output")) {
    save(options.text("output"), text);
  }
  if (!options.has("output") || globals.json) {
    output::Document document;
    document.blocks.emplace_back(
        output::Values{"",
                       {output::value("format", "", format), output::value("gpus", "", drawn),
                        output::value("nodes", "", cluster.nodes)}});
    document.blocks.emplace_back(output::Data{"drawing", text});
    if (globals.json) say(globals, "topo-export", document);
    if (!globals.json) print(text);
  }
  return exit_yes;
}

}  // namespace

namespace {

void declare_topo(Options& options) {
  options.value("claim", "SHARE", "check: bisection that is claimed, as a share of full (1)")
      .value("collective", "NAME",
             "time: all_reduce (default), all_gather, reduce_scatter, "
             "broadcast, alltoall, sendrecv")
      .value("ranks", "LIST", "time: GPUs like 0-7,16-23; the first two nodes by default")
      .value("groups", "SIZE", "time: all GPUs at once in groups: 8, or 128x8 for every eighth GPU")
      .value("min", "SIZE", "time: the smallest array, 1MiB by default")
      .value("max", "SIZE", "time: the largest, 1GiB by default")
      .value("seeds", "N",
             "time: draws of the flows' hash (fabric.hash_seed): mean and 90 % range (default 1)")
      .values("compare", "FILE",
              "time: a log of nccl-tests or another measured table beside its prediction")
      .value("csv", "FILE", "time: also the table into FILE; -: on stdout instead of the text")
      .value("like", "CLUSTER",
             "import: what the files do not say, with -o: the GPU, rates, latencies")
      .value("format", "NAME", "export: svg (default), dot, simgrid")
      .value("nodes", "N",
             "export: the first N nodes; by default all, drawn once where they are alike, or 8 "
             "for simgrid")
      .value("plan", "PLAN",
             "a plan's name, or its settings in quotes; time: its cluster; export: its nodes, "
             "cables coloured by their use")
      .value("seed", "N", "place: of the search, 1 by default")
      .value("moves", "N", "place: tried by the search; by default as many as take seconds")
      .value("network", "NAME",
             "time: ns-3 simulates small cases packet by packet; place: replay isolated (default) "
             "or coupled")
      .output("output,o", "FILE",
              "export: write there instead of stdout; place: the nodes in their new order, a line "
              "each; import: a whole cluster")
      .words(1, 1000);
}

}  // namespace

int run_topo(const Arguments& arguments, Globals globals) {
  Options options("topo");
  declare_topo(options);
  options.parse(arguments, globals);
  struct Subcommand {
    const char* what;
    const char* of;
    int (*run)(const Options& options, Globals globals);
    std::vector<std::string> options;
  };
  const std::vector<Subcommand> kinds = {
      {"check", "cluster", check, {"claim"}},
      {"time",
       "cluster",
       time,
       {"plan", "compare", "csv", "collective", "ranks", "groups", "min", "max", "seeds",
        "network"}},
      {"place", "plan", topo_place, {"seed", "moves", "network", "output"}},
      {"import", "file", import, {"like", "output"}},
      {"export", "cluster", export_drawing, {"format", "nodes", "plan", "output"}}};
  const std::string& what = options.words()[0];
  std::vector<std::string> all;
  for (const Subcommand& kind : kinds) {
    all.emplace_back(kind.what);
    if (what != kind.what) continue;
    options.only(kind.options);
    if (options.words().size() < 2 && !options.has("plan"))
      throw Stop{exit_usage, fmt::format("topo {}: name a {}", what, kind.of)};
    return kind.run(options, globals);
  }
  throw Stop{exit_usage, fmt::format("topo: '{}' is none of check, time, place, import, export{}",
                                     what, did_you_mean(what, all))};
}

}  // namespace sim::command
