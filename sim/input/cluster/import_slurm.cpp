// import_slurm.cpp — reads Slurm's topology.conf.
//
// topology/tree lists switches with nodes or with switches below them. topology/block lists blocks
// of nodes; BlockSizes combines base blocks into larger ones.
//
//     SwitchName=leaf0 Nodes=n[000-019,040]     SwitchName=spine Switches=leaf[0-3]
//     BlockName=b0 Nodes=n[0-17]                BlockSizes=18,36
//
// Source: SchedMD, "topology.conf" and "hostlist" manual pages.
#include <algorithm>
#include <map>

#include "sim/input/cluster/import.h"
#include "sim/input/cluster/import_text.h"
#include "sim/input/text/textproto.h"

namespace sim::input {
namespace {

// Appends the names of a host list such as "a[01-03,7],b". Returns the problem, or "".
std::string expand(std::string_view list, std::vector<std::string>& names) {
  while (!list.empty()) {
    std::size_t end = 0;
    for (int depth = 0; end < list.size() && (depth > 0 || list[end] != ','); ++end) {
      if (list[end] == '[') ++depth;
      if (list[end] == ']') --depth;
    }
    const std::string_view one = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    const std::size_t open = one.find('['), close = one.find(']');
    if (open == std::string_view::npos) {
      if (names.size() >= max_hosts) return fmt::format("more than {} names", max_hosts);
      if (!one.empty()) names.emplace_back(one);
      continue;
    }
    if (close == std::string_view::npos || close < open || one.find('[', open + 1) != one.npos)
      return fmt::format("'{}' is not a list of names like n[0-15]", shown(one));
    std::string_view ranges = one.substr(open + 1, close - open - 1);
    if (ranges.empty())
      return fmt::format("'{}' names nothing; write for example {}[0-15]", shown(one),
                         shown(one.substr(0, open)));
    while (!ranges.empty()) {
      const std::size_t comma = std::min(ranges.find(','), ranges.size());
      const std::string_view range = ranges.substr(0, comma);
      ranges.remove_prefix(std::min(comma + 1, ranges.size()));
      const std::size_t dash = range.find('-');
      const std::string_view low = range.substr(0, dash);
      const int from = number_of(low);
      const int to = dash == range.npos ? from : number_of(range.substr(dash + 1));
      if (from < 0 || to < from)
        return fmt::format("'{}' is not a range of numbers like 0-15", shown(range));
      if (static_cast<std::size_t>(to - from) >= max_hosts - std::min(max_hosts, names.size()))
        return fmt::format("'{}' names more than {} nodes", shown(one), max_hosts);
      for (std::int64_t i = from; i <= to; ++i)
        names.push_back(
            fmt::format("{}{:0{}}{}", one.substr(0, open), i, low.size(), one.substr(close + 1)));
    }
  }
  return "";
}

struct Switch {
  std::size_t line = 0;
  std::vector<std::string> nodes, switches;
};

// The name of a switch that is below itself, or "".
std::string cycle(const std::map<std::string, Switch>& tree) {
  std::map<std::string, int> open;  // parents that are not yet removed
  for (const auto& [name, one] : tree) {
    for (const std::string& below : one.switches) ++open[below];
  }
  std::vector<std::string> roots;
  for (const auto& [name, one] : tree) {
    if (open[name] == 0) roots.push_back(name);
  }
  std::size_t seen = 0;
  while (!roots.empty()) {
    const std::string name = roots.back();
    roots.pop_back();
    ++seen;
    for (const std::string& below : tree.at(name).switches) {
      if (--open[below] == 0) roots.push_back(below);
    }
  }
  if (seen == tree.size()) return "";
  for (const auto& [name, count] : open) {
    if (count > 0) return name;
  }
  return tree.begin()->first;
}

topology::Wiring wiring_of(const std::map<std::string, Switch>& tree) {
  topology::Wiring wiring;
  std::map<std::string, int> switches, hosts;
  for (const auto& [name, one] : tree) {
    switches.emplace(name, static_cast<int>(wiring.switches.size()));
    wiring.switches.push_back(name);
  }
  const int first = static_cast<int>(tree.size());
  for (const auto& [name, one] : tree) {
    const int here = switches.at(name);
    for (const std::string& below : one.switches)
      wiring.cables.push_back({here, switches.at(below), 0});
    for (const std::string& node : one.nodes) {
      const auto [at, added] = hosts.try_emplace(node, static_cast<int>(wiring.hosts.size()));
      if (added) wiring.hosts.push_back(node);
      wiring.cables.push_back({here, first + at->second, 0});
    }
  }
  return wiring;
}

// One line of the file.
struct Line {
  std::string name;  // of a switch or a block
  bool block = false;
  Switch content;
};

Line read_line(std::string_view text, std::size_t number, const std::string& path,
               Diagnostics& problems) {
  Line line{"", false, {number, {}, {}}};
  for (const std::string_view word : words_of(text.substr(0, text.find('#')))) {
    const std::size_t equals = word.find('=');
    const std::string_view key = word.substr(0, equals);
    const std::string_view value = equals == word.npos ? "" : word.substr(equals + 1);
    std::string problem;
    if (key == "SwitchName" || key == "BlockName") {
      line.name = value;
      line.block = key == "BlockName";
    } else if (key == "BlockSizes") {
      continue;  // groups blocks for scheduling only
    } else if (key == "Nodes") {
      problem = expand(value, line.content.nodes);
    } else if (key == "Switches") {
      problem = expand(value, line.content.switches);
    } else if (key != "LinkSpeed") {
      problem = fmt::format(
          "'{}' is none of SwitchName, BlockName, Nodes, Switches, LinkSpeed, BlockSizes",
          shown(word));
    }
    if (!problem.empty()) problems.push_back({at_line(path, number), problem});
  }
  return line;
}

using Tree = std::map<std::string, Switch>;

// The switches of the file by name. Problems of single lines go to `problems`; the error is a file
// that is too large.
Result<Tree> read_tree(const std::string& text, const std::string& path, Diagnostics& problems) {
  Tree tree;
  std::size_t names = 0;
  std::vector<std::string> blocks;
  const std::vector<std::string_view> lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size() && problems.size() < max_problems; ++i) {
    Line line = read_line(lines[i], i, path, problems);
    if (line.block) blocks.push_back(line.name);
    const Switch& one = line.content;
    if (line.name.empty() && one.nodes.empty() && one.switches.empty()) continue;
    names += one.nodes.size() + one.switches.size() + 1;
    if (names > 2 * max_hosts) return Diagnostics{{at_line(path, i), "more names than are read"}};
    if (line.name.empty()) {
      problems.push_back({at_line(path, i), "a line of the tree needs SwitchName="});
    } else if (!tree.try_emplace(line.name, std::move(line.content)).second) {
      problems.push_back(
          {at_line(path, i), fmt::format("switch '{}' is there twice", shown(line.name))});
    }
  }
  // Blocks are connected above the listed level; Slurm does not describe the wiring.
  if (blocks.size() > 1 && problems.empty() && !tree.contains("above the blocks"))
    tree["above the blocks"] = {0, {}, blocks};
  return tree;
}

void check_tree(const Tree& tree, const std::string& path, Diagnostics& problems) {
  for (const auto& [name, one] : tree) {
    for (const std::string& below : one.switches) {
      if (!tree.contains(below) && problems.size() < max_problems)
        problems.push_back(
            {at_line(path, one.line),
             fmt::format("switch '{}' below '{}' is not described", shown(below), shown(name))});
    }
  }
  if (tree.empty() && problems.empty()) problems.push_back({path, "no switch is described"});
  if (!problems.empty()) return;
  if (const std::string name = cycle(tree); !name.empty())
    problems.push_back(
        {at_line(path, tree.at(name).line),
         fmt::format("switch '{}' is below itself: a tree has no cycle", shown(name))});
}

}  // namespace

Result<Imported> import_slurm(const std::string& text, const std::string& path) {
  Diagnostics problems;
  const Result<Tree> tree = read_tree(text, path, problems);
  if (!tree) return tree.errors();
  check_tree(*tree, path, problems);
  if (!problems.empty()) return problems;
  return Imported{"Slurm topology.conf", std::nullopt, wiring_of(*tree)};
}

}  // namespace sim::input
