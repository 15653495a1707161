#include "sim/job/schedule/timeline_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace sim::schedule {

namespace {

constexpr double left = 76, top = 40, row = 30, box = 24, width_most = 2400;
constexpr double wide_box = 24;  // of the shortest pass, if the picture has room

struct Look {
  Pass pass;
  std::string_view fill, text, name;
};
// Okabe and Ito's colours, as in pages (output/page/page.css).
constexpr std::array looks{
    Look{Pass::forward, "#0072b2", "#fff", "forward"},
    Look{Pass::backward, "#009e73", "#fff", "backward"},
    Look{Pass::input, "#56b4e9", "#000", "gradients of inputs"},
    Look{Pass::weight, "#e69f00", "#000", "gradients of weights"},
    Look{Pass::output, "#cc79a7", "#000", "vocabulary"},
    Look{Pass::output_gradient, "#882255", "#fff", "gradients of the vocabulary"}};

const Look& look_of(Pass pass) {
  return *std::ranges::find(looks, pass, &Look::pass);
}

std::string label(const ScheduledPass& step) {
  std::string text = fmt::format("{}", step.microbatch);
  if (step.slice > 0) text += fmt::format(".{}", step.slice);
  return text;
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<') {
      safe += "&lt;";
    } else if (c == '&') {
      safe += "&amp;";
    } else {
      safe += c;
    }
  }
  return safe;
}

// Pixels of a unit of time: the shortest pass has room for its number, unless the picture gets too
// wide.
double scale_of(const Timeline& timeline, double first) {
  double shortest = timeline.makespan;
  for (const auto& stage : timeline.rows)
    for (const Timed& timed : stage)
      if (timed.end > timed.start) shortest = std::min(shortest, timed.end - timed.start);
  const double whole = timeline.makespan - std::min(first, 0.0);
  if (shortest <= 0 || whole <= 0) return 1;
  return std::min(wide_box / shortest, width_most / whole);
}

std::string drawn(const Timed& timed, double x, double y, double width) {
  const Look& look = look_of(timed.step.pass);
  std::string text = fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\"{} "
      "stroke=\"white\"><title>{} of microbatch {}, chunk {}</title></rect>\n",
      x, y, width, box, look.fill,
      timed.step.chunk > 0 ? fmt::format(" fill-opacity=\"{:.2f}\"", 1.0 / (1 + timed.step.chunk))
                           : "",
      look.name, timed.step.microbatch, timed.step.chunk);
  const std::string number = label(timed.step);
  constexpr double of_character = 7;
  if (width < of_character * static_cast<double>(number.size())) return text;
  return text + fmt::format(
                    "<text x=\"{:.2f}\" y=\"{:.0f}\" text-anchor=\"middle\" "
                    "fill=\"{}\">{}</text>\n",
                    x + width / 2, y + 16, timed.step.chunk > 0 ? "#000" : look.text, number);
}

// The passes that occur, each with its colour. Returns the picture of it.
std::string legend(const Timeline& timeline, double y) {
  std::string text;
  double x = left;
  for (const Look& look : looks) {
    const bool occurs = std::ranges::any_of(timeline.rows, [&](const auto& stage) {
      return std::ranges::any_of(stage,
                                 [&](const Timed& one) { return one.step.pass == look.pass; });
    });
    if (!occurs) continue;
    text += fmt::format(
        "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"14\" height=\"14\" fill=\"{}\"/>\n"
        "<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n",
        x, y, look.fill, x + 19, y + 12, look.name);
    x += 40 + 7.5 * static_cast<double>(look.name.size());
  }
  return text;
}

}  // namespace

std::string timeline_svg(const Timeline& timeline, const std::string& title) {
  double first = 0, last = 0;
  for (const auto& stage : timeline.rows)
    for (const Timed& timed : stage) {
      first = std::min(first, timed.start);
      last = std::max(last, timed.end);
    }
  const double scale = scale_of(timeline, first);
  constexpr double least_width = 640;
  const double width = std::max(least_width, left + scale * (last - first) + 20);
  const double height = top + row * static_cast<double>(timeline.rows.size()) + 46;
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" font-family=\"DejaVu Sans, sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"8\" y=\"22\" font-size=\"14\">{2}</text>\n",
      width, height, escaped(title));
  for (std::size_t stage = 0; stage < timeline.rows.size(); ++stage) {
    const double y = top + row * static_cast<double>(stage);
    text += fmt::format("<text x=\"8\" y=\"{:.0f}\">stage {}</text>\n", y + 16, stage);
    for (const Timed& timed : timeline.rows[stage])
      text +=
          drawn(timed, left + scale * (timed.start - first), y, scale * (timed.end - timed.start));
  }
  return text + legend(timeline, height - 30) + "</svg>\n";
}

}  // namespace sim::schedule
