// calibrate_text.cpp — what a calibration says.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/calibrate/calibrate.h"
#include "sim/report/table.h"

namespace sim::calibrate {

namespace {

using report::Json;
using report::Table;

std::string percent(double value) {
  return fmt::format("{:.1f} %", value);
}

// A value in the unit people think in.
std::string value_text(const std::string& path, double value) {
  if (path.find("ramp_") == std::string::npos && path.ends_with("ramp"))
    return fmt::format("{:.4g} MB", value * 1e-6);
  if (value != 0 && value < 1e-3) return fmt::format("{:.4g} us", value * 1e6);
  return fmt::format("{:.4g}", value);
}

std::string name_of(const FittedParameter& p) {
  return p.element.empty() ? p.path : fmt::format("{} ({})", p.path, p.element);
}

std::string read_text(const Calibration& c) {
  Table table({"<source", "<format", "kernels", "collectives", "host costs", "steps", "left out"});
  for (const SourceFile& source : c.sources) {
    const Measurements& m = source.measurements;
    std::int64_t passed = 0;
    for (const auto& [why, count] : m.passed) passed += count;
    const auto count = [](std::size_t n) { return n == 0 ? "" : fmt::format("{}", n); };
    table.row({source.path, source.format, count(m.kernels.size()), count(m.collectives.size()),
               count(m.host.size()), count(m.steps.size()),
               count(static_cast<std::size_t>(passed))});
  }
  std::string text = "\nread\n" + table.text();
  for (const SourceFile& source : c.sources)
    for (const std::string& fact : source.measurements.facts) text += "  " + fact + "\n";
  return text;
}

std::string parameter_text(const Calibration& c) {
  Table fitted({"<parameter", "base", "fitted", "samples", "<bound"});
  Table kept({"<parameter", "value", "samples"});
  for (const FittedParameter& p : c.fit.parameters) {
    const std::string samples = fmt::format("{}", p.samples);
    if (p.fitted) {
      fitted.row({name_of(p), value_text(p.path, p.base), value_text(p.path, p.value), samples,
                  p.at_bound() ? "at its bound" : ""});
    } else {
      kept.row({name_of(p), value_text(p.path, p.value), samples});
    }
  }
  std::string text;
  if (!fitted.empty()) text += "\nfitted (samples: measurements that feel it)\n" + fitted.text();
  if (!kept.empty())
    text += "\nstayed at the base, fewer than 5 measurements feel it\n" + kept.text();
  return text;
}

std::string residual_text(const Calibration& c) {
  Table table(
      {"<group", "<source", "<GPU", "samples", "base", "fitted", "bias", "noise", "<level"});
  for (const SourceResidual& r : c.fit.residuals) {
    table.row({r.group, r.source, r.gpu, fmt::format("{}", r.samples), percent(r.base_percent),
               percent(r.mean_absolute_percent), fmt::format("{:+.1f} %", r.bias_percent),
               percent(r.noise_percent),
               r.level == 1 ? "" : fmt::format("sibling, {:.3f} of its time", r.level)});
  }
  if (table.empty()) return "";
  return "\nresiduals of the time (mean absolute; noise: scatter around the bias)\n" + table.text();
}

std::string unseen_text(const Calibration& c) {
  Table table({"<block", "<split", "samples", "base", "fitted"});
  for (const Fit::Unseen& u : c.fit.unseen) {
    table.row({u.block, u.split, fmt::format("{}", u.samples), percent(u.base_percent),
               percent(u.percent)});
  }
  if (table.empty()) return "";
  return "\nmean absolute error on measurements that the fit did not see\n" + table.text();
}

std::string disagreement_text(const Calibration& c) {
  if (c.fit.residuals.empty()) return "";
  if (c.fit.disagreements.empty())
    return "\nno two sources of a group disagree by more than their noise\n";
  Table table({"<group", "<one", "<other", "apart", "noise"});
  for (const Disagreement& d : c.fit.disagreements)
    table.row({d.group, d.one, d.other, percent(d.percent), percent(d.noise_percent)});
  return "\nsources that disagree by more than their noise\n" + table.text();
}

std::string passed_text(const Calibration& c) {
  std::map<std::string, std::int64_t> all = c.fit.passed;
  for (const SourceFile& source : c.sources)
    for (const auto& [why, count] : source.measurements.passed) all[why] += count;
  Table table({"count", "<left out"});
  for (const auto& [why, count] : all) table.row({fmt::format("{}", count), why});
  return table.empty() ? "" : "\n" + table.text();
}

}  // namespace

std::string calibration_text(const Calibration& c) {
  std::size_t fitted = 0, samples = 0;
  for (const FittedParameter& p : c.fit.parameters) fitted += p.fitted ? 1 : 0;
  for (const SourceResidual& r : c.fit.residuals) samples += r.samples;
  std::string text = fmt::format("{} parameters fitted to {} measurements, from profile {}\n",
                                 fitted, samples, c.base);
  return text + read_text(c) + parameter_text(c) + residual_text(c) + unseen_text(c) +
         disagreement_text(c) + passed_text(c);
}

Json calibration_json(const Calibration& c) {
  Json json = {{"base", c.base}};
  json["sources"] = Json::array();
  for (const SourceFile& s : c.sources) {
    const Measurements& m = s.measurements;
    json["sources"].push_back({{"path", s.path},
                               {"format", s.format},
                               {"device", m.device},
                               {"kernels", m.kernels.size()},
                               {"collectives", m.collectives.size()},
                               {"host", m.host.size()},
                               {"steps", m.steps.size()},
                               {"facts", m.facts},
                               {"left_out", m.passed}});
  }
  json["parameters"] = Json::array();
  for (const FittedParameter& p : c.fit.parameters) {
    json["parameters"].push_back({{"path", p.path},
                                  {"element", p.element},
                                  {"base", p.base},
                                  {"value", p.value},
                                  {"samples", p.samples},
                                  {"fitted", p.fitted}});
  }
  json["residuals"] = Json::array();
  for (const SourceResidual& r : c.fit.residuals) {
    json["residuals"].push_back({{"group", r.group},
                                 {"source", r.source},
                                 {"gpu", r.gpu},
                                 {"samples", r.samples},
                                 {"base_pct", r.base_percent},
                                 {"fitted_pct", r.mean_absolute_percent},
                                 {"bias_pct", r.bias_percent},
                                 {"noise_pct", r.noise_percent},
                                 {"level", r.level}});
  }
  json["unseen"] = Json::array();
  for (const Fit::Unseen& u : c.fit.unseen) {
    json["unseen"].push_back({{"block", u.block},
                              {"split", u.split},
                              {"samples", u.samples},
                              {"base_pct", u.base_percent},
                              {"fitted_pct", u.percent}});
  }
  json["disagreements"] = Json::array();
  for (const Disagreement& d : c.fit.disagreements) {
    json["disagreements"].push_back({{"group", d.group},
                                     {"one", d.one},
                                     {"other", d.other},
                                     {"apart_pct", d.percent},
                                     {"noise_pct", d.noise_percent}});
  }
  json["profile"] = c.profile;
  return json;
}

}  // namespace sim::calibrate
