// precompiled.h — headers of large libraries that are parsed once for all rooms above sim/input.
//
// The build includes it before each source file of those rooms. The inner rooms use
// sim/base/precompiled.h. It contains no declarations of the project.
#pragma once

#include <google/protobuf/message.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <variant>

#include "sim/base/precompiled.h"
