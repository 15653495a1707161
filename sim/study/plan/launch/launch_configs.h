// launch_configs.h — writes a plan as the configuration of NeMo 1, nanotron or DeepSpeed.
// `launches` (launch_writer.h) calls it, reads the text back and adds what the format cannot
// express.
#pragma once

#include <string>

#include "sim/study/plan/launch/launch_line.h"
#include "sim/study/plan/launch/launch_writer.h"

namespace sim::planner {

// `left`: the reason why Megatron-LM, which NeMo runs, cannot run the plan; "" if it can.
// Source of the keys: [NVIDIA/NeMo v1.23.0 megatron_gpt_config.yaml].
LaunchText nemo(const program::Plan& plan, const std::string& left, const LaunchNodes& nodes);

// DeepSpeed's configuration of ZeRO-3. The training script defines the model.
LaunchText deepspeed(const program::Plan& plan);

// Source of the keys: [huggingface/nanotron src/nanotron/config/config.py].
LaunchText nanotron(const program::Plan& plan, const LaunchNodes& nodes);

}  // namespace sim::planner
