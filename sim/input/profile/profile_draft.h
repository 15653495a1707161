// profile_draft.h — a profile whose numbers are read and changed by field path, for fitting.
//
// `rehearse calibrate` reads a profile, varies its numbers and writes the fitted file. Example
// paths: "gemm.tiles[2].efficiency", "norm.ramp", "communication.achieved.nvlink".
//
// Units: durations are seconds, sizes are bytes, all other values are plain numbers. A changed
// number is rounded to four significant digits, so the written file holds exactly the evaluated
// values.
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

  // All paths that match a pattern, in file order; "[*]" matches every element. Empty if the field
  // is unknown or not set.
  std::vector<std::string> paths(const std::string& pattern) const;
  // The name of an element: the first other scalar field beside the path's field. "bf16" for
  // "gemm.peaks[0].fraction"; "" if there is none.
  std::string element(const std::string& path) const;

  // Read and change one number. REQUIRES: paths(path) has exactly one element.
  double get(const std::string& path) const;
  void set(const std::string& path, double value);

  // The section `communication` of another profile, in place of this one's.
  void take_communication(const ProfileDraft& other);

  device::Profile device() const;
  bool has_communication() const;
  network::CommunicationProfile communication() const;

  void name(const std::string& name);
  void provenance(const device::Provenance& provenance, const std::vector<std::string>& sources);
  std::string communication_source() const;
  void communication_source(const std::string& source);
  // The text of the file: `header` as comments, then every field.
  std::string text(const std::string& header) const;

 private:
  struct State;
  explicit ProfileDraft(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sim::input
