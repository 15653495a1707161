#include "sim/calibrate/runs/factors.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "sim/input/tables/table_csv.h"
#include "sim/input/text/locate.h"

namespace sim::calibrate {

namespace {

// Bounds of what a factor may write: a fraction of a peak stays one, and never vanishes.
constexpr double least_fraction = 0.02, largest_fraction = 1;

std::vector<ScaledField> fields_of(const std::string& text) {
  std::vector<ScaledField> fields;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    ScaledField field{word};
    if (const std::size_t at = word.find(":time"); at != std::string::npos) {
      field.pattern.resize(at);
      field.duration = true;
    }
    fields.push_back(field);
  }
  return fields;
}

// The fields of a pattern that the profile has, with [NAME] resolved.
std::vector<std::string> paths_of(const input::ProfileDraft& profile, const std::string& pattern) {
  const std::size_t open = pattern.find('['), close = pattern.find(']');
  if (open == std::string::npos || pattern[open + 1] == '*') return profile.paths(pattern);
  const std::string name = pattern.substr(open + 1, close - open - 1);
  const std::string all = pattern.substr(0, open) + "[*]" + pattern.substr(close + 1);
  std::vector<std::string> found = profile.paths(all);
  std::erase_if(found, [&](const std::string& path) { return profile.element(path) != name; });
  return found;
}

// Slows the fields down by exp(x); returns what their bounds left over, the least of all fields.
double scale(input::ProfileDraft& profile, const std::vector<ScaledField>& fields, double x) {
  double left = 0;
  bool first = true;
  for (const ScaledField& field : fields)
    for (const std::string& path : paths_of(profile, field.pattern)) {
      const double value = profile.get(path);
      if (value <= 0) continue;
      if (field.duration) {
        profile.set(path, value * std::exp(x));
        continue;
      }
      const double wanted = value * std::exp(-x);
      const double set = std::clamp(wanted, least_fraction, largest_fraction);
      profile.set(path, set);
      const double rest = std::log(set / wanted);
      if (first || std::abs(rest) < std::abs(left)) left = rest;
      first = false;
    }
  return left;
}

}  // namespace

Result<std::vector<Factor>> load_factors(const std::string& path) {
  const Result<input::Table> table = input::load_table(path);
  if (!table) return table.errors();
  Diagnostics problems;
  for (const char* column : {"factor", "fields", "then", "prior", "measure", "source"})
    if (!table->has(column))
      problems.push_back({path + ":1", fmt::format("the column '{}' is missing", column)});
  if (!problems.empty()) return problems;
  std::vector<Factor> factors;
  for (const input::TableRow& row : table->rows) {
    Factor factor;
    factor.name = row.cells.at("factor");
    factor.fields = fields_of(row.cells.at("fields"));
    factor.then = fields_of(row.cells.at("then"));
    factor.measure = row.cells.at("measure");
    const std::string& prior = row.cells.at("prior");
    const auto [end, error] =
        std::from_chars(prior.data(), prior.data() + prior.size(), factor.prior);
    if (error != std::errc{} || end != prior.data() + prior.size() || !(factor.prior > 0))
      problems.push_back({fmt::format("{}:{}", path, row.line),
                          "'prior' is a standard deviation above 0, such as 0.1"});
    if (factor.name.empty() || factor.fields.empty())
      problems.push_back({fmt::format("{}:{}", path, row.line),
                          "a factor has a name and at least one field of a profile"});
    factors.push_back(std::move(factor));
  }
  if (!problems.empty()) return problems;
  return factors;
}

Result<std::vector<Factor>> find_factors() {
  return load_factors(input::repository_root() + "/calibration/factors.csv");
}

std::vector<Factor> factors_of(const std::vector<Factor>& all, const input::ProfileDraft& base) {
  std::vector<Factor> found;
  for (const Factor& factor : all)
    if (std::ranges::any_of(factor.fields, [&](const ScaledField& field) {
          return std::ranges::any_of(paths_of(base, field.pattern),
                                     [&](const std::string& path) { return base.get(path) > 0; });
        }))
      found.push_back(factor);
  return found;
}

std::vector<std::string> moved_too_far(const std::vector<Factor>& all,
                                       const input::ProfileDraft& base,
                                       const input::ProfileDraft& fitted) {
  std::vector<std::string> texts;
  for (const Factor& factor : all) {
    double sum = 0;
    int moved = 0;
    for (const ScaledField& field : factor.fields)
      for (const std::string& path : paths_of(base, field.pattern)) {
        const double before = base.get(path), after = fitted.get(path);
        if (before <= 0 || after <= 0 || before == after) continue;
        sum += (field.duration ? 1 : -1) * std::log(after / before);
        ++moved;
      }
    if (moved == 0 || std::abs(sum / moved) <= furthest_move * factor.prior) continue;
    texts.push_back(fmt::format(
        "{} takes {:.2f} times the time of the profile; known clusters differ by {:.0f} %",
        factor.name, std::exp(sum / moved), 100 * factor.prior));
  }
  return texts;
}

Result<input::ProfileDraft> whole_profile(const std::string& profile,
                                          const std::string& communication) {
  const Result<input::ProfileDraft> loaded = input::ProfileDraft::load(profile);
  if (!loaded || communication.empty() || communication == profile) return loaded;
  const Result<input::ProfileDraft> other = input::ProfileDraft::load(communication);
  if (!other) return other.errors();
  input::ProfileDraft whole = *loaded;
  whole.take_communication(*other);
  return whole;
}

input::ProfileFile profile_file(const input::ProfileDraft& profile, const std::string& path) {
  input::ProfileFile file;
  file.device = profile.device();
  file.has_communication = profile.has_communication();
  if (file.has_communication) file.communication = profile.communication();
  file.path = path;
  file.text = profile.text("");
  return file;
}

input::ProfileDraft scaled(const input::ProfileDraft& base, const std::vector<Factor>& factors,
                           const std::vector<double>& x) {
  input::ProfileDraft profile = base;
  for (std::size_t i = 0; i < factors.size(); ++i)
    if (x[i] != 0)
      if (const double left = scale(profile, factors[i].fields, x[i]); left != 0)
        scale(profile, factors[i].then, left);
  return profile;
}

}  // namespace sim::calibrate
