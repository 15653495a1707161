// printed_settings.h — the settings of a run that its log prints: GPUs, degrees, batch, sequence.
//
// The readers of logs call it. A log states a setting in one of three forms:
//
// - a line of degrees: Megatron-LM's "using world size: 512, ... tensor-model-parallel size: 8"
//   (megatron/training/arguments.py: validate_args), torchtitan's "device mesh with ['dp_shard',
//   'tp'], [32, 8]" or "parallelism: pp=1, dp_replicate=1, ..." (distributed/parallel_dims.py)
// - a table of arguments: "  micro_batch_size .................. 1", of Megatron-LM and DeepSpeed
// - a line of YAML: "micro_batch_size: 1", of NeMo, Megatron-Bridge and Composer
//
// The names of arguments are those of the table of fields (input/fields), which launch scripts use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/calibrate/readers/measurement.h"

namespace sim::calibrate {

// One value for each field: the last that the log prints, since batches may ramp up. Its line is
// the first with that value.
std::vector<PrintedSetting> printed_settings(std::string_view bytes, const std::string& path);

}  // namespace sim::calibrate
