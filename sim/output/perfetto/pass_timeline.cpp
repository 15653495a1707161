#include "sim/output/perfetto/pass_timeline.h"

#include <algorithm>

namespace sim::output {

void PassTimeline::operation(int rank_class, program::Stream stream, std::string_view,
                             const engine::ProgramLocation& place, Time start, Time waited_until,
                             Time end) {
  const auto index = static_cast<std::size_t>(rank_class);
  if (classes_.size() <= index) classes_.resize(index + 1);
  Class& own = classes_[index];
  if (place.step > own.step) {
    own.step = place.step;
    own.spans.clear();
    own.streams.clear();
    own.turn = 0;
  }
  if (stream != program::Stream::compute) {
    std::vector<Busy>& all = own.streams[stream];
    if (!all.empty() && waited_until <= all.back().end) {
      all.back().end = std::max(all.back().end, end);
    } else if (all.size() < busy_most && end > waited_until) {
      all.push_back({waited_until, end});
    }
    return;
  }
  const bool of_the_step = place.pass == program::PassKind::step;
  if (of_the_step && own.in_a_pass) ++own.turn;
  own.in_a_pass = !of_the_step;
  const auto [there, is_new] =
      own.spans.try_emplace({place.microbatch, place.pass, place.chunk, of_the_step ? own.turn : 0},
                            Span{place.pass, place.microbatch, place.chunk, start, end});
  Span& span = there->second;
  if (is_new) return;
  span.begin = std::min(span.begin, start);
  span.end = std::max(span.end, end);
}

PassTimeline::Streams PassTimeline::streams_of(std::size_t rank_class) const {
  return rank_class < classes_.size() ? classes_[rank_class].streams : Streams{};
}

std::vector<PassTimeline::Span> PassTimeline::of(std::size_t rank_class) const {
  std::vector<Span> all;
  if (rank_class >= classes_.size()) return all;
  for (const auto& [key, span] : classes_[rank_class].spans) all.push_back(span);
  std::ranges::stable_sort(all, {}, [](const Span& span) { return span.begin.ps; });
  return all;
}

}  // namespace sim::output
