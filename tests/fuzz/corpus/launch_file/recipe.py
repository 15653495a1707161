import nemo_run as run
from nemo.collections import llm


def configure(nodes: int = 1, gpus_per_node=8):
    recipe = llm.llama3_8b.pretrain_recipe(num_nodes=nodes, num_gpus_per_node=gpus_per_node)
    recipe.trainer.strategy.tensor_model_parallel_size = 2 * 2
    recipe.trainer.callbacks.append(run.Config(MegatronCommOverlapCallback, tp_comm_overlap=True))
    recipe.model.config.recompute_modules = ["core_attn"] + ['mlp'] * 1
    if args.long:
        recipe.data.seq_length = 65_536
    else:
        recipe.data = run.Config(MockDataModule, **dict(seq_length=4096, micro_batch_size=1))
    return recipe


for name in [f"{x}" for x in range(3)]: print(name, lambda y: y, sep="")
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
run.run(configure(nodes=2), executor=run.LocalExecutor(env_vars={"A": "1"}))
