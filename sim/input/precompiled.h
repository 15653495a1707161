// precompiled.h — what sim/base/precompiled.h is to the rooms at the core, for those around them:
// headers of libraries that are parsed once for all.
#pragma once

#include <google/protobuf/message.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <variant>

#include "sim/base/precompiled.h"
