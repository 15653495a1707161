f() { for i in 1 2 3; do f $i; done; }
f
while :; do X=$X$X$X; eval eval "$X"; done
case $1 in a|b) ;; *) esac
