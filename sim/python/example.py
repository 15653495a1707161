"""A plan, its neighbours, its memory over time, and the best plan of a space."""
import numpy
import rehearse

# One training step of a plan of workloads/, with two settings changed.
step = rehearse.run("llama-2-7b-64", tp=4, micro_batch=2)
print(f"step {step['step_time_ps'] * 1e-12:.3f} s, fits: {step['fits']}")

# A grid: values in a list vary.
grid = rehearse.sweep(model="llama-3.1-8b", cluster="dgx-h100", gpus=16, global_batch=64,
                      sequence=8192, tp=[1, 2, 4], pp=[1, 2])
for point in grid:
    time = f"{point['step_time_s']:.3f} s" if point["outcome"] == "fits" else point["outcome"]
    print(f"tp={point['tp']} pp={point['pp']}: {time}")

# Timelines are NumPy arrays: the busy time of the first stage, and the categories of its peak.
found = rehearse.run("llama-2-7b-64", timelines=True)["timelines"]
passes = found["passes"]
first = passes["stage"] == 0
busy = (passes["end_s"] - passes["begin_s"])[first].sum()
print(f"first stage: {busy:.3f} s in {first.sum()} passes")
memory = found["memory"][0]
peak = numpy.argmax(memory["allocated_bytes"])
for category, held in memory["by_category"].items():
    if held[peak] > 2**30:
        print(f"{category:>15} {held[peak] / 2**30:6.2f} GiB")

# The closed-form estimate.
print(f"estimate {rehearse.memory_estimate('llama-2-7b-64')['gib']:.1f} GiB")

# Errors have the program's text.
try:
    rehearse.run("llama-2-7b-64", schedule="1f1bb", tp="four")
except rehearse.Error as error:
    print(error)

# The best of all plans of a space, and the settings to run it.
best = rehearse.plan("llama-3.1-8b", "dgx-h100", gpus=8, batch=16, sequence=4096, zero=1,
                     schedule="1f1b", best=3)["plans"]
for one in best:
    print(f"{one['step_time_s']:.3f} s, {one['peak_reserved_gib']:.1f} GiB")
print(best[0]["settings"])
