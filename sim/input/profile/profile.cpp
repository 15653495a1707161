#include "sim/input/profile/profile.h"

#include <fmt/format.h>

#include <charconv>

#include "sim/input/profile/profile_fields.h"
#include "sim/input/text/locate.h"
#include "sim/input/text/textproto.h"

namespace sim::input {
namespace {

namespace v1 = rehearse::v1;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The place of a field path such as "gemm.tiles[2].efficiency". If the path is not in the file: the
// place of its nearest parent.
std::string place_of(const Source& source, const Message& message, std::string_view path) {
  const std::size_t dot = path.find('.');
  std::string name(path.substr(0, dot));
  int index = 0;
  if (const std::size_t bracket = name.find('['); bracket != std::string::npos) {
    std::from_chars(name.data() + bracket + 1, name.data() + name.size(), index);
    name.resize(bracket);
  }
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  if (!field) return source.where(message);
  const bool leaf = dot == std::string_view::npos || !field->message_type();
  if (leaf) return source.where(message, name, index);
  const auto* reflection = message.GetReflection();
  if (field->is_repeated()) {
    if (index < 0 || index >= reflection->FieldSize(message, field)) return source.where(message);
    return place_of(source, reflection->GetRepeatedMessage(message, field, index),
                    path.substr(dot + 1));
  }
  return place_of(source, reflection->GetMessage(message, field), path.substr(dot + 1));
}

void check_factors(const v1::CommunicationProfile& profile, const Source& source,
                   Diagnostics& problems) {
  const v1::FactorPerProtocol& factor = profile.nccl().tree_factor();
  const auto check = [&](const char* field, int size) {
    if (size == 23) return;
    problems.push_back(
        {source.where(factor, field),
         fmt::format("'{}' has {} numbers; write 23, for 64 B to 256 MB", field, size)});
  };
  check("ll", factor.ll_size());
  check("ll128", factor.ll128_size());
  check("simple", factor.simple_size());
}

void check_older_name(const v1::ReservedMemory& memory, const Source& source,
                      Diagnostics& problems) {
  if (memory.has_unexplained() && memory.has_unaccounted())
    problems.push_back({source.where(memory, "unexplained"),
                        "'unexplained' is an older name of 'unexplained'; leave it out"});
}

}  // namespace

Result<ProfileFile> load_profile(const std::string& path) {
  v1::Profile message;
  Source source(path);
  Diagnostics problems = load(source, message);
  if (problems.empty() && message.has_communication())
    check_factors(message.communication(), source, problems);
  if (problems.empty()) check_older_name(message.memory(), source, problems);
  if (!problems.empty()) return problems;

  ProfileFile file;
  file.path = path;
  file.device = device_profile(message);
  for (Diagnostic problem : device::check(file.device)) {
    problem.message = fmt::format("{}: {}", problem.where, problem.message);
    problem.where = place_of(source, message, problem.where);
    problems.push_back(std::move(problem));
  }
  if (message.has_communication()) {
    file.has_communication = true;
    file.communication = communication_profile(message.communication());
    for (std::string& text : network::check(file.communication)) {
      const std::string field = text.substr(0, text.find(':'));
      problems.push_back(
          {place_of(source, message.communication(), field), "communication." + text});
    }
  }
  if (!problems.empty()) return problems;
  file.text = message.DebugString();
  return file;
}

namespace {

Result<ProfileFile> find_named(const std::string& name, const std::string& beside) {
  const Result<std::string> path = locate(Kind::profile, name, beside);
  if (path) return load_profile(*path);
  Diagnostics problems = path.errors();
  for (Diagnostic& problem : problems) problem.where = beside;
  return problems;
}

}  // namespace

Result<ProfileFile> find_profile(const device::Gpu& gpu, const std::string& beside) {
  return find_named(gpu.profile, beside);
}

Result<ProfileFile> find_profiles(const Machine& machine) {
  const Result<ProfileFile> gpu = find_named(machine.gpu.profile, machine.path);
  if (!gpu) return gpu;
  ProfileFile file = *gpu;
  if (machine.communication != machine.gpu.profile) {
    const Result<ProfileFile> fabric = find_named(machine.communication, machine.path);
    if (!fabric) return fabric;
    file.communication = fabric->communication;
    file.has_communication = fabric->has_communication;
    file.text += fabric->text;
  }
  if (!file.has_communication)
    return Diagnostics{{file.path, fmt::format("profile '{}' has no section 'communication'; name "
                                               "one that has it as 'communication' in {}",
                                               machine.communication, machine.path)}};
  return file;
}

}  // namespace sim::input
