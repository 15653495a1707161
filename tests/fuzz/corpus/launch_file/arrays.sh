N=${N:-4}
A=(--num-layers $((N*8)) --hidden-size 512)
if [ -f x ]; then A+=(--bf16); else A+=(--fp16); fi
torchrun --nproc_per_node 8 pretrain_gpt.py "${A[@]}" $1
