

while while :; do X=$X$X$X; eva!N~val "$X"; done
case $1 in a|b) ;$X"; *) esac
