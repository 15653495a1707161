#include "sim/allocator/recorded/recorded_driver.h"

#include <iterator>
#include <utility>

namespace sim::allocator {

void RecordedDriver::expect(std::vector<SnapshotEntry> events, bool strict) {
  expected_ = std::move(events);
  next_ = 0;
  strict_ = strict;
}

bool RecordedDriver::overlaps(std::int64_t address, std::int64_t bytes) const {
  const auto next = used_.lower_bound(address);
  if (next != used_.end() && next->first < address + bytes) return true;
  return next != used_.begin() && std::prev(next)->first + std::prev(next)->second > address;
}

std::optional<std::int64_t> RecordedDriver::take(std::int64_t address, std::int64_t bytes) {
  if (address < 0 || overlaps(address, bytes)) {
    if (bytes > last_address - invented_) return std::nullopt;
    address = invented_;
    invented_ += (bytes + round_large - 1) / round_large * round_large;
  }
  used_[address] = bytes;
  return address;
}

std::optional<std::int64_t> RecordedDriver::cuda_malloc(Bytes size) {
  if (next_is(Action::segment_alloc)) return take(expected_[next_++].address, size.n);
  if (strict_) return std::nullopt;
  return take(-1, size.n);
}

void RecordedDriver::cuda_free(std::int64_t address, Bytes) {
  if (next_is(Action::segment_free)) ++next_;
  used_.erase(address);
}

// A new expandable segment starts at its first mapped page.
std::optional<std::int64_t> RecordedDriver::reserve_addresses(Bytes size) {
  return take(next_is(Action::segment_map) ? expected_[next_].address : -1, size.n);
}

void RecordedDriver::release_addresses(std::int64_t address, Bytes) {
  used_.erase(address);
}

bool RecordedDriver::map(std::int64_t, Bytes) {
  if (!next_is(Action::segment_map)) return !strict_;
  ++next_;
  return true;
}

void RecordedDriver::unmap(int, std::int64_t, Bytes) {
  if (next_is(Action::segment_unmap)) ++next_;
}

}  // namespace sim::allocator
