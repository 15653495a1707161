// kernel_short_name.cpp — shortens the demangled names of kernels for tables.
#include <algorithm>
#include <array>
#include <map>

#include "sim/calibrate/readers/kernel_family.h"
#include "sim/calibrate/readers/lines.h"

namespace sim::calibrate {

namespace {

// "void at::native::reduce_kernel<512, 1>(...)": the function's name and its template arguments.
struct FunctionName {
  std::string base;
  std::vector<std::string> arguments;
};

FunctionName function_name(const std::string& kernel) {
  const std::size_t end = std::min(kernel.find_first_of("<("), kernel.size());
  FunctionName name;
  std::size_t from = end;
  while (from > 0 && kernel[from - 1] != ' ' && kernel[from - 1] != ':') --from;
  name.base = kernel.substr(from, end - from);
  if (end == kernel.size() || kernel[end] != '<') return name;
  int depth = 0;
  std::string argument;
  const auto finish = [&] {
    name.arguments.emplace_back(trimmed(argument));
    argument.clear();
  };
  for (std::size_t i = end + 1; i < kernel.size(); ++i) {
    const char c = kernel[i];
    if (depth == 0 && c == '>') break;
    depth += c == '<' || c == '(' || c == '{' ? 1 : c == '>' || c == ')' || c == '}' ? -1 : 0;
    if (depth == 0 && c == ',')
      finish();
    else
      argument += c;
  }
  finish();
  return name;
}

// Names of C++ have scopes or template arguments; "Memcpy DtoD (Device -> Device)" has none.
bool is_cpp(const std::string& kernel) {
  return kernel.find("::") != std::string::npos || kernel.find('<') != std::string::npos;
}

std::string base_name(std::string kernel) {
  if (!is_cpp(kernel)) return kernel;
  const FunctionName name = function_name(kernel);
  // CUTLASS launches every kernel through one of these functions.
  constexpr std::array launchers = {"Kernel", "Kernel2", "device_kernel"};
  if (!name.arguments.empty() && std::ranges::find(launchers, name.base) != launchers.end())
    return base_name(name.arguments.front());
  return name.base.empty() ? kernel : name.base;
}

std::string name_with_arguments(const std::string& kernel) {
  const FunctionName name = function_name(kernel);
  if (name.base.empty() || name.arguments.empty()) return kernel;
  std::string text = name.base;
  for (const std::string& argument : name.arguments)
    text += (&argument == &name.arguments.front() ? "<" : ", ") + base_name(argument);
  return text + ">";
}

std::string without_anonymous(std::string kernel) {
  constexpr std::string_view anonymous = "(anonymous namespace)::";
  for (std::size_t at = kernel.find(anonymous); at != std::string::npos;
       at = kernel.find(anonymous))
    kernel.erase(at, anonymous.size());
  return kernel;
}

}  // namespace

std::vector<std::string> short_names(const std::vector<std::string>& kernels) {
  std::vector<std::string> names;
  names.reserve(kernels.size());
  for (const std::string& kernel : kernels) names.push_back(base_name(without_anonymous(kernel)));
  const auto counted = [&] {
    std::map<std::string, int> counts;
    for (const std::string& name : names) ++counts[name];
    return counts;
  };
  std::map<std::string, int> counts = counted();
  for (std::size_t i = 0; i < names.size(); ++i)
    if (counts[names[i]] > 1) names[i] = name_with_arguments(without_anonymous(kernels[i]));
  counts = counted();
  for (std::size_t i = 0; i < names.size(); ++i)
    if (counts[names[i]] > 1) names[i] = kernels[i];
  return names;
}

}  // namespace sim::calibrate
