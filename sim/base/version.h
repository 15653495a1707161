// version.h — the version that results carry. A change of results changes it.
#pragma once

namespace sim::output {

inline constexpr const char* version_text = "0.1.0";

}  // namespace sim::output
