// kinship.cpp — how boards of measurements relate to each other, and sources that disagree.
#include <array>
#include <cmath>

#include "sim/calibrate/fit/fit.h"
#include "sim/calibrate/rows/row_text.h"

namespace sim::calibrate {

Kinship kinship(const std::string& sample_gpu, const std::string& gpu) {
  // GPUs of one architecture share how time depends on shape, but not the level.
  static const std::array<std::vector<std::string_view>, 3> architectures = {
      {{"A100", "A800"}, {"H100", "H200", "H800", "H20"}, {"B200", "B100", "B300"}}};
  const auto architecture = [&](const std::string& name) {
    for (std::size_t a = 0; a < architectures.size(); ++a) {
      for (const std::string_view word : architectures[a]) {
        if (contains(name, word)) return static_cast<int>(a);
      }
    }
    return -1;
  };
  // the source does not name its GPU; the user's is meant
  if (sample_gpu.empty()) return Kinship::same;
  const int mine = architecture(gpu);
  if (mine < 0 || architecture(sample_gpu) != mine) return Kinship::stranger;
  const std::string family = gpu.substr(0, gpu.find_first_of("- "));
  const bool own_name = contains(sample_gpu, family) && !contains(sample_gpu, "G" + family);
  for (const char* board : {"PCIe", "NVL"}) {
    if (contains(sample_gpu, board) != contains(gpu, board)) return Kinship::sibling;
  }
  // Memory in a GPU's name, such as "80GB" or "80 GB"; compared if both names have it.
  const auto memory = [](const std::string& name) -> std::int64_t {
    const std::size_t at = name.find("GB");
    std::size_t from = at == std::string::npos ? 0 : at;
    while (from > 0 && name[from - 1] == ' ') --from;
    std::size_t begin = from;
    while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9') --begin;
    return leading_number(std::string_view(name).substr(begin, from - begin)).value_or(0);
  };
  const std::int64_t theirs = memory(sample_gpu), ours = memory(gpu);
  if (theirs != 0 && ours != 0 && theirs != ours) return Kinship::sibling;
  return own_name ? Kinship::same : Kinship::sibling;
}

std::vector<Disagreement> disagreements(const std::vector<SourceResidual>& residuals) {
  std::vector<Disagreement> out;
  for (std::size_t i = 0; i < residuals.size(); ++i) {
    for (std::size_t j = i + 1; j < residuals.size(); ++j) {
      const SourceResidual &a = residuals[i], &b = residuals[j];
      // Levels of siblings are compared if both sources measured the same board.
      const bool comparable =
          (a.level == 1 && b.level == 1) || kinship(a.gpu, b.gpu) == Kinship::same;
      if (a.group != b.group || !comparable) continue;
      const auto offset = [](const SourceResidual& r) {
        return 100 * std::log(r.level) - r.bias_percent;
      };
      const double apart = std::abs(offset(a) - offset(b));
      const double error = std::hypot(a.standard_error_percent, b.standard_error_percent);
      const double scatter = std::max(a.noise_percent, b.noise_percent);
      if (apart <= 2 * error || apart <= scatter) continue;
      out.push_back(
          {a.group, a.source + " on " + a.gpu, b.source + " on " + b.gpu, apart, scatter});
    }
  }
  return out;
}

}  // namespace sim::calibrate
