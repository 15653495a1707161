#include "sim/job/schedule/rules.h"

#include <cstdint>

namespace sim::schedule {
namespace {

std::string outside(const char* what, std::int64_t given, std::int64_t most) {
  return std::string(what) + " is " + std::to_string(given) + "; it must be 1 to " +
         std::to_string(most);
}

}  // namespace

std::string sizes(const PipelineShape& shape) {
  if (shape.stages < 1 || shape.stages > max_stages)
    return outside("the number of pipeline stages", shape.stages, max_stages);
  if (shape.microbatches < 1 || shape.microbatches > max_passes)
    return outside("the number of microbatches", shape.microbatches, max_passes);
  if (shape.chunks < 1 || shape.chunks > max_passes)
    return outside("the number of virtual stages", shape.chunks, max_passes);
  if (shape.slices < 1 || shape.slices > max_passes)
    return outside("the number of slices", shape.slices, max_passes);
  const std::int64_t passes = std::int64_t{shape.microbatches} * shape.chunks;
  if (passes > max_passes)
    return "microbatches x virtual stages is " + std::to_string(passes) + "; it must be at most " +
           std::to_string(max_passes);
  if (passes * shape.slices > max_passes)
    return "microbatches x slices is " + std::to_string(passes * shape.slices) +
           "; it must be at most " + std::to_string(max_passes);
  if (passes * shape.slices * shape.stages > max_tasks)
    return "stages x microbatches x virtual stages is " +
           std::to_string(passes * shape.slices * shape.stages) + "; it must be at most " +
           std::to_string(max_tasks);
  return "";
}

std::string within_bounds(const PipelineShape& shape) {
  if (std::string problem = sizes(shape); !problem.empty()) return problem;
  if (shape.slices != 1)
    return "the schedule runs whole sequences, not " + std::to_string(shape.slices) +
           " slices; write 1, or use terapipe";
  if (shape.group != 0)
    return "the schedule has no groups of microbatches (" + std::to_string(shape.group) +
           " here); leave the group out, or use interleaved-1f1b";
  return "";
}

std::string one_chunk(const PipelineShape& shape) {
  if (std::string problem = within_bounds(shape); !problem.empty()) return problem;
  if (shape.chunks != 1)
    return "the schedule runs one model chunk per stage, not " + std::to_string(shape.chunks) +
           " virtual stages; write 1, or use interleaved-1f1b";
  return "";
}

std::string two_chunks(const PipelineShape& shape) {
  if (std::string problem = within_bounds(shape); !problem.empty()) return problem;
  if (shape.chunks != 2)
    return "the schedule runs two parts of the model per stage, not " +
           std::to_string(shape.chunks) + " virtual stages; write 2";
  return "";
}

std::string whole_multiple(const PipelineShape& shape, int divisor, const std::string& what) {
  const int over = shape.microbatches % divisor;
  if (over == 0) return "";
  const int below = shape.microbatches - over;
  std::string message = "needs a number of microbatches that is a multiple of the " + what +
                        ", not " + std::to_string(shape.microbatches) + "; write ";
  if (below > 0) message += std::to_string(below) + " or ";
  return message + std::to_string(std::int64_t{below} + divisor);
}

std::string microbatches_from(const PipelineShape& shape, int least, const std::string& why) {
  if (shape.microbatches >= least) return "";
  return "the schedule needs at least " + std::to_string(least) + " microbatches (" + why +
         "), not " + std::to_string(shape.microbatches) + "; write " + std::to_string(least);
}

}  // namespace sim::schedule
