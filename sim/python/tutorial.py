# %% [markdown]
# # From a model to a plan
#
# This tutorial chooses a plan for Llama 3.1 8B on 16 H100. Each cell takes a few seconds. Jupyter
# (with jupytext), VS Code and PyCharm open the file as a notebook; `python3 tutorial.py` runs all of it.

# %%
import rehearse

job = dict(model="llama-3.1-8b", cluster="dgx-h100", gpus=16, global_batch=64, sequence=8192)

# %% [markdown]
# ## Does a plan fit?
#
# `run` simulates one training step. A plan that runs out of memory is a result, not an error.

# %%
step = rehearse.run(**job, tp=2, micro_batch=2)
print("fits:", step["fits"])
if not step["fits"]:
    event = step["rank_classes"][step["first_out_of_memory"]]["out_of_memory"]
    print(f"{event['place']['tensor']} asked for {event['requested_bytes'] / 2**30:.2f} GiB, "
          f"{event['device_free_bytes'] / 2**30:.2f} GiB were free")

# %% [markdown]
# ## What would make it fit?
#
# `explain` lists single changes of the plan, each simulated, with its cost.

# %%
for change in rehearse.explain(**job, tp=2, micro_batch=2)["fixes"]:
    if change["fits"]:
        print(f"{change['change']:45} {100 * change['cost_fraction']:+6.1f} %")

# %% [markdown]
# ## Which degrees are fast?
#
# In `sweep`, values in a list vary. Points arrive one by one; Ctrl-C ends the loop.

# %%
points = []
for point in rehearse.sweep(**job, tp=[1, 2, 4], pp=[1, 2], micro_batch=[1, 2]):
    points.append(point)
fitting = [point for point in points if point["outcome"] == "fits"]
for point in sorted(fitting, key=lambda point: point["step_time_s"])[:3]:
    print(f"tp={point['tp']} pp={point['pp']} micro_batch={point['mbs']}: "
          f"{point['step_time_s']:.3f} s, {point['peak_reserved_gib']:.1f} GiB")

# %% [markdown]
# Each point has its settings. They are a plan again.

# %%
best = min(fitting, key=lambda point: point["step_time_s"])
settings = dict(word.split("=", 1) for word in best["settings"].split())
again = rehearse.run(**settings)
assert abs(again["step_time_s"] - best["step_time_s"]) < 1e-6

# %% [markdown]
# With pandas, `to_dataframe` makes a table.

# %%
try:
    frame = rehearse.to_dataframe(points)
    print(frame.pivot_table(index="tp", columns="pp", values="step_time_s", aggfunc="min"))
except ImportError:
    print("pandas is not installed")

# %% [markdown]
# ## Which plan is the best of all?
#
# `plan` searches the whole space and proves the best plan. A list limits a field to some values.

# %%
found = rehearse.plan(job["model"], job["cluster"], gpus=16, batch=64, sequence=8192, zero=1,
                      tp=[1, 2, 4], pp=[1, 2])
for one in found["plans"][:3]:
    print(f"{one['step_time_s']:.3f} s, {one['peak_reserved_gib']:.1f} GiB: {one['settings']}")

# %% [markdown]
# ## What would a better network bring?

# %%
for variant in rehearse.whatif(**settings,
                               vary={"node": {"nic_bandwidth": ["100Gb/s", "400Gb/s"]}}):
    print(f"{variant['name']:35} {variant['step_time_s']:.3f} s")

# %% [markdown]
# ## When something is wrong
#
# A refusal is a `rehearse.Error` with the text of the program, its exit code and a list of problems.

# %%
try:
    rehearse.run(**job, tp=3)
except rehearse.Error as error:
    print(error.exit_code, error.problems[0]["message"])
