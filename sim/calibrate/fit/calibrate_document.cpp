// calibrate_document.cpp — the result of a calibration as a document.
#include <fmt/format.h>

#include <algorithm>

#include "sim/calibrate/fit/calibrate.h"

namespace sim::calibrate {

namespace {

using output::Column;
using output::Json;
using output::Rows;

// A parameter's value as text, in a readable unit.
std::string value_text(const std::string& path, double value) {
  if (path.find("ramp_") == std::string::npos && path.ends_with("ramp"))
    return fmt::format("{:.4g} MB", value * 1e-6);
  if (value != 0 && value < 1e-3) return fmt::format("{:.4g} us", value * 1e6);
  return fmt::format("{:.4g}", value);
}

std::string name_of(const FittedParameter& p) {
  return p.element.empty() ? p.path : fmt::format("{} ({})", p.path, p.element);
}

std::map<std::string, std::int64_t> left_out(const Calibration& c) {
  std::map<std::string, std::int64_t> all = c.fit.passed;
  for (const SourceFile& source : c.sources)
    for (const auto& [why, count] : source.measurements.passed) all[why] += count;
  return all;
}

Column words(const char* key, const char* heading) {
  return {key, heading, "", 0, true};
}

Column percent(const char* key, const char* heading) {
  return {key, heading, "", 1, false, " %"};
}

Rows sources(const Calibration& c) {
  Rows rows{"sources",
            "read",
            {words("path", "source"),
             words("format", "format"),
             words("device", "GPU"),
             {"kernels", "kernels"},
             {"collectives", "collectives"},
             {"host", "host costs"},
             {"steps", "steps"},
             {"", "left out"},
             {"facts"},
             {"left_out"}},
            {}};
  for (const SourceFile& source : c.sources) {
    const Measurements& m = source.measurements;
    std::size_t passed = 0;
    for (const auto& [why, number] : m.passed) passed += static_cast<std::size_t>(number);
    rows.cells.push_back({source.path, source.format, m.device, m.kernels.size(),
                          m.collectives.size(), m.host.size(), m.steps.size(), passed, m.facts,
                          m.passed});
    for (const std::string& fact : m.facts) rows.footnote += "  " + fact + "\n";
  }
  return rows;
}

Rows parameters(const Calibration& c) {
  Rows rows{"parameters",
            "parameters (samples: measurements that feel it)",
            {words("", "parameter"),
             {"", "base"},
             {"", "value"},
             {"samples", "samples"},
             {"shapes"},
             words("", "what"),
             {"path"},
             {"element"},
             {"base"},
             {"value"},
             {"fitted"}},
            {}};
  const auto in_doubt = [&](const FittedParameter& p) {
    return std::ranges::any_of(c.fit.kept,
                               [&](const KeptBlock& one) { return one.block == p.block; });
  };
  for (const FittedParameter& p : c.fit.parameters) {
    const char* what = in_doubt(p)    ? "stays: in doubt"
                       : !p.fitted    ? "stays: too few of them"
                       : p.at_bound() ? "fitted, at its bound"
                                      : "fitted";
    rows.cells.push_back({name_of(p), value_text(p.path, p.base), value_text(p.path, p.value),
                          p.samples, p.shapes, what, p.path, p.element, p.base, p.value, p.fitted});
  }
  return rows;
}

Rows residuals(const Calibration& c) {
  Rows rows{"residuals",
            "residuals of the time (mean absolute; noise: scatter around the bias)",
            {words("group", "group"),
             words("source", "source"),
             words("gpu", "GPU"),
             {"samples", "samples"},
             percent("base_pct", "base"),
             percent("fitted_pct", "fitted"),
             {"bias_pct", "bias", "", 1, false, " %", 1, output::Show::change},
             percent("noise_pct", "noise"),
             {"level"},
             words("", "level")},
            {}};
  for (const SourceResidual& r : c.fit.residuals)
    rows.cells.push_back({r.group, r.source, r.gpu, r.samples, r.base_percent,
                          r.mean_absolute_percent, r.bias_percent, r.noise_percent, r.level,
                          r.level == 1 ? "" : fmt::format("sibling, {:.3f} of its time", r.level)});
  return rows;
}

Rows kept(const Calibration& c) {
  Rows rows{"kept",
            "blocks in doubt: they keep the values of the base (--force fits them all the same)",
            {words("block", "block"), words("reason", "reason")},
            {}};
  for (const KeptBlock& one : c.fit.kept) rows.cells.push_back({one.block, one.reason});
  return rows;
}

// The collectives one by one. Text has those of a log; a long table is for --csv and --json.
Rows collectives(const Calibration& c) {
  constexpr std::size_t most = 60;
  Rows rows = collectives_table(c.fit.collectives);
  rows.searched = rows.cells.empty() || rows.cells.size() > most;
  return rows;
}

Rows unseen(const Calibration& c) {
  Rows rows{"unseen",
            "mean absolute error on measurements that the fit did not see",
            {words("block", "block"),
             words("split", "split"),
             {"samples", "samples"},
             percent("base_pct", "base"),
             percent("fitted_pct", "fitted")},
            {}};
  for (const Fit::Unseen& u : c.fit.unseen)
    rows.cells.push_back({u.block, u.split, u.samples, u.base_percent, u.percent});
  return rows;
}

Rows disagreements(const Calibration& c) {
  Rows rows{"disagreements",
            "sources that disagree by more than their noise",
            {words("group", "group"), words("one", "one"), words("other", "other"),
             percent("apart_pct", "apart"), percent("noise_pct", "noise")},
            {}};
  for (const Disagreement& d : c.fit.disagreements)
    rows.cells.push_back({d.group, d.one, d.other, d.percent, d.noise_percent});
  return rows;
}

}  // namespace

std::size_t fitted(const Calibration& c) {
  return static_cast<std::size_t>(std::count_if(c.fit.parameters.begin(), c.fit.parameters.end(),
                                                [](const FittedParameter& p) { return p.fitted; }));
}

output::Document calibration_document(const Calibration& c) {
  std::size_t samples = 0;
  for (const SourceResidual& r : c.fit.residuals) samples += r.samples;
  output::Document document;
  document.blocks.emplace_back(
      output::Note{"",
                   fmt::format("{} parameters fitted to {} measurements, from profile {}",
                               fitted(c), samples, c.base),
                   true});
  document.blocks.emplace_back(output::Values{"", {output::value("base", "", c.base)}});
  for (Rows rows :
       {sources(c), parameters(c), kept(c), residuals(c), unseen(c), disagreements(c)}) {
    rows.searched = rows.cells.empty();  // an empty table has no text
    document.blocks.emplace_back(std::move(rows));
  }
  if (c.fit.disagreements.empty())
    document.blocks.emplace_back(
        output::Note{"", "no two sources of a group disagree by more than their noise"});
  Rows each = collectives(c);
  if (each.searched && !each.cells.empty())
    document.blocks.emplace_back(output::Note{
        "", fmt::format("{} collectives, measured and predicted: --csv FILE writes each of them",
                        each.cells.size())});
  document.blocks.emplace_back(std::move(each));
  Rows passed{"", "", {{"", "count"}, words("", "left out")}, {}};
  for (const auto& [why, number] : left_out(c)) passed.cells.push_back({number, why});
  passed.searched = passed.cells.empty();
  document.blocks.emplace_back(std::move(passed));
  document.blocks.emplace_back(output::Data{"profile", c.profile});
  return document;
}

}  // namespace sim::calibrate
