#include "sim/allocator/driver.h"

#include <algorithm>
#include <cassert>

namespace sim::allocator {
namespace {

constexpr std::int64_t address_step = std::int64_t{2} << 20;

}  // namespace

bool BumpDriver::fits(std::int64_t bytes) const {
  return bytes <= capacity_ - std::min(outside_, capacity_) - used_;
}

std::optional<std::int64_t> BumpDriver::take_addresses(std::int64_t bytes) {
  if (bytes > last_address - next_address_) return std::nullopt;
  const std::int64_t address = next_address_;
  next_address_ += (bytes + address_step - 1) / address_step * address_step;
  return address;
}

std::optional<std::int64_t> BumpDriver::cuda_malloc(Bytes size) {
  if (!fits(size.n)) return std::nullopt;
  const auto address = take_addresses(size.n);
  if (address) used_ += size.n;
  return address;
}

void BumpDriver::cuda_free(std::int64_t, Bytes size) {
  assert(used_ >= size.n);
  used_ -= size.n;
  complete_all();
}

std::optional<std::int64_t> BumpDriver::reserve_addresses(Bytes size) {
  return take_addresses(size.n);
}

void BumpDriver::release_addresses(std::int64_t, Bytes) {}

bool BumpDriver::map(std::int64_t, Bytes size) {
  if (!fits(size.n)) return false;
  used_ += size.n;
  return true;
}

void BumpDriver::unmap(int stream, std::int64_t, Bytes size) {
  assert(used_ >= size.n);
  used_ -= size.n;
  complete(stream);
}

Event BumpDriver::record_event(int stream) {
  return {stream, ++streams_[stream].submitted};
}

bool BumpDriver::event_reached(const Event& event) {
  return streams_[event.stream].completed >= event.ticket;
}

void BumpDriver::wait(const Event& event) {
  std::int64_t& completed = streams_[event.stream].completed;
  completed = std::max(completed, event.ticket);
}

Bytes BumpDriver::free_memory() const {
  return {std::max<std::int64_t>(0, capacity_ - outside_ - used_)};
}

void BumpDriver::complete(int stream) {
  Stream& state = streams_[stream];
  state.completed = state.submitted;
}

void BumpDriver::complete_all() {
  for (auto& [name, state] : streams_) state.completed = state.submitted;
}

}  // namespace sim::allocator
