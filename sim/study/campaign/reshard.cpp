#include "sim/study/campaign/reshard.h"

#include <algorithm>
#include <cassert>
#include <string_view>

namespace sim::campaign {
namespace {

struct Rectangle {
  double top = 0, bottom = 0, left = 0, right = 0;
  double area() const { return std::max(0.0, bottom - top) * std::max(0.0, right - left); }
};

Rectangle overlap(const Rectangle& a, const Rectangle& b) {
  return {std::max(a.top, b.top), std::min(a.bottom, b.bottom), std::max(a.left, b.left),
          std::min(a.right, b.right)};
}

// Position of a rank in each dimension.
struct RankCoordinates {
  int tp = 0, cp = 0, dp = 0, pp = 0;
};

RankCoordinates place_of(const Degrees& degrees, int rank) {
  RankCoordinates place;
  std::string_view order = degrees.rank_order;
  if (order.empty()) order = "tp-cp-dp-pp";
  for (std::size_t i = 0; i + 1 < order.size(); i += 3) {
    const std::string_view name = order.substr(i, 2);
    const auto take = [&](int size) {
      const int at = rank % size;
      rank /= size;
      return at;
    };
    if (name == "tp") place.tp = take(degrees.tp);
    if (name == "cp") place.cp = take(degrees.cp);
    if (name == "dp") place.dp = take(degrees.dp);
    if (name == "pp") place.pp = take(degrees.pp);
  }
  return place;
}

struct Holding {
  Rectangle weights, band;
};

Holding holding(const Degrees& degrees, int rank) {
  const RankCoordinates place = place_of(degrees, rank);
  const double tp = degrees.tp, pp = degrees.pp;
  Holding held;
  held.weights = {place.pp / pp, (place.pp + 1) / pp, place.tp / tp, (place.tp + 1) / tp};
  const double group = degrees.dp * degrees.cp, at = place.dp * degrees.cp + place.cp;
  held.band = held.weights;
  held.band.top = (place.pp + at / group) / pp;
  held.band.bottom = (place.pp + (at + 1) / group) / pp;
  return held;
}

}  // namespace

Received received(const Degrees& before, const Degrees& after, const std::vector<int>& gpu_before,
                  double parameters, const ParameterBytes& bytes) {
  assert(static_cast<int>(gpu_before.size()) == after.gpus());
  Received all;
  for (int rank = 0; rank < after.gpus(); ++rank) {
    const Holding now = holding(after, rank);
    double weights = now.weights.area(), band = now.band.area();
    if (const int was = gpu_before[static_cast<std::size_t>(rank)]; was >= 0) {
      const Holding then = holding(before, was);
      weights -= overlap(now.weights, then.weights).area();
      band -= overlap(now.band, then.band).area();
    }
    const double comes = parameters * (std::max(0.0, weights) * bytes.replicated +
                                       std::max(0.0, band) * bytes.divided);
    all.most = std::max(all.most, comes);
    all.all += comes;
  }
  return all;
}

std::vector<int> gpus_after_loss(int before, int after, int lost) {
  std::vector<int> was;
  const int hole = (before - lost) / 2;
  for (int rank = 0; rank < after; ++rank) {
    const int gpu = rank < hole ? rank : rank + lost;
    was.push_back(gpu < before ? gpu : -1);
  }
  return was;
}

}  // namespace sim::campaign
