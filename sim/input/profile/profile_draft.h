// profile_draft.h — a profile whose numbers can be read and changed by the path of their field, as
// a fit does: "gemm.tiles[2].efficiency", "norm.ramp", "communication.achieved.nvlink".
//
// Durations are seconds, byte counts are bytes, everything else is the plain number. A changed
// number is kept to four significant digits: what is written is what was tried.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/base/result.h"
#include "sim/cluster/device/profile.h"
#include "sim/cluster/network/profile.h"

namespace sim::input {

class ProfileDraft {
 public:
  static Result<ProfileDraft> load(const std::string& path);
  ~ProfileDraft();
  ProfileDraft(const ProfileDraft& other);
  ProfileDraft& operator=(const ProfileDraft& other);

  // The paths that a pattern stands for, in order; "[*]" is every element. Empty: no such field, or
  // it is left out.
  std::vector<std::string> paths(const std::string& pattern) const;
  // "bf16" of "gemm.peaks[0].fraction": the first other scalar field of the element, "" when there
  // is none.
  std::string element(const std::string& path) const;

  // REQUIRES, for both: paths(path) has one element.
  double get(const std::string& path) const;
  void set(const std::string& path, double value);

  device::Profile device() const;
  bool has_communication() const;
  network::CommunicationProfile communication() const;

  void name(const std::string& name);
  void provenance(const device::Provenance& provenance, const std::vector<std::string>& sources);
  std::string communication_source() const;
  void communication_source(const std::string& source);
  // The file: `header` as comments, then every field.
  std::string text(const std::string& header) const;

 private:
  struct State;
  explicit ProfileDraft(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sim::input
