#include "sim/input/plan/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <filesystem>
#include <map>
#include <set>

#include "sim/base/text.h"
#include "sim/input/fields/plan_fields.h"
#include "sim/input/models/huggingface.h"
#include "sim/input/models/network.h"
#include "sim/input/plan/grid_rows.h"
#include "sim/input/plan/grid_words.h"
#include "sim/input/resolve/resolve.h"
#include "sim/input/text/locate.h"

namespace sim::input {

namespace v1 = rehearse::v1;

namespace {

struct Block {
  std::string family;
  v1::Plan base;
  std::string beside;  // the file that names the base's model and cluster
  std::vector<Axis> axes;
  std::int64_t size = 1;
  std::int64_t first = 0;  // index of its first point
};

// The row of each axis for a point of a block.
std::vector<std::size_t> rows_of(const Block& block, std::int64_t index) {
  std::vector<std::size_t> rows(block.axes.size());
  for (std::size_t k = block.axes.size(); k-- > 0;) {
    const auto size = static_cast<std::int64_t>(block.axes[k].rows.size());
    rows[k] = static_cast<std::size_t>(index % size);
    index /= size;
  }
  return rows;
}

std::string point_name(const Block& block, std::int64_t index) {
  std::string text = block.family;
  const std::vector<std::size_t> rows = rows_of(block, index);
  for (std::size_t k = 0; k < rows.size(); ++k)
    text += (k == 0 ? "/" : "-") + block.axes[k].rows[rows[k]].label;
  return text;
}

v1::Plan point_plan(const Block& block, std::int64_t index) {
  v1::Plan plan = block.base;
  const std::vector<std::size_t> rows = rows_of(block, index);
  for (std::size_t k = 0; k < rows.size(); ++k) plan.MergeFrom(block.axes[k].rows[rows[k]].plan);
  return plan;
}

}  // namespace

struct Grid::State {
  std::string name, path;
  bool counts_all_attention = false;
  std::vector<Block> blocks;
  std::int64_t size = 0;
  // Key: the file that contains the name, and the name.
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const Machine>> machines;
  std::map<std::pair<std::string, std::string>, model::Architecture> models;
  std::vector<std::shared_ptr<const Machine>> machine_order;
};

class GridLoader {
 public:
  GridLoader(const std::string& path, const std::vector<std::string>& overrides)
      : source_(path), overrides_(overrides), state_(std::make_shared<Grid::State>()) {}

  Result<Grid> run() {
    problems_ = load(source_, message_, plan_synonyms(), false);
    return read();
  }

  Result<Grid> run_words(const std::vector<std::string>& words) {
    problems_ = read_words(words, message_, source_);
    return read();
  }

 private:
  Result<Grid> read() {
    for (Diagnostic& problem : source_.check(message_, false))
      problems_.push_back(std::move(problem));
    required();
    check_name();
    if (!problems_.empty()) return problems_;
    state_->path = source_.path();
    state_->name = message_.has_name() ? message_.name()
                                       : std::filesystem::path(source_.path()).stem().string();
    state_->counts_all_attention = message_.throughput() == v1::Grid::paper;
    read_bases();
    for (const v1::Family& family : message_.families()) read_family(family);
    if (problems_.empty()) unique_names();
    if (!problems_.empty()) return problems_;
    Grid grid;
    grid.state_ = state_;
    return grid;
  }

  struct Base {
    v1::Plan plan;
    std::string beside;
  };

  // Checks the required fields of the grid. Those of a plan are checked on whole points.
  void required() {
    if (!problems_.empty()) return;
    for (Diagnostic& problem : source_.check(message_)) problems_.push_back(std::move(problem));
  }

  // The name becomes the name of the results folder.
  void check_name() {
    const std::string& name = message_.name();
    const bool plain = std::ranges::none_of(
        name, [](char c) { return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
    if (plain && name != "." && name != "..") return;
    problems_.push_back({source_.where(message_, "name"),
                         "'name' is the name of a folder: it has no '/' and is not '..'; write for "
                         "example name: \"strong-scaling\""});
  }

  void read_bases() {
    for (const v1::Base& base : message_.bases()) {
      const std::string where = source_.where(base, "name");
      if (base.has_plan() == base.has_plan_file()) {
        problems_.push_back(
            {where, fmt::format("base '{}' needs either 'plan' or 'plan_file'", base.name())});
        continue;
      }
      Base read{base.plan(), source_.path()};
      if (base.has_plan_file()) {
        const Result<std::string> path = locate(Kind::workload, base.plan_file(), source_.path());
        if (!path) {
          add(path.errors(), source_.where(base, "plan_file"));
          continue;
        }
        Source file(*path);
        add(load(file, read.plan, plan_synonyms(), false), *path);
        add(file.check(read.plan, false), *path);
        read.beside = *path;
      }
      if (!bases_.emplace(base.name(), std::move(read)).second)
        problems_.push_back({where, fmt::format("there are two bases '{}'", base.name())});
    }
  }

  void read_family(const v1::Family& family) {
    const auto base = bases_.find(family.base());
    if (base == bases_.end()) {
      std::vector<std::string> names;
      for (const auto& [name, plan] : bases_) names.push_back(name);
      problems_.push_back(
          {source_.where(family, "base"), fmt::format("there is no base '{}'{}", family.base(),
                                                      did_you_mean(family.base(), names))});
      return;
    }
    const std::size_t before = problems_.size();
    Block block{family.name(), base->second.plan, base->second.beside, {}, 1, state_->size};
    std::vector<Setting> settings;
    for (int i = 0; i < family.set_size(); ++i)
      settings.push_back({family.set(i), source_.where(family, "set", i)});
    for (const std::string& text : overrides_)
      settings.push_back({text, fmt::format("command line, {}", text.substr(0, 80))});
    Source places("");
    add(apply(settings, block.base, places), source_.path());

    std::vector<std::string> varied;
    for (const v1::Vary& vary : family.vary()) {
      block.axes.push_back(read_axis(vary, source_, problems_));
      for (const std::string& field : block.axes.back().fields) {
        if (std::find(varied.begin(), varied.end(), field) != varied.end())
          problems_.push_back(
              {source_.where(vary, "keys"), fmt::format("'{}' varies twice in the family", field)});
        varied.push_back(field);
      }
    }
    for (const Setting& setting : settings) {
      const std::string field = plan_field(setting.text.substr(0, setting.text.find('='))).field;
      if (std::find(varied.begin(), varied.end(), field) != varied.end())
        problems_.push_back({setting.where, fmt::format("'{}' varies in the family '{}' and cannot "
                                                        "be set",
                                                        field, family.name())});
    }
    drop_implied(varied, block.base);
    if (problems_.size() != before || !count(block, family)) return;
    complete(block, family);
    if (problems_.size() != before) return;
    state_->size += block.size;
    state_->blocks.push_back(std::move(block));
  }

  bool count(Block& block, const v1::Family& family) {
    for (const Axis& axis : block.axes)
      if (__builtin_mul_overflow(block.size, static_cast<std::int64_t>(axis.rows.size()),
                                 &block.size) ||
          block.size > max_points)
        block.size = max_points + 1;
    if (block.size <= max_points - state_->size) return true;
    problems_.push_back({source_.where(family, "name"),
                         fmt::format("the grid has more than {} points with family '{}'; split it",
                                     max_points, family.name())});
    return false;
  }

  // Checks that each point has all required fields, and that its model and cluster exist.
  void complete(const Block& block, const v1::Family& family) {
    const std::string where = source_.where(family, "name");
    v1::Plan first = point_plan(block, 0);
    Source source("");
    for (Diagnostic problem : check_plan(source, first)) {
      problem.where = where;
      problems_.push_back(std::move(problem));
    }
    if (!first.has_model() && !first.has_architecture())
      problems_.push_back({where, "'Plan' needs the field 'model'"});
    std::set<std::string> models, clusters;
    if (block.base.has_model()) models.insert(block.base.model());
    if (block.base.has_cluster()) clusters.insert(block.base.cluster());
    for (const Axis& axis : block.axes) {
      for (const AxisRow& row : axis.rows) {
        if (row.plan.has_model()) models.insert(row.plan.model());
        if (row.plan.has_cluster()) clusters.insert(row.plan.cluster());
      }
    }
    for (const std::string& name : models) find_model(name, block.beside, where);
    for (const std::string& name : clusters) find_machine(name, block.beside, where);
  }

  void find_model(const std::string& name, const std::string& beside, const std::string& where) {
    if (state_->models.contains({beside, name})) return;
    const Result<std::string> path = locate(Kind::model, name, beside);
    if (!path) return add(path.errors(), where);
    const Result<model::Architecture> model = load_huggingface(*path);
    if (!model) return add(model.errors(), where);
    state_->models.emplace(std::pair(beside, name), *model);
  }

  void find_machine(const std::string& name, const std::string& beside, const std::string& where) {
    if (state_->machines.contains({beside, name})) return;
    const Result<Machine> machine = find_cluster(name, beside);
    if (!machine) return add(machine.errors(), where);
    for (const auto& known : state_->machine_order) {
      if (known->path != machine->path) continue;
      state_->machines.emplace(std::pair(beside, name), known);
      return;
    }
    const auto shared = std::make_shared<const Machine>(*machine);
    state_->machines.emplace(std::pair(beside, name), shared);
    state_->machine_order.push_back(shared);
  }

  // Labels make names unique within a block. Blocks of one family are compared with each other.
  void unique_names() {
    std::map<std::string, std::vector<const Block*>> by_family;
    for (const Block& block : state_->blocks) by_family[block.family].push_back(&block);
    for (const auto& [family, blocks] : by_family) {
      if (blocks.size() < 2) continue;
      std::set<std::string> names;
      for (const Block* block : blocks) {
        for (std::int64_t i = 0; i < block->size; ++i) {
          if (names.insert(point_name(*block, i)).second) continue;
          problems_.push_back(
              {source_.path(), fmt::format("there are two points '{}'", point_name(*block, i))});
          if (problems_.size() >= max_problems) return;
        }
      }
    }
  }

  void add(const Diagnostics& from, const std::string& where) {
    for (Diagnostic problem : from) {
      if (problem.where.empty()) problem.where = where;
      problems_.push_back(std::move(problem));
    }
  }

  Source source_;
  const std::vector<std::string>& overrides_;
  v1::Grid message_;
  Diagnostics problems_;
  std::map<std::string, Base> bases_;
  std::shared_ptr<Grid::State> state_;
};

const std::string& Grid::name() const {
  return state_->name;
}
const std::string& Grid::path() const {
  return state_->path;
}
std::size_t Grid::size() const {
  return static_cast<std::size_t>(state_->size);
}

std::vector<std::string> Grid::families() const {
  std::vector<std::string> names;
  for (const Block& block : state_->blocks)
    if (std::find(names.begin(), names.end(), block.family) == names.end())
      names.push_back(block.family);
  return names;
}

std::vector<std::shared_ptr<const Machine>> Grid::machines() const {
  return state_->machine_order;
}

GridPoint Grid::point(std::size_t index) const {
  assert(index < size());
  const auto at = static_cast<std::int64_t>(index);
  const auto after =
      std::upper_bound(state_->blocks.begin(), state_->blocks.end(), at,
                       [](std::int64_t value, const Block& block) { return value < block.first; });
  const Block& block = *(after - 1);
  const v1::Plan plan = point_plan(block, at - block.first);
  GridPoint point;
  point.name = point_name(block, at - block.first);
  point.family = block.family;
  point.counts_all_attention = state_->counts_all_attention;
  point.settings = plan_settings(plan);
  point.machine = state_->machines.at({block.beside, plan.cluster()});
  const model::Architecture architecture =
      network_of(plan, plan.has_model() ? state_->models.at({block.beside, plan.model()})
                                        : model::Architecture{});
  Resolved resolved = resolve(plan, architecture, point.machine.get());
  point.problems = std::move(resolved.problems);
  if (resolved.has_world) {
    const Result<program::ValidPlan> valid = program::validate(resolved.plan);
    if (!valid)
      point.problems.insert(point.problems.end(), valid.errors().begin(), valid.errors().end());
    else if (point.problems.empty())
      point.valid = *valid;
  }
  point.plan = std::move(resolved.plan);
  return point;
}

Result<Grid> load_grid(const std::string& path, const std::vector<std::string>& overrides) {
  return GridLoader(path, overrides).run();
}

Result<Grid> grid_of_words(const std::vector<std::string>& words) {
  return GridLoader("", {}).run_words(words);
}

}  // namespace sim::input
