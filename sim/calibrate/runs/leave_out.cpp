#include "sim/calibrate/runs/leave_out.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <set>
#include <sstream>

#include "sim/calibrate/rows/row_plan.h"
#include "sim/calibrate/rows/row_text.h"
#include "sim/calibrate/runs/best_share.h"
#include "sim/input/tables/table_csv.h"
#include "sim/input/text/locate.h"

namespace sim::calibrate {

namespace {

constexpr double moved_by = 0.1;      // a factor, for a derivative
constexpr double run_noise = 0.05;    // of a run's residual that no factor explains
constexpr double largest_move = 0.7;  // that a factor may move
// Prior widths of the shared factors, of a source's own. Mean errors of left-out sources: 9.4, 9.2,
// 9.3, 9.6, 10.1 and 10.9 % at 0.1, 0.2, 0.35, 0.5, 0.7 and 1.
constexpr double shared_width = 0.25;
constexpr int reweightings = 30;
constexpr double huber_noises = 1.345;  // noises; Huber's constant for 95 % efficiency

Result<input::ProfileDraft> draft(const std::string& profile, const std::string& communication) {
  const Result<std::string> path = input::locate(input::Kind::profile, profile);
  if (!path) return path.errors();
  if (communication.empty()) return whole_profile(*path, "");
  const Result<std::string> other = input::locate(input::Kind::profile, communication);
  if (!other) return other.errors();
  return whole_profile(*path, *other);
}

}  // namespace

Sensitivities::Sensitivities(std::vector<Factor> factors) : factors_(std::move(factors)) {}

answer::Sites& Sensitivities::moved(const std::string& profile, const std::string& communication,
                                    std::size_t factor) {
  std::unique_ptr<answer::Sites>& one =
      moved_[fmt::format("{}\n{}\n{}", profile, communication, factor)];
  if (one) return *one;
  one = std::make_unique<answer::Sites>();
  const Result<input::ProfileDraft> base = draft(profile, communication);
  if (!base) return *one;  // the row was predicted with it, so it loads
  std::vector<double> x(factors_.size());
  x[factor] = moved_by;
  one->use(profile_file(scaled(*base, factors_, x), profile));
  return *one;
}

SensitiveRow Sensitivities::of(const input::RunsRow& row) {
  SensitiveRow out{predict(row, sites_), "", std::vector<double>(factors_.size())};
  if (!time_residual(row.cells, out.given)) return out;
  // Times alone: the moved profiles are replayed without the allocator, so the base is too.
  const Circumstances times = {nullptr, engine::MemoryDetail::none};
  const std::optional<double> here = time_residual(row.cells, predict(row, sites_, times));
  if (!here) return out;
  const RowPlan mapped = plan_of(row.cells);
  out.profile = mapped.machine.gpu.profile;
  for (std::size_t k = 0; k < factors_.size(); ++k) {
    answer::Sites& with = moved(out.profile, mapped.machine.communication, k);
    if (const auto changed = time_residual(row.cells, predict(row, with, times)))
      out.sensitivity[k] = (*here - *changed) / moved_by;
  }
  return out;
}

output::Json to_json(const SensitiveRow& row) {
  return {{"prediction", to_text(row.given)},
          {"profile", row.profile},
          {"sensitivity", row.sensitivity}};
}

SensitiveRow sensitive_row(const output::Json& json) {
  return {from_text(json.at("prediction")), json.at("profile"),
          json.at("sensitivity").get<std::vector<double>>()};
}

std::string group_of(const Row& row, const SensitiveRow& given, const std::string& column) {
  if (column == "source" || column == "half" || column.starts_with("runs="))
    return cell(row, "source_group");
  if (given.given.status != "predicted") return "(refused)";
  if (column == "gpu") return given.profile.empty() ? "(no time)" : given.profile;
  if (column == "framework") return given.given.situation.framework;
  return cell(row, column);
}

namespace {

// The rows of one profile that can be compared.
struct Known {
  std::vector<std::size_t> rows;
  std::vector<double> residuals;  // ln(measured / predicted)
};

std::map<std::string, Known> by_profile(const std::vector<Row>& rows,
                                        const std::vector<SensitiveRow>& given) {
  std::map<std::string, Known> all;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (const auto r = time_residual(rows[i], given[i].given); r && !given[i].profile.empty()) {
      all[given[i].profile].rows.push_back(i);
      all[given[i].profile].residuals.push_back(*r);
    }
  return all;
}

// Share of the peak that long products would reach without a site's limit of power. Rates are in
// proportion to watts (cluster/device/kernel.h).
double long_rate(const device::GemmProfile& gemm) {
  const bool limited = gemm.power_w > 0 && gemm.power_w < gemm.rated_power_w;
  return gemm.sustained * gemm.throttled * (limited ? gemm.rated_power_w / gemm.power_w : 1.0);
}

// What profiles are compared by: the first value of a factor, or the long-run rate of products; 0
// if the profile has none.
double level_of(const input::ProfileDraft& profile, const Factor& factor) {
  if (factor.fields.front().pattern == "gemm.sustained")
    return 1 / long_rate(profile.device().gemm);
  for (const ScaledField& field : factor.fields)
    for (const std::string& path : profile.paths(field.pattern))
      if (const double value = profile.get(path); value > 0)
        return field.duration ? value : 1 / value;
  return 0;
}

// The sources of a group's rows.
std::set<std::string> sources_of(const std::vector<Row>& rows,
                                 const std::vector<std::string>& groups, const std::string& group) {
  std::set<std::string> all;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (groups[i] == group) all.insert(cell(rows[i], "source_group"));
  return all;
}

// Finds where the priors of a profile's factors have their centre without some sources.
class Centres {
 public:
  Centres(const std::map<std::string, input::ProfileDraft>& profiles,
          const std::vector<Factor>& factors, const std::vector<FittedNumbers>& fitted)
      : profiles_(profiles), factors_(factors), fitted_(fitted) {}

  // 0 for the profile's own number, unless one of the sources decided it. Then the mean of the
  // logarithms of the other profiles' numbers that none of them decided.
  std::vector<double> of(const std::string& profile, const std::set<std::string>& without) const {
    std::vector<double> centre(factors_.size());
    for (std::size_t k = 0; k < factors_.size(); ++k) {
      const double own = level_of(profiles_.at(profile), factors_[k]);
      if (own <= 0 || !decided(profile, factors_[k], without)) continue;
      double sum = 0;
      int others = 0;
      for (const auto& [name, other] : profiles_) {
        const double level = level_of(other, factors_[k]);
        if (name == profile || level <= 0 || decided(name, factors_[k], without)) continue;
        sum += std::log(level / own);
        ++others;
      }
      if (others > 0) centre[k] = sum / others;
    }
    return centre;
  }

 private:
  bool decided(const std::string& profile, const Factor& factor,
               const std::set<std::string>& by) const {
    return std::ranges::any_of(fitted_, [&](const FittedNumbers& one) {
      if (one.file != "calibration/" + profile + ".textproto") return false;
      if (std::ranges::find(one.factors, factor.name) == one.factors.end()) return false;
      return one.sources.contains("*") || std::ranges::any_of(by, [&](const std::string& source) {
               return one.sources.contains(source);
             });
    });
  }

  const std::map<std::string, input::ProfileDraft>& profiles_;
  const std::vector<Factor>& factors_;
  const std::vector<FittedNumbers>& fitted_;
};

// The normal equations of a source's rows: information A and pull b of its factors.
struct Equations {
  Eigen::MatrixXd information;
  Eigen::VectorXd pull;
};

// With Huber's weights around the factors `at`.
Equations equations(const Known& known, const std::vector<std::size_t>& of,
                    const std::vector<SensitiveRow>& given, const Eigen::VectorXd& at) {
  Equations sum{Eigen::MatrixXd::Zero(at.size(), at.size()), Eigen::VectorXd::Zero(at.size())};
  for (const std::size_t i : of) {
    const Eigen::Map<const Eigen::VectorXd> j(given[known.rows[i]].sensitivity.data(), at.size());
    const double left = std::abs(known.residuals[i] - j.dot(at)) / run_noise;
    const double weight =
        (left > huber_noises ? huber_noises / left : 1.0) / (run_noise * run_noise);
    sum.information += weight * j * j.transpose();
    sum.pull += weight * known.residuals[i] * j;
  }
  return sum;
}

// The factors that all sources share. A source's own factors differ from them by a normal deviation
// of the prior's width P, so its rows tell (A^-1 + P)^-1 about the shared ones, however many they
// are. The shared factors have a narrower prior around `towards`. `sources`: rows of each.
std::vector<double> fit(const Known& known,
                        const std::map<std::string, std::vector<std::size_t>>& sources,
                        const std::vector<SensitiveRow>& given, const std::vector<Factor>& factors,
                        const std::vector<double>& towards) {
  const auto n = static_cast<Eigen::Index>(factors.size());
  Eigen::VectorXd width(n);
  for (Eigen::Index k = 0; k < n; ++k) width(k) = factors[static_cast<std::size_t>(k)].prior;
  const Eigen::VectorXd P = width.cwiseAbs2();
  const Eigen::VectorXd own_prior = P.cwiseInverse();
  const Eigen::VectorXd prior = own_prior / (shared_width * shared_width);
  const Eigen::Map<const Eigen::VectorXd> centre(towards.data(), n);
  const Eigen::MatrixXd one = Eigen::MatrixXd::Identity(n, n);
  Eigen::VectorXd shared = centre;
  std::map<std::string, Eigen::VectorXd> own;
  for (const auto& [source, rows] : sources) own.emplace(source, centre);
  for (int round = 0; round < reweightings; ++round) {
    Eigen::MatrixXd information = prior.asDiagonal();
    Eigen::VectorXd pull = prior.cwiseProduct(centre);
    for (const auto& [source, rows] : sources) {
      const Equations e = equations(known, rows, given, own.at(source));
      const Eigen::MatrixXd told = (one + e.information * P.asDiagonal()).inverse();
      information += told * e.information;
      pull += told * e.pull;
      const Eigen::MatrixXd alone = e.information + Eigen::MatrixXd(own_prior.asDiagonal());
      own.at(source) = alone.ldlt().solve(e.pull + own_prior.cwiseProduct(shared));
    }
    shared = information.partialPivLu().solve(pull);
  }
  std::vector<double> out(factors.size());
  for (Eigen::Index k = 0; k < n; ++k)
    out[static_cast<std::size_t>(k)] = std::clamp(shared(k), -largest_move, largest_move);
  return out;
}

// The factors of one source, from its rows `of` alone.
std::vector<double> fit_source(const Known& known, const std::vector<std::size_t>& of,
                               const std::vector<SensitiveRow>& given,
                               const std::vector<Factor>& factors) {
  const auto n = static_cast<Eigen::Index>(factors.size());
  Eigen::MatrixXd prior = Eigen::MatrixXd::Zero(n, n);
  for (Eigen::Index k = 0; k < n; ++k)
    prior(k, k) = 1 / std::pow(factors[static_cast<std::size_t>(k)].prior, 2);
  Eigen::VectorXd x = Eigen::VectorXd::Zero(n);
  for (int round = 0; round < reweightings; ++round) {
    const Equations e = equations(known, of, given, x);
    x = (e.information + prior).ldlt().solve(e.pull);
  }
  return {x.data(), x.data() + n};
}

// A prediction whose time is exp(shift) times as long.
Prediction shifted(Prediction prediction, double shift) {
  if (prediction.iter_time_s) *prediction.iter_time_s *= std::exp(shift);
  if (prediction.tflops_gpu) *prediction.tflops_gpu *= std::exp(-shift);
  prediction.fitted = false;
  return prediction;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
  return sum;
}

// The rows of a profile that are not in a group, by source.
std::map<std::string, std::vector<std::size_t>> others(const Known& known,
                                                       const std::vector<Row>& rows,
                                                       const std::vector<std::string>& groups,
                                                       const std::string& group) {
  std::map<std::string, std::vector<std::size_t>> all;
  for (std::size_t i = 0; i < known.rows.size(); ++i)
    if (groups[known.rows[i]] != group) all[cell(rows[known.rows[i]], "source_group")].push_back(i);
  return all;
}

Result<std::map<std::string, input::ProfileDraft>> all_profiles() {
  std::map<std::string, input::ProfileDraft> all;
  const std::filesystem::path folder = input::repository_root() + "/calibration";
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".textproto") files.push_back(entry.path());
  std::ranges::sort(files);
  for (const std::filesystem::path& file : files) {
    const Result<input::ProfileDraft> one = input::ProfileDraft::load(file.string());
    if (!one) return one.errors();
    all.emplace(file.stem().string(), *one);
  }
  return all;
}

}  // namespace

Result<LeaveOut> leave_out(const std::vector<Row>& rows, const std::vector<SensitiveRow>& given,
                           const std::vector<std::string>& groups,
                           const std::vector<Factor>& factors,
                           const std::vector<FittedNumbers>& fitted) {
  const auto profiles = all_profiles();
  if (!profiles) return profiles.errors();
  const Centres centres(*profiles, factors, fitted);
  LeaveOut out;
  for (const SensitiveRow& one : given) out.unseen.push_back(one.given);
  for (const auto& [profile, known] : by_profile(rows, given)) {
    std::set<std::string> here;
    for (const std::size_t i : known.rows) here.insert(groups[i]);
    for (const std::string& group : here) {
      const std::vector<double> x = fit(known, others(known, rows, groups, group), given, factors,
                                        centres.of(profile, sources_of(rows, groups, group)));
      for (const std::size_t i : known.rows)
        if (groups[i] == group)
          out.unseen[i] = shifted(given[i].given, dot(given[i].sensitivity, x));
    }
  }
  return out;
}

namespace {

// A fit to some of a source's runs: how far it is trusted (best_share.h), and the residuals of
// these runs, each predicted from the others.
struct SourceFit {
  std::vector<double> factors;  // with the share taken
  std::vector<double> held_out;
};

SourceFit trusted_fit(const Known& known, const std::vector<std::size_t>& of,
                      const std::vector<SensitiveRow>& given, const std::vector<Factor>& factors) {
  std::vector<std::vector<UnseenRun>> folds;
  for (std::size_t fold = 0; fold < folds_of(of.size()); ++fold) {
    std::vector<std::size_t> kept, held;
    for (std::size_t n = 0; n < of.size(); ++n)
      (n % folds_of(of.size()) == fold ? held : kept).push_back(of[n]);
    const std::vector<double> x = fit_source(known, kept, given, factors);
    std::vector<UnseenRun>& unseen = folds.emplace_back();
    for (const std::size_t i : held)
      unseen.push_back({known.residuals[i], dot(given[known.rows[i]].sensitivity, x)});
  }
  const double share = best_share(
      of.size(), [&](std::size_t fold) -> const auto& { return folds[fold]; });
  SourceFit fit{fit_source(known, of, given, factors), {}};
  for (double& x : fit.factors) x *= share;
  for (const auto& fold : folds)
    for (const UnseenRun& run : fold) fit.held_out.push_back(run.residual - share * run.shift);
  return fit;
}

// Which of a source's runs are fitted to, and which are predicted from them.
struct Split {
  std::vector<std::size_t> fitted, predicted;
};

// The least number of runs of a source that says something about a fit to some of them. A half has
// 4 then, so one can be held out (best_share.h).
constexpr std::size_t least_for_halves = 8, least_for_some = 13;

// Each half of the runs from the other: every second row. None if the source has too few.
std::vector<Split> halves(std::size_t runs) {
  if (runs < least_for_halves) return {};
  std::vector<Split> splits(2);
  for (std::size_t i = 0; i < runs; ++i)
    for (const std::size_t half : {0u, 1u})
      (i % 2 == half ? splits[half].predicted : splits[half].fitted).push_back(i);
  return splits;
}

// Other runs from `some`. Each draw takes one run of each of `some` equal parts, at the same place
// in its part, and predicts its own share of the others. None if the source has too few.
std::vector<Split> from_some(std::size_t runs, std::size_t some) {
  constexpr std::size_t draws = 5;
  if (runs < least_for_some || some >= runs) return {};
  std::vector<Split> splits(draws);
  for (std::size_t draw = 0; draw < draws; ++draw) {
    Split& split = splits[draw];
    for (std::size_t i = 0, part = 0; i < runs; ++i) {
      const std::size_t taken = (2 * draws * part + 2 * draw + 1) * runs / (2 * draws * some);
      if (part < some && i == taken) {
        split.fitted.push_back(i);
        ++part;
      } else if (i % draws == draw) {
        split.predicted.push_back(i);
      }
    }
  }
  return splits;
}

}  // namespace

Result<LeaveOut> predict_within_sources(const std::vector<Row>& rows,
                                        const std::vector<SensitiveRow>& given,
                                        const std::vector<Factor>& factors,
                                        const std::vector<FittedNumbers>& fitted,
                                        std::size_t some) {
  std::vector<std::string> source;
  for (const Row& row : rows) source.push_back(cell(row, "source_group"));
  const Result<LeaveOut> base = leave_out(rows, given, source, factors, fitted);
  if (!base) return base.errors();
  LeaveOut out{base->unseen, base->unseen, {}};
  out.own.resize(rows.size());
  std::vector<SensitiveRow> without = given;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    without[i].given = base->unseen[i];
    if (out.unseen[i].status != "predicted") continue;
    out.unseen[i].status = "unsupported";
    out.unseen[i].reason =
        some == 0 ? fmt::format("its source has fewer than {} runs on this GPU", least_for_halves)
                  : fmt::format("fitted to, or its source has fewer than {} runs on this GPU",
                                least_for_some);
  }
  for (const auto& [profile, all] : by_profile(rows, without)) {
    std::map<std::string, Known> sources;
    for (std::size_t i = 0; i < all.rows.size(); ++i) {
      Known& known = sources[source[all.rows[i]]];
      known.rows.push_back(all.rows[i]);
      known.residuals.push_back(all.residuals[i]);
    }
    for (const auto& [name, known] : sources)
      for (const Split& split :
           some > 0 ? from_some(known.rows.size(), some) : halves(known.rows.size())) {
        const SourceFit fit = trusted_fit(known, split.fitted, without, factors);
        for (const std::size_t i : split.predicted) {
          const std::size_t row = known.rows[i];
          const double shift = dot(without[row].sensitivity, fit.factors);
          out.unseen[row] = shifted(without[row].given, shift);
          out.own[row] = answer::spread_of_own_runs({"", "", fit.held_out});
        }
      }
  }
  return out;
}

namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

}  // namespace

Result<std::vector<FittedNumbers>> find_fitted_numbers() {
  const std::string path = input::repository_root() + "/calibration/fitted.csv";
  const Result<input::Table> table = input::load_table(path);
  if (!table) return table.errors();
  std::vector<FittedNumbers> all;
  for (const input::TableRow& row : table->rows) {
    const std::vector<std::string> sources = words_of(row.cells.at("sources"));
    all.push_back({row.cells.at("file"),
                   row.cells.at("numbers"),
                   row.cells.at("decided_by"),
                   std::atoi(row.cells.at("count").c_str()),
                   words_of(row.cells.at("factors")),
                   {sources.begin(), sources.end()}});
  }
  return all;
}

}  // namespace sim::calibrate
