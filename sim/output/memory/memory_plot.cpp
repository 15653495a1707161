#include "sim/output/memory/memory_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/text.h"

namespace sim::output {

namespace {

using engine::ClassReport;
using program::Category;

struct Layer {
  Category category;
  const char* colour;
};
// Layers from the bottom: categories that stay between steps first, temporary ones on top. Colours
// are those of pages (output/page/page.js).
constexpr std::array<Layer, program::category_count> layers = {{
    {Category::weights, "#0072b2"},
    {Category::gradients, "#d55e00"},
    {Category::master_weights, "#009e73"},
    {Category::optimizer, "#cc79a7"},
    {Category::other, "#7a7a7a"},
    {Category::activations, "#e69f00"},
    {Category::logits, "#b8a800"},
    {Category::communication, "#332288"},
    {Category::temporaries, "#56b4e9"},
}};
constexpr double whole_width = 1060, left = 70, right = 230, top = 34, height = 230, below = 46;

// A round step that divides `range` into 4 to 8 parts.
double tick(double range) {
  const double rough = range / 6;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double step : {1.0, 2.0, 5.0})
    if (rough <= step * power) return step * power;
  return 10 * power;
}

struct Panel {
  double x0 = left, x1 = whole_width - right, y0, y1;
  double seconds, gib_most;

  double x(double s) const { return x0 + (x1 - x0) * s / seconds; }
  double y(double gib) const { return y1 - (y1 - y0) * gib / gib_most; }
};

std::string text(double x, double y, std::string_view what, std::string_view more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}{}>{}</text>\n", x, y,
                     more.empty() ? "" : " ", more, what);
}

std::string line(double x0, double y0, double x1, double y1, std::string_view style) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x0, y0,
                     x1, y1, style);
}

std::string escaped(std::string_view text) {
  std::string xml;
  for (const char c : text) {
    if (c == '<') {
      xml += "&lt;";
    } else if (c == '&') {
      xml += "&amp;";
    } else {
      xml += c;
    }
  }
  return xml;
}

double gib_of(std::int64_t bytes) {
  return gib(Bytes{bytes});
}

std::string axes(const Panel& panel) {
  std::string svg;
  const double rows = tick(panel.gib_most);
  for (double value = 0; value <= panel.gib_most; value += rows) {
    svg += line(panel.x0, panel.y(value), panel.x1, panel.y(value), "stroke=\"#ddd\"");
    svg +=
        text(panel.x0 - 6, panel.y(value) + 4, fmt::format("{:g}", value), "text-anchor=\"end\"");
  }
  const double columns = tick(panel.seconds);
  for (double value = 0; value <= panel.seconds; value += columns) {
    svg += line(panel.x(value), panel.y1, panel.x(value), panel.y1 + 4, "stroke=\"#333\"");
    svg +=
        text(panel.x(value), panel.y1 + 17, fmt::format("{:g}", value), "text-anchor=\"middle\"");
  }
  svg += text(panel.x0 - 44, panel.y0 - 6, "GiB");
  svg += text(panel.x1, panel.y1 + 32, "s since the start", "text-anchor=\"end\"");
  return svg;
}

// Corners of a step function from left to right; flat runs keep only their ends.
class Steps {
 public:
  void add(double x0, double x1, double y) {
    if (points_.empty() || points_.back().second != y) points_.emplace_back(x0, y);
    if (points_.size() > 1 && points_[points_.size() - 2].second == y) points_.pop_back();
    points_.emplace_back(x1, y);
  }
  std::string text(bool backwards = false) const {
    std::string all;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const auto& [x, y] = points_[backwards ? points_.size() - 1 - i : i];
      all += fmt::format("{:.1f},{:.1f} ", x, y);
    }
    return all;
  }

 private:
  std::vector<std::pair<double, double>> points_;
};

// One polygon per category: along its top to the right, along its bottom back.
std::string areas(const Panel& panel, const MemoryTimeline::Class& own) {
  const std::size_t n = own.intervals.size();
  std::vector<std::int64_t> floor(n, 0);
  const double step = seconds(own.width);
  std::string svg;
  for (const Layer& layer : layers) {
    Steps over, under;
    bool any = false;
    for (std::size_t i = 0; i < n; ++i) {
      const std::int64_t held =
          own.intervals[i].most.split[static_cast<std::size_t>(layer.category)];
      any = any || held > 0;
      const double x0 = panel.x(step * static_cast<double>(i));
      const double x1 = panel.x(step * static_cast<double>(i + 1));
      under.add(x0, x1, panel.y(gib_of(floor[i])));
      over.add(x0, x1, panel.y(gib_of(floor[i] + held)));
      floor[i] += held;
    }
    if (any)
      svg +=
          fmt::format("<polygon fill=\"{}\" points=\"{}{}\"><title>{}</title></polygon>\n",
                      layer.colour, over.text(), under.text(true), program::name(layer.category));
  }
  return svg;
}

// Area between the smallest and the largest value per pixel: a line for slow changes, a band for
// changes faster than a pixel.
std::string reserved_band(const Panel& panel, const MemoryTimeline::Class& own) {
  const auto pixels = static_cast<std::size_t>(panel.x1 - panel.x0);
  const std::size_t n = own.intervals.size();
  const std::size_t columns = std::min(n, pixels);
  const double step = seconds(own.width);
  Steps over, under;
  for (std::size_t column = 0; column < columns; ++column) {
    const std::size_t first = column * n / columns, end = (column + 1) * n / columns;
    std::int64_t most = 0, least = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = first; i < end; ++i) {
      most = std::max(most, own.intervals[i].most.reserved);
      least = std::min(least, own.intervals[i].least_reserved);
    }
    const double x0 = panel.x(step * static_cast<double>(first));
    const double x1 = panel.x(step * static_cast<double>(end));
    over.add(x0, x1, panel.y(gib_of(most)));
    under.add(x0, x1, panel.y(gib_of(least)));
  }
  return fmt::format(
      "<polygon fill=\"#222\" fill-opacity=\"0.3\" stroke=\"#222\" stroke-width=\"1\" "
      "points=\"{}{}\"><title>reserved, least to most</title></polygon>\n",
      over.text(), under.text(true));
}

// A dotted line at the begin of each step, with its name if there is room.
std::string step_marks(const Panel& panel, const MemoryTimeline::Class& own) {
  constexpr double room = 44;
  double free_from = panel.x0;
  std::string svg;
  for (std::size_t step = 1; step < own.steps.size(); ++step) {
    const double x = panel.x(seconds(own.steps[step] - Time{}));
    svg += line(x, panel.y0, x, panel.y1, "stroke=\"#555\" stroke-dasharray=\"1 3\"");
    if (x < free_from || x + room > panel.x1) continue;
    svg += text(x + 3, panel.y1 - 4, fmt::format("step {}", step), "fill=\"#333\"");
    free_from = x + room;
  }
  return svg;
}

std::string out_of_memory(const Panel& panel, const engine::OutOfMemory& event) {
  const double x = panel.x(std::min(panel.seconds, seconds(event.when - Time{})));
  std::string svg = fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"#fff\" "
      "fill-opacity=\"0.55\"/>\n",
      x, panel.y0, panel.x1 - x, panel.y1 - panel.y0);
  svg += line(x, panel.y0 - 4, x, panel.y1, "stroke=\"#d00\" stroke-width=\"1.5\"");
  const bool room = x < panel.x0 + 0.6 * (panel.x1 - panel.x0);
  svg += text(room ? x + 5 : x - 5, panel.y0 + 10,
              "out of memory; behind it, what the run would have needed",
              room ? "fill=\"#d00\"" : "fill=\"#d00\" text-anchor=\"end\"");
  return svg;
}

std::string legend(const Panel& panel, const ClassReport& who) {
  std::string svg;
  double y = panel.y0 + 8;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"11\" height=\"11\" fill=\"{}\"/>\n",
                       panel.x1 + 16, y - 9, layer->colour);
    const std::int64_t held = who.peak_split[static_cast<std::size_t>(layer->category)];
    svg +=
        text(panel.x1 + 32, y,
             fmt::format("{}, {:.2f} at the peak", program::name(layer->category), gib_of(held)));
    y += 16;
  }
  svg += line(panel.x1 + 14, y - 4, panel.x1 + 28, y - 4, "stroke=\"#222\" stroke-width=\"1.3\"");
  svg += text(panel.x1 + 32, y, fmt::format("reserved, {:.2f}", gib(who.peak_reserved)));
  y += 16;
  svg +=
      line(panel.x1 + 14, y - 4, panel.x1 + 28, y - 4, "stroke=\"#d00\" stroke-dasharray=\"5 3\"");
  svg += text(panel.x1 + 32, y, fmt::format("device limit, {:.2f}", gib(who.capacity)));
  return svg;
}

std::string panel_text(const ClassReport& who, const MemoryTimeline::Class& own, double y) {
  Panel panel{};
  panel.x0 = left;
  panel.x1 = whole_width - right;
  panel.y0 = y + top;
  panel.y1 = panel.y0 + height;
  panel.seconds = std::max(1e-9, seconds(own.width) * static_cast<double>(own.intervals.size()));
  panel.gib_most = 1.06 * gib(std::max({who.capacity, who.peak_reserved, Bytes{1}}));
  std::string svg =
      text(left, y + 18,
           fmt::format("stage {}: {} layers, peak {:.2f} GiB allocated in {}", who.stage,
                       who.layers, gib(who.peak_allocated), answer::words(who.peak_place)),
           "font-weight=\"bold\"");
  svg += axes(panel) + areas(panel, own) + reserved_band(panel, own);
  const double limit = panel.y(gib(who.capacity));
  svg += line(panel.x0, limit, panel.x1, limit,
              "stroke=\"#d00\" stroke-width=\"1.3\" stroke-dasharray=\"5 3\"");
  svg += step_marks(panel, own);
  if (who.out_of_memory) svg += out_of_memory(panel, *who.out_of_memory);
  return svg + legend(panel, who);
}

// The rank class of each stage with the least free memory, sorted by stage. With too many stages,
// only the fullest ones.
std::vector<std::size_t> shown(const engine::RunReport& run) {
  const auto room = [&](std::size_t c) {
    return run.classes[c].capacity.n - run.classes[c].peak_reserved.n;
  };
  std::vector<std::size_t> best;
  for (std::size_t c = 0; c < run.classes.size(); ++c) {
    const auto stage = static_cast<std::size_t>(run.classes[c].stage);
    if (best.size() <= stage) best.resize(stage + 1, c);
    if (room(c) < room(best[stage])) best[stage] = c;
  }
  std::stable_sort(best.begin(), best.end(),
                   [&](std::size_t a, std::size_t b) { return room(a) < room(b); });
  if (best.size() > most_panels) best.resize(most_panels);
  std::sort(best.begin(), best.end());
  return best;
}

}  // namespace

std::string memory_plot(const answer::Answer& answer, const MemoryTimeline& timeline) {
  const std::vector<std::size_t> panels = shown(answer.run);
  const double rows = static_cast<double>(panels.size());
  const double total = 40 + rows * (top + height + below);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" "
      "height=\"{:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      whole_width, total, whole_width, total);
  svg += text(left, 24,
              fmt::format("memory of {} on {} x {}, {}: each stage's fullest rank",
                          escaped(answer.plan.architecture.name), answer.plan.world(),
                          escaped(answer.machine.gpu), program::short_name(answer.plan)),
              "font-size=\"14\"");
  double y = 40;
  for (const std::size_t c : panels) {
    if (c < timeline.size()) svg += panel_text(answer.run.classes[c], timeline.of(c), y);
    y += top + height + below;
  }
  return svg + "</svg>\n";
}

}  // namespace sim::output
